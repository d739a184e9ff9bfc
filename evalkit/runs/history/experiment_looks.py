"""Earlier runs of an experiment: how often somebody has looked at it, and what was seen."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from evalkit.runs import finished
from evalkit.runs.history._index import open_index


@dataclass(frozen=True, slots=True)
class ExperimentLook:
    """What one run saw.

    Args:
        units: metric -> units of all variants.
        effects: candidate and metric -> effect, its standard error, units of both variants.
    """

    units: dict[str, int] = field(default_factory=dict)
    effects: dict[tuple[str, str], tuple[float, float, int]] = field(default_factory=dict)


def experiment_looks(
    name: str, folder: Path, *, fetch: Callable[[str], object] | None = None
) -> tuple[ExperimentLook, ...]:
    """The finished runs of a job in the order in which they were made.

    Args:
        folder: of runs; where there is none, nobody has looked.
        fetch: called with the id of a run before its files are read.
    """
    if not folder.is_dir():
        return ()
    for _, manifest in finished(folder) if fetch is not None else ():
        if fetch is not None and manifest.name == name:
            fetch(manifest.run_id)
    looks: defaultdict[str, ExperimentLook] = defaultdict(ExperimentLook)
    with open_index(folder) as (connection, _):
        effects = connection.execute(
            """
            SELECT run_id, candidate, metric, delta, std_error, n_users
            FROM comparisons JOIN runs USING (run_id)
            WHERE name = ? AND delta IS NOT NULL AND std_error > 0
            """,
            (name,),
        ).fetchall()
        units = connection.execute(
            """
            SELECT run_id, metric, SUM(n_users) FROM metrics JOIN runs USING (run_id)
            WHERE runs.name = ? AND segmentation IS NULL GROUP BY run_id, metric
            """,
            (name,),
        ).fetchall()
    for run_id, candidate, metric, delta, error, n in effects:
        looks[run_id].effects[candidate, metric] = delta, error, n
    for run_id, metric, n in units:
        looks[run_id].units[metric] = n
    return tuple(looks[run_id] for run_id in sorted(looks))
