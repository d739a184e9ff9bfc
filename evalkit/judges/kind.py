"""What is done with judges on the way from a config to a report."""

from evalkit.config import Config
from evalkit.judges.conclude import conclude_judges
from evalkit.judges.measure import measure_judges
from evalkit.judges.merge import JudgeRows
from evalkit.judges.open import open_judges
from evalkit.planning.work import Kind, Work
from evalkit.report import Report


def run_judges(config: Config, work: Work) -> Report:
    """The report of all units at once."""
    clock = work.clock()
    clock.start()
    return conclude_judges(measure_judges(config, work), work, (), clock)


KIND = Kind(JudgeRows, open_judges, run_judges, measure_judges, conclude_judges)
