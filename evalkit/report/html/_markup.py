"""HTML and SVG that cannot be broken by a name: every text is escaped unless it is `Html`."""

from collections.abc import Iterable
from html import escape
from typing import TypeAlias

from evalkit.errors import clean


class Html(str):
    """Text that is markup already; only this module makes it."""

    __slots__ = ()


Child: TypeAlias = "Html | str | Iterable[Child] | None"
Attribute: TypeAlias = str | int | float | bool | None

_VOID = {"meta", "link", "br"}


def text(value: str) -> Html:
    """`value` as it shall be read, letter by letter; control characters become U+FFFD."""
    return Html(escape(clean(value)))


def join(*children: Child) -> Html:
    """Children one after the other."""
    return Html("".join(_texts(children)))


def el(name: str, /, *children: Child, **attributes: Attribute) -> Html:
    """One element. `class_` is class, `aria_label` aria-label; None and False are left out."""
    given = []
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        spelled = key.rstrip("_").replace("_", "-") if key != "viewBox" else key
        given.append(spelled if value is True else f'{spelled}="{escape(clean(_shown(value)))}"')
    head = " ".join([name, *given])
    if name in _VOID:
        return Html(f"<{head}>")
    return Html(f"<{head}>{''.join(_texts(children))}</{name}>")


def section(title: str, at: str, note: str | None, *children: Child) -> Html:
    """A part of a page: its head, what is said of it, and what it shows."""
    return join(el("h2", title, id=at), el("p", note, class_="soft") if note else None, *children)


def terminal(text: str) -> Html:
    """What a terminal shows, line by line."""
    lines = (each for line in text.splitlines() for each in (line, raw("\n")))
    return el("pre", *lines, class_="told", tabindex="0")


def raw(code: str) -> Html:
    """Code of this package: a style, a script, a path."""
    return Html(code)


def _shown(value: Attribute) -> str:
    return number(value) if isinstance(value, float) else str(value)


def number(value: float) -> str:
    """A coordinate with at most one decimal."""
    shown = f"{value:.1f}"
    return shown[:-2] if shown.endswith(".0") else shown


def _texts(children: Iterable[Child]) -> Iterable[str]:
    for child in children:
        if child is None:
            continue
        if isinstance(child, Html):
            yield child
        elif isinstance(child, str):
            yield escape(clean(child))
        else:
            yield from _texts(child)
