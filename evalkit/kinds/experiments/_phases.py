"""Shares that changed midway: phases are strata, each with a sample ratio of its own."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from evalkit.errors import RequestError
from evalkit.kernels.arrays import Ints

from ._asked import ExperimentRequest, Phase
from ._units import GroupedUnits, Units

PHASE = "phase"


def read_phases(
    given: Sequence[Mapping[str, object]], moment_of: Callable[[object], int | None]
) -> tuple[Phase, ...]:
    """Phases after the first, in which shares are those of `variants`.

    Raises:
        RequestError: no start or no shares [wrong-type], no moment [bad-time].
    Example:
        >>> read_phases([{"start": "1970-01-02", "variants": {"a": 4, "b": 1}}],
        ...             lambda text: 86400000000)[0].variants
        {'a': 4, 'b': 1}
    """
    found = []
    for place, each in enumerate(given):
        start, variants = each.get("start"), each.get("variants")
        moment = moment_of(start)
        if moment is None or not isinstance(variants, Mapping) or set(each) - {"start", "variants"}:
            message = f"phases[{place}] is {dict(each)!r}, no start with shares"
            hint = 'phases = [{ start = "2026-01-08", variants = { control = 20, b = 80 } }]'
            raise RequestError(message, code="wrong-type", at=f"phases[{place}]", hint=hint)
        found.append(Phase(moment, str(start), dict(variants)))
    return tuple(found)


def with_phases(asked: ExperimentRequest, phases: Sequence[Phase]) -> ExperimentRequest:
    """The request with phases as its last stratum.

    Raises:
        RequestError: shares that are not above 0 or of other variants [bad-share], phases that do
            not follow each other [bad-time], ready-made rows, or metrics that no strata reach
            [conflicting-keys].
    """
    if not phases:
        return asked
    for phase in phases:
        shares = phase.variants.values()
        are_numbers = all(isinstance(e, int | float) and 0.0 < e < float("inf") for e in shares)
        if set(phase.variants) != set(asked.variants) or not are_numbers:
            message = f"shares from {phase.name} on are {dict(phase.variants)}"
            hint = f"name every variant, {', '.join(asked.names)}, with a share above 0"
            raise RequestError(message, code="bad-share", at="phases", hint=hint)
    starts = [phase.start for phase in phases]
    if starts != sorted(set(starts)):
        message = "phases do not follow each other"
        hint = "list them by their start, each later than the one before"
        raise RequestError(message, code="bad-time", at="phases", hint=hint)
    unreached = [each.label for each in asked.measures if each.kind in ("quantile", "sum", "count")]
    if unreached or not asked.has_events or PHASE in asked.statistics.strata:
        what = f"{', '.join(unreached)} cannot be stratified by" if unreached else "rows have no"
        hint = "leave such metrics out; of ready-made rows name a column of phases as strata"
        raise RequestError(f"{what} phases", code="conflicting-keys", at="phases", hint=hint)
    statistics = replace(asked.statistics, strata=(*asked.statistics.strata, PHASE))
    return replace(asked, statistics=statistics, phases=tuple(phases))


def phases_of(asked: ExperimentRequest, firsts: Ints) -> dict[str, GroupedUnits]:
    """The phase of each unit's first exposure, as a group of units."""
    if not asked.phases:
        return {}
    codes = np.searchsorted([each.start for each in asked.phases], firsts, side="right")
    names = ("first", *(each.name for each in asked.phases))
    return {PHASE: GroupedUnits(codes.astype(np.int32), names)}


def shares_by_phase(
    units: Units, asked: ExperimentRequest
) -> tuple[list[float], list[tuple[str, list[int], list[float]]]]:
    """Shares of all units together; of each phase its name, its units by variant, its shares."""
    first = [asked.variants[name] for name in asked.names]
    if not asked.phases:
        return first, []
    group, found = units.groups[PHASE], []
    together = np.zeros(len(first))
    listed = [asked.variants, *(each.variants for each in asked.phases)]
    by_name = dict(zip(("first", *(each.name for each in asked.phases)), listed, strict=True))
    for code, name in enumerate(group.names):
        own = group.codes == code
        counts, _ = units.assigned(own)
        shares = [by_name[name][each] for each in asked.names]
        together += sum(counts) * np.array(shares) / sum(shares)
        found.append((f"{PHASE} {name}", counts, shares))
    return together.tolist(), [each for each in found if sum(each[1])]
