"""Pairs of models seen from the other side: who is compared with whom is the reader's question."""

import math
from collections.abc import Iterable
from dataclasses import replace

from evalkit.report.entries import Comparison

# A test of "not inferior" says nothing of the other direction, which nobody tested.
_TURNED = {"better": "worse", "worse": "better", "not inferior": "cannot tell"}


def turned(pair: Comparison) -> Comparison:
    """The same comparison with baseline and candidate changed about."""
    low, high = _negative(pair.high), _negative(pair.low)
    relative_low, relative_high = _inverse(pair.relative_high), _inverse(pair.relative_low)
    gate_low, gate_high = _inverse(pair.relative_high_gate), _inverse(pair.relative_low_gate)
    return replace(
        pair,
        baseline=pair.candidate,
        candidate=pair.baseline,
        delta=-pair.delta + 0.0,
        low=low,
        high=high,
        relative=_inverse(pair.relative, is_limit=False),
        relative_low=None if relative_high is None else relative_low,
        relative_high=None if relative_low is None else relative_high,
        effect_size=_negative(pair.effect_size),
        low_adjusted=_negative(pair.high_adjusted),
        high_adjusted=_negative(pair.low_adjusted),
        low_margin=_negative(pair.high_margin),
        high_margin=_negative(pair.low_margin),
        low_gate=_negative(pair.high_gate),
        high_gate=_negative(pair.low_gate),
        relative_low_gate=gate_low if gate_high is not None else None,
        relative_high_gate=gate_high if gate_low is not None else None,
        p_not_inferior=None,
        wins=pair.losses,
        losses=pair.wins,
        verdict=_TURNED.get(pair.verdict, pair.verdict),
    )


def against(pairs: Iterable[Comparison], baseline: str | None) -> list[Comparison]:
    """The pairs that `baseline` is in, as comparisons with it, in their order."""
    return [
        each if each.baseline == baseline else turned(each)
        for each in pairs
        if baseline in (each.baseline, each.candidate)
    ]


def _negative(number: float | None) -> float | None:
    return None if number is None else -number + 0.0


def _inverse(relative: float | None, *, is_limit: bool = True) -> float | None:
    """`delta / baseline` as `-delta / candidate`; a limit beyond which a mean is 0 is none."""
    if relative is None or not math.isfinite(relative) or relative == -1.0:
        return None
    if is_limit and relative < -1.0:
        return None
    return -relative / (1.0 + relative) + 0.0
