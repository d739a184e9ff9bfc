"""Measures a metric under every profile, then what its conventions contribute."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Unpack, cast

from evalkit.config import Config, Policies, SegmentsSection, StatisticsSection, with_conventions
from evalkit.errors import Errors, EvalkitError, RequestError
from evalkit.jobs.audit import _points
from evalkit.jobs.audit._facts import OF_SCORES, inert_axes, settled
from evalkit.jobs.audit._record import Audit, Contribution, Pair, ProfileStanding
from evalkit.metrics import BOUNDS, TIED, Request
from evalkit.metrics.profiles import speaking_of
from evalkit.pipeline import run_config
from evalkit.planning.tables import Given, open_tables
from evalkit.planning.work import MeasureArguments

MOST_AXES = 6  # whose 64 combinations are all measured
SAME = 1e-12


def audit_config(
    config: Config,
    metric: str,
    *,
    profiles: Sequence[str] = (),
    **options: Unpack[MeasureArguments],
) -> list[Audit]:
    """A metric of every model under every profile, and why the profiles differ.

    The config's own policies hold where no profile speaks: about rows that are broken.

    Args:
        metric: one metric with one cutoff or none.
        profiles: names, or files of a user's own; by default those that evalkit brings.
        options: as `run_config` takes them.
    Raises:
        RequestError: ratings or labels [audit-of-rows], more than one metric [ambiguous-metric],
            a profile that there is not [unknown-profile], fewer than two profiles that have the
            metric [nothing-to-audit].
    """
    if config.kind != "rankings":
        message = f"an audit is of rankings, not of {config.kind}"
        hint = "evalkit explain tells what libraries choose; evalkit run --profile measures so"
        raise RequestError(message, code="audit-of-rows", at=config.at(config.kind), hint=hint)
    plain = _plain(config)
    given, opened = options.get("given", Given()), options.pop("opened", None)
    requests, policies, left_out = _asked(plain, metric, profiles or speaking_of("rankings"), given)
    among = [each.metric for each in requests.values()]
    points: dict[str, _points.Point] = {}
    for name, request in requests.items():
        points[name] = _points.point_of(request, policies[name], among=among)
        if dict(points[name])["duplicates"] == "error":  # an audit measures what a run refuses
            points[name] = _points.with_values(points[name], {"duplicates": "best"})
    tables = open_tables(plain, given)
    plain = tables.config  # every profile reads the columns that the config's own profile reads
    if opened is not None:
        opened(tables.all)
    if tables.threshold is not None and tables.threshold <= 0.0:
        for name in [
            name for name, each in points.items() if dict(each)["unknown_users"] == "count"
        ]:
            del points[name]
            left_out[name] = (
                f"unknown_users = 'count' has no meaning at a threshold of {tables.threshold:g}"
            )
    if len(points) < 2:
        message = f"fewer than two profiles have {metric!r}"
        hint = "evalkit explain shows which profiles have a metric"
        raise RequestError(message, code="nothing-to-audit", at="-m", hint=hint)
    axes = {axis for point in points.values() for axis, _ in point}
    inert = inert_axes(tables, tables.threshold)
    inert = {axis: why for axis, why in inert.items() if axis in axes}
    if any("score" not in table.frame.collect_schema() for _, table in tables.rankings):
        moot = {axis: why for axis, why in inert.items() if axis in OF_SCORES}  # no run takes them
        points = {name: settled(point, moot) for name, point in points.items()}
    first = next(iter(requests.values()))
    survey = _Survey(plain, first, options)
    return survey.audits(metric, requests, points, left_out, inert)


def _asked(
    plain: Config, metric: str, profiles: Sequence[str], given: Given
) -> tuple[dict[str, Request], dict[str, Policies], dict[str, str]]:
    """What each profile means by a metric, and its policies; who is left out, and why."""
    requests: dict[str, Request] = {}
    policies: dict[str, Policies] = {}
    left_out: dict[str, str] = {}
    for name in profiles:
        section = plain.metrics.model_copy(update={"names": (metric,), "combined": {}})
        found = with_conventions(plain.model_copy(update={"metrics": section}), profile=name)
        try:
            asked = found.requests
            if len(asked) == 1 and asked[0].metric.lists is not None:
                open_tables(found, given)  # has what its conventions need
        except EvalkitError as error:
            first = error.errors[0] if isinstance(error, Errors) else error
            if name == "evalkit" and first.code != "missing-input":
                raise
            left_out[name] = first.message
            continue
        if len(asked) != 1:
            message = f"{metric!r} is {len(asked)} metrics, here goes one"
            hint = f"write one of {', '.join(each.label for each in asked)}"
            raise RequestError(message, code="ambiguous-metric", at="-m", hint=hint)
        profile = found.profile
        if not profile.has_metric(asked[0].metric.name, asked[0].cutoff):
            left_out[profile.name] = f"it has no {asked[0].label}"
            continue
        requests[profile.name], policies[profile.name] = asked[0], found.policies
    return requests, policies, left_out


def _plain(config: Config) -> Config:
    """The config without what an audit does not need, and without conventions of its own."""
    by_hand = config._by_hand if config._by_hand is not None else config.policies
    kept = {
        name: getattr(by_hand, name)
        for name in by_hand.model_fields_set
        if name not in _points.AXES
    }
    policies = type(by_hand)(**kept)
    plain = config.model_copy(
        update={
            "statistics": StatisticsSection(),
            "segments": SegmentsSection.model_validate({}),
            "gates": (),
            "policies": policies,
        }
    )
    plain._by_hand = policies
    return plain


@dataclass(slots=True)
class _Survey:
    """Numbers of points, measured as they are asked for, many at a time."""

    config: Config
    request: Request
    options: MeasureArguments
    values: dict[tuple[str, _points.Point], tuple[float, int]] = field(default_factory=dict)
    nameless: set[_points.Point] = field(default_factory=set)  # points that no run measures
    n_readings: int = 1  # that for the facts

    def audits(
        self,
        metric: str,
        requests: Mapping[str, Request],
        points: Mapping[str, _points.Point],
        left_out: Mapping[str, str],
        inert: Mapping[str, str],
    ) -> list[Audit]:
        """Every model, in four rounds of readings at most."""
        own = points.get("evalkit")
        bounds: list[_points.Point] = []
        if own is not None and "ties" not in inert and requests["evalkit"].has_closed_form:
            bounds = [_points.with_values(own, {"ties": ties}) for ties in BOUNDS]
        self.measure([*points.values(), *bounds])
        inert, plain = self._settle(points, inert)
        alike: dict[_points.Point, list[str]] = {}
        for name, point in plain.items():
            alike.setdefault(point, []).append(name)
        pairs = list(combinations(alike, 2))
        self.measure(point for one, other in pairs for point in _first_look(one, other))
        models = list(dict.fromkeys(model for model, _ in self.values))
        chosen = {
            (model, one, other): self._axes_that_move(model, one, other)
            for model in models
            for one, other in pairs
        }
        self.measure(
            _points.switched(one, other, part)
            for (_, one, other), axes in chosen.items()
            for part in _parts(axes, _in_order(one, other, _points.differing(one, other)))
        )
        audits = [
            self._audit(model, metric, requests, alike, left_out, inert, chosen) for model in models
        ]
        self.measure(
            _named(each, points) for audit in audits for pair in audit.pairs for each in _sets(pair)
        )
        return [
            replace(
                each,
                pairs=tuple(self._recomputed(each.model, pair, points) for pair in each.pairs),
                tie_bounds=self._bounds(each.model, bounds),
            )
            for each in audits
        ]

    def _settle(
        self, points: Mapping[str, _points.Point], inert: Mapping[str, str]
    ) -> tuple[Mapping[str, str], dict[str, _points.Point]]:
        """The axes that do not matter to any profile, as measured, and points without them."""
        while True:
            plain = {name: settled(point, inert) for name, point in points.items()}
            self.measure(plain.values())
            models = {model for model, _ in self.values}
            wrong = {
                axis
                for name, point in points.items()
                for model in models
                if not _same(self.value(model, point), self.value(model, plain[name]))
                for axis in _points.differing(point, plain[name])
            }
            if not wrong:
                return inert, plain
            inert = {axis: why for axis, why in inert.items() if axis not in wrong}

    def _recomputed(self, model: str, pair: Pair, points: Mapping[str, _points.Point]) -> Pair:
        """The pair with the number that its axes give, by the conventions of `pair.one` else."""
        for one_set in _sets(pair):
            found = self.number(model, _named(one_set, points))
            if found is not None and _same(found, self.value(model, points[pair.other])):
                return replace(one_set, recomputed=found, comes_out=True)
        return replace(pair, recomputed=math.nan if found is None else found)

    def _bounds(self, model: str, points: Sequence[_points.Point]) -> tuple[float, float] | None:
        if not points:
            return None
        best, worst = (self.value(model, point) for point in points)
        return worst, best

    def measure(self, points: Iterable[_points.Point]) -> None:
        """Measure what is not known yet."""
        known = {point for _, point in self.values} | self.nameless
        new = [point for point in dict.fromkeys(points) if point not in known]
        for batch in _points.batches(self.config, self.request, new):
            self.nameless.update(batch.nameless)
            if not batch.labels:
                continue
            report = run_config(batch.config, **self.options)
            self.n_readings += 1
            found = {(each.model, each.metric): each for each in report.estimates}
            for model in report.models:
                for point, label in batch.labels.items():
                    each = found[model, label]
                    self.values[model, point] = each.value, each.n_users

    def value(self, model: str, point: _points.Point) -> float:
        """The number of a point that was measured."""
        return self.values[model, point][0]

    def number(self, model: str, point: _points.Point) -> float | None:
        """The number of a point; None where its conventions do not go together."""
        return None if point in self.nameless else self.value(model, point)

    def _axes_that_move(
        self, model: str, one: _points.Point, other: _points.Point
    ) -> tuple[str, ...]:
        """The axes without those that change nothing, switched alone or last."""
        axes = _points.differing(one, other)
        if len(axes) <= MOST_AXES:
            return axes
        start, end = self.value(model, one), self.value(model, other)
        return tuple(
            axis
            for axis in axes
            if not _same(self.number(model, _points.switched(one, other, [axis])), start)
            or not _same(self.number(model, _points.switched(other, one, [axis])), end)
        )

    def _audit(
        self,
        model: str,
        metric: str,
        requests: Mapping[str, Request],
        alike: Mapping[_points.Point, Sequence[str]],
        left_out: Mapping[str, str],
        inert: Mapping[str, str],
        chosen: Mapping[tuple[str, _points.Point, _points.Point], tuple[str, ...]],
    ) -> Audit:
        standings = [
            ProfileStanding(tuple(names), requests[names[0]].label, *self.values[model, point])
            for point, names in alike.items()
        ]
        standings.sort(key=lambda each: (math.isnan(each.value), -each.value, each.profiles))
        order = {each.profiles: place for place, each in enumerate(standings)}
        pairs = []
        for one, other in combinations(alike, 2):
            axes = chosen[model, one, other]
            places = order[tuple(alike[one])], order[tuple(alike[other])]
            if places[0] > places[1] and len(_points.differing(one, other)) <= MOST_AXES:
                one, other = other, one
            pairs.append((tuple(sorted(places)), self._pair(model, one, other, alike, axes)))
        pairs.sort(key=lambda each: each[0])
        return Audit(
            metric,
            model,
            tuple(standings),
            tuple(pair for _, pair in pairs),
            left_out,
            inert,
            self.n_readings,
        )

    def _pair(
        self,
        model: str,
        one: _points.Point,
        other: _points.Point,
        alike: Mapping[_points.Point, Sequence[str]],
        axes: tuple[str, ...],
    ) -> Pair:
        def at(part: Iterable[str]) -> float | None:
            return self.number(model, _points.switched(one, other, part))

        start, end = self.value(model, one), self.value(model, other)
        fitting = (
            next((part for part in _points.subsets(axes) if _same(at(part), end)), None)
            if len(axes) <= MOST_AXES
            else None
        )
        every = _in_order(one, other, _points.differing(one, other))
        if fitting is not None:
            axes, shares, method = fitting, _shapley(fitting, at), "Shapley"
        else:
            axes, method = every, "path"
            steps = [self.value(model, _points.switched(one, other, part)) for part in _path(axes)]
            shares = {
                axis: after - before
                for axis, before, after in zip(axes, [start, *steps[:-1]], steps, strict=True)
            }
        before, after = dict(one), dict(other)
        moved = sorted(axes, key=lambda axis: -abs(shares[axis]))
        return Pair(
            alike[one][0],
            alike[other][0],
            end - start,
            tuple(Contribution(axis, before[axis], after[axis], shares[axis]) for axis in moved),
            method,
            method == "Shapley" and len(every) <= MOST_AXES,
        )


def _sets(pair: Pair) -> tuple[Pair, Pair]:
    """The pair without axes that add nothing, and with them: they may matter to others."""
    return replace(pair, axes=tuple(each for each in pair.axes if each.delta != 0.0)), pair


def _named(pair: Pair, points: Mapping[str, _points.Point]) -> _points.Point:
    """All conventions of `pair.one`, those that the pair names switched."""
    return _points.switched(points[pair.one], points[pair.other], [each.axis for each in pair.axes])


def _first_look(one: _points.Point, other: _points.Point) -> list[_points.Point]:
    """Axes switched alone and switched last, where there are too many for all combinations."""
    axes = _points.differing(one, other)
    if len(axes) <= MOST_AXES:
        return []
    return [
        *(_points.switched(one, other, [axis]) for axis in axes),
        *(_points.switched(other, one, [axis]) for axis in axes),
    ]


def _parts(axes: Sequence[str], every: Sequence[str]) -> list[tuple[str, ...]]:
    """What to switch: every subset of a few axes; all axes one by one where there are more."""
    few = list(_points.subsets(axes)) if len(axes) <= MOST_AXES else []
    return few + (_path(every) if len(every) > MOST_AXES else [])


def _path(axes: Sequence[str]) -> list[tuple[str, ...]]:
    return [tuple(axes[: n + 1]) for n in range(len(axes))]


def _in_order(one: _points.Point, other: _points.Point, axes: Iterable[str]) -> tuple[str, ...]:
    """The axes in an order in which they can be switched one by one: what bars others goes first.

    No run takes copies that multiply, or some parameters, and all orders of equal scores.
    """
    before, after = dict(one), dict(other)
    bars = (*TIED, "multiply")
    return tuple(sorted(axes, key=lambda axis: (after[axis] in bars) - (before[axis] in bars)))


def _shapley(axes: Sequence[str], at: Callable[[Iterable[str]], float | None]) -> dict[str, float]:
    """What each axis adds, on average over all orders in which they may be switched.

    Orders that pass through conventions that do not go together (`at` gives None) are left out.

    Sources: Shapley 1953, A Value for n-Person Games, Contributions to the Theory of Games II,
    Annals of Mathematics Studies 28, pp. 307-317. Faigle and Kern 1992, The Shapley Value for
    Cooperative Games under Precedence Constraints, International Journal of Game Theory 21.
    """
    parts = [part for part in _points.subsets(axes) if at(part) is not None]
    known = set(parts)
    to: dict[tuple[str, ...], int] = {(): 1}  # in how many orders a part is reached, and left
    for part in parts[1:]:
        to[part] = sum(to.get(_without(part, axis), 0) for axis in part)
    left = {tuple(axes): 1}
    for part in reversed(parts[:-1]):
        larger = (_with(axes, part, axis) for axis in axes if axis not in part)
        left[part] = sum(left[each] for each in larger if each in known)
    shares = dict.fromkeys(axes, 0.0)
    for axis in axes:
        for part in parts:
            after = _with(axes, part, axis)
            if axis not in part and after in known:
                gained = cast("float", at(after)) - cast("float", at(part))
                shares[axis] += to[part] * left[after] / left[()] * gained
    return shares


def _with(axes: Sequence[str], part: Sequence[str], axis: str) -> tuple[str, ...]:
    return tuple(each for each in axes if each in part or each == axis)


def _without(part: Sequence[str], axis: str) -> tuple[str, ...]:
    return tuple(each for each in part if each != axis)


def _same(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return False
    if math.isnan(one) or math.isnan(other):
        return math.isnan(one) and math.isnan(other)
    return math.isclose(one, other, rel_tol=SAME, abs_tol=SAME)
