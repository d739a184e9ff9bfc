"""Logs laid out by user: `{share}` and `{share0}` in paths, which each share fills for itself."""

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from evalkit.config._places import Key
from evalkit.config._problems import Problems
from evalkit.config._records import Config
from evalkit.config._tables import is_in_catalog
from evalkit.config._variables import SHARE_PLACE, sections, tables_of
from evalkit.errors import RequestError

Table = TypeVar("Table")


def of_share(config: Config, share: int) -> Config:
    """The config of one share, from 1, with the paths of its own."""
    segments, weight = config.segments, config.statistics.weight
    named = {name: _filled(each, share) for name, each in segments.named.items()}
    statistics = config.statistics.model_copy(update={"weight": _filled(weight, share)})
    update: dict[str, object] = {
        name: _filled(getattr(config, name), share) for name in _sections(config)
    }
    update |= {"segments": segments.model_copy(update=named), "statistics": statistics}
    return config.model_copy(update=update)


def _filled(branch: Table, share: int) -> Table:
    """A table, or several, with the paths of one share."""
    if isinstance(branch, tuple):
        return tuple(_filled(each, share) for each in branch)  # type: ignore[return-value]
    if getattr(branch, "path", None) is None:
        return branch
    numbers = {"share": str(share), "share0": str(share - 1)}
    own = {
        name: tuple(SHARE_PLACE.sub(lambda place: numbers[place[1]], path) for path in paths)
        for name in _PATHS
        if (paths := getattr(branch, name, None))
    }
    return branch.model_copy(update=own)  # type: ignore[attr-defined,no-any-return]


_PATHS = ("path", "earlier")


def with_paths(config: Config, written: Config) -> Config:
    """A config of one share with the paths as they were written for all."""
    if not is_laid_out(written):
        return config
    named = {
        name: _with_path(each, written.segments.named[name])
        for name, each in config.segments.named.items()
    }
    weight = _with_path(config.statistics.weight, written.statistics.weight)
    update: dict[str, object] = {
        name: _with_path(getattr(config, name), getattr(written, name))
        for name in _sections(config)
    }
    update["segments"] = config.segments.model_copy(update=named)
    update["statistics"] = config.statistics.model_copy(update={"weight": weight})
    return config.model_copy(update=update)


def _with_path(branch: Table, written: Table) -> Table:
    if isinstance(branch, tuple):
        both = zip(branch, written, strict=True)  # type: ignore[call-overload]
        return tuple(_with_path(*each) for each in both)  # type: ignore[return-value]
    if getattr(branch, "path", None) is None:
        return branch
    own = {name: getattr(written, name) for name in _PATHS if hasattr(written, name)}
    return branch.model_copy(update=own)  # type: ignore[attr-defined,no-any-return]


def _sections(config: Config) -> tuple[str, ...]:
    """The sections that it may have tables in."""
    return sections(config.model_fields_set)


def _tables(config: Config) -> list[Any]:
    """The tables of all sections."""
    tables = [getattr(config, name) for name in _sections(config)]
    listed = [one for each in tables for one in (each if isinstance(each, tuple) else (each,))]
    return [each for each in listed if each is not None]


def is_laid_out(config: Config) -> bool:
    """Whether each share of the users has files of its own."""
    return any(SHARE_PLACE.search(path) for each in _tables(config) for path in each.path)


def reads_catalogs(config: Config) -> bool:
    """Whether a catalog of Spark names any of the tables."""
    tables = [*_tables(config), *config.segments.named.values(), config.statistics.weight]
    paths = [path for each in tables if each is not None for path in each.path or ()]
    paths += [path for each in config.rankings for path in each.earlier]
    return is_in_catalog([*paths, config.metrics.reference or ""])


def refuse_layout(config: Config) -> None:
    """Raise where each share of the users has files of its own, which no run reads whole.

    Raises:
        RequestError: it has [share-places].
    """
    if is_laid_out(config):
        raise RequestError(
            "{share} stands in paths: the log is laid out by shares of the users",
            code="share-places",
            at=config.at(next(name for name in _sections(config) if getattr(config, name))),
            hint="measure each share, evalkit partial CONFIG --share I/N --out FILE, and merge "
            "them; --var share=1 looks at the files of one",
        )


def check_layout(tree: Mapping[str, object], problems: Problems) -> None:
    """Logs are laid out by user, all of them and all their files, or none is."""
    found = list(_logs_of(tree))
    if any(is_own for _, is_own in found):
        for key, is_own in found:
            if not is_own:
                problems.add(
                    key,
                    "share-places",
                    "other paths have {share}, and this one has not: each share would read it all",
                    hint="lay out all logs by user, or none; a table of users may be whole",
                )


_WHOLE = ("items", "users")  # which may be


def _logs_of(tree: Mapping[str, object]) -> Iterator[tuple[Key, bool]]:
    logs = sections(tree)
    for key, table in tables_of(tree):
        paths = table.get("path")
        if not isinstance(paths, str | list | tuple):
            continue  # what it should be is told with the schema
        for path in [paths] if isinstance(paths, str) else paths:
            is_own = isinstance(path, str) and bool(SHARE_PLACE.search(path))
            if is_own or (key[0] in logs and key[0] not in _WHOLE):
                yield (*key, "path"), is_own
