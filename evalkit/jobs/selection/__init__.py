"""One of many trials is chosen by validation, with what it will be worth, and confirmed on test."""

from evalkit.jobs.selection._choose import Choice, choose_trial
from evalkit.jobs.selection._measure import How
from evalkit.jobs.selection._publish import Selected, find_test, finish, run_selection
from evalkit.jobs.selection._trials import as_rankings
