"""One record of models over several data sets, and its renderings."""

import json
import math
from dataclasses import asdict, dataclass
from string import ascii_lowercase
from typing import TYPE_CHECKING

from evalkit.errors import clean
from evalkit.report.record import later
from evalkit.report.text import lay_out, show_level, show_values

if TYPE_CHECKING:
    from evalkit.report.figures import Figures

TOO_FEW = (
    "{n} data sets: below six no such test can find anything at 95 %, whatever the values; "
    "mean ranks alone are shown"
)


@dataclass(frozen=True, slots=True)
class PairAcross:
    """Two models over the same data sets.

    Args:
        nemenyi: p-value of the difference of their mean ranks, adjusted for all pairs.
        wilcoxon: p-value of signed ranks of the differences, by Holm over all pairs.
    """

    one: str
    other: str
    wins: int
    ties: int
    losses: int
    nemenyi: float | None
    wilcoxon: float | None


@dataclass(frozen=True, slots=True)
class Across:
    """Models over several data sets.

    Args:
        sets: names of the data sets; `values`: of each of them, by model.
        models: the best mean rank first; `mean_ranks` beside them.
        critical: the difference of mean ranks that tells two models apart; None: too few sets.
        left_out: models that some data set lacks.
    """

    metric: str
    level: float
    sets: tuple[str, ...]
    models: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]
    mean_ranks: tuple[float, ...]
    statistic: float | None
    p_value: float | None
    critical: float | None
    pairs: tuple[PairAcross, ...]
    left_out: tuple[str, ...] = ()
    note: str = ""
    lower_is_better: bool = False  # not in the JSON

    @property
    def groups(self) -> list[tuple[int, int]]:
        """First and last place of models that stand together; each group is in no other."""
        if self.critical is None:
            return []
        found: list[tuple[int, int]] = []
        for first, rank in enumerate(self.mean_ranks):
            last = max(
                n for n, other in enumerate(self.mean_ranks) if other - rank <= self.critical
            )
            if last > first and not (found and last <= found[-1][1]):
                found.append((first, last))
        return found

    @property
    def letters(self) -> tuple[str, ...]:
        """A letter for each group, beside the models in it; empty where all are apart."""
        named = [*zip(ascii_lowercase, self.groups, strict=False)]
        return tuple(
            "".join(letter for letter, (first, last) in named if first <= place <= last)
            for place in range(len(self.models))
        )

    @property
    def figures(self) -> "Figures":
        """The critical-difference diagram, by its title."""
        found: Figures = later("report.html:across_figures", self)
        return found


def render_across(across: Across) -> str:
    """The record as JSON."""
    told = asdict(across)
    del told["lower_is_better"]
    found = json.loads(json.dumps(told), parse_constant=lambda _: None)
    return json.dumps({"schema_version": 1, **found}, indent=1, sort_keys=True, ensure_ascii=False)


def tell_across(across: Across) -> str:
    """Values by data set, mean ranks, and which models cannot be told apart."""
    columns = [show_values([row[n] for row in across.values]) for n in range(len(across.models))]
    rows = [["", *across.models]]
    rows += [[name, *(column[n] for column in columns)] for n, name in enumerate(across.sets)]
    rows.append(["mean rank", *(f"{rank:.3f}" for rank in across.mean_ranks)])
    lines = [f"{across.metric} over {len(across.sets)} data sets", ""]
    lines += [*lay_out(rows, right=range(1, len(rows[0]))), ""]
    if across.note:
        lines.append(across.note)
    if across.p_value is not None:
        lines.append(f"Friedman: chi squared {across.statistic:.3f}, p {across.p_value:.3g}")
    if across.critical is not None:
        lines.append(
            f"Nemenyi: mean ranks that differ by {across.critical:.3f} are told apart "
            f"({show_level(across.level)}, all pairs at once)"
        )
        for first, last in across.groups:
            lines.append(f"  not told apart: {clean(', '.join(across.models[first : last + 1]))}")
    for pair in across.pairs:
        told = f"{pair.one} over {pair.other}: {pair.wins} better, {pair.ties} equal, "
        told += f"{pair.losses} worse"
        for name, p in (("Nemenyi", pair.nemenyi), ("Wilcoxon, Holm", pair.wilcoxon)):
            told += f"; {name} p {p:.3g}" if p is not None and not math.isnan(p) else ""
        lines.append(clean(told))
    if across.left_out:
        lines.append(f"left out, for some data set lacks them: {clean(', '.join(across.left_out))}")
    return "\n".join(lines)
