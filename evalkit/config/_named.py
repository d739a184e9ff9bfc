"""What the names of metrics in a tree ask for, before there is a config."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as Collection
from typing import cast

from evalkit.config._joined import kinds_in
from evalkit.config._places import Key, table_in
from evalkit.config._problems import Problems
from evalkit.config._profiles import names_by
from evalkit.config._records import Config
from evalkit.config._variables import sections_in
from evalkit.errors import EvalkitError
from evalkit.metrics import (
    POLICIES,
    Metric,
    Request,
    combine,
    declared,
    family_of,
    is_made_of_users,
    is_of_kind,
    load_metric_files,
    other_kinds,
    parse_metrics,
    policies_of_kind,
)

_OF_RANKINGS = {
    "rankings": {"truth", "rankings", "train", "items", "users"},
    "log": {"log", "train", "items", "users"},
}


def kind_of(has: Collection[str]) -> str:
    """Which kind the sections of a config speak of; `log` of rankings in one table with it."""
    for kind in (*reversed(other_kinds()), "log"):
        if kind in has:
            return kind
    of_others = (kind for kind in kinds_in(Config, has) if has & declared(kind).sections.keys())
    return next(of_others, "rankings")


def sections_beside(kind: str) -> Collection[str]:
    """The sections that a config of one kind may have, as `kind_of` calls it."""
    if kind in _OF_RANKINGS:
        return _OF_RANKINGS[kind]
    return {*declared(kind).sections, *declared(kind).beside}


def parts_of(tree: Mapping[str, object]) -> list[Mapping[str, object]]:
    """The tree; or where rankings stand beside another kind, one of each that metrics are of.

    Names of metrics keep their places; those of the other part are None.
    """
    kind = kind_of(has := sections_in(tree))
    if "rankings" not in has or kind not in other_kinds() or not declared(kind).beside:
        return [tree]
    listed = table_in(tree, "metrics")

    def named(of: bool) -> Mapping[str, object]:
        kept = {key: _of_kind(listed.get(key), kind, of) for key in ("names", "primary")}
        return {**listed, **{key: each for key, each in kept.items() if key in listed}}

    own, beside = declared(kind).sections.keys(), declared(kind).beside
    mine = {key: each for key, each in tree.items() if key not in beside}
    theirs = {key: each for key, each in tree.items() if key not in own}
    rest = named(False)
    names = rest.get("names")
    has_rankings = isinstance(names, list) and any(names)
    parts: list[Mapping[str, object]] = [{**mine, "metrics": named(True)}]
    return [*parts, {**theirs, "metrics": rest}] if has_rankings else parts


def _of_kind(names: object, kind: str, of: bool) -> list[str | None]:
    """Metrics of the kind, or the others; None in the place of each that is left out."""
    listed = names if isinstance(names, list) else [names]
    return [e if isinstance(e, str) and is_of_kind(e, kind) == of else None for e in listed]


def metrics_kind(kind: str) -> str:
    """The kind whose metrics a config may name."""
    return "rankings" if kind in _OF_RANKINGS else kind


def labels_of(names: Sequence[object], tree: Mapping[str, object] | None = None) -> list[str]:
    """The labels of metric names, as the kind of thing that `tree` evaluates understands them."""
    return [request.label for request in requests_named(names, tree or {})]


def requests_named(names: Sequence[object], tree: Mapping[str, object]) -> list[Request]:
    """What metric names ask for; none where one is wrong."""
    if len(parts := parts_of(tree)) > 1:
        kind = kind_of(sections_in(parts[0]))
        split = [_of_kind(list(names), kind, of) for of in (True, False)]
        return [
            request
            for part, own in zip(parts, split, strict=True)
            for request in requests_named(own, part)
        ]
    combined = combined_in(tree)
    texts = [name for name in names if isinstance(name, str) and name not in combined]
    kind = kind_of(sections_in(tree))
    try:
        metrics = load_metric_files(files_in(tree), metrics_kind(kind))
        said, policies = names_by(tree, kind, metrics), policies_of_kind(kind)
        found = parse_metrics(texts, metrics=metrics, policies=policies, **said)
    except EvalkitError:
        return []  # told elsewhere
    if len(texts) < len(names) and combined:
        listed = cast("Mapping[str, object]", tree["metrics"]).get("names")
        measured = requests_named(listed, {}) if isinstance(listed, list) else []
        made = _read(combined, metrics, measured, str)
        found += [each for name, each in made if name in names and isinstance(each, Request)]
    return found


def files_in(tree: Mapping[str, object]) -> list[str]:
    """The files of own metrics, where they are a list of texts."""
    files = table_in(tree, "metrics").get("files")
    is_plain = isinstance(files, list) and all(isinstance(each, str) for each in files)
    return cast("list[str]", files) if is_plain else []


def combined_in(tree: Mapping[str, object]) -> dict[str, str]:
    """Combinations of metrics, as they are written, by name."""
    pairs = table_in(tree, "metrics", "combined").items()
    return {name: each for name, each in pairs if isinstance(each, str)}


def check_combined(
    tree: Mapping[str, object],
    metrics: Mapping[str, Metric],
    measured: Sequence[Request],
    problems: Problems,
) -> None:
    """Combinations that there can be, of metrics that are measured."""
    written = combined_in(tree)
    kind = kind_of(sections_in(tree))
    key: Key = ("metrics", "combined")
    if written and kind in other_kinds():
        message = f"combined is for rankings, not for {kind}"
        problems.add(key, "conflicting-keys", message, hint="leave it out")
        return
    for name, error_or_metric in _read(
        written, metrics, measured, lambda at: problems.places.at((*key, at))
    ):
        if isinstance(error_or_metric, EvalkitError):
            problems.add_error((*key, name), error_or_metric)


def check_whole(
    tree: Mapping[str, object], measured: Sequence[Request], problems: Problems
) -> None:
    """Refuse weights, clusters and errors over items for numbers that are no means of users."""
    of_lists = [each.label for each in measured if family_of(each) not in ("", "users")]
    whole = [
        each.label
        for each in measured
        if not is_made_of_users(each) and each.metric.over_users is None
    ]
    for name in ("weight", "cluster", "two_way"):
        if table_in(tree, "statistics").get(name) is not None:
            excluded = whole if name == "weight" else of_lists
            for label in (*combined_in(tree), *excluded)[:1]:
                message = f"{name} and {label} exclude each other: it is no mean of users"
                hint = "measure it in a run of its own"
                problems.add(("statistics", name), "conflicting-keys", message, hint=hint)


def _read(
    written: Mapping[str, str],
    metrics: Mapping[str, Metric],
    measured: Sequence[Request],
    at: Callable[[str], str],
) -> Iterator[tuple[str, Request | EvalkitError]]:
    """Combinations by name; of one that is none, why."""
    for name, text in written.items():
        where = at(name)

        def read(part: str, where: str = where) -> list[Request]:
            return parse_metrics([part], metrics=metrics, policies=POLICIES, at=lambda _: where)

        try:
            known = metrics.values()
            yield name, combine(name, text, measured, read, others=written, known=known, at=where)
        except EvalkitError as error:
            yield name, error
