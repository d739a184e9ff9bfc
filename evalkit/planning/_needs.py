"""What metrics of lists need beside the lists, and whether the config has it."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from evalkit.config import Config, policies_of
from evalkit.errors import EvalkitError, RequestError
from evalkit.metrics import Request, needs_of
from evalkit.sources import Table

COLUMNS = ("genres", "vector", "published")  # of the table of items
OF_WHO: dict[str, tuple[str, ...]] = {
    "list": (),
    "relevant": ("relevant",),
    "train": ("train",),
    "all": ("relevant", "train"),
}
OF_ITEMS = ("items", "by", *COLUMNS)


def columns_needed(requests: Sequence[Request]) -> list[str]:
    """Which of genres, vector and published some metric needs."""
    needed = {need for request in requests for need in needs_of(request)}
    return [name for name in COLUMNS if name in needed]


def groups_needed(requests: Sequence[Request]) -> dict[str, list[str]]:
    """The columns of the table of items that metrics group items by, in order: whose they are."""
    found: dict[str, list[str]] = {}
    for request in requests:
        if "by" in needs_of(request):
            found.setdefault(str(dict(request.parameters)["by"]), []).append(request.label)
    return dict(sorted(found.items()))


@contextmanager
def naming_metrics(
    groups: Mapping[str, Sequence[str]], problems: list[EvalkitError]
) -> Iterator[None]:
    """Errors of columns that the table of items lacks say which metrics ask for them."""
    n_before = len(problems)
    yield
    for error in problems[n_before:]:
        asking = [
            label
            for name, labels in groups.items()
            for label in labels
            if error.code == "missing-column" and repr(name) in error.message
        ]
        if asking:
            error.message = f"{error.message}, for {', '.join(dict.fromkeys(asking))}"


def lacking(config: Config, opened: Mapping[str, Sequence[Table]]) -> list[EvalkitError]:
    """One error for each thing that metrics need and the config lacks.

    Args:
        config: with the columns that are read.
        opened: the tables by section; one that something is wrong with is missing.
    """
    asking: dict[str, list[str]] = {}
    columns: list[str] = []
    for request in config.requests:
        who = policies_of(request, config.policies).list_users
        for need in (*needs_of(request), *(OF_WHO[who] if request.metric.lists else ())):
            if need in OF_ITEMS and config.items is None:
                columns += [need] if need in COLUMNS else []
                columns += [str(dict(request.parameters)["by"])] if need == "by" else []
                need = "items"
            labels = asking.setdefault("train" if need == "history" else need, [])
            labels += [] if request.label in labels else [request.label]
    found = (_lacking(need, config, opened, columns) for need in asking)
    pairs = zip(asking.values(), found, strict=True)
    errors: list[EvalkitError] = []
    for labels, (what, at, hint) in ((labels, each) for labels, each in pairs if each is not None):
        verb = "needs" if len(labels) == 1 else "need"
        message = f"{', '.join(labels)} {verb} {what}"
        errors.append(RequestError(message, code="missing-input", at=at, hint=hint))
    return [*errors, *_of_truth(config)]


Lack = tuple[str, str, str]  # what is missing, where, a hint


def _lacking(
    need: str, config: Config, opened: Mapping[str, Sequence[Table]], columns: Sequence[str]
) -> Lack | None:
    """What is missing for a need, if it is."""
    has = {
        "relevant": not config.is_truthless,
        "users": config.users is not None or not config.is_truthless,
        "reference": config.metrics.reference is not None,
        "earlier": any(each.earlier for each in config.rankings),
        "train": config.train is not None,
        "items": config.items is not None,
    }
    if need in has:
        return None if has[need] else _missing(need, config, columns)
    if need in COLUMNS and opened["items"]:
        (table,) = opened["items"]
        if need not in table.columns:
            hint = f'{need} = "COLUMN" under [items.columns]'
            return f"the column {need} of the table of items", table.at, hint
    if need == "published" and config.items is not None and config.items.now is None:
        hint = 'now = "2026-01-31" under [items]'
        return "now beside published: when the lists were made", config.at("items"), hint
    return None


_TOLD = {
    "relevant": "[truth], the right answers",
    "train": "[train], what the models had seen",
    "items": "[items], all items that there are",
    "users": "[users], who should have got a list",
    "reference": "reference, lists that others are held against",
    "earlier": "earlier, the lists before",
}


def _missing(need: str, config: Config, columns: Sequence[str]) -> Lack:
    """A table that is not given, and how it is given at this entry point."""
    name = {"relevant": "truth"}.get(need, need)
    with_columns = f", with {', '.join(dict.fromkeys(columns))}" if need == "items" else ""
    hint = f'path = "{name}.parquet" under [{name}]'
    if config.entry_point == "options" and need != "earlier":
        hint = f"--{name} {'als' if need == 'reference' else f'{name}.parquet'}"
    elif config.entry_point == "python":
        hint = f"pass {name}=table"
        if need == "earlier":
            hint = 'pass rankings={"als": {"path": table, "earlier": [table, table]}}'
    elif need == "earlier":
        hint = 'earlier = ["monday.parquet", "tuesday.parquet"] under [rankings]'
    elif need == "reference":
        hint = 'reference = "als" under [metrics]'
    return _TOLD[need] + (with_columns if columns else ""), config.at("metrics", "names"), hint


def _of_truth(config: Config) -> list[EvalkitError]:
    """What is made of the truth's own columns, where there is no truth."""
    if not config.is_truthless:
        return []
    rules = config.segments.named
    keys = [("segments", name) for name, rule in rules.items() if rule.path is None]
    weight = config.statistics.weight
    keys += [("statistics", "weight")] if weight is not None and weight.path is None else []
    keys += [("statistics", "cluster")] if config.statistics.cluster is not None else []
    hint = 'path = "users.parquet" there, or [truth]'
    return [
        RequestError(
            f"{'.'.join(key)} is made of the truth's columns, and there is no truth",
            code="missing-input",
            at=config.at(*key),
            hint=hint,
        )
        for key in keys
    ]
