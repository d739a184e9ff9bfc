"""What a report is made of: estimates, comparisons, counts, curves, gates, as frozen records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Input:
    """One log that was read; `model` is None for the truth, the train log and many-model logs.

    `columns` are those that were read: our name -> a column or an expression, several of a user;
    those of them are `guessed` that nobody named. `ranked_by` says of rankings what ranks: rank,
    score, rows, or lists as they are.
    """

    role: str  # truth, rankings, train, ...
    model: str | None
    paths: tuple[str, ...]
    rows: int  # after where
    fingerprint: str | None  # of the files; None of URLs and of tables in memory
    columns: Mapping[str, str | tuple[str, ...]] = field(default_factory=dict)
    guessed: tuple[str, ...] = ()
    ranked_by: str = ""
    left_out: int = 0  # files and folders beside those that were read: no tables, and hidden ones


@dataclass(frozen=True, slots=True)
class TruthCounts:
    """Where the rows of the truth went: `rows = rows_used + sum(rows_dropped.values())`."""

    rows: int
    rows_used: int
    rows_dropped: Mapping[str, int]  # by reason
    users: int
    users_without_relevant: int
    pairs: int  # of a user and a relevant item
    in_train: int | None = None  # of the pairs; None: no train log was given, or nobody counted
    newest: str | None = None  # time of the newest row, where a gate judges its age


@dataclass(frozen=True, slots=True)
class ModelCounts:
    """Where the rows of one model's rankings went, and what was odd about them."""

    rows: int
    rows_used: int
    rows_dropped: Mapping[str, int]  # by reason
    users: int
    users_without_ranking: int  # of the truth
    users_without_truth: int  # whom the truth lacks
    duplicates: int  # rows that list a user's item again
    duplicates_searched: str  # "relevant": among relevant items only; "all"
    seen_in_train: int | None  # ranked items; None: no train log was given
    bad_ranks: int  # users with gaps or repeats
    ties: int  # hits whose score another row of the list has
    depth: int  # the longest list
    unknown_items: int = 0  # rows of the lists that metrics look at, of items that [items] lacks
    empty_genres: int = 0  # such rows, of items whose genres are asked for and that have none
    zero_vectors: int = 0  # such rows, of items whose vector is all zeros
    short_lists: int = 0  # lists that are shorter than a cutoff of metrics of lists


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts of the truth and of every model, models in the order of the config."""

    truth: TruthCounts
    models: Mapping[str, ModelCounts]


@dataclass(frozen=True, slots=True)
class Estimate:
    """One metric of one model, summed up over users (of one segment, or of all)."""

    model: str  # by its name in the request
    metric: str  # the label, unique within model and segment: nDCG@10
    name: str  # of the metric alone: nDCG
    cutoff: int | None  # None: the whole list
    parameters: Mapping[str, str | float]  # all of them, also those left at their defaults
    value: float  # NaN when undefined for every user
    n_users: int  # that the mean is over
    n_undefined: int  # users who have no value, by the policies and the metric
    segmentation: str | None = None  # None: all users
    segment: str | None = None  # its name within the segmentation
    low: float | None = None  # limits of the interval
    high: float | None = None  # the same; null where nothing is known of it
    std_error: float | None = None  # of the value, over users
    n_clusters: int | None = None  # where users vary together
    df: float | None = None  # of the interval, where users vary together
    policies: Mapping[str, str | float] = field(default_factory=dict)  # other than the defaults
    higher_is_better: bool | None = True  # not in report.json; None: nobody knows any more
    low_gate: float | None = None  # of experiments: limits that gates go by
    high_gate: float | None = None  # the same; null where a side is open
    caveats: str | None = None  # why the interval may say more than it knows


@dataclass(frozen=True, slots=True)
class Warning_:
    """Something that lets the result stand but may mislead; `model` None concerns all."""

    code: str
    message: str
    model: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two models on the users whom both have a value of, paired by user.

    Args:
        delta: mean of the users' candidate less baseline; `std_error`, `low`, `high` are its.
        relative: `delta` over the baseline's mean on the same users.
        p_value: two-sided, of no difference; `p_adjusted` after the correction.
        effect_size: Cohen's d of the differences, `delta` over their standard deviation.
        wins: users whom the candidate serves better, whichever way the metric points; None where
            users have no values of their own, or where neither way is better.
        verdict: better, worse, not inferior, equivalent, no winner known: cannot tell; different,
            where neither way is better; not tested, where there is no p-value.
        smallest_difference: that so many users show with the power that was asked for. Of 0 and 1
            as many differ as were seen, and those who make the difference come on top.
        users_needed: to show a difference of `margin` with that power; None without one.
        n_clusters, df: clusters and degrees of freedom of the error, where users vary together.
        family: the comparisons that are corrected together, of which there are `family_size`:
            primary or exploratory, where primary metrics are named; all users; by SEGMENTATION.
        low_adjusted, high_adjusted: hold 0 exactly where the corrected test cannot tell.
        p_equivalent, p_not_inferior: of the tests against the margin, corrected.
        low_margin, high_margin: limits at 1 - 2 (1 - level), that these two tests go with.
        caveats: why limits and tests may say more than they know.
        value_baseline, value_candidate: of experiments, and of targets of logged feedback; where
            covariates adjust them, adjusted.
        statistic: of the test.
        theta: what CUPED takes away of the first covariate; cap: above which values count as it.
        relative_low_adjusted, relative_high_adjusted: of `relative`, as low_adjusted of `delta`.
        margin_relative: the margin as a share of the baseline's value.
        low_gate, high_gate: limits that gates go by. Without bounds they count users not seen, up
            to the largest value that was. Of experiments they hold those of both
            variances, with skewness and units not seen. None where too few units make the
            difference; relative_low_gate, relative_high_gate: the same of `relative`.
    """

    baseline: str
    candidate: str
    metric: str
    segmentation: str | None = None
    segment: str | None = None
    delta: float
    std_error: float | None = None
    low: float | None = None
    high: float | None = None
    relative: float | None = None
    relative_low: float | None = None
    relative_high: float | None = None
    p_value: float | None = None
    p_adjusted: float | None = None
    effect_size: float | None = None
    test: (
        str  # hall, t, mcnemar, sign, wilcoxon, permutation, bootstrap, tukey; ", tail", ", unseen"
    )
    n_users: int
    wins: int | None = None
    ties: int | None = None
    losses: int | None = None
    margin: float | None = None
    verdict: str
    smallest_difference: float | None = None
    users_needed: int | None = None
    n_clusters: int | None = None
    df: float | None = None
    family: str | None = None
    family_size: int | None = None
    low_adjusted: float | None = None
    high_adjusted: float | None = None
    p_equivalent: float | None = None
    p_not_inferior: float | None = None
    low_margin: float | None = None
    high_margin: float | None = None
    value_baseline: float | None = None
    value_candidate: float | None = None
    statistic: float | None = None
    theta: float | None = None
    cap: float | None = None
    relative_low_adjusted: float | None = None
    relative_high_adjusted: float | None = None
    margin_relative: float | None = None
    low_gate: float | None = None
    high_gate: float | None = None
    relative_low_gate: float | None = None
    relative_high_gate: float | None = None
    caveats: str | None = None

    @property
    def shown_verdict(self) -> str:
        """The verdict; `identical` where it cannot tell because no user's value differs."""
        is_same = self.verdict == "cannot tell" and (self.wins, self.losses) == (0, 0)
        return "identical" if is_same else self.verdict

    @property
    def judged_limits(self) -> tuple[float | None, float | None]:
        """The limits that go with the verdict: the adjusted ones, where there are any."""
        if self.low_adjusted is None or self.high_adjusted is None:
            return self.low, self.high
        return self.low_adjusted, self.high_adjusted


@dataclass(frozen=True, slots=True)
class Check:
    """What must hold of the data before a number of a report is read.

    Args:
        check: sample-ratio, crossed-units, balance-before, effective-sample-size, ...
        model: of which variant, target or judge; None of all together.
        value: what was found; `expected` what should have been.
        p_value: of "it is as expected", where there is a test.
        verdict: ok, warn or fail.
    """

    check: str
    model: str | None
    segment: str | None
    value: float | None
    expected: float | None
    p_value: float | None
    verdict: str

    @property
    def is_alarm(self) -> bool:
        """Whether no effect can be read."""
        return self.check == "sample-ratio" and self.verdict == "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """A segment in which the candidate loses or gains, found by a search over all segments.

    Args:
        kind: loss or gain.
        low, high: limits of `delta`, widened for having been picked.
        p_value: one-sided; `p_adjusted` over the segments that were searched.
    """

    baseline: str
    candidate: str
    metric: str
    segmentation: str
    segment: str
    kind: str
    delta: float
    low: float | None
    high: float | None
    p_value: float
    p_adjusted: float
    n_users: int
    n_searched: int


@dataclass(frozen=True, slots=True)
class Macro:
    """The mean of a metric over segments, each counting alike; unknown users are none of them.

    Args:
        std_error, low, high: None for segments of items, which share users.
    """

    model: str
    metric: str
    segmentation: str
    value: float
    std_error: float | None
    low: float | None
    high: float | None
    n_segments: int


@dataclass(frozen=True, slots=True)
class Gap:
    """How far the segments of one segmentation are apart in a rate of labels, of one model.

    Args:
        highest, lowest: the segments between which the difference is largest.
        std_error, low, high: of two independent groups; the limits hold for all pairs of segments
            at once (Bonferroni), for these two were picked.
    """

    model: str
    metric: str
    segmentation: str
    highest: str
    lowest: str
    delta: float
    std_error: float | None
    low: float | None
    high: float | None
    n_segments: int


@dataclass(frozen=True, slots=True)
class Standing:
    """Models from best to worst by one metric; those that share a letter cannot be told apart."""

    metric: str
    models: tuple[tuple[str, float, str], ...]  # name, value, letters


@dataclass(frozen=True, slots=True)
class Curve:
    """One metric at every cutoff to the depth: the mean over users and its interval."""

    model: str
    metric: str  # the label without its cutoff
    cutoffs: tuple[int, ...]
    values: tuple[float, ...]
    low: tuple[float | None, ...]
    high: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Distribution:
    """How many users have a value from each edge up to the next; the last edge belongs inside."""

    model: str
    metric: str
    edges: tuple[float, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Graph:
    """Points to be drawn as a line or as bars, such as a ROC curve.

    Args:
        kind: roc, det, by-threshold, precision-recall, calibration, gain, lift,
            precision-recall-by-cutoff, error-by-rating, residuals, lorenz, popularity, exposure,
            genres, effect-by-day, effect-by-date, path-over-looks, path-of-caps, weights,
            agreement-by-item, confusion (a judge is a model).
        x_name, y_name: what the axes show.
        low, high: the interval of each `y`; empty where there is none.
        x_low, x_high: the interval of each `x`, likewise.
        rows: rows, or their weight, that each point stands on; empty where that says nothing.
        thresholds: the score, or the cutoff, of each point; empty where there is none.
        groups: of items, or genres, where each point is one; left out where no graph has any.
    """

    model: str
    kind: str
    x_name: str
    y_name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float | None, ...] = ()
    high: tuple[float | None, ...] = ()
    rows: tuple[float, ...] = ()
    thresholds: tuple[float, ...] = ()
    x_low: tuple[float | None, ...] = ()
    x_high: tuple[float | None, ...] = ()
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StatisticsUsed:
    """How intervals and comparisons were made."""

    level: float
    method: str
    test: str
    correction: str
    family: str
    n_tests: int
    baseline: str | None = None
    margin: float | None = None
    replicates: int | None = None
    seed: int | None = None
    power: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """What one gate found of one model (or of the truth) in one segment (or over all users).

    Args:
        metric: a metric's label, or the name of a count: rows, users, ...
        model: None for the truth.
        kind: min, max, max_drop or max_change.
        value: what was judged; of a count that may be a share.
        delta: `value` less the baseline's; of max_change in shares of the baseline's.
        low: lower limit of what was judged: of `delta`, or of `value` where there is none.
        baseline: as the config names it; `baseline_run` is the run that it meant.
        judged_by: bound (one value), paired, independent (two values), count (no interval).
        outcome: pass, fail, cannot tell.
        fails: whether it ends the run with status 1.
    """

    metric: str
    model: str | None = None
    segmentation: str | None = None
    segment: str | None = None
    kind: str
    bound: float
    value: float | None = None
    delta: float | None = None
    low: float | None = None
    high: float | None = None
    baseline: str | None = None
    baseline_run: str | None = None
    judged_by: str
    n_users: int | None = None
    outcome: str
    fails: bool
    message: str


@dataclass(frozen=True, slots=True)
class Night:
    """What the nights up to one say of a mean difference.

    Args:
        delta, std_error, n_users: of this night alone.
        mean: over the users of all nights so far; `low`, `high` are its limits, which hold
            together with those of all other nights.
        p_value: the smallest so far, corrected, of no difference on any night.
    """

    run_id: str
    started: str
    delta: float
    std_error: float
    n_users: int
    mean: float
    low: float | None
    high: float | None
    p_value: float


@dataclass(frozen=True, slots=True)
class OverNights:
    """Two models compared over all nights of a job, as often as somebody looks.

    Args:
        users: overlapping: nights may share users; disjoint: none does.
        level: of all comparisons together; single limits are at 1 - (1 - level) / `n_tests`.
        n_left_out: earlier runs that measured otherwise.
        n_shared: users who are on several nights, where these were to share none; where there are
            any, nights are overlapping. None where nobody can tell: a night kept no users.
        nights: the last one is the run's own.
        verdict: better, worse, cannot tell; different, where neither way is better.
        found: the first run that could tell.
        n_again: earlier runs over the truth of a later one, which counts in their place.
    """

    baseline: str
    candidate: str
    metric: str
    users: str
    level: float
    n_tests: int
    n_left_out: int
    nights: tuple[Night, ...]
    verdict: str = "cannot tell"
    found: str | None = None
    n_shared: int | None = None
    n_again: int = 0


@dataclass(frozen=True, slots=True)
class Meta:
    """What the run cost and what it ran on; differs from run to run."""

    started: str  # ISO 8601, UTC
    seconds: float
    cpu_seconds: float
    peak_bytes: int
    rows_per_second: float
    threads: int
    stages: Mapping[str, float] = field(default_factory=dict)  # seconds
    versions: Mapping[str, str] = field(default_factory=dict)
    resampling_bytes: int | None = None  # of what each thread drew
    passes: int = 1  # over the logs, so that a memory limit is held
