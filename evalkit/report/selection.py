"""One record of a choice among many trials, as selection.json and on a terminal."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING

from evalkit.errors import DataError, clean
from evalkit.report.entries import Warning_
from evalkit.report.record import later
from evalkit.report.text import lay_out, show_level, show_values

if TYPE_CHECKING:
    from evalkit.report.figures import Figures

SELECTION_SCHEMA = 1
MOST_SHOWN = 20  # trials on a terminal
ABOVE = "it is above that mean by chance: choosing never makes a model better; count with the mean"


@dataclass(frozen=True, slots=True)
class Trial:
    """One trial that was tried.

    Args:
        state: measured; dropped, by the race; or what the table says: failed, pruned, running.
        value: the metric over all users, or over those of the rung that it left at.
        delta: of the best trial; `delta_low`, `delta_high` hold for all trials at once.
        is_alike: it cannot be told from the best.
        unmet: constraints that it does not reach.
        reason: why it was dropped.
    """

    model: str
    state: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    n_users: int = 0
    delta: float | None = None
    delta_low: float | None = None
    delta_high: float | None = None
    is_alike: bool = False
    unmet: tuple[str, ...] = ()
    cost: float | None = None
    parameters: Mapping[str, str | float | None] = field(default_factory=dict)
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Rung:
    """One look of a race: the share of the users, who was measured, who left."""

    share: float
    n_users: int
    measured: tuple[str, ...]
    dropped: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Confirmed:
    """What the winner and the baseline are worth on the test part.

    Args:
        most_looks: so many looks at the part are allowed.
    """

    run_id: str
    content: str
    level: float
    value: float
    low: float | None
    high: float | None
    most_looks: int = 1
    baseline: str | None = None
    delta: float | None = None
    delta_low: float | None = None
    delta_high: float | None = None


@dataclass(frozen=True, slots=True)
class Selection:
    """Many trials, the order of them, and the one that was chosen.

    Args:
        trials: the measured ones, the best first, then the others.
        naive: the winner's own mean, which is too high, for it was chosen by it.
        corrected: what it is worth on other users; None where nobody asked.
        run_key: of the winner's run.
    """

    evalkit: str
    selection_id: str
    name: str
    metric: str
    rule: str
    level: float
    n_tried: int
    n_measured: int
    n_users: int
    winner: str
    best: str
    naive: float
    low: float | None
    high: float | None
    estimate: str
    corrected: float | None
    corrected_low: float | None
    corrected_high: float | None
    optimism: float | None
    trials: tuple[Trial, ...]
    rungs: tuple[Rung, ...] = ()
    confirmed: Confirmed | None = None
    looks: int | None = None
    run_id: str | None = None
    run_key: str | None = None
    warnings: tuple[Warning_, ...] = ()

    @property
    def figures(self) -> "Figures":
        """Every picture of the page by its title, as those of a report."""
        found: Figures = later("report.html:selection_figures", self)
        return found

    @property
    def alike(self) -> list[str]:
        """The trials that cannot be told from the best."""
        return [trial.model for trial in self.trials if trial.is_alike]


def render_selection(selection: Selection) -> str:
    """The text of selection.json."""
    found = {"schema_version": SELECTION_SCHEMA, **_plain(asdict(selection))}  # type: ignore[dict-item]
    return json.dumps(found, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def parse_selection(text: str | bytes, *, at: str = "") -> Selection:
    """The selection that `render_selection` wrote.

    Raises:
        DataError: this is none [selection-unreadable].
    """
    try:
        tree = json.loads(text)
        known = {each.name: tree[each.name] for each in fields(Selection)}
        known["trials"] = tuple(
            Trial(**{**each, "unmet": tuple(each["unmet"])}) for each in tree["trials"]
        )
        known["rungs"] = tuple(
            Rung(each["share"], each["n_users"], tuple(each["measured"]), tuple(each["dropped"]))
            for each in tree["rungs"]
        )
        known["confirmed"] = tree["confirmed"] and Confirmed(**tree["confirmed"])
        known["warnings"] = tuple(Warning_(**each) for each in tree["warnings"])
        return Selection(**known)
    except (ValueError, TypeError, KeyError) as error:
        message = "this is no selection that this version knows"
        hint = "evalkit select CONFIG writes one"
        raise DataError(message, code="selection-unreadable", at=at, hint=hint) from error


def _plain(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value


def tell_selection(selection: Selection) -> str:
    """What a terminal shows: the order, the set, the winner, and what it is worth."""
    measured = [each for each in selection.trials if each.state == "measured"]
    head = ("trial", selection.metric, f"{show_level(selection.level)} interval", "from best", "")
    rows = [head]
    for trial in measured[:MOST_SHOWN]:
        value, low, high, delta = _shown(trial.value, trial.low, trial.high, trial.delta)
        marks = ["chosen"] if trial.model == selection.winner else []
        marks += ["no clear difference from the best"] if trial.is_alike and trial.delta else []
        marks += [f"does not reach {each}" for each in trial.unmet]
        rows.append((trial.model, value, f"{low} to {high}", delta, "; ".join(marks)))
    lines = lay_out(rows, right=(1, 3))
    if len(measured) > MOST_SHOWN:
        lines.append(f"and {len(measured) - MOST_SHOWN:,} more in selection.json")
    lines += ["", tell_tried(selection), clean(tell_alike(selection))]
    lines.append(f'winner by the rule "{selection.rule}": {clean(selection.winner)}')
    lines += tell_worth(selection)
    lines += tell_confirmed(selection)
    lines += [f"warning[{each.code}]: {each.message}" for each in selection.warnings]
    return "\n".join(lines)


def _shown(*values: float | None) -> list[str]:
    return show_values([math.nan if each is None else each for each in values])


def tell_tried(selection: Selection) -> str:
    """How many trials came how far."""
    dropped = sum(each.state == "dropped" for each in selection.trials)
    others = selection.n_tried - selection.n_measured - dropped
    told = f"{selection.n_tried:,} tried; {selection.n_measured:,} measured to the end"
    told += f"; {dropped:,} dropped by the race" if dropped else ""
    told += f"; {others:,} failed, pruned or unfinished" if others else ""
    return f"{told}; {selection.n_users:,} users"


def tell_alike(selection: Selection) -> str:
    """How many trials are no worse than the best, as far as these users show."""
    n_others = len(selection.alike) - 1
    if not n_others:
        measured = [each for each in selection.trials if each.state == "measured"]
        n_unmet = sum(bool(each.unmet) for each in measured)
        if n_unmet and n_unmet == len(measured) - 1:
            return f"{selection.best} alone reaches the constraints"
        return f"{selection.best} beats all others" + " that reach the constraints" * bool(n_unmet)
    told = f"{n_others:,} others show" if n_others > 1 else "1 other shows"
    return f"{told} no clear difference from the best, {selection.best}"


def tell_worth(selection: Selection) -> list[str]:
    """The mean that the winner was chosen by, and what to expect of it on other users."""
    if selection.corrected is None:
        return []
    naive, corrected = show_values((selection.naive, selection.corrected))
    line = f"expected on other users: {corrected}"
    if selection.corrected_low is not None and selection.corrected_high is not None:
        low, high = show_values([selection.corrected_low, selection.corrected_high])
        line += f" ({low} to {high})"
    lines = [f"it was chosen by its own mean, {naive}", line]
    if selection.optimism is not None and selection.optimism < 0:
        lines.append(ABOVE)
    return lines


def tell_confirmed(selection: Selection) -> list[str]:
    """What the winner is worth on the test part, and how often that was used."""
    found = selection.confirmed
    if found is None:
        return []
    value, low, high = _shown(found.value, found.low, found.high)
    lines = [f"confirmed on test: {value} ({low} to {high})"]
    if found.delta is not None:
        delta, low, high = _shown(found.delta, found.delta_low, found.delta_high)
        lines.append(f"on test less {clean(found.baseline or '')}: {delta} ({low} to {high})")
    if selection.looks is not None:
        lines.append(f"recorded uses of this test set: {selection.looks}")
        lines.append("those of other folders and machines are not counted")
    return lines
