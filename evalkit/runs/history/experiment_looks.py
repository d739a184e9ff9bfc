"""Earlier runs of an experiment: how often somebody has looked at it, and what was seen."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from evalkit.runs import finished
from evalkit.runs.history._index import open_index


@dataclass(frozen=True, slots=True)
class ExperimentLook:
    """What one run saw.

    Args:
        units: metric -> units of all variants.
        effects: candidate and metric -> effect, its standard error, units of both variants.
        plan: how looks were counted, as `statistics.sequential` of its config says.
    """

    units: dict[str, int] = field(default_factory=dict)
    effects: dict[tuple[str, str], tuple[float, float, int]] = field(default_factory=dict)
    plan: object = None


def experiment_looks(
    name: str, folder: Path, *, plan: object, fetch: Callable[[str], object] | None = None
) -> tuple[ExperimentLook, ...]:
    """The finished runs of a job in the order in which they were made.

    Args:
        folder: of runs; where there is none, nobody has looked.
        plan: of the look that comes: where it is "no", as those of all runs, none is read.
        fetch: called with the id of a run before its files are read.
    """
    if not folder.is_dir():
        return ()
    plans: dict[str, object] = {}
    for _, manifest in finished(folder):
        if manifest.name == name:
            statistics = (manifest.config or {}).get("statistics")
            known = statistics if isinstance(statistics, Mapping) else {"sequential": None}
            plans[manifest.run_id] = known.get("sequential", "no")
    if all(each in (None, "no") for each in (plan, *plans.values())):
        return ()
    if fetch is not None:
        for run_id in plans:
            fetch(run_id)
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
    return tuple(replace(looks[run_id], plan=plans.get(run_id)) for run_id in sorted(looks))
