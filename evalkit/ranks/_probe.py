"""One rankings log, streamed past the truth in the way that its form and the policies need."""

from collections.abc import Sequence
from contextlib import suppress

import numpy as np

from evalkit.errors import EvalkitError, raise_all
from evalkit.kernels.arrays import Ints
from evalkit.ranks import _kernels as kernels
from evalkit.ranks._held import NoRoomError, can_hold, scan_held
from evalkit.ranks._records import NO_INTS, NO_RANKS, DeepRanksError, ModelProbe
from evalkit.ranks._rows import make_checksums
from evalkit.ranks._scan import RankScan, ReappearedError
from evalkit.ranks._two_scans import scan_twice
from evalkit.ranks._whole_lists import scan_whole_lists
from evalkit.sources.ids import distinct_keys
from evalkit.truth import first_users, null_id_error

KEEP_BEST = 'write duplicates = "best" under [policies] to keep the best rank'


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
        with suppress(ReappearedError):
            return scan.scan(scan.probe_ranks, whole_users=scan.drop_seen)
        scan.restart()
        scan.find_dropped()
        return scan.scan(scan.probe_ranks, whole_users=False)
    work = scan.probe_places if scan.mode == "place" else scan.count_strengths
    with suppress(ReappearedError):  # whose traceback holds row groups: it goes before others come
        return scan.scan(work, whole_users=True)
    _count_apart(scan)


def _count_apart(scan: RankScan) -> None:
    """Read the log once, if its rows may be held, or twice."""
    scan.restart()
    if can_hold(scan):
        with suppress(NoRoomError):
            return scan_held(scan)
    scan.restart(is_deep=True)
    scan_twice(scan)


def finish(scan: RankScan, probe: ModelProbe) -> None:
    """Complete a model's counts, check its ranks, and note what the policies refuse."""
    if probe.unknown_keys:
        distinct = distinct_keys(np.concatenate(probe.unknown_keys))
        probe.users_without_truth = int(distinct.size)
        probe.unknown_keys = []
    if probe.copies:
        places = np.concatenate([places for places, _ in probe.copies])
        ranks = np.concatenate([ranks for _, ranks in probe.copies])
        order = np.lexsort((ranks, places))
        probe.copies = []
        probe.ranks.copy_places, probe.ranks.copy_ranks = places[order], ranks[order]
    policies = scan.policies
    if scan.has_rank:
        _check_ranks(scan, probe)
    if probe.strengths.size:
        pairs = scan.truth.pairs
        room = np.empty(int(pairs.counts.max(initial=0)), dtype=np.uint64)
        probe.score_disagreements = kernels.count_disagreements(
            pairs.starts, pairs.counts, probe.ranks.ranks, probe.strengths, room
        )
        probe.strengths = NO_INTS
    at = _place(scan, probe)
    if probe.null_ids and policies.null_ids == "error":
        probe.problems.append(null_id_error("rankings", probe.null_ids, at))
    if probe.bad_scores and policies.bad_scores == "error":
        hint = 'write bad_scores = "last" or "drop" under [policies]'
        probe.refuse_rows("bad-score", probe.bad_scores, "{n} scores are null or NaN", at, hint)
    _check_duplicates(scan, probe, at)
    if policies.duplicates != "count":
        probe.ranks.copy_places, probe.ranks.copy_ranks = NO_INTS, NO_RANKS
    if probe.unknown_rows and policies.unknown_users == "error":
        hint = 'write unknown_users = "skip" under [policies]'
        message = "{n} ranked users are not in the truth"
        probe.refuse_rows("unknown-users", probe.users_without_truth, message, at, hint)


def check_list(scan: RankScan, probe: ModelProbe) -> None:
    """Note what metrics of lists would count twice; of users without a rank twice."""
    if scan.policies.duplicates != "error":
        return
    assert scan.collector is not None
    assert probe.ranks.lists is not None
    copies = scan.collector.copies(probe.ranks.lists)
    if scan.has_rank and scan.policies.bad_ranks == "error" and copies.any():
        copies[_users_with_bad_ranks(scan, probe)] = 0
    if n := int(copies.sum()):
        message = "{n} rows list an item a second time, which metrics of lists would count"
        users, at = first_users(scan.truth, np.flatnonzero(copies)), _place(scan, probe)
        told = {"users": users, "unless": "duplicate-item"}
        probe.refuse_rows("duplicate-in-list", n, message, at, KEEP_BEST, **told)


def _place(scan: RankScan, probe: ModelProbe) -> str:
    return f"{scan.table.at} (model {probe.model})" if scan.model is None else scan.table.at


def _users_with_bad_ranks(scan: RankScan, probe: ModelProbe) -> Ints:
    """Codes of the users whose ranks have gaps or repeats."""
    state = probe.ranks.state if probe.given is None else probe.given
    most = int(state.rows.max()) if state.rows.size else 0
    checksums = scan.checksums if most < scan.checksums.size else make_checksums(most + 1)
    bad = np.empty(scan.truth.pairs.n_users, dtype=np.int64)
    return bad[: int(kernels.find_bad_ranks(state, checksums, bad))]


def _check_ranks(scan: RankScan, probe: ModelProbe) -> None:
    bad = _users_with_bad_ranks(scan, probe)
    n_bad = probe.users_with_bad_ranks = int(bad.size)
    if scan.policies.bad_ranks != "error":
        return
    at = _place(scan, probe)
    if probe.bad_rank_rows:
        message = f"{{n}} ranks are no whole numbers from {scan.policies.first_rank} on"
        hint = "write first_rank = 0 under [policies] if ranks start there, "
        hint += 'or bad_ranks = "keep" under [policies] to drop these rows'
        probe.refuse_rows("bad-rank", probe.bad_rank_rows, message, at, hint)
    elif n_bad:
        message, users = "the ranks of {n} users have gaps or repeats", first_users(scan.truth, bad)
        hint = (
            "several days or models in one table? take one by where, or name "
            'columns.model; else write bad_ranks = "keep" or "compress" under [policies], '
            "or first_rank = 0 under [policies] if ranks start there"
        )
        probe.refuse_rows("bad-ranks", n_bad, message, at, hint, users=users, unless="bad-rank")


def _check_duplicates(scan: RankScan, probe: ModelProbe, at: str) -> None:
    if not probe.duplicates or scan.policies.duplicates != "error":
        return
    places = np.unique(probe.ranks.copy_places)
    pairs = scan.truth.pairs
    filled = np.flatnonzero(pairs.counts > 0)
    by_start = filled[np.argsort(pairs.starts[filled], kind="stable")]
    owners = np.searchsorted(pairs.starts[by_start], places, side="right") - 1
    users = np.unique(by_start[owners])
    message, named = "{n} rows list a relevant item a second time", first_users(scan.truth, users)
    hint = f"{KEEP_BEST}, if they are lists of one day and one model"
    probe.refuse_rows("duplicate-item", probe.duplicates, message, at, hint, users=named)
