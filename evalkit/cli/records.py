"""Methods of dataclasses, made when one is first called and not before.

Python compiles five methods of each dataclass as text, a fifth of the time of a short run; most are
never called. It has no way of its own to put that off, so that the process of the command takes the
place of `dataclasses._create_fn`; where a version of Python has none, nothing is put off.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

LATE = ("evalkit.", "annotated_types", "pydantic.", "polars.", "typer.")  # of very many records


def make_methods_late() -> None:
    """Put off the methods of dataclasses that are defined from now on."""
    create = getattr(dataclasses, "_create_fn", None)
    if create is None:
        return

    def create_late(
        name: str,
        args: Sequence[str],
        body: Sequence[str],
        *,
        globals: dict[str, Any] | None = None,
        **others: Any,
    ) -> Callable[..., Any]:
        if not (globals or {}).get("__name__", "").startswith(LATE):
            made: Callable[..., Any] = create(name, args, body, globals=globals, **others)
            return made
        kept: list[Callable[..., Any]] = []

        def first(*given: Any, **named: Any) -> Any:
            """Make the method, and put it where this one stood."""
            if not kept:
                kept.append(create(name, args, body, globals=globals, **others))
                kept[0].__qualname__ = first.__qualname__
                for owner in type(given[0]).__mro__:
                    if vars(owner).get(name) is first:
                        setattr(owner, name, kept[0])
            return kept[0](*given, **named)

        first.__name__ = name
        return first

    dataclasses._create_fn = create_late  # type: ignore[attr-defined]
