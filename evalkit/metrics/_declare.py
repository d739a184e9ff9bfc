"""What a metric file declares, and a metric with parameters and cutoff as somebody asked for it."""

# Long: a metric's declaration, and what is asked of it.

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast, get_args

from evalkit.kernels import Kernel

from ._failures import naming_place
from ._lists import Ends, Family, ItemContext, ListRules, Need, Needs, Weighing
from ._parameters import NO_CUTOFF, Parameter, Value, Values, write_value
from ._sums import ROWS, OfSums, of_sums, ratio
from ._unbiased import Unbiased

if TYPE_CHECKING:
    from numpy import float64, int32, int64
    from numpy.typing import NDArray

    from ._over_users import FOf, OverUsers

GROUPED = ("over", "weighting")
TARGETS = ("at_precision", "at_recall", "at_specificity")
CHOSEN = ("threshold", "rule", "at", *TARGETS, "reaches", "least")  # where rows are called positive
SAYS_OF_WHAT = (*GROUPED, *CHOSEN)  # not how a value is made


View = Literal["relevant", "graded", "pool"]


class Hits(NamedTuple):
    """The ranks at which users' relevant items stand; one ragged row a user.

    `starts` int64[n_users + 1]; `ranks` int32, from 1, ascending within a user; `gains` float64,
    relevance as logged; `ideal` float64, the same gains descending within a user.
    """

    starts: "NDArray[int64]"
    ranks: "NDArray[int32]"
    gains: "NDArray[float64]"
    ideal: "NDArray[float64]"


class TiedHits(NamedTuple):
    """The same hits where equal scores give them no order; one ragged row a user.

    `starts`, `ranks`, `gains` and `ideal` as in `Hits`, but that the gains of equal scores descend,
    whichever of their hits has which; `firsts` and `lasts` int32, the ranks that the rows of equal
    score take up together; `untils` int32: of all rows of a rank from the hit's own up to
    `untils` - 1, the hit stands last in the log; not above its rank if it never does.
    """

    starts: "NDArray[int64]"
    ranks: "NDArray[int32]"
    gains: "NDArray[float64]"
    ideal: "NDArray[float64]"
    firsts: "NDArray[int32]"
    lasts: "NDArray[int32]"
    untils: "NDArray[int32]"


class Relevant(NamedTuple):
    """All relevant items of users; one ragged row a user.

    `starts` int64[n_users + 1]; `gains` float64, relevance as logged, descending within a user.
    """

    starts: "NDArray[int64]"
    gains: "NDArray[float64]"


@dataclass(frozen=True, slots=True)
class Example:
    """A user to show a metric by: gains rank by rank, those the list lacks, parameters."""

    ranked: tuple[float, ...]
    missed: tuple[float, ...] = ()
    values: Mapping[str, Value] = field(default_factory=dict, hash=False)


Tables = Callable[..., "tuple[NDArray[Any], ...]"]


@dataclass(frozen=True, slots=True)
class Combination:
    """How one number is made of others.

    Args:
        how: `min`, `mean`, `hmean`, or `sum` of the parts times their weights.
    """

    how: str
    parts: tuple["Request", ...]
    weights: tuple[float, ...]

    def at(
        self, values: Sequence[float], errors: Sequence[float | None]
    ) -> tuple[float, list[float]]:
        """The number, and its derivative by each part; NaN where there is none.

        `min` has none where parts tie: the one with the largest error is followed. Of `hmean`, 0
        where a part is, the derivative is that of parts that go to 0 together.
        """
        n = len(values)
        if any(map(math.isnan, values)) or (self.how == "hmean" and min(values) < 0.0):
            return math.nan, [math.nan] * n
        if self.how == "min":
            least = min(values)
            tied = [place for place in range(n) if values[place] == least]
            followed = max(tied, key=lambda place: errors[place] or 0.0)
            return least, [float(place == followed) for place in range(n)]
        if self.how == "mean":
            return math.fsum(values) / n, [1.0 / n] * n
        if self.how == "sum":
            pairs = zip(self.weights, values, strict=True)
            return math.fsum(weight * each for weight, each in pairs), list(self.weights)
        n_zero = sum(each == 0.0 for each in values)
        if n_zero:
            return 0.0, [n / n_zero**2 if each == 0.0 else 0.0 for each in values]
        number = n / math.fsum(1.0 / each for each in values)
        return number, [number * number / (n * each * each) for each in values]

    @property
    def bounds(self) -> tuple[float, float]:
        """What the number lies within, where its parts lie within theirs."""
        ends = [
            part.metric.bounds if weight > 0.0 else part.metric.bounds[::-1]
            for part, weight in zip(self.parts, self.weights, strict=True)
        ]
        return self._end([each[0] for each in ends]), self._end([each[1] for each in ends])

    def _end(self, ends: list[float]) -> float:
        if self.how == "hmean" and all(map(math.isinf, ends)):
            return math.inf
        return self.at(ends, [None] * len(ends))[0]

    @property
    def higher_is_better(self) -> bool | None:
        """Which way is better, where all parts agree."""
        better = {
            None
            if part.metric.higher_is_better is None
            else part.metric.higher_is_better == (weight > 0.0)
            for part, weight in zip(self.parts, self.weights, strict=True)
        }
        return better.pop() if len(better) == 1 else None


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric as its file declares it; `bounds` and `monotone` hold for the default parameters.

    `higher_is_better`: None where neither way is. `monotone`: moving a relevant item up never
    lowers the value. `suffix`: the parameter that is written right behind the name, as in F2.
    `view`: which items count, by the parameters: relevant ones, all with a gain, or all that the
    truth names, whose gains are states then: 1 relevant, 0 judged, -1 pooled and never judged.
    `tied`: a second kernel, over `TiedHits`, of the mean value over all orders of equal scores, and
    whether the parameters let it, and the best and the worst order, have a closed form.
    `needs_rows`: whether the parameters ask for what only `TiedHits` say. `tables`: arrays that the
    kernel takes behind its parameters, of the parameters and what it is called with. `example`:
    where the common one would say nothing. `over_hits`: where a value adds up over hits, the metric
    that each of them counts by alone. `counts_hits`: a value hangs on the number of hits up to the
    cutoff, of relevant items and of rows, not on the ranks of hits. `unbiased`: its form where hits
    count by 1 / propensity.
    Of ratings and labels: `over_rows`, how the number over all rows is made of sums; `is_loss`,
    whether the kernel gives the loss of each row, of which the value is the mean; `domain`, what
    all ratings and predictions have to be, of losses that are NaN where they are not;
    `of_probabilities`, whether scores lie between 0 and 1. Of a number made of several metrics:
    `combined`. `columns`: parameters that are written first and without their names, as columns of
    units are: ratio(clicks, shown). `over_users`: what is made of the values of users, if not their
    mean. `pair`: two metrics that a value of a user is made of.
    """

    name: str
    summary: str
    formula: str
    latex: str
    source: str
    bounds: tuple[float, float]
    undefined: str
    aliases: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    higher_is_better: bool | None
    monotone: bool
    cutoff: Literal["optional", "never"]
    suffix: str | None
    view: Callable[[Values], View]
    tied: Kernel[..., Any] | None
    has_closed_form: Callable[[Values], bool]
    needs_rows: Callable[[Values], bool]
    tables: "Tables | None"
    example: "Example | None"
    kind: str
    over_rows: "Callable[[Request], OfSums] | None"
    is_loss: bool
    domain: Callable[[Values], str] | None
    of_probabilities: bool
    over_hits: str | None
    counts_hits: bool
    lists: ListRules | None
    kernel: Kernel[..., Any]
    combined: Combination | None = None
    columns: tuple[str, ...] = ()
    unbiased: Unbiased | None = None
    over_users: "OverUsers | None" = None
    pair: "FOf | None" = None

    @property
    def base(self) -> "Metric":
        """The metric whose values users have."""
        return self if self.over_users is None else self.over_users.of

    @property
    def function(self) -> Callable[..., Any]:
        """What the declaration stands above, as Python."""
        return cast("Callable[..., Any]", getattr(self.kernel, "py_func", self.kernel))

    @property
    def direction(self) -> str:
        """Which way is better, in words."""
        if self.higher_is_better is None:
            return "neither way is better"
        return "higher is better" if self.higher_is_better else "lower is better"

    @property
    def defaults(self) -> dict[str, Value]:
        return {parameter.name: parameter.default for parameter in self.parameters}

    def request(self, cutoff: int | None = None, **parameters: Value) -> "Request":
        """This metric with these parameters, the defaults for the others."""
        values = {**self.defaults, **parameters}
        return Request(self, tuple((name, values[name]) for name in self.defaults), cutoff)

    def follow(
        self, cutoff: int | None, parameters: Values, policies: Values, given: Iterable[str]
    ) -> "Request":
        """A request with policies of its own; `given`: what somebody wrote by hand."""
        request, own = self.request(cutoff, **parameters), tuple(sorted(policies.items()))
        return replace(request, policies=own, given=frozenset(given))


@dataclass(frozen=True, slots=True)
class Request:
    """A metric with all its parameters, in declared order, and one cutoff or none.

    `policies`: those of the run that this metric follows another value of, by name. `given`: the
    parameters and policies that were written by hand; `asked`: the whole of it, as `MAP@10`.
    `label`: the one printed spelling, `nDCG@10`, `precision(over='length')@5`, `F1@10`.
    """

    metric: Metric
    parameters: tuple[tuple[str, Value], ...]
    cutoff: int | None
    policies: tuple[tuple[str, Value], ...] = ()
    given: frozenset[str] = field(default=frozenset(), compare=False)
    asked: str = field(default="", compare=False)
    label: str = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "label", self._spell())

    def _spell(self) -> str:
        defaults = self.metric.defaults
        name, over = self.metric.base.name, self.metric.over_users
        written = [each.name for each in self.metric.parameters if each.is_written]
        if self.metric.suffix is not None:
            name += write_value(dict(self.parameters)[self.metric.suffix])
        shown = [
            spell_argument(self.metric, parameter, value)
            for parameter, value in self.parameters
            if (value != defaults[parameter] or parameter in written)
            and parameter != self.metric.suffix
        ]
        shown += [
            f"{policy}={repr(value) if isinstance(value, str) else write_value(value)}"
            for policy, value in self.policies
        ]
        arguments = f"({', '.join(shown)})" if shown else ""
        label = name + arguments + ("" if self.cutoff is None else f"@{self.cutoff}")
        return label if over is None else over.spell(label)

    @property
    def view(self) -> View:
        """Which items the kernel must be given."""
        return self.metric.view(dict(self.parameters))

    @property
    def reported(self) -> dict[str, Value]:
        """The parameters as reports keep them."""
        late = {each.name: each.default for each in self.metric.parameters if each.is_late}
        return {name: v for name, v in self.parameters if name not in late or late[name] != v}

    @property
    def encoded(self) -> tuple[int | float, ...]:
        """The parameters as the kernel takes them."""
        return tuple(
            parameter.encode(value)
            for parameter, (_, value) in zip(self.metric.parameters, self.parameters, strict=True)
            if not parameter.is_text
        )

    @property
    def own_arguments(self) -> tuple[int | float, ...]:
        """The parameters of a kernel of losses or counts: those that say how a value is made."""
        pairs = zip(self.parameters, self.encoded, strict=True)  # none of them is text
        return tuple(code for (name, _), code in pairs if name not in SAYS_OF_WHAT)

    @property
    def ungrouped(self) -> "Request":
        """The same over all rows, if it is over users or sessions."""
        defaults = self.metric.defaults
        values = {name: defaults[name] if name in GROUPED else v for name, v in self.parameters}
        return replace(self, metric=self.metric.base, parameters=tuple(values.items()))

    @property
    def over_rows(self) -> OfSums:
        """The number over all rows, of a metric that has one."""
        return _over_rows(self)

    @property
    def kernel_cutoff(self) -> int:
        return NO_CUTOFF if self.cutoff is None else self.cutoff

    @property
    def has_closed_form(self) -> bool:
        """Whether the best, the worst and the mean value over all orders of ties are known."""
        return self.metric.has_closed_form(dict(self.parameters))

    @property
    def needs_rows(self) -> bool:
        """Whether it asks where the other rows of a list stand."""
        return self.metric.needs_rows(dict(self.parameters))

    @property
    def shifts_gains(self) -> bool:
        """Whether a relevance is counted from one below the threshold."""
        return dict(self.parameters).get("gain") == "exp2_shifted"

    def averaged(self, values: "NDArray[float64]") -> "NDArray[float64]":
        """What the number is the mean of, by the values of users."""
        over = self.metric.over_users
        return values if over is None else over.of_values(values)

    def call(self, *arguments: object) -> None:
        """Run the kernel; what a user's own one raises names its file and line."""
        with naming_place(self.metric.name, self.metric.function):
            self.metric.kernel(*arguments)

    def measure(
        self,
        hits: Hits | TiedHits,
        relevant: Relevant,
        lengths: "NDArray[int64]",
        cutoffs: "NDArray[int64]",
        out: "NDArray[float64]",
        *,
        threshold: float = 1.0,
    ) -> None:
        """Fill `out` float64[n_users, n_cutoffs] for `cutoffs`, whatever the request's own is.

        Args:
            hits, relevant: of the items that `view` names; `TiedHits` give the mean over all
                orders of equal scores.
            lengths: int64[n_users], rows of each user's list; 0 for an empty one.
            cutoffs: int64[n_cutoffs] ascending, `NO_CUTOFF` last.
            threshold: the relevance from which on items are relevant, for gains that need it.
        """
        if self.shifts_gains and threshold != 1.0:
            # what lies behind the last user's was never written
            shown, wanted = int(hits.starts[-1]), int(relevant.starts[-1])
            hits = hits._replace(
                gains=shifted(hits.gains[:shown], threshold),
                ideal=shifted(hits.ideal[:shown], threshold),
            )
            relevant = relevant._replace(gains=shifted(relevant.gains[:wanted], threshold))
        kernel = self.metric.kernel if isinstance(hits, Hits) else self.metric.tied
        assert kernel is not None  # config refuses ties that a metric has no closed form of
        with naming_place(self.metric.name, self.metric.function):
            kernel(
                type(hits)(*(_frozen(each) for each in hits)),
                Relevant(*(_frozen(each) for each in relevant)),
                _frozen(lengths),
                _frozen(cutoffs),
                *self.arguments(hits, relevant, lengths, cutoffs),
                out,
            )

    def arguments(
        self,
        hits: Hits | TiedHits,
        relevant: Relevant,
        lengths: "NDArray[int64]",
        cutoffs: "NDArray[int64]",
    ) -> tuple[Any, ...]:
        """What the kernel takes between the cutoffs and `out`: parameters, then tables."""
        if self.metric.tables is None:
            return self.encoded
        found = self.metric.tables(dict(self.parameters), hits, relevant, lengths, cutoffs)
        return *self.encoded, *(_frozen(each) for each in found)


def spell_argument(metric: Metric, name: str, value: Value) -> str:
    """`over='length'`; of a column its name alone."""
    if name in metric.columns:
        return spell_column(str(value))
    return f"{name}={repr(value) if isinstance(value, str) else write_value(value)}"


def spell_column(name: str) -> str:
    """A column's name as metrics are written: quoted where it would be read otherwise.

    Example:
        >>> spell_column("clicks"), spell_column("a, b")
        ('clicks', "'a, b'")
    """
    return repr(name) if re.search(r"[,'\"=(){}@]|^\s|\s$", name) else name


def write_call(metric: str, values: Mapping[str, Value] | None) -> str:
    """`AP(over='hits')` of a metric's name and its values."""
    inside = ", ".join(
        f"{name}={repr(value) if isinstance(value, str) else write_value(value)}"
        for name, value in (values or {}).items()
    )
    return f"{metric}({inside})" if inside else metric


@cache
def _over_rows(request: Request) -> OfSums:
    # sums are told apart by the functions that they are made by, so these are made once
    assert request.metric.over_rows is not None
    return request.metric.over_rows(request)


def shifted(gains: "NDArray[float64]", threshold: float) -> "NDArray[float64]":
    """Relevances counted from one below the threshold; what was not below 0 stays so."""
    shifted = gains - (threshold - 1.0)
    shifted[(shifted < 0.0) & (gains >= 0.0)] = 0.0
    return shifted


def _frozen(array: "NDArray[Any]") -> "NDArray[Any]":
    # read-only and writable arrays are different types: without this a kernel compiles twice
    if not array.flags.writeable:
        return array
    view = array.view()
    view.flags.writeable = False
    return view


def metric(
    *,
    name: str,
    summary: str,
    formula: str,
    latex: str,
    source: str,
    bounds: tuple[float, float],
    undefined: str,
    aliases: tuple[str, ...] = (),
    parameters: tuple[Parameter, ...] = (),
    higher_is_better: bool | None = True,
    monotone: bool = True,
    cutoff: Literal["optional", "never"] = "optional",
    suffix: str | None = None,
    view: Callable[[Values], View] | View = "relevant",
    tied: Kernel[..., Any] | None = None,
    has_closed_form: Callable[[Values], bool] | None = None,
    needs_rows: Callable[[Values], bool] | None = None,
    tables: Callable[..., tuple[Any, ...]] | None = None,
    example: Example | None = None,
    kind: str = "rankings",
    over_rows: "Callable[[Request], OfSums] | OfSums | None" = None,
    is_loss: bool = False,
    domain: Callable[[Values], str] | str | None = None,
    of_probabilities: bool = False,
    over_hits: str | None = None,
    counts_hits: bool = False,
    lists: ListRules | None = None,
    columns: tuple[str, ...] = (),
    unbiased: Unbiased | None = None,
) -> Callable[[Kernel[..., Any]], Metric]:
    """Makes a `Metric` of the kernel below it; the package's docstring shows a whole file."""

    declared = locals()
    if isinstance(view, str) and view not in get_args(View):
        raise ValueError(f"view is one of {', '.join(get_args(View))}, not {view!r}")
    declared |= {
        "view": view if callable(view) else _Always(view),
        "has_closed_form": has_closed_form or _Always(tied is not None),
        "needs_rows": needs_rows or _Always(False),
        "over_rows": of_loss if is_loss else _callable(over_rows),
        "domain": _callable(domain),
    }
    return lambda kernel: Metric(kernel=kernel, **declared)


def of_kernels(
    declare: Callable[..., Callable[[Any], Metric]], **shared: Any
) -> Callable[..., Callable[[Any], Metric]]:
    """A family of metrics: `declare` with what they share; plain functions below it are kernels."""

    def family(**own: Any) -> Callable[[Any], Metric]:
        declared = declare(**{**shared, **own})

        def decorate(function: Any) -> Metric:
            is_kernel = isinstance(function, Kernel)
            return declared(function if is_kernel else Kernel(function, allocates=False))

        return decorate

    return family


rating_metric = partial(metric, kind="ratings", monotone=False, cutoff="never")
label_metric = partial(metric, kind="labels", monotone=False, cutoff="never")


def list_metric(
    *,
    family: Family = "users",
    needs: "Needs | tuple[Need, ...]" = (),
    by: Callable[[Values, ItemContext, Any], Any] | None = None,
    weighing: "Callable[[Values], Weighing] | Weighing" = "lists",
    n_sums: "Callable[[Values, ItemContext], int] | int" = 2,
    tables: "Callable[[Values, ItemContext], tuple[Any, ...]] | None" = None,
    ends: "Callable[[Any, Any, Values], Ends] | None" = None,
    most: "Callable[[Values, float], float] | None" = None,
    **declared: Any,
) -> Callable[[Any], Metric]:
    """Makes a metric of lists of the function below it: a kernel, or of counts plain NumPy.

    Args:
        tables: arrays, or named tuples of them, that the kernel takes behind `cutoffs`.
        declared: as `metric` takes it; what stands before, as `ListRules` says.
    """
    rules = ListRules(
        family, _callable(needs), by, _callable(weighing), _callable(n_sums), ends, most
    )
    return metric(kind="lists", monotone=False, lists=rules, tables=tables, **declared)


def of_loss(request: Request) -> OfSums:
    """The mean of the losses of all rows, by their weights."""
    return of_sums(request.ungrouped, ROWS, by=ratio)


def _callable(what: Any) -> Any:
    return what if what is None or callable(what) else _Always(what)


@dataclass(frozen=True, slots=True)
class _Always:
    what: Any

    def __call__(self, *_: object) -> Any:
        return self.what
