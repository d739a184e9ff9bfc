"""What is done with outcomes on the street."""

from evalkit.planning.work import Kind, in_one_share
from outcomes.conclude import conclude_outcomes
from outcomes.measure import measure_outcomes
from outcomes.merge import OutcomeSums
from outcomes.open import open_outcomes

run_outcomes = in_one_share(measure_outcomes, conclude_outcomes)
KIND = Kind(OutcomeSums, open_outcomes, run_outcomes, measure_outcomes, conclude_outcomes)
