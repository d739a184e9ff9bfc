"""trec_eval's own test files give its official output, topic by topic, to every printed digit.

trec_eval orders by similarity as float32, ties by document id descending as text, and averages
over the topics that are judged and ranked, or with -c over all judged topics.
"""

import struct
from pathlib import Path

import pytest
from trec_measures import lacked_measures, shared_measures

from evalkit.config import build_config
from evalkit.pipeline import run_config
from evalkit.report import Report

ALL = "all"
IDS = {"user": "user", "item": "item"}
SCORE = "cast(score as real)"  # float32
BOTH, JUDGED = "skip", "zero"  # which topics are averaged; -c: those that are judged

# output, truth, rankings, threshold, topics, values that both have
FILES = [
    ("out.test", "qrels.test", "results.test", None, BOTH, 13),
    ("out.test", "qrels.test.with-comments", "results.test", None, BOTH, 13),
    ("out.comment.test", "qrels.comment.test", "results.comment.test", None, BOTH, 13),
    ("out.test.a", "qrels.test", "results.test", None, BOTH, 58),
    ("out.test.aq", "qrels.test", "results.test", None, BOTH, 4 * 58),
    ("out.test.aqc", "qrels.test", "results.trunc", None, JUDGED, 4 * 58),
    ("out.test.aql", "qrels.rel_level", "results.test", 2.0, BOTH, 4 * 58),
    ("out.test.meas_params", "qrels.test", "results.test", None, BOTH, 4 * 11),
]


def printed(path: Path) -> dict[tuple[str, str], str]:
    """What trec_eval printed: (measure, topic or `all`) -> the text of the value."""
    rows = [line.split() for line in path.read_text().splitlines()]
    return {(measure, topic): value for measure, topic, value in rows}


def evaluate_files(
    folder: Path,
    metrics: list[str],
    *,
    truth: str,
    rankings: Path,
    threshold: float | None = None,
    topics: str = BOTH,
    relevance: str = "relevance",
    ties: str = "item-text-desc",
) -> Report:
    judged: dict[str, object] = {
        "path": str(folder / truth),
        "format": "trec",
        "columns": {**IDS, "relevance": relevance},
    }
    if threshold is not None:
        judged["threshold"] = threshold
    tree = {
        "truth": judged,
        "rankings": [
            {
                "model": "run",
                "path": str(rankings),
                "format": "trec",
                "columns": {**IDS, "score": SCORE},
            }
        ],
        "metrics": {"names": metrics},
        "policies": {
            "ties": ties,
            "missing_ranking": topics,
            "no_relevant": "zero",
        },
    }
    return run_config(build_config(tree, name="trec"), per_user=True)


def differences(report: Report, expected: dict[tuple[str, str], str]) -> tuple[int, list[str]]:
    """The number of values compared, and lines for those that print otherwise."""
    measures = shared_measures(measure for measure, _ in expected)
    of_topic = {
        name: dict(report.per_user(name).iter_rows()) for name in dict.fromkeys(measures.values())
    }
    n_compared, found = 0, []
    for (measure, topic), text in expected.items():
        if measure not in measures:
            continue
        name = measures[measure]
        if topic != ALL:
            value = of_topic[name][topic]
        elif measure == "num_rel_ret":
            value = sum(of_topic[name].values())
        else:
            value = report.value(name)
        shown = f"{value:.0f}" if measure == "num_rel_ret" else f"{value:.4f}"
        n_compared += 1
        if shown != text:
            found.append(f"{measure} of {topic}: {value!r} instead of {text}")
    return n_compared, found


@pytest.mark.parametrize(("output", "truth", "rankings", "threshold", "topics", "n_values"), FILES)
def test_official_output_is_ours(trec_files, output, truth, rankings, threshold, topics, n_values):
    expected = printed(trec_files / output)
    metrics = list(shared_measures(measure for measure, _ in expected).values())

    report = evaluate_files(
        trec_files,
        metrics,
        truth=truth,
        rankings=trec_files / rankings,
        threshold=threshold,
        topics=topics,
    )

    n_compared, differing = differences(report, expected)
    lacked = lacked_measures(measure for measure, _ in expected)
    print(f"{output}: {n_compared} values compared; not ours: {', '.join(lacked)}")
    assert differing == []
    assert n_compared == n_values


@pytest.mark.parametrize(
    ("output", "truth", "rankings", "threshold"),
    [
        ("out.test", "qrels.test", "results.test", None),
        ("out.comment.test", "qrels.comment.test", "results.comment.test", None),
        ("out.test.aqc", "qrels.test", "results.trunc", None),
        ("out.test.aql", "qrels.rel_level", "results.test", 2.0),
    ],
)
def test_counts_are_those_of_trec_eval(trec_files, output, truth, rankings, threshold):
    expected = printed(trec_files / output)

    counts = evaluate_files(
        trec_files, ["hits"], truth=truth, rankings=trec_files / rankings, threshold=threshold
    ).counts

    assert f"{counts.truth.users}" == expected["num_q", ALL]
    assert f"{counts.models['run'].rows_used}" == expected["num_ret", ALL]
    assert f"{counts.truth.pairs}" == expected["num_rel", ALL]


def test_lists_cut_at_a_hundred_give_the_official_output(trec_files, tmp_path):
    expected = printed(trec_files / "out.test.aqcM")
    metrics = list(shared_measures(measure for measure, _ in expected).values())
    lines = (trec_files / "results.trunc").read_text().splitlines()
    (tmp_path / "cut.trec").write_text("\n".join(first_of_each_topic(lines, 100)))

    report = evaluate_files(
        trec_files, metrics, truth="qrels.test", rankings=tmp_path / "cut.trec", topics=JUDGED
    )

    n_compared, differing = differences(report, expected)
    print(f"out.test.aqcM: {n_compared} values compared")
    assert differing == []
    assert n_compared == 4 * 58


def first_of_each_topic(lines: list[str], n_rows: int) -> list[str]:
    """The lines of a run that trec_eval keeps with -M: each topic's first ones, by its order."""

    def place(line: str) -> tuple[float, bytes]:
        _, _, document, _, score, *_ = line.split()
        (single,) = struct.unpack("f", struct.pack("f", float(score)))
        return single, document.encode()

    topics: dict[str, list[str]] = {}
    for line in lines:
        topics.setdefault(line.split()[0], []).append(line)
    ordered = [sorted(rows, key=place, reverse=True) for rows in topics.values()]
    return [line for rows in ordered for line in rows[:n_rows]]


def test_gains_of_ones_own_are_an_expression_of_the_relevance(trec_files):
    measure = "ndcg_1=3,2=9,4=4.5"
    expected = printed(trec_files / "out.test.meas_params")

    report = evaluate_files(
        trec_files,
        ["nDCG"],
        truth="qrels.test",
        rankings=trec_files / "results.test",
        relevance="case relevance when 1 then 3 when 2 then 9 when 4 then 4.5 else relevance end",
    )

    shown = {topic: f"{value:.4f}" for topic, value in report.per_user("nDCG").iter_rows()}
    shown[ALL] = f"{report.value('nDCG'):.4f}"
    assert shown == {topic: text for (name, topic), text in expected.items() if name == measure}


def test_another_order_of_ties_gives_other_digits(trec_files):
    """One of the files has ties that its official output depends on."""
    expected = printed(trec_files / "out.test.aqc")

    report = evaluate_files(
        trec_files,
        ["nDCG"],
        truth="qrels.test",
        rankings=trec_files / "results.trunc",
        topics=JUDGED,
        ties="item-text",
    )

    assert expected["ndcg", ALL] == "0.2105"
    assert f"{report.value('nDCG'):.4f}" == "0.2104"
