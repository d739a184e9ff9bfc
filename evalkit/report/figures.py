"""Figures by name: as SVG, PDF and PNG, as a frame, and on an axis of matplotlib."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalkit.errors import RequestError, did_you_mean, install_hint
from evalkit.report.written import path_of, write_whole

if TYPE_CHECKING:
    import polars as pl


PICTURES = (".svg", ".pdf", ".png")


class Plot(str):
    """SVG that stands by itself: a notebook shows it, and `save` writes it.

    Args:
        fixed: the same SVG in colours and a font that are written out.
        kind: dots, curves, histogram, trade, scatter, users, heat or ranks; `caption`: its title.
        rows: what is drawn, by column.
    """

    __slots__ = ("caption", "fixed", "kind", "rows")
    caption: str
    fixed: str
    kind: str
    rows: tuple[Mapping[str, Any], ...]

    def _repr_svg_(self) -> str:
        return str(self)

    def save(self, file: str | Path) -> Path:
        """Write .svg, or .pdf and .png by the extra `figures`, in fixed colours and fonts.

        Raises:
            RequestError: no path [wrong-type]; another ending [unknown-format]; no such library
                [missing-extra].
            RequestError, MachineError: as `Report.save`.
        """
        path = path_of(file, "file", "plot.svg")
        ending = path.suffix.lower()
        if ending not in PICTURES:
            message = f"no figure is written as {path.suffix!r}"
            hint = "write .svg, .pdf or .png"
            raise RequestError(message, code="unknown-format", at=str(path), hint=hint)
        if ending == ".svg":
            write_whole(path, self.fixed.encode("utf-8", "replace"))
            return path
        try:
            import vl_convert
        except ImportError:
            message = f"{ending} needs vl-convert-python, which is not there"
            hint = f"{install_hint('figures')}, or write .svg"
            raise RequestError(message, code="missing-extra", at=str(path), hint=hint) from None
        is_pdf = ending == ".pdf"
        made = vl_convert.svg_to_pdf if is_pdf else vl_convert.svg_to_png
        write_whole(path, made(self.fixed, scale=1.0 if is_pdf else 3.0))
        return path

    @property
    def frame(self) -> pl.DataFrame:
        """What is drawn: a row for each mark, point or step."""
        import polars as pl

        return pl.DataFrame(list(self.rows), infer_schema_length=None)

    def draw(self, axis: Any) -> Any:
        """Draw the same on an axis of matplotlib, which is never imported, and give it back."""
        _DRAWING[self.kind](self.rows, axis)
        axis.set_title(self.caption)
        return axis


class Figures(dict[str, Plot]):
    """Figures by their titles, in the order of the page."""

    def __missing__(self, name: str) -> Plot:
        listed = ", ".join(map(repr, list(self)[:6])) or "none"
        hint = did_you_mean(name, list(self), f"it has {listed}")
        raise RequestError(f"the page has no figure {name!r}", code="unknown-choice", hint=hint)


def _by(rows: Iterable[Mapping[str, Any]], key: str) -> dict[str, list[Mapping[str, Any]]]:
    found: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        found.setdefault(row[key], []).append(row)
    return found


def _reach(rows: Iterable[Mapping[str, Any]], of: str = "value", ends: str = "") -> list[Any]:
    """How far limits lie from values, below and above; 0 where there are none."""
    low, high = f"{ends}low", f"{ends}high"
    known = [(each, None not in (each[low], each[high])) for each in rows]
    return [
        [max(each[of] - each[low], 0.0) if has else 0.0 for each, has in known],
        [max(each[high] - each[of], 0.0) if has else 0.0 for each, has in known],
    ]


def _draw_dots(rows: tuple[Mapping[str, Any], ...], axis: Any) -> None:
    names = list(_by(rows, "name"))[::-1]
    models = _by(rows, "model")
    is_one = len(rows) == len(names)
    for n, (model, of) in enumerate(models.items()):
        shift = 0.0 if is_one else 0.3 - 0.6 * n / max(len(models) - 1, 1)
        places = [names.index(each["name"]) + shift for each in of]
        values = [each["value"] for each in of]
        axis.errorbar(values, places, xerr=_reach(of), fmt="o", capsize=2, label=model)
    axis.set_yticks(range(len(names)), names)
    if not is_one:
        axis.legend()


def _draw_curves(rows: tuple[Mapping[str, Any], ...], axis: Any) -> None:
    for name, of in _by(rows, "name").items():
        xs = [each["x"] for each in of]
        (line,) = axis.plot(xs, [each["value"] for each in of], label=name)
        limits = [(each["x"], each["low"], each["high"]) for each in of]
        limits = [each for each in limits if None not in each]
        if limits:
            axis.fill_between(*zip(*limits, strict=True), alpha=0.16, color=line.get_color())
    axis.legend()


def _draw_histogram(rows: tuple[Mapping[str, Any], ...], axis: Any) -> None:
    axis.stairs([each["n"] for each in rows], [*(each["low"] for each in rows), rows[-1]["high"]])


def _draw_scatter(rows: tuple[Mapping[str, Any], ...], axis: Any) -> None:
    axis.plot([each["x"] for each in rows], [each["value"] for each in rows], "o")


def _draw_users(rows: tuple[Mapping[str, Any], ...], axis: Any) -> None:
    xs, values = [each["x"] for each in rows], [each["value"] for each in rows]
    axis.fill_between(xs, [max(each, 0.0) for each in values])
    axis.fill_between(xs, [min(each, 0.0) for each in values])
    axis.set_xlabel("share of users")


def _draw_heat(rows: tuple[Mapping[str, Any], ...], axis: Any) -> None:
    names, models = list(_by(rows, "name")), list(_by(rows, "model"))
    values = {(each["name"], each["model"]): each["value"] for each in rows}
    grid = [[values.get((name, model), math.nan) for model in models] for name in names]
    known = [each for each in values.values() if math.isfinite(each)] or [0.0]
    most = max(map(abs, known))
    limits = {"cmap": "RdBu", "vmin": -most, "vmax": most} if min(known) < 0 else {"cmap": "Blues"}
    axis.imshow(grid, aspect="auto", **limits)
    axis.set_xticks(range(len(models)), models)
    axis.set_yticks(range(len(names)), names)


def _draw_ranks(rows: tuple[Mapping[str, Any], ...], axis: Any) -> None:
    names = [f"{each['name']} {each['letters']}".strip() for each in rows]
    axis.plot([each["value"] for each in rows], range(len(rows)), "o")
    for letter in sorted(set("".join(each["letters"] for each in rows))):
        of = [n for n, each in enumerate(rows) if letter in each["letters"]]
        ends = rows[of[0]]["value"], rows[of[-1]]["value"]
        axis.plot(ends, [of[-1] + 0.3] * 2, linewidth=3)
    axis.set_yticks(range(len(rows)), names)
    axis.invert_yaxis()
    axis.set_xlabel("mean rank")


def _draw_trade(rows: tuple[Mapping[str, Any], ...], axis: Any) -> None:
    for row in rows:
        reach = {"xerr": _reach([row], "x", "x_"), "yerr": _reach([row])}
        axis.errorbar([row["x"]], [row["value"]], **reach, fmt="o", label=row["name"])
        axis.annotate(row["name"], (row["x"], row["value"]))


_DRAWING: dict[str, Callable[[tuple[Mapping[str, Any], ...], Any], None]] = {
    "dots": _draw_dots,
    "curves": _draw_curves,
    "histogram": _draw_histogram,
    "trade": _draw_trade,
    "scatter": _draw_scatter,
    "users": _draw_users,
    "heat": _draw_heat,
    "ranks": _draw_ranks,
}
