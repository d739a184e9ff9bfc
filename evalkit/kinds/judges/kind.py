"""What is done with judges on the way from a config to a report."""

from evalkit.config import Config
from evalkit.kinds.judges.conclude import conclude_judges
from evalkit.kinds.judges.measure import measure_judges
from evalkit.kinds.judges.merge import JudgeRows
from evalkit.kinds.judges.open import open_judges
from evalkit.planning.work import Kind, MeasureOptions
from evalkit.report import Report


def run_judges(config: Config, measure_options: MeasureOptions) -> Report:
    """The report of all units at once."""
    clock = measure_options.clock()
    clock.start()
    return conclude_judges(measure_judges(config, measure_options), measure_options, (), clock)


KIND = Kind(JudgeRows, open_judges, run_judges, measure_judges, conclude_judges)
