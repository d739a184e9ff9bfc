"""report.json: the truth of a run. Same numbers, same bytes."""

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import cast

from evalkit.errors import DataError, EvalkitError
from evalkit.report.record import (
    SCHEMA_VERSION,
    Comparison,
    Counts,
    Curve,
    Distribution,
    Estimate,
    Finding,
    Gate,
    Graph,
    Input,
    Macro,
    Meta,
    ModelCounts,
    Report,
    Standing,
    StatisticsUsed,
    TruthCounts,
    Warning_,
    finite,
)

# Half characters (names of files that are no UTF-8) and what a terminal would obey.
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def render_json(report: Report) -> str:
    """The text of report.json: fixed key order, one entry a line, one newline at the end."""
    counts = report.counts
    models = _block([(name, _line(_counts(each))) for name, each in counts.models.items()], 4)
    ties = {name: each.ties for name, each in counts.models.items()}
    parts = [
        ("schema_version", _line(report.schema_version)),
        ("evalkit", _line(report.evalkit)),
        ("run_id", _line(report.run_id)),
        ("run_key", _line(report.run_key)),
        ("name", _line(report.name)),
        ("profile", _line(report.profile)),
        ("inputs", _rows(_fields(each) for each in report.inputs)),
        ("counts", _block([("truth", _line(_fields(counts.truth))), ("models", models)], 2)),
        ("metrics", _rows(estimate_row(each) for each in report.estimates)),
        ("comparisons", _rows(_fields(each) for each in report.comparisons)),
        ("statistics", _line(_statistics(report.statistics))),
        ("standings", _rows(_standing(each) for each in report.standings)),
        ("findings", _rows(_fields(each) for each in report.findings)),
        ("macros", _rows(_fields(each) for each in report.macros)),
        ("curves", _rows(_fields(each) for each in report.curves)),
        ("distributions", _rows(_fields(each) for each in report.distributions)),
        ("graphs", _rows(_fields(each) for each in report.graphs)),
        ("gates", _rows(_fields(each) for each in report.gates)),
        ("warnings", _rows(_fields(each) for each in report.warnings)),
        ("meta", _line({**_fields(report.meta), "ties": ties})),
    ]
    return _block(parts, 0) + "\n"


def estimate_row(estimate: Estimate) -> dict[str, object]:
    """One entry of `metrics`: keys and their order are those of the format."""
    return {
        "model": estimate.model,
        "metric": estimate.metric,
        "name": estimate.name,
        "cutoff": estimate.cutoff,
        "parameters": dict(estimate.parameters),
        "segmentation": estimate.segmentation,
        "segment": estimate.segment,
        "value": finite(estimate.value),
        "low": finite(estimate.low),
        "high": finite(estimate.high),
        "std_error": finite(estimate.std_error),
        "n_users": estimate.n_users,
        "n_undefined": estimate.n_undefined,
        "policies": dict(estimate.policies),
    }


def dump_line(value: object) -> str:
    """`value` as JSON on one line: NaN and infinity are null, keys stay in their order."""
    text = json.dumps(_plain(value), ensure_ascii=False, allow_nan=False)
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


_line = dump_line


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
    if hasattr(value, "__index__"):  # numpy's integers
        return int(value.__index__())
    return str(value)  # paths, dates


_Record = (
    Input
    | TruthCounts
    | ModelCounts
    | Warning_
    | Meta
    | Comparison
    | Curve
    | Distribution
    | Finding
    | Macro
    | Gate
    | Graph
    | StatisticsUsed
)


def _fields(record: _Record) -> dict[str, object]:
    return {each.name: getattr(record, each.name) for each in fields(record)}


def _counts(model: ModelCounts) -> dict[str, object]:
    """The counts that are the same for every form of a log.

    Equal scores are none of them: where ranks are given nobody looks for any. They go into
    `meta`, which tells of the run.
    """
    return {name: value for name, value in _fields(model).items() if name != "ties"}


def _statistics(used: StatisticsUsed | None) -> dict[str, object] | None:
    return None if used is None else _fields(used)


def _standing(standing: Standing) -> dict[str, object]:
    names = ("model", "value", "group")
    rows = [dict(zip(names, each, strict=True)) for each in standing.models]
    return {"metric": standing.metric, "models": rows}


def _block(parts: Iterable[tuple[str, str]], indent: int) -> str:
    inner = " " * (indent + 2)
    lines = [f"{inner}{_line(key)}: {text}" for key, text in parts]
    return "{\n" + ",\n".join(lines) + "\n" + " " * indent + "}" if lines else "{}"


def _rows(rows: Iterable[object]) -> str:
    lines = [f"    {_line(row)}" for row in rows]
    return "[\n" + ",\n".join(lines) + "\n  ]" if lines else "[]"


def parse_report(text: str | bytes, *, at: str) -> Report:
    """The report that `text` holds.

    Raises:
        DataError: no report [report-unreadable], or a later schema [report-schema].
    """
    try:
        document = json.loads(text)
        version = document["schema_version"]
        if version != SCHEMA_VERSION:
            raise DataError(
                f"the report has schema_version {version!r}, this evalkit reads {SCHEMA_VERSION}",
                code="report-schema",
                at=at,
                hint="read it with the evalkit that wrote it, or a later one",
            )
        return _read(document)
    except EvalkitError:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        reason = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise DataError(
            f"this is no report.json: {reason}",
            code="report-unreadable",
            at=at,
            hint="evalkit verify RUN compares every file with its checksum",
        ) from error


def _read(document: Mapping[str, object]) -> Report:
    counts = _mapping(document["counts"])
    models = _mapping(counts["models"])
    ties = _mapping(_mapping(document["meta"]).get("ties", {}))
    directions = _directions()
    return Report(
        evalkit=str(document["evalkit"]),
        run_id=str(document["run_id"]),
        run_key=str(document["run_key"]),
        name=str(document["name"]),
        profile=str(document["profile"]),
        inputs=tuple(
            Input(
                role=str(each["role"]),
                model=_text(each.get("model")),
                paths=tuple(str(path) for path in _list(each["paths"])),
                rows=_whole(each["rows"]),
                fingerprint=_text(each["fingerprint"]),
            )
            for each in _mappings(document["inputs"])
        ),
        counts=Counts(
            truth=_truth_counts(_mapping(counts["truth"])),
            models={
                name: _model_counts(_mapping(each), _whole(ties.get(name, 0)))
                for name, each in models.items()
            },
        ),
        estimates=tuple(_estimate(each, directions) for each in _mappings(document["metrics"])),
        comparisons=tuple(_comparison(each) for each in _mappings(document["comparisons"])),
        statistics=_statistics_used(document.get("statistics")),
        standings=tuple(
            Standing(
                str(each["metric"]),
                tuple(
                    (str(row["model"]), _value(row["value"]), str(row["group"]))
                    for row in _mappings(each["models"])
                ),
            )
            for each in _mappings(document.get("standings", []))
        ),
        findings=tuple(
            Finding(
                **{name: str(each[name]) for name in _FINDING_TEXTS},
                delta=_value(each["delta"]),
                low=_number(each["low"]),
                high=_number(each["high"]),
                p_value=_value(each["p_value"]),
                p_adjusted=_value(each["p_adjusted"]),
                n_users=_whole(each["n_users"]),
                n_searched=_whole(each["n_searched"]),
            )
            for each in _mappings(document.get("findings", []))
        ),
        macros=tuple(
            Macro(
                model=str(each["model"]),
                metric=str(each["metric"]),
                segmentation=str(each["segmentation"]),
                value=_value(each["value"]),
                std_error=_number(each["std_error"]),
                low=_number(each["low"]),
                high=_number(each["high"]),
                n_segments=_whole(each["n_segments"]),
            )
            for each in _mappings(document.get("macros", []))
        ),
        curves=tuple(
            Curve(
                str(each["model"]),
                str(each["metric"]),
                tuple(_whole(cutoff) for cutoff in _list(each["cutoffs"])),
                tuple(_value(value) for value in _list(each["values"])),
                tuple(_number(value) for value in _list(each["low"])),
                tuple(_number(value) for value in _list(each["high"])),
            )
            for each in _mappings(document.get("curves", []))
        ),
        distributions=tuple(
            Distribution(
                str(each["model"]),
                str(each["metric"]),
                tuple(_value(edge) for edge in _list(each["edges"])),
                tuple(_whole(count) for count in _list(each["counts"])),
            )
            for each in _mappings(document.get("distributions", []))
        ),
        graphs=tuple(_graph(each) for each in _mappings(document.get("graphs", []))),
        gates=tuple(_gate(each) for each in _mappings(document["gates"])),
        warnings=tuple(
            Warning_(str(each["code"]), str(each["message"]), _text(each.get("model")))
            for each in _mappings(document["warnings"])
        ),
        meta=_meta(_mapping(document["meta"])),
    )


def _graph(row: Mapping[str, object]) -> Graph:
    def points(name: str) -> tuple[float, ...]:
        return tuple(_value(each) for each in _list(row[name]))

    def limits(name: str) -> tuple[float | None, ...]:
        return tuple(_number(each) for each in _list(row.get(name, [])))

    return Graph(
        str(row["model"]),
        str(row["kind"]),
        str(row["x_name"]),
        str(row["y_name"]),
        points("x"),
        points("y"),
        limits("low"),
        limits("high"),
        points("rows"),
        points("thresholds"),
        limits("x_low"),
        limits("x_high"),
    )


def _truth_counts(row: Mapping[str, object]) -> TruthCounts:
    return TruthCounts(
        rows=_whole(row["rows"]),
        rows_used=_whole(row["rows_used"]),
        rows_dropped=_wholes(row["rows_dropped"]),
        users=_whole(row["users"]),
        users_without_relevant=_whole(row["users_without_relevant"]),
        pairs=_whole(row["pairs"]),
    )


def _model_counts(row: Mapping[str, object], ties: int) -> ModelCounts:
    seen = row["seen_in_train"]
    return ModelCounts(
        rows=_whole(row["rows"]),
        rows_used=_whole(row["rows_used"]),
        rows_dropped=_wholes(row["rows_dropped"]),
        users=_whole(row["users"]),
        users_without_ranking=_whole(row["users_without_ranking"]),
        users_without_truth=_whole(row["users_without_truth"]),
        duplicates=_whole(row["duplicates"]),
        duplicates_searched=str(row["duplicates_searched"]),
        seen_in_train=None if seen is None else _whole(seen),
        bad_ranks=_whole(row["bad_ranks"]),
        ties=ties,
        depth=_whole(row["depth"]),
    )


def _estimate(row: Mapping[str, object], directions: Mapping[str, bool | None]) -> Estimate:
    cutoff = row["cutoff"]
    name = str(row["name"])
    return Estimate(
        model=str(row["model"]),
        metric=str(row["metric"]),
        name=name,
        cutoff=None if cutoff is None else _whole(cutoff),
        parameters=cast(Mapping[str, str | float], _mapping(row["parameters"])),
        policies=cast(Mapping[str, str | float], _mapping(row.get("policies", {}))),
        segmentation=_text(row["segmentation"]),
        segment=_text(row["segment"]),
        value=_value(row["value"]),
        low=_number(row["low"]),
        high=_number(row["high"]),
        std_error=_number(row["std_error"]),
        n_users=_whole(row["n_users"]),
        n_undefined=_whole(row["n_undefined"]),
        higher_is_better=directions.get(name),
    )


_FINDING_TEXTS = ("baseline", "candidate", "metric", "segmentation", "segment", "kind")


def _comparison(row: Mapping[str, object]) -> Comparison:
    return Comparison(
        baseline=str(row["baseline"]),
        candidate=str(row["candidate"]),
        metric=str(row["metric"]),
        segmentation=_text(row["segmentation"]),
        segment=_text(row["segment"]),
        delta=_value(row["delta"]),
        std_error=_number(row["std_error"]),
        low=_number(row["low"]),
        high=_number(row["high"]),
        relative=_number(row["relative"]),
        relative_low=_number(row["relative_low"]),
        relative_high=_number(row["relative_high"]),
        p_value=_number(row["p_value"]),
        p_adjusted=_number(row["p_adjusted"]),
        effect_size=_number(row["effect_size"]),
        test=str(row["test"]),
        n_users=_whole(row["n_users"]),
        **{
            name: None if row[name] is None else _whole(row[name])
            for name in ("wins", "ties", "losses")
        },
        margin=_number(row["margin"]),
        verdict=str(row["verdict"]),
        smallest_difference=_number(row["smallest_difference"]),
        users_needed=_whole_or_none(row.get("users_needed")),
    )


def _gate(row: Mapping[str, object]) -> Gate:
    return Gate(
        metric=str(row["metric"]),
        model=_text(row["model"]),
        segmentation=_text(row["segmentation"]),
        segment=_text(row["segment"]),
        kind=str(row["kind"]),
        bound=_value(row["bound"]),
        value=_number(row["value"]),
        delta=_number(row["delta"]),
        low=_number(row["low"]),
        high=_number(row["high"]),
        baseline=_text(row["baseline"]),
        baseline_run=_text(row["baseline_run"]),
        judged_by=str(row["judged_by"]),
        n_users=None if row["n_users"] is None else _whole(row["n_users"]),
        outcome=str(row["outcome"]),
        fails=bool(row["fails"]),
        message=str(row["message"]),
    )


def _statistics_used(value: object) -> StatisticsUsed | None:
    if value is None:
        return None
    row = _mapping(value)
    return StatisticsUsed(
        level=_value(row["level"]),
        method=str(row["method"]),
        test=str(row["test"]),
        correction=str(row["correction"]),
        family=str(row["family"]),
        n_tests=_whole(row["n_tests"]),
        baseline=_text(row["baseline"]),
        margin=_number(row["margin"]),
        replicates=_whole_or_none(row["replicates"]),
        seed=_whole_or_none(row["seed"]),
        power=_value(row["power"]),
    )


def _value(value: object) -> float:
    number = _number(value)
    return math.nan if number is None else number


def _meta(row: Mapping[str, object]) -> Meta:
    stages = {key: _number(each) for key, each in _mapping(row["stages"]).items()}
    return Meta(
        started=str(row["started"]),
        seconds=_number(row["seconds"]) or 0.0,
        cpu_seconds=_number(row["cpu_seconds"]) or 0.0,
        peak_bytes=_whole(row["peak_bytes"]),
        rows_per_second=_number(row["rows_per_second"]) or 0.0,
        threads=_whole(row["threads"]),
        stages={key: each or 0.0 for key, each in stages.items()},
        versions={key: str(each) for key, each in _mapping(row.get("versions", {})).items()},
        resampling_bytes=_whole_or_none(row.get("resampling_bytes")),
    )


def _directions() -> dict[str, bool | None]:
    from evalkit.metrics import KINDS, registry_of

    return {
        name: each.higher_is_better for kind in KINDS for name, each in registry_of(kind).items()
    }


def _mapping(value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise TypeError(f"{value!r} stands where an object belongs")
    return value


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise TypeError(f"{value!r} stands where a list belongs")
    return value


def _mappings(value: object) -> list[Mapping[str, object]]:
    return [_mapping(each) for each in _list(value)]


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{value!r} stands where a whole number belongs")
    return value


def _whole_or_none(value: object) -> int | None:
    return None if value is None else _whole(value)


def _wholes(value: object) -> dict[str, int]:
    return {key: _whole(each) for key, each in _mapping(value).items()}


def _number(value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{value!r} stands where a number belongs")
    return float(value)
