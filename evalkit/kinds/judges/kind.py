"""What is done with judges on the way from a config to a report."""

from evalkit.kinds.judges.conclude import conclude_judges
from evalkit.kinds.judges.measure import measure_judges
from evalkit.kinds.judges.merge import JudgeRows
from evalkit.kinds.judges.open import open_judges
from evalkit.planning.work import Kind, in_one_share

RUN = in_one_share(measure_judges, conclude_judges)
KIND = Kind(JudgeRows, open_judges, RUN, measure_judges, conclude_judges)
