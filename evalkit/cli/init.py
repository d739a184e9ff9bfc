"""`evalkit init`: a commented config for somebody's files."""

import glob
import os
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin

from typer import Argument, Option

from evalkit.cli import console
from evalkit.cli.guess import is_named, name_rankings
from evalkit.cli.options import Items, Reference, Train, Truth, Users, check_file_option, takes
from evalkit.errors import RequestError

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

OF_LISTS = {"train": "novelty@10", "items": "item_coverage@10", "reference": "overlap@10"}
OF_KINDS = ("truth", "log", "rankings")  # tables of which some kinds of rows may be meant
METRICS = ("nDCG@{5,10,20}", "recall@{5,10,20}", "AP@10", "RR", "hit@10")
COMMENT_COLUMN = 40
WIDTH = 100


@takes("quiet log_format")
def init(
    truth: Truth = None,
    rankings: Annotated[
        list[str] | None, Option("--rankings", metavar="[NAME=]PATH", help="Rankings of one model.")
    ] = None,
    more_rankings: Annotated[
        list[str] | None, Argument(metavar="[[NAME=]PATH]...", help="More models.")
    ] = None,
    log: Annotated[
        str | None, Option("--log", metavar="[NAME=]PATH", help="A joined log instead of both.")
    ] = None,
    train: Train = None,
    items: Items = None,
    users: Users = None,
    reference: Reference = None,
    split: Annotated[
        str | None, Option("--split", metavar="LOG", help="A raw log, to be cut and then judged.")
    ] = None,
    out: Annotated[
        Path, Option("--out", "-o", metavar="FILE", help="The config; - for stdout.")
    ] = Path("evalkit.toml"),
    force: Annotated[bool, Option("--force", help="Overwrite FILE.")] = False,
) -> None:
    """Write a commented config for given files.

    Defaults are commented out. Columns are guessed from the files' schemas and stand in the
    config to be corrected.
    """
    models = [*(rankings or ()), *(more_rankings or ())]
    beside: dict[str, Sequence[str]] = {"train": train or (), "items": items or ()}
    beside |= {"users": users or (), "reference": [reference] if reference else ()}
    has_lists = any(beside[name] for name in OF_LISTS)
    if split and (truth or log or train):
        message = "--split makes truth and train of one log"
        hint = "leave --truth, --train and --log out"
        raise RequestError(message, code="bad-option", at="--split", hint=hint)
    if not split and (
        bool(log) == bool(truth or models) or (not log and not (models and (truth or has_lists)))
    ):
        raise RequestError(
            "there is nothing to write a config for" if not log else "--log excludes the others",
            code="missing-option",
            at="evalkit init",
            hint="give --truth PATH and --rankings NAME=PATH, or --log NAME=PATH",
        )
    to_stdout = str(out) == "-"
    if out.exists() and not force and not to_stdout:
        raise RequestError(
            "the file exists", code="file-exists", at=str(out), hint="--force overwrites it"
        )
    if not to_stdout:
        read = [*(truth or ()), *models, *([log] if log else ()), *([split] if split else ())]
        read += [path for paths in beside.values() for path in paths]
        names = [*read, *(each.partition("=")[2] for each in read)]
        check_file_option(out, "--out", () if out.suffix == ".toml" else names)
    folder = Path() if to_stdout else out.parent
    text = "\n".join(_config_lines(truth or [], models, log, split, beside, folder, out))
    if to_stdout:
        console.say(text)
        return
    console.write(out, f"{text}\n".encode())
    from evalkit.sources.shell import quoted

    path = quoted(str(out))
    cut = f"evalkit split {path} cuts the log, then " if split else ""
    console.note(f"{cut}evalkit check {path} looks for mistakes, evalkit run {path} runs it")


def _config_lines(
    truth: Sequence[str],
    rankings: Sequence[str],
    log: str | None,
    split: str | None,
    beside: Mapping[str, Sequence[str]],
    folder: Path,
    out: Path,
) -> Iterator[str]:
    name = out.stem if str(out) != "-" else "evaluation"
    if split:
        from evalkit.sources.shell import quoted

        to = quoted(str(out))
        yield f"# evalkit split {to} cuts the log; evalkit run {to} measures models on its parts."
    yield "# What evalkit evaluates. Commented keys show their defaults, or how they are written;"
    yield "# evalkit schema describes them all. Paths are relative to this file."
    yield from ("", _default("name", _text(name), "jobs of one name share history"))
    if split:
        yield from _split_lines(split, rankings, f"splits/{name}", folder)
    else:
        yield from _log_lines(truth, rankings, log, beside["train"], folder)
    yield _default("drop_seen", "false", "true drops seen items from the rankings")
    for section in ("items", "users"):
        if beside[section]:
            yield from ("", f"[{section}]")
            yield from _table_lines(beside[section], section, folder)
        if section == "items" and beside[section]:
            yield _default("separator", '"|"', "between an item's genres, where they are text")
            yield _default("now", '"2026-01-31"', "when the lists were made, for ages")
    names = [*(METRICS if truth or log or split else ())]
    names += [metric for section, metric in OF_LISTS.items() if beside[section]]
    yield from _metric_lines(names, beside, folder)
    yield from _segment_lines(beside["users"], folder)
    baseline, candidate = _compared(rankings, is_split=split is not None)
    yield from _comparison_lines(baseline, [] if baseline else _models_of(log or rankings))
    yield from _gate_lines(names[0].replace("{5,10,20}", "10"), baseline, candidate)
    from_zero = any(_ranks_from_zero(*each) for each in _ranked(rankings, log))
    yield from _policy_lines({"first_rank": 0} if from_zero else {})


def _log_lines(
    truth: Sequence[str],
    rankings: Sequence[str],
    log: str | None,
    train: Sequence[str],
    folder: Path,
) -> Iterator[str]:
    """Truth, models and train as their files are; the section of train comes last."""
    if log is None:
        if truth:
            yield from ("", "[truth]")
            yield from _table_lines(truth, "truth", folder)
            yield _default("threshold", "4.0", "relevant from here on; default: above 0")
        yield from _models_lines(rankings, folder)
    else:
        [(model, path)] = name_rankings([log])
        yield from ("", "[log]")
        yield from _model_lines(log, model, path, "log", folder)
        yield _default("threshold", "4.0", "relevant from here on; default: above 0")
    yield ""
    where = None if train or log is not None or not truth else _where_of_train(truth)
    if where is not None:
        from evalkit.sources import guess_table

        columns, format_, _ = guess_table(truth, "train")
        written = [_relative(path, folder) for path in truth]
        yield "[train]"
        yield f"path = {_toml(written[0] if len(written) == 1 else written)}"
        if format_ is not None:
            yield f"format = {_text(format_)}"
        yield f"columns = {_toml(columns)}"
        yield f"where = {_text(where)}"
    elif not train:
        yield _default("[train]", "", "what the models had seen: such items are counted")
        yield '# path = "train.parquet"'
        yield '# columns = { user = "user", item = "item" }'
    else:
        yield "[train]"
        yield from _table_lines(train, "train", folder)


def _where_of_train(truth: Sequence[str]) -> str | None:
    """The rows of train, where a column of the truth's table says which are train and test."""
    from evalkit.planning.leakage import choose_rows, has_train
    from evalkit.sources import guess_table, read_splitters

    columns, format_, _ = guess_table(truth, "truth")
    used = tuple(columns.values())
    splitters = read_splitters(truth, format_, role="truth", used=used)
    at = ", ".join(truth[:3])
    chosen = choose_rows("train", splitters, at=at) if has_train(splitters, at=at) else None
    return None if chosen is None else chosen[0]


def _split_lines(log: str, rankings: Sequence[str], parts: str, folder: Path) -> Iterator[str]:
    """A log that is cut first, the models, and baselines that are made of its earlier part."""
    yield from ("", "[split]")
    yield from _table_lines([log], "split", folder)
    yield 'by = "time"                           # or user, users, rows: docs/splits.md'
    yield 'test = "7d"                           # a span, a moment, a share (0.1) or rows (1)'
    yield _default("validation", '"7d"', "the same before the test")
    yield f"out = {_text(parts)}"
    yield from ("", "[truth]", f"split = {_text(parts)}")
    yield from _models_lines(rankings, folder)
    for model in ("popular", "random"):
        yield from ("", "[[rankings]]", f"model = {_text(model)}", f"builtin = {_text(model)}")
        yield "k = 50"
    yield from ("", "[train]", f"split = {_text(parts)}")


def _models_lines(rankings: Sequence[str], folder: Path) -> Iterator[str]:
    for text, (model, path) in zip(rankings, name_rankings(rankings), strict=True):
        yield from ("", "[[rankings]]")
        yield from _model_lines(text, model, path, "rankings", folder)


def _metric_lines(
    names: Sequence[str], beside: Mapping[str, Sequence[str]], folder: Path
) -> Iterator[str]:
    yield from ("", "[metrics]")
    yield f"names = [{', '.join(map(_text, names))}]"
    primary = _text(names[0].replace("{5,10,20}", "5"))
    yield f"primary = [{primary}]  # decides, and is corrected apart from all else"
    for text in beside["reference"]:
        is_path = os.path.exists(text) and re.search(r"[/.]", text)
        yield f"reference = {_text(_relative(text, folder) if is_path else text)}"
    yield _default(
        "profile", '"evalkit"', 'a library\'s conventions, as "ranx"; or a file of your own'
    )
    yield _default("files", "[]", "Python files with metrics of your own")


def _compared(rankings: Sequence[str], *, is_split: bool) -> tuple[str | None, str | None]:
    """The baseline and the model that may replace it, where both were named."""
    named = [model for model, _ in name_rankings(rankings)] if all(map(is_named, rankings)) else []
    models = ["popular", *named, "random"] if is_split else named
    return (models[0], models[1]) if len(models) > 1 else (None, None)


def _gate_lines(metric: str, baseline: str | None, candidate: str | None) -> Iterator[str]:
    """A commented gate: the candidate against the baseline, or a night against those before."""
    yield from ("", _default("[[gates]]", "", "what must hold, or the run ends with status 1"))
    yield _default("metric", _text(metric), "or data: a count, such as users_without_ranking")
    if candidate is not None:
        yield _default("model", _text(candidate), "default: every model")
    yield _default("max_drop", "0.002", "below the baseline; or min, or max, without one")
    if baseline is not None:
        yield _default("baseline", _text(baseline), "or last-passed, last, last~1, a tag, a run")
    else:
        yield _default("baseline", '"last-passed"', "or last, last~1, a tag, a run, a model")
    yield _default("unclear", '"fail"', "what a gate does that cannot tell; or pass")


def _ranked(rankings: Sequence[str], log: str | None) -> Iterator[tuple[str, str]]:
    """Path and role of each table that may have ranks."""
    role = "rankings" if log is None else "log"
    yield from ((path, role) for _, path in name_rankings(rankings if log is None else [log]))


def _ranks_from_zero(path: str, role: str) -> bool:
    from evalkit.sources import counts_from_zero, guess_table

    columns, format_, _ = guess_table([path], role)
    return "rank" in columns and counts_from_zero([path], format_, role, columns["rank"])


def _policy_lines(found: Mapping[str, object]) -> Iterator[str]:
    """Policies and what is written, all commented but for those that the files tell."""
    from evalkit.config import OutputSection, Policies

    for section, record in (("policies", Policies), ("output", OutputSection)):
        yield from ("", f"[{section}]")
        said = record.model_json_schema()["properties"]
        for key, declared in record.model_fields.items():
            if key in found:
                console.note(f"{key} = {_toml(found[key])}, as the ranks of the files have it")
                yield f"{key} = {_toml(found[key])}"
            elif declared.default is not None:
                yield _default(key, _toml(declared.default), _comment(declared, said[key]))


def _segment_lines(users: Sequence[str], folder: Path) -> Iterator[str]:
    """Commented segments, those that the table of users suggests too."""
    from evalkit.sources import guess_table, read_groups

    yield from ("", _default("[segments]", "", "users, or relevant items, in groups"))
    yield _default("activity", '{ by = "n_relevant", quantiles = 4 }', "any name; by a column")
    if users:
        columns, format_, _ = guess_table(users, "users")
        paths = [_relative(each, folder) for each in users]
        table = {"path": paths[0] if len(paths) == 1 else paths}
        table |= {"format": format_} if format_ else {}
        table |= {"user": columns["user"]}
        groups = read_groups(users, format_, used=(columns["user"],))
        for name, is_cut in groups.items():
            if name not in ("activity", "min_users", "cross"):
                rule = {**table, "by": name} | ({"quantiles": 4} if is_cut else {})
                yield f"# {_key(name)} = {_toml(rule)}"
    yield _default("min_users", "1", "smaller ones are put together as (small)")


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _text(name)


def _models_of(table: str | Sequence[str]) -> list[str]:
    """The models that a column of the one table names; empty: nothing names them."""
    from evalkit.sources import guess_table, read_models

    tables = [table] if isinstance(table, str) else table
    if len(tables) != 1 or is_named(tables[0]):
        return []
    [(_, path)] = name_rankings(tables)
    columns, format_, _ = guess_table([path], "rankings")
    return read_models([path], format_, columns["model"]) if "model" in columns else []


def _comparison_lines(baseline: str | None, models: Sequence[str]) -> Iterator[str]:
    """The statistics: live where a baseline is known."""
    yield ""
    if baseline is not None:
        yield "[statistics]"
        yield f"baseline = {_text(baseline)}"
    else:
        yield _default("[statistics]", "", "models compared user by user")
        first, *others = models or ["popularity"]
        beside = f"; or {', '.join(map(_text, others))}" if others else ""
        says = f"every other model is compared with this one{beside}"
        yield _default("baseline", _text(first), says)
    yield _default("margin", "0.002", "a difference that does not matter; default: none")
    yield _default("search", "false", "look for the segments that lose or gain most")


def _model_lines(text: str, model: str, path: str, role: str, folder: Path) -> Iterator[str]:
    from evalkit.sources import guess_table

    columns, format_, by_score = guess_table([path], role)
    if is_named(text) or "model" not in columns:
        columns.pop("model", None)
        by_score.pop("model", None)
        yield f"model = {_text(model)}"
    yield from _lines_of([path], role, folder, columns, format_)
    if by_score != columns:
        yield _default("columns", _toml(by_score), "for profiles that look at scores, as ranx")


def _table_lines(paths: Sequence[str], role: str, folder: Path) -> Iterator[str]:
    from evalkit.sources import BLANK, guess_table, read_time

    columns, format_, _ = guess_table(paths, role)
    if role == "split":
        time = columns.setdefault("time", BLANK)
        if time != BLANK:
            columns["time"] = read_time(paths, format_, role=role, column=time) or time
    yield from _lines_of(paths, role, folder, columns, format_)


def _lines_of(
    paths: Sequence[str], role: str, folder: Path, columns: Mapping[str, str], format_: str | None
) -> Iterator[str]:
    from evalkit.sources import BLANK, told_form

    written = [_relative(path, folder) for path in paths]
    yield f"path = {_toml(written[0] if len(written) == 1 else written)}"
    form, row = told_form(paths, format_, role=role)
    form |= {} if format_ is None else {"format": format_}
    yield from (f"{key} = {_toml(value)}" for key, value in form.items())
    if row:
        yield f"# the first row: {row}; name a relevance, rank, score or time too"
        console.note(f"{written[0]}: the first line names no columns: {row}")
    yield f"columns = {_toml(columns)}"
    blank = [key for key, column in columns.items() if column == BLANK]
    if role in ("rankings", "log") and not {"rank", "score"} & columns.keys():
        yield "# no column looks like a rank or a score: ranks are the order of rows, or of lists"
    if columns.get("item", "").startswith("string_to_array("):
        console.note(f"{written[0]}: columns side by side are read as lists of items")
    if blank:
        what = " and the ".join(blank)
        console.note(f"{written[0]}: no one column looks like the {what}; write it for {BLANK}")
    yield _where_line(paths, role, tuple(columns.values()), format_)


def _where_line(paths: Sequence[str], role: str, used: Sequence[str], format_: str | None) -> str:
    """The rows of one part, where a column says which are train and test; told on stderr."""
    from evalkit.planning.leakage import choose_rows
    from evalkit.sources import read_kinds, read_splitters

    chosen = choose_rows(
        role, read_splitters(paths, format_, role=role, used=used), at=", ".join(paths[:3])
    )
    if chosen is None:
        found = read_kinds(paths, format_, role=role, used=used) if role in OF_KINDS else None
        if found is None:
            return _default("where", "\"day = '2026-01-31'\"", "SQL predicate; default: all rows")
        others = ", ".join(map(repr, found[1]))
        return _default("where", _text(found[0]), f"or {others}; default: all rows")
    where, why = chosen
    console.note(f"{role}: {why}; where = {_text(where)} takes the rows of one split")
    return f"where = {_text(where)}"


def _relative(path: str, folder: Path) -> str:
    """The path as the config has it; a brace of a name is none of a variable."""
    if re.search(r"\{[A-Za-z_]", path) and os.path.exists(path):
        path = glob.escape(path).replace("{", "[{]")
    if os.path.isabs(path) or re.match(r"[A-Za-z][A-Za-z0-9+.-]+://|~", path):
        return path
    return os.path.relpath(path, folder) + ("/" if path.endswith("/") else "")


def _default(key: str, value: str, comment: str) -> str:
    """A commented line, and what it means; a long comment goes on below."""
    line = f"# {key} = {value}" if value else f"# {key}"
    first, *more = textwrap.wrap(comment, WIDTH - COMMENT_COLUMN - 2, break_on_hyphens=False)
    lines = [f"{line:<{COMMENT_COLUMN - 2}}  # {first}"]
    lines += [f"{'#':<{COMMENT_COLUMN}}# {each}" for each in more]
    return "\n".join(lines)


def _comment(declared: "FieldInfo", said: Mapping[str, Any]) -> str:
    text = said.get("description", "").rstrip(".")
    word = text.partition(" ")[0]
    if len(word) == 1 or word[1:].islower():
        text = text[:1].lower() + text[1:]
    choices = _choices(declared.annotation) or said.get("enum", [])
    others = [choice for choice in choices if choice != declared.default]
    return f"{text}; or {', '.join(map(_text, others))}" if others else text


def _choices(annotation: object) -> list[str]:
    return list(get_args(annotation)) if get_origin(annotation) is Literal else []


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{key} = {_toml(each)}' for key, each in value.items())} }}"
    if isinstance(value, Sequence):
        return f"[{', '.join(map(_toml, value))}]"
    return str(value)


def _text(text: str) -> str:
    import json

    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
