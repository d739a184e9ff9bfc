"""report.json: the truth of a run. Same numbers, same bytes."""

import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from itertools import islice
from operator import attrgetter
from types import MappingProxyType, NoneType
from typing import Any, cast

from evalkit.errors import DataError, EvalkitError
from evalkit.report import entries
from evalkit.report.by_hints import (
    load_json,
    read_list,
    read_object,
    read_record,
    read_text,
    read_wholes,
)
from evalkit.report.frames import spell_numbers
from evalkit.report.record import SCHEMA_VERSION, WITHOUT_SEGMENTS, Report

# Half characters (names of files that are no UTF-8) and what a terminal or an editor would obey.
_UNPRINTABLE = re.compile(
    "[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)

ROWS_A_PIECE = 1000


def render_json(report: Report) -> str:
    """The text of report.json: fixed key order, one entry a line, one newline at the end."""
    return "".join(pieces_of(report))


def pieces_of(report: Report) -> Iterator[str]:
    """The text of report.json in pieces of `ROWS_A_PIECE` entries at most, made one by one."""
    counts = report.counts
    models = _block(((name, [_line(_counts(each))]) for name, each in counts.models.items()), 4)
    ties = {name: each.ties for name, each in counts.models.items()}
    lists = {name: _records(getattr(report, name)) for name in _LISTS}
    some = [name for name in _OF_SOME if has_any(name, report.estimates)]
    for name in _WHERE_THERE:
        if not getattr(report, name):
            lists.pop(name)
    used = report.statistics
    parts: list[tuple[str, Iterable[str]]] = [
        ("schema_version", [_line(report.schema_version)]),
        *((name, [_line(getattr(report, name))]) for name in _TEXTS),
        ("inputs", lists.pop("inputs")),
        ("counts", _block([("truth", [_line(_truth(counts.truth))]), ("models", models)], 2)),
        ("primary", [_line(report.primary)]),
        (
            "metrics",
            _records(report.estimates, (*_ESTIMATE, *some), {"label": shown_labels(report)}),
        ),
        ("comparisons", lists.pop("comparisons")),
        ("statistics", [_line(None if used is None else _fields(used))]),
        ("standings", _rows(_line(_standing(each)) for each in report.standings)),
        *lists.items(),
        *((("row_counts", [_line(report.row_counts)]),) if report.row_counts else ()),
        ("meta", [_line({**_fields(report.meta), "ties": ties})]),
    ]
    yield from _block(parts, 0)
    yield "\n"


_ESTIMATE = (  # the keys of one entry of `metrics`, in the order of the format
    *("model", "metric", "label", "name", "cutoff", "parameters", "segmentation", "segment"),
    *("value", "low", "high", "std_error", "n_users", "n_undefined", "n_clusters", "df"),
    "policies",
)
_OF_SOME = ("low_gate", "high_gate", "caveats")  # left out where no estimate has any


def dump_line(value: object) -> str:
    """`value` as JSON on one line: NaN and infinity are null, keys stay in their order."""
    return escaped(json.dumps(_plain(value), ensure_ascii=False, allow_nan=False))


def escaped(text: str) -> str:
    """JSON with escapes for what moves a cursor, turns a line round or cannot be encoded."""
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def dump_column(values: Sequence[object]) -> Iterator[str]:
    """Every value as `dump_line` has it; what is met again is not written again."""
    kinds = set(map(type, values))
    if kinds <= {float, NoneType}:
        return iter(spell_numbers(cast(Sequence[float | None], values), _number))
    if kinds <= {int, NoneType}:
        return ("null" if x is None else repr(x) for x in values)
    if kinds <= {str, NoneType}:
        texts = {each: dump_line(each) for each in set(values)}
        return map(texts.__getitem__, values)
    if not kinds <= {str, NoneType, dict}:
        return map(dump_line, values)
    texts_by_id, known = dict[int, str](), dict[str, str]()
    for value in values:
        if id(value) not in texts_by_id:  # most are the same few objects
            key = repr(value)  # 1, 1.0 and True differ in it
            if key not in known:
                known[key] = dump_line(value)
            texts_by_id[id(value)] = known[key]
    return map(texts_by_id.__getitem__, map(id, values))


_line = dump_line


def _number(value: float | None) -> str:
    return "null" if value is None or not math.isfinite(value) else repr(value)


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if is_dataclass(value):
        return _plain(_fields(value))
    if hasattr(value, "__index__"):  # numpy's integers
        return int(value.__index__())
    return str(value)  # paths, dates


def _fields(record: Any) -> dict[str, object]:
    return {each.name: getattr(record, each.name) for each in fields(record)}


def _truth(truth: entries.TruthCounts) -> dict[str, object]:
    """Its counts; the time of its newest row where that was looked for."""
    return {name: each for name, each in _fields(truth).items() if (name, each) != ("newest", None)}


def _counts(model: entries.ModelCounts) -> dict[str, object]:
    """The counts that are the same for every form of a log.

    Equal scores are none of them: where ranks are given nobody looks for any. They go into
    `meta`, which tells of the run.
    """
    return {name: value for name, value in _fields(model).items() if name != "ties"}


_OF_STANDING = ("model", "value", "group")


def _standing(standing: entries.Standing) -> dict[str, object]:
    rows = [dict(zip(_OF_STANDING, each, strict=True)) for each in standing.models]
    return {"metric": standing.metric, "models": rows}


def _block(parts: Iterable[tuple[str, Iterable[str]]], indent: int) -> Iterator[str]:
    inner, begin = " " * (indent + 2), "{\n"
    for key, pieces in parts:
        yield f"{begin}{inner}{_line(key)}: "
        yield from pieces
        begin = ",\n"
    yield "{}" if begin == "{\n" else "\n" + " " * indent + "}"


def _rows(rows: Iterable[str]) -> Iterator[str]:
    begin, left = "[\n    ", iter(rows)
    while some := ",\n    ".join(islice(left, ROWS_A_PIECE)):
        yield begin + some
        begin = ",\n    "
    yield "[]" if begin[0] == "[" else "\n  ]"


def shown_labels(report: Report) -> list[str]:
    """The metric of every estimate as it was asked for."""
    return [report.shown.get(each.metric, each.metric) for each in report.estimates]


def _records(
    records: Sequence[Any],
    names: Sequence[str] = (),
    given: Mapping[str, Sequence[object]] = MappingProxyType({}),
) -> Iterator[str]:
    """Records of one kind, one a line, written field by field: there may be very many."""
    if not records:
        yield "[]"
        return
    names = names or [
        each.name
        for each in fields(records[0])
        if each.name not in _WHERE_ANY or has_any(each.name, records)
    ]
    form = ", ".join(f"{_line(name)}: %s" for name in names)
    columns = [
        dump_column(given[name] if name in given else [*map(attrgetter(name), records)])
        for name in names
    ]
    yield from _rows(map(f"{{{form}}}".__mod__, zip(*columns, strict=True)))


def parse_report(
    text: str | bytes,
    *,
    at: str,
    metrics: Collection[str] | None = None,
    rows_beside: Callable[[str], list[Any]] | None = None,
) -> Report:
    """The report that `text` holds.

    Args:
        metrics: read numbers of these alone, and neither comparisons nor what is drawn.
        rows_beside: all rows of `metrics` or `comparisons`, where the text leaves segments out.
    Raises:
        DataError: no report [report-unreadable], or a later schema [report-schema].
    """
    try:
        text = text.decode("utf-8") if isinstance(text, bytes) else text
        if metrics is not None:
            text = _with_few(text, metrics)
        document = read_object(load_json(text))
        if metrics is not None:
            rows = read_list(document["metrics"])
            document["metrics"] = [each for each in rows if each["metric"] in metrics]
        version = document["schema_version"]
        if version == WITHOUT_SEGMENTS and rows_beside is not None:
            _put_back(document, rows_beside, ("metrics",) if metrics is not None else _SEGMENTED)
        elif version != SCHEMA_VERSION:
            raise _unknown_schema(version, at)
        return _read(document, tuple(_LISTS) if metrics is None else _FEW)
    except EvalkitError:
        raise
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        reason = f"no {error}" if isinstance(error, KeyError) else str(error)
        message = f"this is no report.json: {reason[:300]}"
        hint = "evalkit verify RUN compares every file with its checksum"
        raise DataError(message, code="report-unreadable", at=at, hint=hint) from error


def _unknown_schema(version: object, at: str) -> DataError:
    if version == WITHOUT_SEGMENTS:
        said = "this report.json leaves segments to metrics.parquet and comparisons.parquet"
        hint = "read the run: evalkit.load(RUN), or evalkit report RUN --format json"
    else:
        known = f"{SCHEMA_VERSION} and {WITHOUT_SEGMENTS}"
        said = f"the report has schema_version {version!r}, this evalkit reads {known}"
        hint = "read it with the evalkit that wrote it, or a later one"
    return DataError(said, code="report-schema", at=at, hint=hint)


_SEGMENTED = ("metrics", "comparisons")


def _put_back(
    document: dict[str, Any], rows_beside: Callable[[str], list[Any]], names: Sequence[str]
) -> None:
    """Give a document without segments all rows; those of all users must be the same there."""
    for name in names:
        rows = rows_beside(name)
        written = {key for each in document[name] for key in each}  # others are left out if null
        whole = [
            {key: value for key, value in each.items() if key in written or value is not None}
            for each in rows
            if each["segmentation"] is None
        ]
        if whole != document[name]:
            raise ValueError(f"{name} of all users are others in {name}.parquet")
        document[name] = rows


def _with_few(text: str, metrics: Collection[str]) -> str:
    """Less text where it is laid out as `render_json` does: few numbers, and lists of `_FEW`."""
    wanted = [f'"metric": {_line(each)},' for each in metrics]
    for name in ("metrics", *(name for name in _LISTS if name not in _FEW)):
        begin, end = text.find(f'\n  "{name}": [\n'), 0
        if begin >= 0:
            end = text.find("\n  ]", begin)
        if end > 0:
            begin = text.index("[", begin) + 1
            rows = text[begin:end].split("\n") if name == "metrics" else []
            kept = [row.rstrip(",") for row in rows if any(each in row for each in wanted)]
            text = text[:begin] + ",".join(kept) + text[end:]
    return text


def _read(document: dict[str, Any], lists: Collection[str]) -> Report:
    counts, ties = document["counts"], read_wholes(document["meta"].get("ties", {}))
    directions = _directions({read_text(each["name"]) for each in document["metrics"]})
    used = document.get("statistics")
    found: dict[str, Any] = {name: read_text(document[name]) for name in _TEXTS}
    for name, kind in _LISTS.items():
        rows = read_list(document.get(name, [])) if name in lists else []
        found[name] = tuple(read_record(kind, each) for each in rows)
    found["counts"] = entries.Counts(
        read_record(entries.TruthCounts, counts["truth"]),
        {
            name: read_record(entries.ModelCounts, each, {"ties": ties.get(name, 0)})
            for name, each in counts["models"].items()
        },
    )
    found["estimates"] = tuple(
        read_record(entries.Estimate, each, {"higher_is_better": directions.get(each["name"])})
        for each in read_list(document["metrics"])
    )
    found["primary"] = tuple(map(read_text, read_list(document.get("primary", []))))
    found["shown"] = {
        read_text(each["metric"]): read_text(each.get("label", each["metric"]))
        for each in document["metrics"]
    }
    found["row_counts"] = read_wholes(document.get("row_counts", {}))
    found["standings"] = tuple(map(_read_standing, read_list(document.get("standings", []))))
    found["statistics"] = None if used is None else read_record(entries.StatisticsUsed, used)
    return Report(**found, meta=read_record(entries.Meta, document["meta"]))


_TEXTS = ("evalkit", "run_id", "run_key", "name", "profile")
_LISTS: dict[str, type] = {  # fields of the report, in their order in the document
    "inputs": entries.Input,
    "comparisons": entries.Comparison,
    "findings": entries.Finding,
    "macros": entries.Macro,
    "gaps": entries.Gap,
    "curves": entries.Curve,
    "distributions": entries.Distribution,
    "graphs": entries.Graph,
    "nights": entries.OverNights,
    "checks": entries.Check,
    "gates": entries.Gate,
    "warnings": entries.Warning_,
}


def has_any(name: str, records: Sequence[object]) -> bool:
    """Whether any record has the field; a number may be 0."""
    values = map(attrgetter(name), records)
    return any(value is not None if name in OF_EXPERIMENTS else value for value in values)


OF_EXPERIMENTS = (
    *("value_baseline", "value_candidate", "statistic", "theta", "cap"),
    *("relative_low_adjusted", "relative_high_adjusted", "margin_relative"),
    *("low_gate", "high_gate", "relative_low_gate", "relative_high_gate"),
)
_WHERE_ANY = (
    "groups",
    "caveats",
    "family_size",
    "ranked_by",
    "left_out",
    *OF_EXPERIMENTS,
)  # fields that are left out where no record has any
_WHERE_THERE = ("gaps", "nights", "checks")  # lists that are left out where they are empty
_FEW = ("inputs", "gates", "warnings")  # lists that are short in every report


def _read_standing(row: dict[str, Any]) -> entries.Standing:
    models = [[each[name] for name in _OF_STANDING] for each in read_list(row["models"])]
    return read_record(entries.Standing, {**row, "models": models})


def _directions(names: Set[str]) -> dict[str, bool | None]:
    from evalkit.metrics import folders, registry_of

    is_ranked = names <= registry_of("rankings").keys()
    kinds = ("rankings",) if is_ranked else folders()  # loaded for this
    return {
        name: each.higher_is_better for kind in kinds for name, each in registry_of(kind).items()
    }
