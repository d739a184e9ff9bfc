"""Values of every user, where somebody wants to keep them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from evalkit.errors import RequestError
from evalkit.kinds.pointwise.segments import RowUsers
from evalkit.kinds.pointwise.units import Measured, columns_of
from evalkit.metrics import Request, has_user_values
from evalkit.planning.work import places_kept
from evalkit.report import PerUser, UserWriter, Warning_


@dataclass(frozen=True, slots=True)
class Keeping:
    """How values of users are kept.

    Args:
        user_names: the user columns as they were given.
        folder: where a Parquet file goes; None keeps them in memory.
        metrics: labels; True: of all that have values of users.
    """

    user_names: tuple[str, ...]
    folder: Path | None
    metrics: bool | Sequence[str] = True

    @classmethod
    def of(
        cls,
        requests: Sequence[Request],
        user_names: tuple[str, ...],
        folder: Path | None,
        metrics: bool | Sequence[str] = True,
    ) -> "Keeping":
        """Raises:
        RequestError: no request has values of users [per-user-off].
        """
        if not any(map(has_user_values, requests)):
            message = f"users have no values of {', '.join(each.label for each in requests)}"
            have = (each.metric for each in requests if "over" in each.metric.defaults)
            name = next((each.name for each in have), "AUC")
            hint = f"leave out per_user, or name a mean over users, as {name}(over='users')"
            raise RequestError(message, code="per-user-off", hint=hint)
        return cls(user_names, folder, metrics)

    def keep(
        self, requests: Sequence[Request], measured: Mapping[str, Measured], users: RowUsers
    ) -> PerUser:
        """Every user of any model, ordered by id; NaN where a model has no value of a user."""
        found = [each.columns["users"].keys for each in measured.values()]
        keys = np.unique(np.concatenate([np.empty(0, np.uint64), *found]))
        ids = users.ids_of(keys)
        order = ids.select(pl.arg_sort_by(ids.columns)).to_series().to_numpy()
        ids = ids[order]
        ids.columns = list(self.user_names)
        frames = {}
        kept = [n for n in places_kept(requests, self.metrics) if has_user_values(requests[n])]
        places = [columns_of(requests, "users").index(place) for place in kept]
        labels = tuple(requests[place].label for place in kept)
        for model, values_of_model in measured.items():
            own = values_of_model.columns["users"]
            values = np.full((keys.size, len(labels)), np.nan)
            values[np.searchsorted(keys, own.keys)] = own.values[:, places]
            values[np.isinf(values)] = np.nan
            series = [pl.Series(label, values[order, n]) for n, label in enumerate(labels)]
            frames[model] = ids.hstack(series)
        if self.folder is None:
            return PerUser(self.user_names, labels, frames)
        writer = UserWriter(self.folder, self.user_names, labels, is_whole=True)
        writer.add(frames)
        return writer.finish(in_order=True)


def without_values(requests: Sequence[Request]) -> list[Warning_]:
    """A warning that names the requests of which users have no values."""
    names = [request.label for request in requests if not has_user_values(request)]
    if not names:
        return []
    message = f"users have no values of {', '.join(names)}: they are no plain means over users"
    return [Warning_("no-user-values", message)]
