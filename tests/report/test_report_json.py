"""report.json: fixed bytes, strict JSON, and back."""

import json
import math
from dataclasses import fields, replace

import pytest
from campaigns import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from evalkit.errors import DataError
from evalkit.report import Counts, Estimate, Input, Meta, ModelCounts, Report, TruthCounts, Warning_
from evalkit.report.json_ import parse_report

# Every text Python can hold, lone surrogates of undecodable file names among them.
TEXTS = st.text(st.characters(codec=None), max_size=12)
NUMBERS = st.floats()
COUNTS = st.integers(0, 2**63)
DROPPED = st.dictionaries(TEXTS, COUNTS, max_size=2)
NULLABLE = st.none() | NUMBERS


def reports() -> st.SearchStrategy[Report]:
    estimates = st.builds(
        Estimate,
        model=TEXTS,
        metric=TEXTS,
        name=TEXTS,
        cutoff=st.none() | COUNTS,
        parameters=st.dictionaries(TEXTS, TEXTS | st.floats(allow_nan=False), max_size=2),
        value=NUMBERS,
        n_users=COUNTS,
        n_undefined=COUNTS,
        segmentation=st.none() | TEXTS,
        segment=st.none() | TEXTS,
        low=NULLABLE,
        high=NULLABLE,
        std_error=NULLABLE,
    )
    models = st.builds(
        ModelCounts,
        **{each.name: COUNTS for each in fields(ModelCounts)}
        | {"rows_dropped": DROPPED, "duplicates_searched": st.sampled_from(["relevant", "all"])},
    )
    truth = st.builds(
        TruthCounts,
        **{each.name: COUNTS for each in fields(TruthCounts)}
        | {"rows_dropped": DROPPED, "newest": st.none() | TEXTS},
    )
    return st.builds(
        Report,
        evalkit=TEXTS,
        run_id=TEXTS,
        run_key=TEXTS,
        name=TEXTS,
        profile=TEXTS,
        inputs=st.lists(
            st.builds(Input, TEXTS, st.none() | TEXTS, st.tuples(TEXTS), COUNTS, st.none() | TEXTS),
            max_size=2,
        ).map(tuple),
        counts=st.builds(Counts, truth, st.dictionaries(TEXTS, models, max_size=2)),
        estimates=st.lists(estimates, max_size=4).map(tuple),
        warnings=st.lists(st.builds(Warning_, TEXTS, TEXTS, st.none() | TEXTS), max_size=2).map(
            tuple
        ),
        meta=st.builds(
            Meta, TEXTS, NUMBERS, NUMBERS, COUNTS, NUMBERS, COUNTS, st.just({}), st.just({})
        ),
    )


@settings(max_examples=examples(60), deadline=None)
@given(report=reports(), many=st.booleans())
def test_numbers_of_some_metrics_are_those_of_the_whole_report(report, many):
    text = report.to_json()
    wanted = {each.metric for each in report.estimates[: 3 if many else 1]}

    few = parse_report(text, at="", metrics=wanted)

    whole = Report.from_json(text)
    kept = tuple(each for each in whole.estimates if each.metric in wanted)
    assert repr(few.estimates) == repr(kept)  # NaN is itself
    assert (few.counts, few.warnings) == (whole.counts, whole.warnings)


def refuse_constant(text: str) -> None:
    raise AssertionError(f"{text} is no JSON")


@settings(max_examples=examples(60), deadline=None)
@given(report=reports())
def test_report_json_comes_back_as_it_was_written(report):
    text = report.to_json()

    json.loads(text.encode(), parse_constant=refuse_constant)
    again = Report.from_json(text)
    # Meta and numbers that are not finite are null in the text, so texts are compared.
    assert Report.from_json(again.to_json()).to_json() == again.to_json()
    assert [each.metric for each in again.estimates] == [each.metric for each in report.estimates]
    assert again.counts == report.counts


def test_keys_stand_in_the_order_of_the_interface(report):
    document = json.loads(report.to_json())

    assert list(document) == [
        *("schema_version", "evalkit", "run_id", "run_key", "name", "profile", "inputs"),
        *(
            "counts",
            "primary",
            "metrics",
            "comparisons",
            "statistics",
            "standings",
            "findings",
            "macros",
            "curves",
        ),
        *("distributions", "graphs", "gates", "warnings", "meta"),
    ]
    assert list(document["metrics"][0]) == [
        *("model", "metric", "label", "name", "cutoff", "parameters", "segmentation", "segment"),
        *("value", "low", "high", "std_error", "n_users", "n_undefined", "n_clusters", "df"),
        "policies",
    ]
    assert list(document["counts"]["models"]["als"])[:6] == [
        *("rows", "rows_used", "rows_dropped", "users"),
        *("users_without_ranking", "users_without_truth"),
    ]


def test_same_report_is_the_same_bytes(report):
    again = replace(report, config={"other": 1})

    assert again.to_json().encode() == report.to_json().encode()


def test_each_number_has_its_own_line_and_the_text_ends_in_one_newline(report):
    text = report.to_json()

    assert sum(line.lstrip().startswith('{"model"') for line in text.splitlines()) == 6
    assert text.endswith("}\n")
    assert not text.endswith("\n\n")


def test_floats_keep_every_bit_and_undefined_is_null(make_report, make_estimate):
    value = 0.1 + 0.2
    report = make_report(
        [
            make_estimate("a", "RR", value, low=math.inf, high=-0.0),
            make_estimate("b", "RR", math.nan),
        ]
    )

    first, second = json.loads(report.to_json())["metrics"]

    assert (first["value"], first["low"], second["value"]) == (value, None, None)
    assert math.isnan(Report.from_json(report.to_json()).value("RR", model="b"))


def test_names_are_written_readable_but_never_as_terminal_commands(make_report, make_estimate):
    text = make_report([make_estimate("naïve 模型\x1b[31m\x9b\x7f\udc80", "RR", 1.0)]).to_json()

    assert "naïve 模型" in text
    assert not any(each in text for each in "\x1b\x9b\x7f\udc80")
    assert json.loads(text)["metrics"][0]["model"] == "naïve 模型\x1b[31m\x9b\x7f\udc80"


def test_numbers_of_numpy_are_written_as_numbers(make_report, make_estimate):
    numpy = pytest.importorskip("numpy")
    report = make_report([make_estimate("a", "RR", numpy.float64(0.5), n_users=numpy.int64(3))])

    row = json.loads(report.to_json())["metrics"][0]

    assert (row["value"], row["n_users"]) == (0.5, 3)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "null", "{}", '{"schema_version": 1}', "{" * 5000, b"\xff\xfe", "[" * 100_000],
)
def test_text_that_is_no_report_is_refused(text):
    with pytest.raises(DataError) as caught:
        Report.from_json(text, at="report.json")

    assert caught.value.code == "report-unreadable"
    assert caught.value.at == "report.json"


def test_values_of_other_types_are_refused(report):
    text = report.to_json().replace('"n_users": 90', '"n_users": "90"', 1)

    with pytest.raises(DataError, match="whole number"):
        Report.from_json(text)


@pytest.mark.parametrize("key", ["duplicates", "bad_ranks", "users_without_truth", "depth"])
def test_a_count_that_is_not_there_is_no_zero(report, key):
    document = json.loads(report.to_json())
    for counts in document["counts"]["models"].values():
        del counts[key]

    with pytest.raises(DataError, match=key):
        Report.from_json(json.dumps(document))


def test_later_schema_is_named(report):
    text = report.to_json().replace('"schema_version": 1', '"schema_version": 3')

    with pytest.raises(DataError, match="schema_version 3") as caught:
        Report.from_json(text)

    assert caught.value.code == "report-schema"


def test_direction_of_known_metrics_survives(report):
    again = Report.from_json(report.to_json())

    assert {each.name: each.higher_is_better for each in again.estimates} == {
        "nDCG": True,
        "recall": True,
        "first_hit_rank": False,
    }
