"""What a run says, so that one pass can be held against many."""

import json
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from evalkit.errors import Errors, EvalkitError
from evalkit.report import Report


@dataclass(frozen=True)
class Outcome:
    """All that a run says but its times: a report, what stands beside it, or why there is none."""

    status: int
    said: str
    beside: tuple[object, ...] = ()


def outcome_of(run: Callable[[], Report]) -> Outcome:
    """What `run` says."""
    try:
        report = run()
    except EvalkitError as error:
        told = error.errors if isinstance(error, Errors) else (error,)
        lines = [f"{each.code}: {each.message} at {each.at} ({each.hint})" for each in told]
        return Outcome(error.exit_status, "\n".join(lines))
    document = json.loads(report.to_json())
    for key in ("meta", "run_id", "run_key"):  # data in memory has no fingerprint
        del document[key]
    beside: list[object] = []
    if report.parts is not None:
        beside += report.parts.rows()
    if report.per_user_values is not None:
        beside += [(name, each.rows()) for name, each in report.per_user_values.frames.items()]
    return Outcome(0, json.dumps(document, indent=1), tuple(map(str, beside)))


def in_passes(n_shares: int, run: Callable[[], Report]) -> Outcome:
    """What a run of rankings says whose users are split into so many shares."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "evalkit.kinds.rankings.measure.count_shares", lambda *args, **options: n_shares
        )
        return outcome_of(run)


def first_difference(one: Outcome, other: Outcome) -> str:
    """The first lines that differ; nothing where two runs say the same."""
    if one == other:
        return ""
    lines = zip(one.said.splitlines(), other.said.splitlines(), strict=False)
    for mine, theirs in lines:
        if mine != theirs:
            return f"{mine}\n{theirs}"
    pairs = zip(one.beside, other.beside, strict=False)
    found = [f"{mine}\n{theirs}" for mine, theirs in pairs if mine != theirs]
    return found[0] if found else f"{one}\n{other}"
