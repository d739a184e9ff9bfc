"""The pages of the reference, made from the code: the site's build calls `pages`.

    python docs/make_reference.py FOLDER     # the pages as Markdown, to be looked at

Nothing of them is written by hand but the sentences of this file: keys come from the config's JSON
Schema, commands from their options, codes from codes.toml, metrics from their declarations.
"""

import dataclasses
import inspect
import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import typer

import evalkit
from evalkit.cli.app import make_app
from evalkit.cli.codes import all_codes
from evalkit.config import config_schema
from evalkit.config.form_names import FILES as FORMS
from evalkit.config.form_names import file_of
from evalkit.metrics import Metric, Parameter, folders, registry_of
from evalkit.report import entries
from evalkit.report.parquet import COLUMNS, OF_RUN
from evalkit.report.record import Report
from evalkit.runs.history import TABLES, query

Schema = Mapping[str, Any]
METRICS_OF = {
    "rankings": "Accuracy of rankings: beside `[truth]` and `[[rankings]]`.",
    "lists": "What lists are like: beside those, or without a truth ([Lists](../lists.md)).",
    "ratings": "Predicted ratings: beside `[ratings]` ([Ratings and labels](../labels.md)).",
    "labels": "Scored rows with labels: beside `[labels]` ([Ratings and labels](../labels.md)).",
    "judges": "People as judges: beside `[judges]` ([People as judges](../judges.md)).",
    "logged": "Logged feedback: beside `[logged]` ([Logged feedback](../logged.md)).",
    "experiment": "Online experiments: beside `[experiment]` ([Experiments](../experiments.md)).",
}
NAMES_IN_JSON = {"estimates": "metrics"}
NOT_IN_JSON = ("shown", "config", "per_user_values", "parts", "truth", "judge_errors")
KEYS = "key|meaning|takes|default"
FILES = {
    "report.json": "every number with its interval, its users and its conventions, and what was "
    "found; segments where `metrics.parquet` is not written, or `segments_in_json` asks for them; "
    "the same bytes for the same numbers",
    "metrics.parquet": "the numbers, a row each, segments too",
    "comparisons.parquet": "the comparisons, if there are any, a row each, segments too",
    "metrics.csv": "the same, safe in a spreadsheet",
    "report.md": "for a pull request or a chat",
    "report.html": "the page: one file, no network",
    "report.tex": "a table for a paper",
    "per_user.parquet": "user columns, `model`, and a column for each metric; NaN where undefined; "
    "or, of a run on Spark, files of the folder `per_user`, each with all rows of its users",
    "parts.parquet": "exact sums that `evalkit why` reads",
    "manifest.json": "written last: checksums of the other files, fingerprints of the inputs, "
    "versions, the config, time and memory",
}


def pages() -> dict[str, str]:
    """Every page of the reference, by its place in the site."""
    made: dict[str, Callable[[], Iterator[str]]] = {
        "config": config_lines,
        "commands": command_lines,
        "python": python_lines,
        **{f"metrics-{kind}": lambda kind=kind: metric_lines(kind) for kind in folders()},
        "codes": code_lines,
        "files": file_lines,
    }
    return {f"reference/{name}.md": "\n\n".join(lines()) + "\n" for name, lines in made.items()}


def table(head: str, rows: Iterable[Sequence[str]]) -> str:
    """A table, its heads in one text parted by `|`."""
    cells = ([cell.replace("|", "\\|") for cell in row] for row in rows)
    lines = [head.split("|"), ["---"] * (head.count("|") + 1), *cells]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def plain(text: str) -> str:
    """A sentence of the code that stands in a page: nothing in it is HTML or emphasis."""
    parts = re.split(r"(`[^`]+`)", " ".join(text.split()))
    marks = {"&": "&amp;", "<": "&lt;", "*": "\\*", "_": "\\_", "[": "\\[", "]": "\\]"}
    return "".join(
        part if part.startswith("`") else "".join(marks.get(each, each) for each in part)
        for part in parts
    )


def code(text: object) -> str:
    return f"`{text}`" if str(text) else ""


# --- the config


def config_lines() -> Iterator[str]:
    schema = config_schema()
    yield "# Config keys"
    yield (
        "Every section and key of a config, as `evalkit schema` prints it for editors. On the "
        "command line `--set policies.ties=input` sets any of them; in Python the names are the "
        "same."
    )
    flat = {
        name: each for name, each in schema["properties"].items() if not section_of(each, schema)
    }
    yield table(KEYS, key_rows(flat, schema, ""))
    for name, key in schema["properties"].items():
        section = section_of(key, schema)
        if section is not None:
            head = f"[[{name}]]" if "array" in types_of(key) else f"[{name}]"
            yield f"## {code(head)}"
            yield plain(key.get("description") or section.get("description", ""))
            yield table(KEYS, key_rows(section["properties"], schema, ""))
            more = section.get("additionalProperties")
            if isinstance(more, dict) and "$ref" in more:
                yield f"Any other name is a table of its own, {code('NAME = { ... }')}:"
                yield table(KEYS, key_rows(resolved(more, schema)["properties"], schema, "NAME."))


def resolved(each: Schema, schema: Schema) -> Schema:
    name = each.get("$ref", "").rpartition("/")[2]
    return schema["$defs"][name] if name else each


def choices_of(each: Schema) -> list[Schema]:
    """The alternatives of one key, null left out."""
    return [one for one in each.get("anyOf", [each]) if one.get("type") != "null"]


def types_of(each: Schema) -> list[str]:
    return [one.get("type", "") for one in choices_of(each)]


def section_of(each: Schema, schema: Schema) -> Schema | None:
    """The record that a key holds, alone or in a list, if it holds one."""
    for one in choices_of(each):
        found = resolved(one.get("items", one) if one.get("type") == "array" else one, schema)
        if "properties" in found:
            return found
    return None


def key_rows(keys: Mapping[str, Schema], schema: Schema, before: str) -> Iterator[Sequence[str]]:
    for name, key in keys.items():
        inner = section_of(key, schema)
        default = key.get("default")
        shown = "" if default in (None, [], {}, "") or inner else code(json.dumps(default))
        meaning = plain(key.get("description", ""))
        yield code(before + name), meaning, taken(key, schema), shown
        if inner is not None and before.count(".") < 2:
            yield from key_rows(inner["properties"], schema, f"{before}{name}.")


def taken(each: Schema, schema: Schema) -> str:
    """What may be written there, in words."""
    found = []
    for one in map(lambda part: resolved(part, schema), choices_of(each)):
        if "enum" in one or "const" in one:
            found.append(
                ", ".join(code(json.dumps(v)) for v in one.get("enum", [one.get("const")]))
            )
        elif one.get("type") == "array":
            inside = one.get("items") or {}
            found.append(f"list of {taken(inside, schema)}" if inside else "list")
        elif "properties" in one or one.get("type") == "object":
            found.append("table")
        else:
            limits = [
                f"{word} {one[key]:g}"
                for key, word in (
                    ("minimum", "from"),
                    ("exclusiveMinimum", "above"),
                    ("maximum", "to"),
                    ("exclusiveMaximum", "below"),
                )
                if key in one
            ]
            kinds = one.get("type", "any")
            kind = kinds if isinstance(kinds, str) else " or ".join(kinds)
            found.append(" ".join([kind, *limits]))
    return " or ".join(dict.fromkeys(found))


# --- commands


def command_lines() -> Iterator[str]:
    yield "# Commands"
    yield (
        "Results go to stdout; progress, notes and errors to stderr. Exit status: 0 fine, 1 a gate "
        "failed, 2 the request is wrong, 3 the data is wrong, 4 the machine failed, 75 try again "
        "later, 130 and 143 interrupted."
    )
    program = typer.main.get_command(make_app())
    for name, command in program.commands.items():
        yield from one_command(name, command)
        for inner, each in getattr(command, "commands", {}).items():
            yield from one_command(f"{name} {inner}", each)


def one_command(name: str, command: Any) -> Iterator[str]:
    context = typer.Context(command, info_name=f"evalkit {name}")
    usage = command.get_usage(context).removeprefix("Usage: ")
    yield f"## evalkit {name}"
    yield f"```text\n{usage}\n```"
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        yield plain(paragraph)
    records = [each.get_help_record(context) for each in command.params if each.name != "help"]
    if any(records):
        rows = ([code(option), plain(text)] for option, text in filter(None, records))
        yield table("option|meaning", rows)


# --- Python


def python_lines() -> Iterator[str]:
    yield "# Python"
    yield "`import evalkit` loads none of the heavy libraries; the first call does."
    first = ("evaluate", "compare", "Report", "load", "figures")
    for name in (*first, *(each for each in evalkit.__all__ if each not in first)):
        found = getattr(evalkit, name)
        if inspect.isfunction(found):
            yield from function_lines(f"evalkit.{name}", found, "##")
        elif inspect.isclass(found):
            yield f"## evalkit.{name}"
            yield from docstring_lines(found)
            for member, value in vars(found).items():
                if member.startswith("_") or not inspect.getdoc(value):
                    continue
                if isinstance(value, property):
                    yield f"### {name}.{member}"
                    yield from docstring_lines(value)
                elif inspect.isfunction(value):
                    yield from function_lines(f"{name}.{member}", value, "###")


def function_lines(name: str, function: Callable[..., object], mark: str) -> Iterator[str]:
    signature = inspect.signature(function)
    parts = [
        str(each).replace("'", "") for each in signature.parameters.values() if each.name != "self"
    ]
    first = next(
        (
            n
            for n, each in enumerate(signature.parameters.values())
            if each.kind == each.KEYWORD_ONLY
        ),
        None,
    )
    if first is not None:
        parts.insert(first - ("self" in signature.parameters), "*")
    returned = inspect.formatannotation(signature.return_annotation).strip("'")
    one_line = f"{name}({', '.join(parts)}) -> {returned}"
    many_lines = f"{name}(\n    " + ",\n    ".join(parts) + f",\n) -> {returned}"
    yield f"{mark} {name}"
    yield f"```python\n{one_line if len(one_line) < 90 else many_lines}\n```"
    yield from docstring_lines(function)


def docstring_lines(thing: object) -> Iterator[str]:
    """A docstring: sentences, doctests as they stand, Args and Raises as lists."""
    for block in (inspect.getdoc(thing) or "").split("\n\n"):
        for part in re.split(r"\n?^(?=Args:|Raises:|Returns:)", block, flags=re.MULTILINE):
            head, _, rest = part.partition("\n")
            if head in ("Args:", "Raises:", "Returns:"):
                pairs = map(lambda line: line.partition(":"), fields_of(rest))
                yield f"*{head[:-1]}*"
                yield "\n".join(f"- `{names}`: {plain(meaning)}" for names, _, meaning in pairs)
            elif ">>>" in part:
                yield f"```pycon\n{inspect.cleandoc(part)}\n```"
            elif part:
                yield plain(part)


def fields_of(text: str) -> list[str]:
    """The entries of an `Args:` block, each with its further lines."""
    return re.split(r"\n(?=\S)", inspect.cleandoc(text))


# --- metrics


def metric_lines(kind: str) -> Iterator[str]:
    yield f"# Metrics of {kind}"
    yield METRICS_OF[kind]
    yield "Written `name(parameter=value)@cutoff`; `evalkit explain NAME` adds a worked example."
    for metric in registry_of(kind).values():
        yield from one_metric(metric)


def one_metric(metric: Metric) -> Iterator[str]:
    from latex2mathml.converter import convert  # the extra docs has it

    low, high = (f"{each:g}" if math.isfinite(each) else "no limit" for each in metric.bounds)
    yield f"## {metric.name}"
    yield plain(metric.summary)
    if metric.latex:
        yield f'<div class="formula">{convert(metric.latex, display="block")}</div>'
    facts = {
        "formula": metric.formula,
        "bounds": f"{low} to {high}; {metric.direction}",
        "undefined": metric.undefined,
        "cutoff": "any, or none for the whole list" if metric.cutoff == "optional" else "none",
        "also read": ", ".join(map(code, metric.aliases)),
        "source": metric.source,
    }
    yield "\n".join(f"- *{word}*: {plain(text)}" for word, text in facts.items() if text)
    if metric.parameters:
        rows = (row for each in metric.parameters for row in parameter_rows(each))
        yield table("parameter|value|meaning", rows)


def parameter_rows(each: Parameter) -> Iterator[Sequence[str]]:
    if not each.choices:
        yield code(each.name), f"{code(each.default)}; {each.domain}", plain(each.doc)
    for value, meaning in zip(each.choices, each.meanings, strict=True):
        first = value == each.default
        said = f"{each.doc.rstrip('.')}: {meaning}" if first else meaning
        yield code(each.name), code(value) + (" (default)" if first else ""), plain(said)


# --- codes, files


def code_lines() -> Iterator[str]:
    yield "# Errors and warnings"
    yield (
        "Each has a code, a message, a place and a hint. `evalkit explain CODE` prints the same as "
        "here. Exit status 2: the request is wrong; 3: the data; 4: the machine; 75: try again."
    )
    for each in all_codes().values():
        yield f"## {each.name}"
        yield plain(each.means)
        yield f"- *Cause*: {plain(each.cause)}\n- *Cure*: {plain(each.cure)}"


def file_lines() -> Iterator[str]:
    yield "# Files and columns"
    yield "A run is one folder, `runs/RUN_ID/`, written whole or not at all."
    made_by = {file_of(name): name for name in FORMS} | {"comparisons.parquet": "parquet"}
    yield table(
        "file|written where `formats` has|holds",
        ([code(file), code(made_by.get(file, "")), text] for file, text in FILES.items()),
    )
    yield "## metrics.parquet"
    yield "One row for each number; what is undefined, NaN in Python, is null in files."
    said = said_of(entries.Estimate) | {"label": "the metric as it was asked for"}
    said |= {"job": "name of the job", "run_id": "of the run", "started": "when it began, in UTC"}
    columns = (*COLUMNS, *OF_RUN)
    yield table("column|holds", ([code(name), plain(said.get(name, ""))] for name in columns))
    yield "## report.json"
    said = said_of(Report)
    yield table(
        "key|type|holds",
        (
            [
                code(NAMES_IN_JSON.get(each.name, each.name)),
                code(each.type),
                plain(said.get(each.name, "")),
            ]
            for each in dataclasses.fields(Report)
            if each.init and each.name not in NOT_IN_JSON
        ),
    )
    for name, var in vars(entries).items():
        if dataclasses.is_dataclass(var):
            yield f"### {name.strip('_')}"
            yield plain((var.__doc__ or "").partition("Args:")[0])
            said = said_of(var)
            rows = (
                [code(f.name), code(f.type), plain(said.get(f.name, ""))]
                for f in dataclasses.fields(var)
            )
            yield table("key|type|holds", rows)
    yield "## history.sqlite"
    yield "An index over all runs of a folder, which `evalkit history query` reads with SQL."
    with TemporaryDirectory() as folder:
        found = {name: query(Path(folder), f"SELECT * FROM {name}").columns for name in TABLES}
    rows = ([code(name), ", ".join(map(code, columns))] for name, columns in found.items())
    yield table("table|columns", rows)


def said_of(record: type) -> dict[str, str]:
    """What a record's source says of its fields: in its docstring, or behind them."""
    source = inspect.getsource(record)
    said = dict(re.findall(r"^    (\w+): [^#\n]*  # (.+)$", source, re.MULTILINE))
    for line in fields_of((record.__doc__ or "").partition("Args:")[2]):
        names, _, meaning = line.partition(":")
        said |= dict.fromkeys(names.split(", "), meaning)
    return said


def main() -> None:
    for path, text in pages().items():
        target = Path(sys.argv[1]) / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
