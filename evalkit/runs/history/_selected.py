"""The winner of a selection, as the baseline of later runs."""

from pathlib import Path

from evalkit.config import SELECTED, Config
from evalkit.errors import RequestError
from evalkit.runs import load_run
from evalkit.runs.history._find import read_tags


def name_selected(config: Config, folder: Path) -> Config:
    """The config with the selected trial's name, where its baseline is `selected`.

    A model that is called so is meant before any selection.

    Args:
        folder: of runs, in which the winner's run is tagged.
    Raises:
        RequestError: nothing was selected there [unknown-run], or no rankings are of the winner
            [unknown-model].
        DataError: the winner's run cannot be read [run-damaged, ...].
    """
    models = [each.model for each in config.rankings]
    if config.statistics.baseline != SELECTED or SELECTED in models:
        return config
    run = read_tags(folder).get(SELECTED)
    if run is None:
        message = "nothing is selected yet: no run is tagged"
        hint = "evalkit select CONFIG chooses a trial, whose run it tags"
        raise RequestError(message, code="unknown-run", at=str(folder), hint=hint)
    winner = load_run(folder / run).models[-1]  # behind the baseline of the selection
    if config.selection is None and None not in models and winner not in models:
        raise RequestError(
            f"the selected trial is {winner!r}, and no rankings are called so",
            code="unknown-model",
            at=config.at("statistics", "baseline"),
            hint=f'[[rankings]] with model = "{winner}" and its path',
        )
    statistics = config.statistics.model_copy(update={"baseline": winner})
    return config.model_copy(update={"statistics": statistics})
