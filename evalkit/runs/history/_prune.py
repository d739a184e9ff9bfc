"""Old runs are removed, whole or not at all; tagged ones stay."""

import os
import shutil
from collections import Counter
from pathlib import Path

from evalkit.runs import LATEST, finished, hold, is_whole, machine_errors
from evalkit.runs.history._find import read_tags


def prune(
    folder: Path, *, keep: int, name: str | None = None, wait_seconds: float = 0.0, dry: bool
) -> list[Path]:
    """The runs that are removed (or would be, when `dry`), the oldest first.

    Of every job the last `keep` runs stay, the last that passed, and with them every tagged run and
    the one that `latest` points to. Each directory is renamed first, so that nothing half removed
    looks like a run.

    Raises:
        BusyError: another process writes a run of that name [run-locked].
    """
    kept = {*read_tags(folder).values()}
    if (folder / LATEST).is_symlink():
        kept.add(os.readlink(folder / LATEST))
    seen: Counter[str] = Counter()
    passed: set[str] = set()  # jobs whose `last-passed` was met, which gates compare with
    old: dict[str, list[Path]] = {}
    for path, manifest in finished(folder):
        if name is not None and manifest.name != name:
            continue
        seen[manifest.name] += 1
        may_be_last_passed = manifest.may_be_compared_with and manifest.name not in passed
        if may_be_last_passed and is_whole(path, manifest):
            passed.add(manifest.name)
            kept.add(path.name)
        if seen[manifest.name] > keep and path.name not in kept:
            old.setdefault(manifest.name, []).append(path)
    if not dry:
        for job_name, paths in old.items():
            with hold(folder, job_name, wait_seconds=wait_seconds) as job, machine_errors(folder):
                for path in paths:
                    away = folder / f"{job.prefix(path.name)}pruned"
                    os.rename(path, away)
                    shutil.rmtree(away)
    return sorted(path for paths in old.values() for path in paths)
