"""Names of runs, and the key that two runs of the same work share."""

import hashlib
import json
import secrets
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime


def new_run_id(started: datetime) -> str:
    """A name for a run that sorts by its start (UTC, milliseconds) and that no other run has."""
    moment = started.astimezone(UTC) if started.tzinfo else started.replace(tzinfo=UTC)
    return f"{moment:%Y%m%d-%H%M%S}-{moment.microsecond // 1000:03}-{secrets.token_hex(3)}"


def hash_name(name: str) -> str:
    """What stands for the name of a job in names of files."""
    text = name.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(text, digest_size=4).hexdigest()


def run_key(
    config: Mapping[str, object],
    fingerprints: Sequence[str | None],
    versions: Mapping[str, str],
    metrics: Sequence[object] | Mapping[str, object],
) -> str:
    """32 hex digits; equal for two runs that must give the same numbers.

    An input without a fingerprint is like no other, so neither is the key of its run.

    Args:
        config: what can move a number; the order of keys does not matter.
        fingerprints: of every input, in order.
        versions: of evalkit and of whatever else the numbers rest on.
        metrics: the definitions of the metrics, of a user's own ones too.
    """
    inputs = [secrets.token_hex(16) if each is None else each for each in fingerprints]
    return digest({"config": config, "inputs": inputs, "versions": versions, "metrics": metrics})


def digest(value: object) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=_canonical)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _canonical(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, set | frozenset):
        return sorted(map(str, value))
    return str(value)
