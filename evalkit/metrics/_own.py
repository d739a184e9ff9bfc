"""A user's own metrics from Python: plain functions, and objects that no file of a config names."""

import inspect
import math
import pickle
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from ..errors import RequestError
from ..kernels import Kernel
from ._declare import Metric, Request, metric
from ._failures import is_ours
from ._measuring import digest_of

if TYPE_CHECKING:
    from numpy import float64, int64
    from numpy.typing import NDArray

    from ._declare import Hits, Relevant

OwnMetric: TypeAlias = Metric | Request | Callable[..., float]
IN_MEMORY = "memory://"
SLACK = 1e-9  # of bounds, for rounding
_given: dict[str, Metric] = {}  # by what stands for a file under metrics.files


class UserFunction(Kernel[..., None]):
    """A plain function of one user's relevances, called as a kernel is: for many users."""

    def __init__(self, function: Callable[..., float], bounds: tuple[float, float]) -> None:
        super().__init__(cast("Callable[..., None]", function))
        self.takes_relevant = len(_taken(function)) == 2
        self.bounds = low, high = bounds
        self.ends = low - SLACK * (1.0 + abs(low)), high + SLACK * (1.0 + abs(high))

    def __call__(
        self,
        hits: "Hits",
        relevant: "Relevant",
        lengths: "NDArray[int64]",
        cutoffs: "NDArray[int64]",
        out: "NDArray[float64]",
    ) -> None:
        import numpy as np

        for user in range(len(out)):
            own = slice(hits.starts[user], hits.starts[user + 1])
            places = np.arange(own.stop - own.start)
            # items that share a rank stand one behind the other
            places += np.maximum.accumulate(hits.ranks[own].astype(np.int64) - places) - 1
            last = int(places[-1]) + 1 if places.size else 0
            relevances = np.zeros(max(int(lengths[user]), last))
            relevances[places] = hits.gains[own]
            wanted = relevant.gains[relevant.starts[user] : relevant.starts[user + 1]]
            for column, cutoff in enumerate(cutoffs):
                shown = relevances[: int(cutoff)].copy()
                more = (wanted.copy(),) if self.takes_relevant else ()
                value = float(cast("Any", self.py_func(shown, *more)))
                if math.isinf(value) or value < self.ends[0] or value > self.ends[1]:
                    beyond = "" if math.isinf(value) else ", which is out of its bounds,"
                    first = shown.tolist()[:10]
                    raise ValueError(f"it gives {value}{beyond} for the relevances {first}")
                out[user, column] = value

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.py_func, self.bounds)

    @property
    def plain(self) -> Callable[..., None]:
        return self.__call__


def user_metric(
    function: Callable[..., float] | None = None,
    *,
    name: str | None = None,
    bounds: tuple[float, float] = (-math.inf, math.inf),
    higher_is_better: bool | None = True,
) -> Any:
    """A metric of a plain function of one user; slower than a kernel: some 8 us a user.

    The function is given float64[n]: the relevance of each item of the user's list, best rank
    first, 0 of what is not relevant, cut at the cutoff; and, where it takes two arguments, the
    relevances of all the user's relevant items, descending. It returns a number; NaN where there
    is none. Written `@user_metric` above the function, or with arguments. A value out of
    `bounds` is refused.

    Raises:
        RequestError: it is no function with a name, or takes other arguments [bad-own-metric].
    Example:
        >>> @user_metric(bounds=(0.0, 1.0))
        ... def first_two(relevances):
        ...     return float(relevances[:2].any())
        >>> first_two.request(10).label
        'first_two@10'
    """
    if function is None:
        return partial(user_metric, name=name, bounds=bounds, higher_is_better=higher_is_better)
    own = name or str(getattr(function, "__name__", ""))
    if not isinstance(function, FunctionType) or not own.isidentifier():
        message = f"{function!r:.80} is no function with a name"
        hint = "def my_metric(relevances): ..., or @metric above a kernel"
        raise RequestError(message, code="bad-own-metric", hint=hint)
    place = f"{function.__code__.co_filename}:{function.__code__.co_firstlineno}"
    taken = _taken(function)
    if len(taken) not in (1, 2):
        raise RequestError(
            f"{own} takes {len(taken)} arguments, and is given one user's relevances in rank order",
            code="bad-own-metric",
            at=place,
            hint=f"def {own}(relevances): ..., or def {own}(relevances, relevant): ...",
        )
    declare = metric(
        name=own,
        summary=(inspect.getdoc(function) or "A function of your own.").partition("\n")[0],
        formula=f"{own}({', '.join(taken)}), for each user",
        latex=rf"\mathrm{{{own}}}",
        source=place,
        bounds=bounds,
        undefined="where the function returns NaN",
        higher_is_better=higher_is_better,
        monotone=False,
    )
    return declare(UserFunction(function, bounds))


def _taken(function: Callable[..., float]) -> list[str]:
    """The arguments that are given by their place."""
    named = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD)
    given = inspect.signature(function).parameters.items()
    return [name for name, each in given if each.kind not in named]


def name_metrics(metrics: Sequence[object]) -> tuple[list[str], list[str]]:
    """Metrics as texts, and what stands for their files under `metrics.files`.

    Args:
        metrics: texts, what `@metric` makes, requests of it, plain functions.
    Raises:
        RequestError: as `user_metric`.
    """
    names, files = [], []
    for asked in metrics:
        if isinstance(asked, str):
            names.append(asked)
            continue
        own = asked.metric if isinstance(asked, Request) else asked
        made = own if isinstance(own, Metric) else user_metric(cast("Any", own))
        names.append(asked.label if isinstance(asked, Request) else made.name)
        if not is_ours(made.function):
            files.append(keep_metric(made))
    return names, list(dict.fromkeys(files))


def keep_metric(own: Metric) -> str:
    """What stands for a metric under `metrics.files` as long as this process runs."""
    file = own.function.__code__.co_filename
    token = f"{IN_MEMORY}{file}#{own.name}-{digest_of(own)}"
    kept = _given.get(token)
    if kept is None or replace(kept, kernel=own.kernel) != own:
        _given[token] = own
    return token


def own_metric(file: str) -> Metric | None:
    """The metric that a text of `metrics.files` stands for, if it was given in this process."""
    return _given.get(file)


def pack_file(text: str) -> bytes:
    """What another process needs of a text of `metrics.files`; there `unpack_file` reads it."""
    own = _given.get(text)
    if own is None:
        return Path(text).read_bytes()
    from pyspark import cloudpickle  # nobody else asks

    module = sys.modules.get(own.function.__module__)
    if module is not None and module.__name__ != "__main__":
        cloudpickle.register_pickle_by_value(module)  # which executors may lack
    return bytes(cloudpickle.dumps(own))


def unpack_file(text: str, content: bytes, path: str) -> str:
    """Takes over what `pack_file` gave; what stands for it under `metrics.files` here."""
    if text.startswith(IN_MEMORY):
        _given[text] = pickle.loads(content)  # noqa: S301  # from our own driver
        return text
    Path(path).write_bytes(content)
    return path


def file_of(text: str) -> str:
    """The file that a text of `metrics.files` speaks of."""
    return text.removeprefix(IN_MEMORY).rpartition("#")[0] if text.startswith(IN_MEMORY) else text


def hashes_of_files(files: Sequence[str]) -> Mapping[str, str]:
    """What reports keep of the files of own metrics: by name the checksum of code or file."""
    from hashlib import sha256

    found = {}
    for text in files:
        if text.startswith(IN_MEMORY):
            path, _, own = text.rpartition("#")
            found[f"metric {own.rpartition('-')[0]} of {Path(path).name}"] = own.rpartition("-")[2]
        else:
            found[f"metric file {Path(text).name}"] = sha256(Path(text).read_bytes()).hexdigest()
    return found
