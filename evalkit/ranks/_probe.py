"""One rankings log, streamed past the truth in the way that its form and the policies need."""

from evalkit.errors import raise_all
from evalkit.ranks._findings import finish
from evalkit.ranks._records import ModelProbe
from evalkit.ranks._scan import RankScan, ReappearedError
from evalkit.ranks._two_scans import scan_twice
from evalkit.ranks._whole_lists import scan_whole_lists


def scan_ranks(scan: RankScan) -> dict[str, ModelProbe]:
    """Probe a rankings table; one entry for each model in it, in order of name.

    Raises:
        DataError: every problem of every model at once, as the policies ask [duplicate-item,
            bad-ranks, bad-rank, bad-score, null-id, unknown-users, null-model, ragged-lists].
        KeyCollisionError: two ids share a key.
    """
    if scan.needs_whole_lists:
        scan_whole_lists(scan)
    elif scan.mode == "rank":
        scan.scan(scan.probe_ranks, whole_users=False)
    else:
        work = scan.probe_places if scan.mode == "place" else scan.count_strengths
        try:
            scan.scan(work, whole_users=True)
        except ReappearedError:
            scan.probes.clear()
            scan_twice(scan)
    if scan.model is not None:
        scan.probe_of(scan.model)
    for probe in scan.probes.values():
        finish(scan, probe)
    raise_all([problem for probe in scan.probes.values() for problem in probe.problems])
    return dict(sorted(scan.probes.items()))
