"""One of many trials is chosen by validation, with what it will be worth, and confirmed on test."""

from evalkit.selection._choose import Choice, choose_trial
from evalkit.selection._measure import How
from evalkit.selection._publish import Selected, find_test, finish, run_selection
from evalkit.selection._trials import as_rankings
