"""What a config must fulfil beyond the types of its keys, in our words."""

from collections.abc import Mapping
from functools import partial
from itertools import pairwise

from evalkit.config._complaints import show
from evalkit.config._joined import kinds_in
from evalkit.config._named import (
    check_combined,
    check_whole,
    combined_in,
    files_in,
    kind_of,
    labels_of,
    metrics_kind,
    parts_of,
    sections_beside,
)
from evalkit.config._places import Key, spell, table_in
from evalkit.config._problems import Problems
from evalkit.config._profiles import names_by
from evalkit.config._records import SELECTED, Config, is_path_of
from evalkit.config._variables import sections, sections_in, tables_of
from evalkit.errors import EvalkitError, did_you_mean
from evalkit.metrics import (
    Request,
    declared,
    load_metric_files,
    other_kinds,
    over,
    parse_metrics,
    policies_of_kind,
)
from evalkit.metrics.profiles import find_profile, is_path


def check_folders(tree: Mapping[str, object], problems: Problems) -> None:
    """Folders that are written have a name."""
    for key, hint in ((("output", "path"), "runs"), (("split", "out"), "splits/week")):
        folder = table_in(tree, key[0]).get(key[1])
        if isinstance(folder, str) and (not folder or "\0" in folder):
            message = f"{spell(key)!r} is {'no name of a folder' if folder else 'empty'}"
            code = "bad-path" if folder else "missing-key"
            problems.add(key, code, message, hint=f'{key[1]} = "{hint}"')


def check_columns(key: Key, table: Mapping[str, object], problems: Problems) -> None:
    """Columns that are named have a name."""
    for name, column in table_in(table, "columns").items():
        if column == "" or (
            isinstance(column, list) and ("" in column or [name, column] == ["user", []])
        ):
            where = (*key, "columns", name)
            hint = "name a column, or leave it out"
            problems.add(where, "missing-key", f"{spell(where)!r} is empty", hint=hint)


def check_tables(tree: Mapping[str, object], problems: Problems) -> None:
    """Truth and rankings or a log; every table has a path and, where it ranks, a model."""
    has = sections_in(tree)
    _check_kind(has, tree, problems)
    ranking = ["rankings", "log"]
    for kind in kinds_in(Config, tree):
        ranking += [name for name, each in declared(kind).sections.items() if each.has_model]
    if "predictions" not in has:
        ranking.append("ratings")
    seen: dict[str, str] = {}
    for key, table in tables_of(tree):
        path = table.get("path")
        if path in ([], "") or (isinstance(path, list) and "" in path):
            problems.add((*key, "path"), "missing-key", f"{spell((*key, 'path'))!r} is empty")
        check_columns(key, table, problems)
        if key[0] not in ranking or (len(key) == 1 and key[0] != "log"):
            continue
        has_column = "model" in table_in(table, "columns")
        if "model" in table and has_column:
            message = "model and columns.model exclude each other"
            hint = "columns.model reads the name from each row"
            problems.add((*key, "model"), "conflicting-keys", message, hint=hint)
        elif "model" not in table and not has_column:
            hint = 'model = "als", or columns.model for one table with many models'
            problems.add(key, "missing-key", f"{spell((*key, 'model'))!r} is not given", hint=hint)
        model = table.get("model")
        if model == "":
            problems.add((*key, "model"), "missing-key", "the model has no name")
        elif isinstance(model, str):
            if model in seen:
                message = f"two rankings are called {model!r}"
                hint = f"the first is at {seen[model]}; files of one model are a list of paths"
                problems.add((*key, "model"), "duplicate-model", message, hint=hint)
            seen.setdefault(model, problems.places.at((*key, "model")))


def _check_kind(has: set[str], tree: Mapping[str, object], problems: Problems) -> None:
    """One kind of thing is evaluated, and it is there."""
    kind = kind_of(has)
    others = [each for each in sections(has) if each in has - sections_beside(kind)]
    if others:
        hint = f"{kind} and rankings are two configs"
        if kind == "log":
            hint = "a joined log holds truth and rankings in one table"
        message = (
            f"[{kind}] and {' and '.join(f'[{each}]' for each in dict.fromkeys(others))} "
            "exclude each other"
        )
        problems.add((kind,), "conflicting-keys", message, hint=hint)
    elif not has - {"train", "items", "users"}:
        problems.add(
            (),
            "missing-key",
            "there is nothing to evaluate",
            hint="give [truth] and [[rankings]], or [log]; evalkit init writes them",
        )
    elif kind == "rankings" and "rankings" not in has | _of_trials(tree):
        both = "or [log] instead of both"
        if isinstance(tree.get("selection"), dict):
            both = 'or trials = "trials.csv" under [selection]'
        problems.add((), "missing-key", "[[rankings]] is not given", hint=both)
    if kind in other_kinds():
        _refuse_of_rankings(kind, tree, problems)
        declared(kind).check(tree, problems)


def _of_trials(tree: Mapping[str, object]) -> set[str]:
    """A table of trials stands for their rankings."""
    return {"rankings"} if "trials" in table_in(tree, "selection") else set()


def _refuse_of_rankings(kind: str, tree: Mapping[str, object], problems: Problems) -> None:
    """Refuse what is for rankings alone."""
    for name, table in table_in(tree, "segments").items():
        if isinstance(table, dict) and "item" in table:
            message = f"segments of items are made of rankings, not of {kind}"
            hint = f"""where = "genre = 'drama'" under [{kind}] for the rows of one"""
            problems.add(("segments", name, "item"), "conflicting-keys", message, hint=hint)
        if isinstance(table, dict) and table.get("by") == "n_relevant" and "path" not in table:
            message = f"users of {kind} have no number of relevant items"
            hint = "write a table of users with such a number"
            problems.add(("segments", name, "by"), "conflicting-keys", message, hint=hint)
    for name in declared(kind).refuses:
        if table_in(tree, "statistics").get(name):
            message = f"{name} is for rankings, not for {kind}"
            problems.add(("statistics", name), "conflicting-keys", message, hint="leave it out")


def check_names(tree: Mapping[str, object], problems: Problems) -> None:
    name = tree.get("name")
    if isinstance(name, str) and (
        not name.strip() or name.startswith(".") or not name.isprintable() or set(name) & set("/\\")
    ):
        hint = "no slash, no leading dot, printable characters"
        problems.add(("name",), "out-of-range", f"{name!r} cannot name a run", hint=hint)


def check_metrics(tree: Mapping[str, object], problems: Problems) -> None:
    """Metrics that there are, and the truth for those that need one."""
    for part in parts_of(tree):
        _check_metrics(part, problems)


def _check_metrics(tree: Mapping[str, object], problems: Problems) -> None:
    found = _metrics_of(tree, problems)
    has = sections_in(tree)
    if "rankings" in has and kind_of(has) == "rankings" and "truth" not in has:
        others = [each.label for each in found if each.metric.kind != "lists"]
        if others or not found:
            hint = f"{others[0]} is held against right answers" if others else "or [log] for both"
            problems.add((), "missing-key", "[truth] is not given", hint=hint)


def _metrics_of(tree: Mapping[str, object], problems: Problems) -> list[Request]:
    match tree.get("metrics"):
        case {"names": list() as names, **others}:
            pass
        case _:
            return []
    texts = [(number, name) for number, name in enumerate(names) if isinstance(name, str)]
    key: Key = ("metrics", "names")
    kind = kind_of(sections_in(tree))
    measured = metrics_kind(kind)
    try:
        metrics = load_metric_files(files_in(tree), measured)
    except EvalkitError as error:
        problems.add_error(("metrics", "files"), error)
        return []
    parse = partial(
        parse_metrics,
        metrics=metrics,
        policies=policies_of_kind(kind),
        **names_by(tree, kind, metrics),
    )
    names = [name for _, name in texts]
    try:
        found = parse(names, at=lambda number: problems.places.at((*key, texts[number][0])))
    except EvalkitError as error:
        problems.add_error(key, error)
        return []
    for section in found if measured != "rankings" else ():
        if over(section) == "rows" and section.metric.over_rows is None:
            message = f"the file of {section.label} does not say how it is made of all rows"
            hint = f"write {section.metric.name}(over='users'), or declare over_rows"
            problems.add(key, "users-only", message, hint=hint)
    check_combined(tree, metrics, found, problems)
    check_whole(tree, found, problems)
    primary = others.get("primary")
    listed = primary if isinstance(primary, list) else [primary]
    for number, name in enumerate(listed):
        place: Key = ("metrics", "primary", number) if listed is primary else ("metrics", "primary")
        if not isinstance(name, str) or name in combined_in(tree):
            continue
        where = problems.places.at(place)
        try:
            leading = parse([name], at={0: where}.__getitem__)
        except EvalkitError as error:
            problems.add_error(place, error)
            continue
        for segmentation in leading:
            if segmentation not in found:
                _add_not_measured(segmentation.label, [one.label for one in found], place, problems)
    known, reference = known_models(tree, problems), others.get("reference")
    if isinstance(reference, str) and known and reference not in known:
        if not is_path_of(reference):
            _add_unknown_model(("metrics", "reference"), reference, known, problems)
    return found


def _add_not_measured(label: str, measured: list[str], key: Key, problems: Problems) -> None:
    hint = did_you_mean(label, measured, "add it there")
    problems.add(key, "metric-not-measured", f"{label} is not among metrics.names", hint=hint)


def check_profile(tree: Mapping[str, object], problems: Problems) -> None:
    """The profile is there; what it says is checked when it is followed."""
    match tree.get("metrics"):
        case {"profile": str() as profile} if not is_path(profile):
            try:
                find_profile(profile, at=problems.places.at(("metrics", "profile")))
            except EvalkitError as error:
                problems.add_error(("metrics", "profile"), error)


def check_segments(tree: Mapping[str, object], problems: Problems) -> None:
    """Segmentations that can be made of what is given, and crosses of those that exist."""
    section = table_in(tree, "segments")
    named = {name: table for name, table in section.items() if isinstance(table, dict)}
    for name, table in named.items():
        key: Key = ("segments", name)
        if not name.strip() or not name.isprintable() or set(name) & set("=&"):
            message = f"{name!r} cannot name a segmentation"
            problems.add(key, "out-of-range", message, hint="printable characters without = and &")
        _check_segmentation(key, table, problems)
    crosses = section.get("cross")
    for number, pair in enumerate(crosses if isinstance(crosses, list) else []):
        names = [each for each in pair if isinstance(each, str)] if isinstance(pair, list) else []
        for segmentation in names:
            at = ("segments", "cross", number)
            if segmentation not in named:
                message = f"no segmentation is called {segmentation!r}"
                hint = did_you_mean(segmentation, named, "cross names two segmentations")
                problems.add(at, "unknown-segmentation", message, hint=hint)
            elif "item" in named[segmentation]:
                message = f"{segmentation!r} has segments of items, and crosses are of users"
                hint = "join both columns in the table of items"
                problems.add(at, "conflicting-keys", message, hint=hint)


def _check_segmentation(key: Key, table: Mapping[str, object], problems: Problems) -> None:
    has_path = "path" in table
    if "quantiles" in table and "edges" in table:
        message = "quantiles and edges exclude each other"
        problems.add((*key, "edges"), "conflicting-keys", message, hint="keep one of them")
    if "item" in table and not has_path:
        message = "segments of items need a table of items"
        hint = f'path = "items.parquet" under [{spell(key)}]'
        problems.add((*key, "item"), "missing-key", message, hint=hint)
    if "item" in table and "user" in table:
        message = "a table has segments of users or of items"
        problems.add((*key, "item"), "conflicting-keys", message, hint="keep one of user and item")
    if "user" in table and not has_path:
        message = "without a path the users are those of the truth"
        problems.add((*key, "user"), "conflicting-keys", message, hint="leave user out")
    match table.get("edges"):
        case [] as edges:
            problems.add(
                (*key, "edges"),
                "missing-key",
                "there are no edges",
                hint=f"edges = [10] under [{spell(key)}]",
            )
        case list() as edges if all(isinstance(edge, int | float) for edge in edges):
            if any(low >= high for low, high in pairwise(edges)):
                message = f"{show(edges)} do not ascend"
                problems.add((*key, "edges"), "out-of-range", message, hint="the smallest first")


def check_statistics(tree: Mapping[str, object], problems: Problems) -> None:
    """A baseline that is a model, and metrics that are measured."""
    section = tree.get("statistics")
    if not isinstance(section, dict):
        return
    known = known_models(tree, problems)
    baseline = section.get("baseline")
    if isinstance(baseline, str) and known and baseline not in (*known, SELECTED):
        _add_unknown_model(("statistics", "baseline"), baseline, known, problems)
    is_plain = section.get("test", "auto") in ("auto", "t") and section.get("pairs") == "all"
    if section.get("correction") == "tukey" and not is_plain:
        message = "Tukey's test is a t test of all pairs of models"
        hint = 'write correction = "holm" under [statistics], or compare all pairs by t tests'
        problems.add(("statistics", "correction"), "conflicting-keys", message, hint=hint)
    _check_ratios(section, tree, problems)
    asked = section.get("metrics")
    names = table_in(tree, "metrics").get("names")
    if not isinstance(asked, list) or not isinstance(names, list):
        return
    labels = labels_of(names, tree)
    for number, name in enumerate(asked):
        missing = [label for label in labels_of([name], tree) if label not in labels]
        if labels and missing:
            _add_not_measured(missing[0], labels, ("statistics", "metrics", number), problems)


def _add_unknown_model(key: Key, name: str, known: list[str], problems: Problems) -> None:
    hint = did_you_mean(name, known, f"there is {', '.join(known)}")
    problems.add(key, "unknown-model", f"no model is called {name!r}", hint=hint)


def ranking_tables(tree: Mapping[str, object]) -> list[Mapping[str, object]]:
    """The tables that models are named by; none where other sections name some too."""
    if "logged" in tree:
        return []
    for name in ("rankings", "predictions", *other_kinds()):
        tables = tree.get(name)
        if tables:
            listed = tables if isinstance(tables, list) else [tables]
            return [table for table in listed if isinstance(table, dict)]
    return []


def known_models(tree: Mapping[str, object], problems: Problems) -> list[str]:
    """The names of all models; none where some are only known once the data is read."""
    models = [table.get("model") for table in ranking_tables(tree)]
    known = [each for each in models if isinstance(each, str) and each not in problems.unnamed]
    return known if len(known) == len(models) else []


def _check_ratios(
    section: Mapping[str, object], tree: Mapping[str, object], problems: Problems
) -> None:
    """What does not go together with clusters, weights and errors over items."""
    tables = table_in(tree, "segments").values()
    has_items = any(isinstance(each, dict) and "item" in each for each in tables)
    bootstraps = "bootstrap" in (section.get("method"), section.get("test"))
    excluded = {
        "weight": {
            "a bootstrap": bootstraps,
            'test = "permutation"': section.get("test") == "permutation",
        },
        "cluster": {},
        "two_way": {
            "a bootstrap": bootstraps,
            'test = "permutation"': section.get("test") == "permutation",
            "weight": section.get("weight") is not None,
            "cluster": section.get("cluster") is not None,
        },
    }
    for name, others in excluded.items():
        if section.get(name) is None:
            continue
        others["segments of items"] = has_items
        others["curves"] = section.get("curves") is True
        others["search"] = section.get("search") is True
        for test in ("wilcoxon", "sign"):
            others[f'test = "{test}"'] = section.get("test") == test
        others['correction = "tukey"'] = section.get("correction") == "tukey"
        for what, is_there in others.items():
            if is_there:
                problems.add(
                    ("statistics", name),
                    "conflicting-keys",
                    f"{name} and {what} exclude each other",
                    hint="leave one of them out",
                )
    for key in ("item", "quantiles", "edges"):
        if key in table_in(section, "weight"):
            message = f"a weight has no {key}: it is a number of each user"
            problems.add(("statistics", "weight", key), "conflicting-keys", message)
