"""What is done with outcomes on the street."""

from evalkit.config import Config
from evalkit.planning.work import Kind, Work
from evalkit.report import Report
from outcomes.conclude import conclude_outcomes
from outcomes.measure import measure_outcomes
from outcomes.merge import OutcomeSums
from outcomes.open import open_outcomes


def run_outcomes(config: Config, work: Work) -> Report:
    """The report of all users at once."""
    clock = work.clock()
    clock.start()
    return conclude_outcomes(measure_outcomes(config, work), work, (), clock)


KIND = Kind(OutcomeSums, open_outcomes, run_outcomes, measure_outcomes, conclude_outcomes)
