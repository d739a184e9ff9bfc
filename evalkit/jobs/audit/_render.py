"""An audit as a table, as JSON, as Markdown."""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from evalkit.jobs.audit._record import Audit, Pair
from evalkit.metrics import Value

WIDTH = 100


def render_audit(audits: Sequence[Audit], format: str) -> str:
    """The audits of all models: `table`, `json` or `markdown`."""
    if format == "json":
        return json.dumps([_plain(each) for each in audits], ensure_ascii=False, indent=1) + "\n"
    lines = _markdown if format == "markdown" else _table
    return "\n".join(line for each in audits for line in lines(each)) + "\n"


def _plain(audit: Audit) -> dict[str, object]:
    return {key: _finite(value) for key, value in asdict(audit).items()}


def _finite(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return value


def _written(value: Value) -> str:
    return value if isinstance(value, str) else f"{value:g}"


def _why(pair: Pair) -> str:
    parts = [
        f"{each.axis} {_written(each.before)} > {_written(each.after)} {each.delta:+.6f}"
        for each in pair.axes
    ]
    if not pair.comes_out:
        parts.append(f"not explained: recomputed with these alone it is {pair.recomputed:.6f}")
    return "; ".join(parts) or "no convention moves the number here"


def _notes(audit: Audit) -> Iterator[str]:
    if audit.tie_bounds is not None:
        worst, best = audit.tie_bounds
        yield f"Orders of equal scores alone move evalkit's number from {worst:.6f} to {best:.6f}."
    methods = sorted({pair.method for pair in audit.pairs})
    words = {
        "Shapley": "Shapley values: the mean over all orders of switching one after the other",
        "path": "path: switched one after the other in the order shown",
    }
    yield f"Contributions are {'; or '.join(words[each] for each in methods)}."
    if any(not pair.is_smallest for pair in audit.pairs):
        yield "Pairs marked * have more conventions than all combinations of were measured."
    grouped: dict[str, list[str]] = {}
    for axis, why in audit.inert.items():
        grouped.setdefault(why, []).append(axis)
    for why, axes in grouped.items():
        yield f"Cannot matter here: {', '.join(axes)} ({why})."
    for name, why in audit.left_out.items():
        yield f"Left out: {name} ({why})."


def _table(audit: Audit) -> Iterator[str]:
    names = [", ".join(each.profiles) for each in audit.standings]
    width = min(60, max(map(len, names)))
    yield f"{audit.metric} of {audit.model} under every profile"
    yield ""
    for name, each in zip(names, audit.standings, strict=True):
        yield f"  {each.value:<10.6f} {name:<{width}}  {each.n_users:>9,} users"
    yield ""
    yield "What explains the difference of two"
    yield ""
    for pair in audit.pairs:
        mark = "" if pair.is_smallest else "*"
        yield f"  {pair.one} > {pair.other}{mark}: {pair.delta:+.6f}"
        yield f"      {_why(pair)}"
    yield ""
    yield from _notes(audit)
    yield ""


def _markdown(audit: Audit) -> Iterator[str]:
    yield f"# {audit.metric} of {audit.model} under every profile"
    yield ""
    yield "| value | profiles | metric | users |"
    yield "| ---: | --- | --- | ---: |"
    for standing in audit.standings:
        profiles = ", ".join(standing.profiles)
        yield f"| {standing.value:.6f} | {profiles} | `{standing.metric}` | {standing.n_users:,} |"
    yield ""
    yield "| from | to | difference | conventions |"
    yield "| --- | --- | ---: | --- |"
    for pair in audit.pairs:
        mark = "" if pair.is_smallest else " *"
        yield f"| {pair.one} | {pair.other} | {pair.delta:+.6f}{mark} | {_why(pair)} |"
    yield ""
    for note in _notes(audit):
        yield f"- {note}"
    yield ""
