"""One metric on somebody's own logs under every profile, and the conventions that move it."""

from evalkit.jobs.audit._measure import audit_config
from evalkit.jobs.audit._record import Audit, Contribution, Pair, ProfileStanding
from evalkit.jobs.audit._render import render_audit
