"""What the libraries fix of a split: axes of `[split]`, by what is cut."""

from collections.abc import Iterator, Mapping

from evalkit.errors import RequestError, nearest

# by library, and by what is cut: rows of a user, a share of them, all rows by time; "": any
LIBRARIES: Mapping[str, Mapping[str, Mapping[str, object]]] = {
    "cornac": {
        "": {"rounding": "ceil"},
        "share": {"ties": "input", "part_duplicates": "first by time"},
        "time": {"ties": "together", "part_duplicates": "first"},
    },
    "daisyrec": {
        "rows": {"ties": "first"},
        "share": {"ties": "input", "rounding": "ceil-train"},
        "time": {"ties": "input", "rounding": "ceil-train"},
    },
    "datarec": {
        "": {"rounding": "round-test"},
        "time": {"ties": "input", "validation_of_rest": True},
    },
    "elliot": {"rows": {"ties": "first"}, "share": {"ties": "input", "rounding": "floor-train"}},
    "lenskit": {"": {"rounding": "round-test, none becomes all"}, "time": {"by": "time-quantile"}},
    "recbole": {
        "": {
            "min_train": 1,
            "ties": "input",
            "rounding": "parts-floor, at least 1 where train keeps 1",
        }
    },
    "recommenders": {"": {"rounding": "round-boundaries", "ties": "input"}},
    "recpack": {"": {"ties": "input"}},
    "rectools": {"": {"ties": "input"}},
    "replay": {
        "share": {"ties": "input", "rounding": "fraction3"},
        "time": {"ties": "together", "rounding": "ceil-test"},
    },
    "replay-polars": {
        "rows": {"ties": "input", "below_min": "train"},
        "share": {"ties": "input", "rounding": "fraction3"},
        "time": {"ties": "input", "rounding": "ceil-test"},
    },
    "surprise": {"": {"by": "blocks"}},
}
# what every library does: nobody keeps a train row unless it says so, and nulls are in no part
PLAIN = {"min_train": 0, "null_ids": "drop", "bad_times": "drop", "empty": "keep"}
_CUTS = {"": "any", "rows": "last rows", "share": "a share of a user", "time": "a share by time"}


def check_library(name: str, at: str) -> None:
    """Refuse a library that nobody knows.

    Raises:
        RequestError: no library is called so [unknown-choice].
    """
    if name not in LIBRARIES:
        close = nearest(name, LIBRARIES)
        message = f"no library is called {name!r}"
        hint = f"did you mean {close!r}?" if close else f"one of {', '.join(LIBRARIES)}"
        raise RequestError(message, code="unknown-choice", at=at, hint=hint)


def explain_libraries(name: str | None = None) -> Iterator[str]:
    """The axes of one library, or of all, a line for each kind of cut.

    Raises:
        RequestError: no library is called so [unknown-choice].
    """
    if name is not None:
        check_library(name, "--profile")
    yield "like = ... under [split] sets, where nothing else is written:"
    yield f"every library: {_spelled(PLAIN)}"
    for library in [name] if name is not None else LIBRARIES:
        for cut, axes in LIBRARIES[library].items():
            yield f"{library} ({_CUTS[cut]}): {_spelled(axes)}"


def _spelled(axes: Mapping[str, object]) -> str:
    import json

    return ", ".join(f"{key} = {json.dumps(each)}" for key, each in axes.items())
