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

Outcome = tuple[list[str], Counter[str], dict[str, int]]


def compare(library: str) -> Outcome:
    """What differs, how many records were compared and exempt, and why the latter were."""
    wrong: list[str] = []
    counts: Counter[str] = Counter()
    reasons: dict[str, int] = defaultdict(int)
    asked = defaultdict(list)
    for record in records(library):
        assert record["metric"] in NAMES
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


@pytest.mark.parametrize("library", libraries())
def test_every_number_of_a_library_is_reproduced(library, record_property):
    wrong, counts, reasons = compare(library)

    record_property(
        "summary",
        f"{library}: {counts['compared']:,} records compared ({counts['values']:,} values), "
        f"{counts['exempt']:,} exempt, {counts['missing']:,} missing",
    )
    for why, number in sorted(reasons.items()):
        record_property("summary", f"{library}: {number:,} exempt, {why}")
    assert wrong == []
    assert counts["missing"] == 0
    assert counts["compared"] > 0


def test_every_way_is_that_of_a_variant():
    known = {(library, record["variant"]) for library in libraries() for record in records(library)}

    assert set(WAYS) == known
