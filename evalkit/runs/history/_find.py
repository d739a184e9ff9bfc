"""From what a person calls a run to its directory: a path, `last`, a tag, an id."""

import os
import re
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from shlex import quote

from evalkit.config import SELECTED, Config
from evalkit.errors import DataError, RequestError, did_you_mean, nearest
from evalkit.report import Report
from evalkit.runs import LATEST, TAGS, directory_of, finished, is_whole, load_run, machine_errors

LAST_PASSED = "last-passed"

_TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_LAST = re.compile(r"last(?:~(\d{1,6}))?")


def is_by_time(reference: str) -> bool:
    """Whether the reference means another run every night, and none on the first."""
    return reference == LAST_PASSED or bool(_LAST.fullmatch(reference))


def find_run(
    folder: str | Path,
    reference: str,
    *,
    name: str | None = None,
    before: str | None = None,
    elsewhere: bool = True,
    fetch: Callable[[str], object] | None = None,
) -> Path | None:
    """The directory of the run that `reference` means; None where there is no such run yet.

    A run that is not as it was written is never the last one: it is set aside by name.

    Args:
        folder: of runs.
        reference: `last`, `last~1` (the one before), `last-passed` (the last whose gates
            passed, or lacked nothing but a run to compare with), a tag, the id of a run, or a path.
        name: of the job whose runs `last` counts; that of the latest run when None.
        before: the id of a run; `last` counts those that began before it.
        elsewhere: whether a path may lead out of the folder; not where a run says so.
        fetch: called with the id of a run before its files are looked at.
    Raises:
        RequestError: no run, tag or path is called so [unknown-run]; as `finished`.
    """
    folder = Path(folder)
    last = _LAST.fullmatch(reference)
    if last or reference == LAST_PASSED:
        left = int(last[1] or 0) if last else 0
        for path, manifest in finished(folder):
            if name is not None and manifest.name != name:
                continue
            if before is not None and path.name >= before:
                continue
            is_wanted = bool(last) or manifest.may_be_compared_with
            if name is not None and not is_wanted:
                continue
            if fetch is not None:
                fetch(path.name)
            if not is_whole(path, manifest):
                continue
            name = manifest.name  # of the latest whole run
            if not is_wanted:
                continue
            if not left:
                return path
            left -= 1
        return None
    tags = read_tags(folder)
    if reference in tags:
        return folder / tags[reference]
    inside = [] if os.sep in reference else [folder / reference]
    for path in [*inside, *([Path(reference)] if elsewhere else [])]:
        with suppress(OSError, ValueError):
            if path in inside and path.is_symlink() and reference != LATEST:
                continue
            found = directory_of(path)
            if (found / "manifest.json").is_file():
                return found
    known = ["last", LAST_PASSED, *tags, *(path.name for path, _ in finished(folder))]
    back = re.fullmatch(r"(?:last|latest)\W?(\d+)", reference)
    close = f"last~{back[1]}" if back else nearest(reference, known)
    raise RequestError(
        f"no run is called {reference!r}",
        code="unknown-run",
        at=str(folder),
        hint=f"did you mean {close!r}?" if close else hint_of_runs(folder, reference),
    )


def hint_of_runs(folder: Path, name: str | None = None) -> str:
    """What shows the runs of a folder, by what was taken for one of them; or how one gets there."""
    within = f"--out {quote(str(folder))}"
    jobs = {manifest.name for _, manifest in finished(folder)}
    if name in jobs:
        return f"it is a job: evalkit history list {within} --name {quote(str(name))}"
    with suppress(OSError, ValueError):
        if name and Path(name).is_dir() and any(finished(Path(name))):
            return f"it is a folder of runs, and last is the last of them: --out {quote(name)}"
    if not jobs:
        return f"no whole run is there: evalkit run CONFIG {within} writes one"
    return f"evalkit history list {within} shows runs and tags"


def find_named(folder: str | Path, reference: str, *, name: str | None = None) -> Path:
    """As `find_run`, where there must be one.

    Raises:
        RequestError: no run is called so [unknown-run].
        DataError: it means a run of the past, and there are not so many yet [no-such-run].
    """
    found = find_run(folder, reference, name=name)
    if found is None:
        message = f"{reference!r} is no run yet"
        hint = hint_of_runs(Path(folder))
        raise DataError(message, code="no-such-run", at=str(folder), hint=hint)
    return found


def load_together(
    folder: str | Path, references: Sequence[str], *, name: str | None = None
) -> list[Report]:
    """As `load_named`, of runs that are held against each other.

    Those that are named by time are counted in one job: `name`, or that of the others.

    Raises:
        RequestError: the others are of several jobs [ambiguous-job]; as `load_named`.
        DataError: as `load_named`.
    """
    found = {
        each: load_named(folder, each, name=name)
        for each in dict.fromkeys(references)
        if not is_by_time(each)
    }
    by_time = [each for each in dict.fromkeys(references) if is_by_time(each)]
    jobs = dict.fromkeys(report.name for report in found.values())
    if by_time and name is None and len(jobs) > 1:
        message = f"{by_time[0]!r} may be a run of {' or of '.join(map(repr, jobs))}"
        hint = f"--name {next(iter(jobs))}"
        raise RequestError(message, code="ambiguous-job", at=str(folder), hint=hint)
    job = name or next(iter(jobs), None)
    found |= {each: load_named(folder, each, name=job) for each in by_time}
    return [found[each] for each in references]


def load_named(folder: str | Path, reference: str, *, name: str | None = None) -> Report:
    """The report of the run that `reference` means; raises as `find_named`, and run-damaged."""
    return load_run(find_named(folder, reference, name=name))


def read_tags(folder: Path) -> dict[str, str]:
    """Tag -> id of the run; tags of runs that are gone are left out."""
    found = {}
    with suppress(FileNotFoundError, NotADirectoryError):
        for entry in sorted(os.scandir(folder / TAGS), key=lambda each: each.name):
            with suppress(OSError, ValueError):
                if _TAG.fullmatch(entry.name) and entry.is_symlink():
                    run = directory_of(Path(entry.path))
                    if (run / "manifest.json").is_file():
                        found[entry.name] = run.name
    return found


def tag_run(folder: Path, run: Path, tag: str) -> None:
    """Give a run of the folder a name that stays when later runs come; it may move.

    Raises:
        RequestError: this can be no tag [bad-tag], or the run is elsewhere [unknown-run].
        MachineError: the folder cannot be written [disk-full, not-writable, write-failed].
    """
    if not _TAG.fullmatch(tag) or is_by_time(tag) or tag in (LATEST, TAGS):
        hint = "letters, digits, '.', '_' and '-', 64 at most; not last or latest"
        raise RequestError(f"{tag!r} can be no tag", code="bad-tag", hint=hint)
    run = run.resolve()
    if run.parent != folder.resolve():
        message = "the run is in another folder"
        hint = f"evalkit history tag {run.name} {tag} --out {quote(str(run.parent))}"
        raise RequestError(message, code="unknown-run", at=str(run), hint=hint)
    with machine_errors(folder / TAGS):
        os.makedirs(folder / TAGS, exist_ok=True)
        beside = folder / TAGS / f".{secrets.token_hex(8)}"
        os.symlink(Path("..", run.name), beside)
        os.replace(beside, folder / TAGS / tag)


def untag(folder: Path, tag: str) -> None:
    """Take a tag away; the run stays.

    Raises:
        RequestError: there is no such tag [unknown-tag].
    """
    if tag not in read_tags(folder):
        message = f"no run is tagged {tag!r}"
        hint = did_you_mean(tag, read_tags(folder), "evalkit history list shows runs and tags")
        raise RequestError(message, code="unknown-tag", at=str(folder), hint=hint)
    with machine_errors(folder / TAGS):
        os.unlink(folder / TAGS / tag)


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
