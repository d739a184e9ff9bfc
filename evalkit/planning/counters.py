"""What a run keeps count of: rows and users, time and memory, and how far it has come."""

import platform
import resource
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib.metadata import version

from evalkit.config import Config
from evalkit.kernels import loading
from evalkit.ranks import ModelProbe
from evalkit.report import Input, Meta, ModelCounts, TruthCounts, Warning_
from evalkit.report.version import VERSION
from evalkit.sources import Table
from evalkit.truth import Truth

PROGRESS_SECONDS = 0.1


def input_of(table: Table, rows: int, role: str, model: str | None = None) -> Input:
    """The record of a table that was read."""
    print_ = table.fingerprint()
    return Input(
        role,
        model,
        table.paths,
        rows,
        print_,
        table.columns,
        table.guessed,
        table.ranked_by,
        len(table.left_out),
    )


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run has come; `total_rows` None where nobody knows.

    Args:
        unit: what is counted.
    """

    stage: str
    rows: int
    total_rows: int | None
    unit: str = "rows"


@dataclass(slots=True)
class ProgressLine:
    """Tells `call` now and then how many rows have been read."""

    call: Callable[[Progress], None] | None
    tables: Sequence[Table]
    rows: int = 0
    told: float = 0.0
    total: int | None = None

    def start(self) -> None:
        """Find out how much there is to read, if anybody wants to know."""
        self.rows = 0
        if self.call is not None:
            hints = [table.n_rows_hint() for table in self.tables if not table.is_list]
            known = [hint for hint in hints if hint is not None]
            self.total = sum(known) if len(known) == len(self.tables) else None

    def advance(self, rows: int) -> None:
        """Some rows more."""
        self.rows += rows
        now = time.monotonic()
        if self.call is not None and now - self.told > PROGRESS_SECONDS:
            self.told = now
            self.call(Progress("rankings", self.rows, self.total))


@dataclass(slots=True)
class Clock:
    """Wall and CPU seconds of a run, and of each of its stages; loading kernels takes no time."""

    line: ProgressLine
    started: datetime = field(default_factory=lambda: datetime.now(UTC))
    stages: dict[str, float] = field(default_factory=dict)
    _begin: float = 0.0
    _cpu: float = 0.0
    _last: float = 0.0

    def start(self) -> None:
        """The first read comes next."""
        self.line.start()
        self.started = datetime.now(UTC)
        self.stages.clear()
        self._begin = self._last = _wall_seconds()
        self._cpu = _cpu_seconds()

    @property
    def is_running(self) -> bool:
        """Whether it was started."""
        return self._begin > 0.0

    def stop(self, stage: str) -> None:
        """What has passed since the last call belongs to `stage`."""
        now = max(self._last, _wall_seconds())
        self.stages[stage] = self.stages.get(stage, 0.0) + now - self._last
        self._last = now

    def meta(self, rows: int, threads: int, used: Mapping[str, str]) -> Meta:
        """The record of the report; `rows` that were read."""
        seconds = self._last - self._begin
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return Meta(
            started=self.started.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            seconds=seconds,
            cpu_seconds=_cpu_seconds() - self._cpu,
            peak_bytes=peak if sys.platform == "darwin" else peak * 1024,
            rows_per_second=rows / seconds if seconds > 0 else 0.0,
            threads=threads,
            stages=dict(self.stages),
            versions=dict(used),
        )


def _wall_seconds() -> float:
    return time.perf_counter() - loading.seconds


def _cpu_seconds() -> float:
    return time.process_time() - loading.cpu_seconds


@cache
def versions() -> Mapping[str, str]:
    """What the numbers were made with."""
    names = ("polars", "numba", "numpy")
    found = {name: version(name) for name in names}
    return {"evalkit": VERSION, "python": platform.python_version(), **found}


def _moment(second: int) -> str:
    """A second since 1970, as `Meta.started` is written."""
    return (datetime(1970, 1, 1) + timedelta(seconds=second)).isoformat() + "Z"


@dataclass(slots=True)
class RowCounts:
    """Rows and users of the truth or of one model, added up over shares of the users."""

    rows: int = 0
    null_ids: int = 0
    not_sampled: int = 0
    duplicates: int = 0
    negative: int = 0
    users: int = 0
    users_without_relevant: int = 0
    pairs: int = 0
    in_train: int | None = None
    newest: int | None = None
    unknown_rows: int = 0
    bad_scores: int = 0
    bad_rank_rows: int = 0
    seen: int = 0
    ties: int = 0
    copied_rows: int = 0
    users_with_truth: int = 0
    users_without_ranking: int = 0
    users_without_truth: int = 0
    users_with_bad_ranks: int = 0
    score_disagreements: int = 0
    several_lists: int = 0
    depth: int = 0
    searched: str = "relevant"
    listed_rows: int = 0
    lists: int = 0
    short_lists: int = 0
    unknown_items: int = 0
    empty_genres: int = 0
    zero_vectors: int = 0
    unknown_named: tuple[str, ...] = ()
    judged: int = 0

    def merge(self, other: "RowCounts") -> None:
        """Add the counts of other shares of the users."""
        for attribute in fields(self):
            mine, theirs = getattr(self, attribute.name), getattr(other, attribute.name)
            if attribute.name in ("depth", "newest") and None not in (mine, theirs):
                setattr(self, attribute.name, max(mine, theirs))
            elif attribute.name == "unknown_named":
                setattr(self, attribute.name, tuple(sorted({*mine, *theirs})[:3]))
            elif attribute.name == "searched":
                setattr(self, attribute.name, min(mine, theirs))
            elif theirs is not None:
                setattr(self, attribute.name, theirs if mine is None else mine + theirs)

    def _add(self, counts: object, *names: str) -> None:
        """Counts that are called the same."""
        for name in names:
            setattr(self, name, getattr(self, name) + getattr(counts, name))

    def add_truth(self, truth: Truth) -> None:
        """One share of the truth."""
        counts = truth.counts
        self._add(counts, "rows", "null_ids", "not_sampled", "duplicates", "negative")
        n_extra = 0 if truth.is_extra is None else int(truth.is_extra.sum())
        self.users += truth.pairs.n_users - n_extra
        self.users_without_relevant += int((truth.pairs.n_relevant == 0).sum()) - n_extra
        self.pairs += int(truth.pairs.n_relevant.sum())
        if truth.has_judged:  # and not relevant
            n_others = int(truth.pairs.counts.sum()) - int(truth.pairs.n_relevant.sum())
            self.judged += max(0, n_others - counts.negative)

    def add_in_train(self, n_pairs: int) -> None:
        """Pairs of one share of the truth that stand in train."""
        self.in_train = (self.in_train or 0) + n_pairs

    def add_model(self, probe: ModelProbe, config: Config, truth: Truth) -> None:
        """One share of a model's rankings."""
        of_rows = ("rows", "null_ids", "not_sampled", "duplicates", "unknown_rows", "copied_rows")
        self._add(probe, *of_rows, "bad_scores", "bad_rank_rows", "seen", "ties")
        self._add(probe, "users_without_truth", "users_with_bad_ranks", "score_disagreements")
        self._add(probe, "several_lists")
        present = probe.ranks.present
        if truth.is_extra is not None:  # users whom the rankings alone know
            self.users_without_truth += int((present & truth.is_extra).sum())
            if config.policies.unknown_users != "count" and not config.is_truthless:
                self.unknown_rows += int(probe.ranks.lengths[truth.is_extra].sum())
            present = present[~truth.is_extra]
        n_present = int(present.sum())
        self.users_with_truth += n_present
        self.users_without_ranking += int(present.size) - n_present
        self.users = self.users_with_truth + self.users_without_truth
        self.depth = max(self.depth, probe.ranks.depth)
        self.searched = probe.searched

    def note_lists(self, counts: Mapping[str, int], named: tuple[str, ...]) -> None:
        """What metrics of lists say little of, in one share; `named`: items that are unknown."""
        for name, n in counts.items():
            setattr(self, name, getattr(self, name) + n)
        self.unknown_named = tuple(sorted({*self.unknown_named, *named})[:3])

    def truth_counts(self) -> TruthCounts:
        """The report's record of the truth."""
        dropped = {
            "null_id": self.null_ids,
            "duplicate": self.duplicates,
            "not_sampled": self.not_sampled,
        }
        return TruthCounts(
            rows=self.rows,
            rows_used=self.rows - sum(dropped.values()),
            rows_dropped=dropped,
            users=self.users,
            users_without_relevant=self.users_without_relevant,
            pairs=self.pairs,
            in_train=self.in_train,
            newest=None if self.newest is None else _moment(self.newest),
        )

    def model_counts(self, config: Config) -> ModelCounts:
        """The report's record of a model."""
        policies = config.policies
        drops_seen = config.train is not None and config.train.drop_seen
        keeps_copies = policies.duplicates == "count"
        dropped = {
            "null_id": self.null_ids,
            "unknown_user": self.unknown_rows,
            "not_sampled": self.not_sampled,
            "duplicate": 0 if keeps_copies else self.duplicates,
            "bad_score": self.bad_scores if policies.bad_scores == "drop" else 0,
            "bad_rank": self.bad_rank_rows,
            "seen_in_train": self.seen if drops_seen else 0,
        }
        return ModelCounts(
            rows=self.rows,
            rows_used=self.rows - sum(dropped.values()),
            rows_dropped=dropped,
            users=self.users,
            users_without_ranking=self.users_without_ranking,
            users_without_truth=self.users_without_truth,
            duplicates=self.duplicates,
            duplicates_searched=self.searched,
            seen_in_train=self.seen if config.train is not None else None,
            bad_ranks=self.users_with_bad_ranks,
            ties=self.ties,
            depth=self.depth,
            unknown_items=self.unknown_items,
            empty_genres=self.empty_genres,
            zero_vectors=self.zero_vectors,
            short_lists=self.short_lists,
        )

    def warnings(self, model: str, config: Config) -> list[Warning_]:
        """What lets this model's numbers stand but may mislead."""
        found = []
        if self.users_with_bad_ranks and config.policies.bad_ranks == "keep":
            message = f"the ranks of {self.users_with_bad_ranks:,} users have gaps or repeats"
            found.append(Warning_("bad-ranks", message, model))
        if self.several_lists:
            message = f"{self.several_lists:,} users have several lists, which are read as one"
            found.append(Warning_("several-lists", message, model))
        if self.duplicates:
            message = f"{self.duplicates:,} rows list an item a second time"
            found.append(Warning_("duplicate-item", message, model))
        if self.copied_rows:
            message = (
                f"{self.copied_rows:,} rows of the lists that were looked at list an item a second "
                'time, and push others down: the policy duplicates = "best" keeps one of each'
            )
            found.append(Warning_("duplicate-item", message, model))
        if self.unknown_items:
            share = self.unknown_items / self.listed_rows
            message = (
                f"{self.unknown_items:,} rows of lists ({share:.2%}) show items that [items] "
                f"lacks, as {', '.join(self.unknown_named)}"
            )
            found.append(Warning_("unknown-items", message, model))
        if self.short_lists:
            share = self.short_lists / self.lists
            message = (
                f"{self.short_lists:,} lists ({share:.2%}) are shorter than a cutoff of metrics of "
                "lists, which look at the items that there are"
            )
            found.append(Warning_("short-lists", message, model))
        if self.score_disagreements:
            message = (
                f"{self.score_disagreements:,} hits have a higher score than the hit ranked "
                "before them; ranks were used"
            )
            found.append(Warning_("score-order", message, model))
        return found
