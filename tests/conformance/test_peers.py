"""Every number that other libraries printed, reproduced under their profiles."""

from collections import Counter, defaultdict

import pytest

from peers import (
    NAMES,
    WAYS,
    Reason,
    differences,
    evaluate,
    fixture,
    libraries,
    reason_for,
    records,
)

PARTS = 6  # of the logs: one in every run, all in campaigns
Outcome = tuple[list[str], Counter[str], dict[str, int]]


def compare(library: str, part: int) -> Outcome:
    """What differs, how many records were compared and exempt, and why the latter were.

    Args:
        part: of `PARTS` of the logs.
    """
    wrong: list[str] = []
    counts: Counter[str] = Counter()
    reasons: dict[str, int] = defaultdict(int)
    asked = defaultdict(list)
    logs = sorted({record["fixture"] for record in records(library)})
    for record in records(library):
        assert record["metric"] in NAMES
        if logs.index(record["fixture"]) % PARTS != part:
            continue
        way = WAYS.get((library, record["variant"]))
        why = way if isinstance(way, Reason) else reason_for(library, record)
        if way is None:
            counts["missing"] += 1
        elif why is not None:
            counts["exempt"] += 1
            reasons[f"{record['variant']}: {why.why}"] += 1
        else:
            asked[record["variant"], record["fixture"]].append(record)
    for (variant, name), group in asked.items():
        way = WAYS[library, variant]
        assert not isinstance(way, Reason)
        report = evaluate(library, fixture(name), [(r["metric"], r["k"]) for r in group], way)
        for record in group:
            counts["compared"] += 1
            counts["values"] += 1 + len(record.get("per_user") or ())
            for whom, theirs, ours in differences(library, record, report, way):
                wrong.append(
                    f"{variant} {record['metric']}@{record['k']} on {name}, {whom}: "
                    f"{library} {theirs!r}, evalkit {ours!r}"
                )
    return wrong, counts, reasons


@pytest.mark.some_cases(len(libraries()))
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("library", libraries())
def test_every_number_of_a_library_is_reproduced(library, part, record_property):
    wrong, counts, reasons = compare(library, part)

    record_property(
        "summary",
        f"{library}, part {part}: {counts['compared']:,} records compared "
        f"({counts['values']:,} values), "
        f"{counts['exempt']:,} exempt, {counts['missing']:,} missing",
    )
    for why, number in sorted(reasons.items()):
        record_property("summary", f"{library}, part {part}: {number:,} exempt, {why}")
    assert wrong == []
    assert counts["missing"] == 0
    assert counts["compared"] > 0


def test_every_way_is_that_of_a_variant():
    known = {(library, record["variant"]) for library in libraries() for record in records(library)}

    assert set(WAYS) == known
