"""What a baseline that is made of train must say."""

from collections.abc import Mapping

from evalkit.config._complaints import validated
from evalkit.config._places import Key, Places, spell
from evalkit.config._problems import Problems
from evalkit.config._tables import SPAN, RankingsTable
from evalkit.config._variables import SHARE_PLACE, tables_of

_OF_FILES = ("path", "format", "columns", "where")
_OF_BUILTINS = {
    "k": ("random", "popular", "recent", "last"),
    "seen": ("random", "popular", "recent"),
    "seed": ("random",),
    "half_life": ("recent",),
    "window": ("recent",),
    "by": ("last",),
}


def check_builtins(tree: Mapping[str, object], problems: Problems) -> None:
    """Baselines have what they are made of, and no files."""
    for key, table in tables_of(tree):
        if key[0] != "rankings":
            continue
        check_builtin(table, key, problems)
        builtin = table.get("builtin")
        if builtin is None:
            continue
        if not isinstance(tree.get("truth"), dict):
            message = f"{builtin!r} is made for the users of [truth], and there is none"
            hint = "evalkit baseline writes rankings of any users: give their path"
            problems.add((*key, "builtin"), "missing-key", message, hint=hint)
        train = tree.get("train")
        if not isinstance(train, dict):
            message = f"{builtin!r} is made of train, and there is no [train]"
            hint = 'path = "train.parquet" under [train]'
            problems.add((*key, "builtin"), "missing-key", message, hint=hint)
            continue
        paths = train.get("path")
        for path in [paths] if isinstance(paths, str) else paths or ():
            if isinstance(path, str) and SHARE_PLACE.search(path):
                message = f"{builtin!r} is made of all of train, and its path has {{share}}"
                hint = "write its rankings first: evalkit baseline, and give their path"
                problems.add((*key, "builtin"), "share-places", message, hint=hint)


def check_builtin(table: Mapping[str, object], key: Key, problems: Problems) -> None:
    """Keys that go with the builtin, or with files."""
    builtin = table.get("builtin")
    if builtin is None:
        if "path" not in table:
            hint = 'path = "als.parquet", or builtin = "popular" for a baseline made of train'
            problems.add(key, "missing-key", f"{spell((*key, 'path'))!r} is not given", hint=hint)
        unfit = {name: "a builtin" for name in _OF_BUILTINS if name in table}
    else:
        unfit = {name: "files" for name in _OF_FILES if name in table}
        for name, builtins in _OF_BUILTINS.items() if builtin in _OF_BUILTINS["k"] else ():
            if name in table and builtin not in builtins:
                unfit[name] = " and ".join(map(repr, builtins))
    for name, of in unfit.items():
        where = f"builtin = {builtin!r}" if builtin is not None else "path"
        message = f"{name} is for {of}, and here is {where}"
        problems.add((*key, name), "conflicting-keys", message, hint="leave it out")
    if "half_life" in table and "window" in table:
        message = "half_life and window exclude each other"
        problems.add((*key, "window"), "conflicting-keys", message, hint="keep one of them")
    for name in ("half_life", "window"):
        span = table.get(name)
        if isinstance(span, str) and not SPAN.fullmatch(span):
            hint = 'write minutes, hours or days: "30m", "1h", "7d"'
            problems.add((*key, name), "out-of-range", f"{span!r} is no span of time", hint=hint)


def build_builtin(values: Mapping[str, object], options: Mapping[str, str]) -> RankingsTable:
    """A baseline that a command or Python asks for, without a config around it.

    Args:
        values: `builtin` and what else `[[rankings]]` has of one; None is not given.
        options: how a key is spelled where it was given, for errors.
    Raises:
        RequestError: as `parse_config` says of the same keys.
    """
    table = {name: value for name, value in values.items() if value is not None}
    at: Key = ("rankings", 0)
    places = Places("", {}, {(*at, name): option for name, option in options.items()})
    tree: dict[str, object] = {"rankings": [table]}
    problems = Problems(places)
    check_builtin(table, at, problems)
    found = validated(RankingsTable, table, tree, problems, at)
    problems.raise_all()
    assert found is not None
    return found
