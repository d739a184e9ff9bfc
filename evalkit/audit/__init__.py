"""One metric on somebody's own logs under every profile, and the conventions that move it."""

from evalkit.audit._measure import audit_config
from evalkit.audit._record import Audit, Contribution, Pair, Standing
from evalkit.audit._render import render_audit
