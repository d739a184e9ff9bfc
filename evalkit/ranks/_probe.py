"""One rankings log, streamed past the truth in the way that its form and the policies need."""

from collections.abc import Sequence
from contextlib import suppress

from evalkit.errors import EvalkitError, raise_all
from evalkit.ranks._findings import check_list, finish
from evalkit.ranks._held import NoRoomError, can_hold, scan_held
from evalkit.ranks._records import DeepRanksError, ModelProbe
from evalkit.ranks._scan import RankScan, ReappearedError
from evalkit.ranks._two_scans import scan_twice
from evalkit.ranks._whole_lists import scan_whole_lists


def scan_alike(scans: Sequence[RankScan]) -> list[dict[str, ModelProbe]]:
    """Probe one rankings table by several sets of policies; whole lists are held once for all.

    Of each set one entry for each model in the table, in order of name.

    Raises:
        DataError: every problem of every model at once, as the policies ask [duplicate-item,
            duplicate-in-list, bad-ranks, bad-rank, bad-score, null-id, unknown-users, null-model,
            ragged-lists].
        KeyCollisionError: two ids share a key.
    """
    try:
        _scan(scans)
    except DeepRanksError:
        for scan in scans:
            scan.restart(is_deep=True)
        _scan(scans)
    for scan in scans:
        for name in scan.known_models if scan.model is None else [scan.model]:
            scan.probe_of(name)
        for probe in scan.probes.values():
            finish(scan, probe)
        if scan.collector is not None:
            for name, lists in scan.collector.lists(scan.probes).items():
                scan.probes[name].ranks.lists = lists
                check_list(scan, scan.probes[name])
    found: dict[tuple[str, str], EvalkitError] = {}
    for scan in scans:  # the same rows are at fault under every set of policies
        for probe in scan.probes.values():
            for problem in probe.problems:
                found.setdefault((problem.code, problem.at), problem)
    raise_all(list(found.values()))
    return [dict(sorted(scan.probes.items())) for scan in scans]


def _scan(scans: Sequence[RankScan]) -> None:
    whole = [scan for scan in scans if scan.needs_whole_lists]
    if whole:
        scan_whole_lists(whole)
    for scan in scans:
        if not scan.needs_whole_lists:
            _scan_hits(scan)


def _scan_hits(scan: RankScan) -> None:
    if scan.mode == "rank":
        try:
            scan.scan(scan.probe_ranks, whole_users=scan.drop_seen)
        except ReappearedError:
            scan.restart()
            scan.find_dropped()
            scan.scan(scan.probe_ranks, whole_users=False)
    else:
        work = scan.probe_places if scan.mode == "place" else scan.count_strengths
        try:
            scan.scan(work, whole_users=True)
        except ReappearedError:
            _count_apart(scan)


def _count_apart(scan: RankScan) -> None:
    """Read the log once, if its rows may be held, or twice."""
    scan.restart()
    if can_hold(scan):
        with suppress(NoRoomError):
            return scan_held(scan)
    scan.restart(is_deep=True)
    scan_twice(scan)
