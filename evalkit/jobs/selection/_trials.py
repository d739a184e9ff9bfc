"""Trials from a table, as Optuna, MLflow and Ray export it, and from the [[rankings]]."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from evalkit.config import Config, RankingsColumns, RankingsTable
from evalkit.errors import DataError, EvalkitError, RequestError, did_you_mean, raise_all
from evalkit.sources import reading, refuse_absent

Scalar = str | float | None

_NAMES = ("model", "name", "tags.mlflow.runName", "trial_id", "run_id", "number", "trial")
_PATHS = (
    *("path", "rankings", "user_attrs_path", "user_attrs_rankings", "params.path", "tags.path"),
    *("tags.rankings", "config/path"),
)
_STATES = ("state", "status", "done")
_DONE = {"complete", "completed", "finished", "terminated", "done", "ok", "success", "true", "1"}
_SAID = {"false": "not done", "0": "not done"}  # a column done has no more to say
_PARAMETER = re.compile(r"(?:params[_.]|config/)(.+)")
_NO_PARAMETER = re.compile(
    r"values?(_.*)?|datetime_.*|duration|user_attrs_.*|system_attrs_.*|metrics\..*|tags\..*|"
    r"start_time|end_time|artifact_uri|experiment_id|timestamp|date|pid|hostname|node_ip|logdir|"
    r"time_(this_iter|total|since).*|iterations_since_restore|training_iteration|Unnamed: \d+|"
)
_NO_NUMBERS = ("nan", "NaN", "None")  # as they are printed where a table has none
_PLACE = re.compile(r"\{([^{}]+)\}")


@dataclass(frozen=True, slots=True)
class Tried:
    """One trial as it is listed.

    Args:
        table: its rankings; None where it has no result.
        confirm: its rankings for the test part, where these are others.
    """

    model: str
    state: str
    table: RankingsTable | None = None
    confirm: RankingsTable | None = None
    cost: float | None = None
    parameters: Mapping[str, Scalar] = field(default_factory=dict)


def read_trials(config: Config) -> list[Tried]:
    """The trials that a config names, in their order.

    Raises:
        RequestError: two trials have one name [duplicate-model], or a key names a column that the
            table lacks [missing-column].
        DataError: the table cannot be read, or says of no trial where its rankings are
            [missing-column].
    """
    section = config.selection
    assert section is not None
    found = [_of_config(each, section.confirm) for each in config.rankings]
    if section.trials is not None:
        found += _of_table(config)
    seen: set[str] = set()
    for trial in found:
        if trial.model in seen:
            raise RequestError(
                f"two trials are called {trial.model!r}",
                code="duplicate-model",
                at=config.at("selection", "trials"),
                hint="give each trial a name of its own, in a column model",
            )
        seen.add(trial.model)
    if sum(each.table is not None for each in found) < 2:
        message = "there are fewer than two finished trials to choose from"
        hint = f"{len(found)} are listed; those that failed or were pruned are only counted"
        raise DataError(message, code="nothing-to-compare", at=config.at("selection"), hint=hint)
    return found


def as_rankings(config: Config) -> Config:
    """The config with the finished trials of its table as `[[rankings]]`.

    Raises:
        RequestError, DataError: as `read_trials`.
    """
    tables = tuple(each.table for each in read_trials(config) if each.table is not None)
    return config.model_copy(update={"rankings": tables})


def _of_config(table: RankingsTable, confirm: object) -> Tried:
    if table.model is None:
        message = "a trial is one [[rankings]] with a model's name"
        hint = "give each trial a table of its own, or list them: trials = 'trials.csv'"
        raise RequestError(message, code="missing-key", at="rankings", hint=hint)
    pattern = getattr(confirm, "rankings", None) or ""
    other = None
    if "{model}" in pattern and table.builtin is None:
        path = pattern.replace("{model}", table.model)
        other = table.model_copy(update={"path": (path,)})
    return Tried(table.model, "measured", table, other)


def _of_table(config: Config) -> list[Tried]:
    section = config.selection
    assert section is not None
    assert section.trials is not None
    at = section.trials
    rows = _read(at)
    name = next((each for each in _NAMES if each in rows.columns), None)
    path = next((each for each in _PATHS if each in rows.columns), None)
    state = next((each for each in _STATES if each in rows.columns), None)
    if section.path is None and path is None:
        raise DataError(
            f"no column of the trials says where their rankings are: {', '.join(rows.columns)}",
            code="missing-column",
            at=at,
            hint=f'path = "lists/{{{name or "model"}}}.parquet" under [selection]: the column in '
            "braces names the file",
        )
    used = {name, path, state}
    parameters = _parameters_of([each for each in rows.columns if each not in used])
    cost = _column_of(section.cost, rows.columns, parameters, config) if section.cost else None
    found, problems = [], list[EvalkitError]()
    base = at.rpartition("/")[0]
    for number, row in enumerate(rows.iter_rows(named=True)):
        own = row[name] if name is not None else None
        label = own if isinstance(own, str) and own else f"trial-{number if own is None else own}"
        told = str(row[state]).rpartition(".")[2].lower() if state is not None else "done"
        values = {plain: _scalar(row[column]) for column, plain in parameters.items()}
        worth = row[cost] if cost is not None else None
        if cost is not None and not isinstance(worth, int | float) and told in _DONE:
            message = f"trial {label} has no number as its cost: {worth!r}"
            problems.append(DataError(message, code="not-a-number", at=at, hint="fill the column"))
            continue
        number_of = float(worth) if isinstance(worth, int | float) else None
        table = other = None
        if told in _DONE:
            own_path = row[path] if path is not None else None
            place = _filled(section.path, row, at) if section.path else own_path
            if not place:
                message = f"trial {label} is finished and has no rankings"
                hint = "name them, or say that it failed in a column state"
                problems.append(DataError(message, code="missing-trial", at=at, hint=hint))
                continue
            place = str(place) if section.path else _beside(base, str(place))
            columns = {} if section.columns is None else {"columns": section.columns}
            table = _table(label, place, columns)
            pattern = section.confirm.rankings if section.confirm is not None else None
            other = _table(label, _filled(pattern, row, at), columns) if pattern else None
        state_of = "measured" if told in _DONE else _SAID.get(told, told)
        found.append(Tried(label, state_of, table, other, number_of, values))
    raise_all(problems)
    return found


def _parameters_of(columns: Sequence[str]) -> dict[str, str]:
    """Columns of parameters, and their plain names: those that say so, where any does."""
    found = {each: named[1] for each in columns if (named := _PARAMETER.fullmatch(each))}
    return found or {each: each for each in columns if not _NO_PARAMETER.fullmatch(each)}


def _table(model: str, path: str, columns: Mapping[str, RankingsColumns]) -> RankingsTable:
    return RankingsTable.model_validate({"model": model, "path": path, **columns})


def _read(path: str) -> pl.DataFrame:
    refuse_absent(path)
    if os.path.isdir(path):
        message, hint = "the table of trials is a folder", 'name its file: trials = "trials.csv"'
        raise RequestError(message, code="bad-path", at=path, hint=hint)
    with reading(path):
        if path.lower().endswith((".parquet", ".pq")):
            return pl.read_parquet(path)
        return pl.read_csv(path, infer_schema_length=None, null_values=list(_NO_NUMBERS))


def _column_of(
    name: str, columns: Sequence[str], parameters: Mapping[str, str], config: Config
) -> str:
    if name in columns:
        return name
    by_plain = {plain: column for column, plain in parameters.items()}
    if name in by_plain:
        return by_plain[name]
    message = f"the trials have no column {name!r}"
    hint = did_you_mean(name, [*columns, *by_plain], f"they have {', '.join(columns)}")
    raise RequestError(message, code="missing-column", at=config.at("selection", "cost"), hint=hint)


def _filled(pattern: str, row: Mapping[str, object], at: str) -> str:
    def value(place: "re.Match[str]") -> str:
        if place[1] not in row:
            message = f"the trials have no column {place[1]!r}"
            hint = f"they have {', '.join(row)}"
            raise RequestError(message, code="missing-column", at=at, hint=hint)
        return str(row[place[1]])

    return _PLACE.sub(value, pattern)


def _beside(folder: str, path: str) -> str:
    is_absolute = path.startswith("/") or re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", path)
    return path if is_absolute or not folder else f"{folder}/{path}"


def _scalar(value: object) -> Scalar:
    if isinstance(value, bool) or value is None:
        return None if value is None else str(value).lower()
    return float(value) if isinstance(value, int | float) else str(value)
