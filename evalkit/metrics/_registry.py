"""Which metrics there are: the files of each kind's folder, and a user's own of the same form."""

import importlib
import pkgutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, cached_property
from pathlib import Path
from types import MappingProxyType, ModuleType

from ..errors import EvalkitError, RequestError, raise_all
from ._declare import SAYS_OF_WHAT, Metric
from ._declared import declared
from ._own import UserFunction, file_of, own_metric
from ._rows import of_counts

FOLDERS = ("rankings", "lists", "ratings", "labels")  # here; other kinds bring their own


def registry() -> Mapping[str, Metric]:
    """The metrics of rankings that evalkit brings, by name, in the order of their names."""
    return registry_of("rankings")


@cache
def registry_of(kind: str) -> Mapping[str, Metric]:
    """The metrics of one of `folders()`: the files of the folder of its name."""
    name = f"evalkit.metrics.{kind}" if kind in FOLDERS else declared(kind).metrics
    package = importlib.import_module(name)
    found: dict[str, Metric] = {}
    for file in pkgutil.iter_modules(package.__path__):
        if not file.name.startswith("_"):
            module = importlib.import_module(f"{package.__name__}.{file.name}")
            found = _joined(found, _declared(module), at=str(module.__file__))
    return _ordered(found)


class WithLists(Mapping[str, Metric]):
    """Metrics of rankings, then those of lists, whose files are read when one is looked for."""

    def __init__(self, first: Mapping[str, Metric]) -> None:
        self.first = first

    @cached_property
    def _all(self) -> Mapping[str, Metric]:
        return _ordered(_joined(self.first, list(registry_of("lists").values()), at="lists"))

    def __getitem__(self, name: str) -> Metric:
        return self.first[name] if name in self.first else self._all[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)


@cache
def known_metrics(kind: str) -> Mapping[str, Metric]:
    """The metrics that a config of one of `KINDS` may name: of rankings those of lists too."""
    return WithLists(registry_of(kind)) if kind == "rankings" else registry_of(kind)


def tiers(metrics: Mapping[str, Metric]) -> Iterator[Mapping[str, Metric]]:
    """Where to look for a metric: first in what needs no further files."""
    if isinstance(metrics, WithLists):
        yield metrics.first
    yield metrics


def load_metric_files(paths: Iterable[str | Path], kind: str = "rankings") -> Mapping[str, Metric]:
    """The metrics that a config of one of `KINDS` may name, together with those of these files.

    Raises:
        RequestError: a file that is missing [missing-metric-file], does not run
            [bad-metric-file] or declares no metric [no-metric-in-file] or none of the kind
            [metric-of-other-kind]; a name that another metric has [metric-name-taken].
    """
    paths = list(paths)
    if not paths:
        return known_metrics(kind)
    found = dict(known_metrics(kind))
    kinds = {each.kind for each in found.values()}
    errors: list[EvalkitError] = []
    for path in paths:
        try:
            declared = metrics_of_file(path)
            at = file_of(str(path))
            _check_kind(declared, kind, kinds, at=at)
            for each in declared:
                _check_functions(each, at=at)
            found = _joined(found, [each for each in declared if each.kind in kinds], at=at)
        except EvalkitError as error:
            errors.append(error)
    raise_all(errors)
    return _ordered(found)


def metrics_of_file(path: str | Path) -> list[Metric]:
    """The metrics that a file declares, of whatever kind.

    Raises:
        RequestError: it is missing [missing-metric-file], or does not run [bad-metric-file].
    """
    own = own_metric(str(path))
    return _declared(_load(Path(path))) if own is None else [own]


def _ordered(metrics: Mapping[str, Metric]) -> Mapping[str, Metric]:
    return MappingProxyType(dict(sorted(metrics.items(), key=lambda each: each[0].lower())))


def _declared(module: ModuleType) -> list[Metric]:
    # a metric that was only imported belongs to the file that declares it
    return [
        value
        for value in vars(module).values()
        if isinstance(value, Metric) and value.function.__module__ == module.__name__
    ]


def _check_kind(own: list[Metric], kind: str, kinds: set[str], *, at: str) -> None:
    if own and not any(each.kind in kinds for each in own):
        raise RequestError(
            f"the file declares {', '.join(each.name for each in own)} of "
            f"{own[0].kind}, and no metric of {kind}",
            code="metric-of-other-kind",
            at=at,
            hint=f"declare it by {declared(kind).declared_by}, which says what its kernel is given",
        )


def _check_functions(metric: Metric, *, at: str) -> None:
    """The functions of a user's metric take what they will be given.

    Raises:
        RequestError: one does not [bad-metric-file].
    """
    import inspect

    def refuse(message: str, hint: str) -> RequestError:
        return RequestError(f"{metric.name}: {message}", code="bad-metric-file", at=at, hint=hint)

    names = [each.name for each in metric.parameters]
    is_of_lists = metric.kind == "lists"
    if isinstance(metric.kernel, UserFunction):
        return  # whose arguments were looked at where it was declared
    takes = "lists, within, cutoffs" if is_of_lists else declared(metric.kind).kernels_take
    given, own = takes.split(", "), names
    if metric.is_loss:
        given = ["scores", "labels"] if metric.kind == "labels" else ["ratings", "predictions"]
        own = [name for name in names if name not in SAYS_OF_WHAT]
    is_of_sums = metric.kind == "labels" and metric.over_rows and "over" not in names
    is_of_sums = is_of_sums or metric.over_rows is of_counts
    is_of_counts = metric.lists is not None and metric.lists.family == "counts"
    if metric.tables is None and (metric.is_loss or not is_of_sums):
        wanted = ["shown", "items", "values"] if is_of_counts else [*given, *own, "out"]
        found = list(inspect.signature(metric.function).parameters)
        if len(found) != len(wanted):
            message = f"its kernel takes {len(found)} arguments, and is given {len(wanted)}"
            raise refuse(message, f"def {metric.function.__name__}({', '.join(wanted)}):")
    if metric.over_rows is None:
        return
    try:
        made = metric.request().over_rows
        inspect.signature(made.function).bind(*made.terms)
        if made.smooth is not None:
            inspect.signature(made.smooth.function).bind(*made.smooth.terms)
            made.smooth.gradient([2.0 + place for place in range(len(made.smooth.terms))])
    except Exception as error:
        raise refuse(
            f"over_rows fails: {type(error).__name__}: {error}",
            "a function of as many sums as are named, of fractions and of complex numbers "
            "(square_root instead of math.sqrt); is_smooth=False where it is of fractions alone",
        ) from error


def _joined(known: Mapping[str, Metric], new: list[Metric], *, at: str) -> dict[str, Metric]:
    if not new:
        raise RequestError(
            "the file declares no metric",
            code="no-metric-in-file",
            at=at,
            hint="put @metric(...) above @kernel, or @user_metric above a function of one user's "
            "relevances; docs/adding-a-metric.md has both",
        )
    joined = dict(known)
    taken = {spelling: each.name for each in known.values() for spelling in spellings(each)}
    for metric in new:
        for spelling in spellings(metric):
            if taken.setdefault(spelling, metric.name) != metric.name or metric.name in joined:
                message = f"the metric {metric.name!r} is also a name of {taken[spelling]!r}"
                hint = "give it another name, or drop the alias"
                raise RequestError(message, code="metric-name-taken", at=at, hint=hint)
        joined[metric.name] = metric
    return joined


def spellings(metric: Metric) -> set[str]:
    """All names under which a metric is found, folded."""
    return {fold(each.partition("(")[0]) for each in (metric.name, *metric.aliases)}


def is_of_kind(text: str, kind: str) -> bool:
    """Whether the text of a metric names one of the kind."""
    stem = fold(text.partition("(")[0].partition("@")[0].strip())
    return any(stem in spellings(each) for each in registry_of(kind).values())


def fold(name: str) -> str:
    """A name without case, `_` and `-`: `R-precision`, `r_precision` and `RPrecision` are one."""
    return name.lower().replace("_", "").replace("-", "")


def _load(path: Path) -> ModuleType:
    import importlib.util
    from hashlib import blake2b

    try:
        source = path.read_bytes()
    except OSError as error:
        message = f"cannot read the metric file {str(path)!r}: {error.strerror}"
        hint = "name a Python file; a path in a config is relative to the config"
        raise RequestError(message, code="missing-metric-file", at=str(path), hint=hint) from error
    stamp = blake2b(str(path.resolve()).encode() + source, digest_size=6).hexdigest()
    name = f"evalkit_metric_{path.stem}_{stamp}"
    if name in sys.modules:
        return sys.modules[name]
    specification = importlib.util.spec_from_file_location(name, path.resolve())
    if specification is None or specification.loader is None:
        message = f"{str(path)!r} is no Python file"
        hint = "a metric file ends in .py"
        raise RequestError(message, code="bad-metric-file", at=str(path), hint=hint)
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module
    try:
        specification.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise RequestError(
            f"the metric file does not run: {type(error).__name__}: {error}",
            code="bad-metric-file",
            at=f"{path}:{_line_of(error, path)}",
            hint="docs/adding-a-metric.md has a whole file",
        ) from error
    return module


def _line_of(error: Exception, path: Path) -> int:
    import traceback

    if isinstance(error, SyntaxError):
        return error.lineno or 1
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(path.resolve())]
    return (lines[-1] if lines else None) or 1
