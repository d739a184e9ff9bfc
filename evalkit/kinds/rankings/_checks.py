"""What is wrong or odd with a run of rankings: with the request, with a share, with the whole."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from evalkit.aggregate.user_values.checks import check_scores, of_judged
from evalkit.config import Config, in_words_of, is_in_catalog
from evalkit.errors import DataError, EvalkitError, FaultyShareError, raise_all, warn
from evalkit.kinds.rankings._job import RankingTask
from evalkit.kinds.rankings._meeting import TRUTH, key_of
from evalkit.kinds.rankings._steps import GAINS, SEGMENTS
from evalkit.kinds.rankings.merge import RankingSums, WeightSums
from evalkit.metrics import needs_of
from evalkit.planning.leakage import find_leak
from evalkit.planning.meeting import MET
from evalkit.report import Input, Warning_
from evalkit.report.entries import Check
from evalkit.sources import Table, reading
from evalkit.sources.hints import turn_column
from evalkit.sources.row_order import scores_rise

LARGEST_EXPONENT = 960.0  # 2^960 still adds up over many items and squares
LARGEST_RELEVANCE = 1e140
FEW_EFFECTIVE = 100
BESIDE = {  # by the role of a table what is said of it, and the needs that it serves
    "train": ("the training log has", ("train", "history")),
    "users": ("the users have", ("users",)),
    "reference": ("the reference has", ("reference",)),
    "earlier": ("the lists before have", ("earlier",)),
}
LARGEST_OF_ITEMS = 31  # 2^31 adds up over 2^32 users of an item, where items have sums


def check_columns(config: Config, table: Table, *, looks: bool) -> list[Warning_]:
    """Policies that the columns of a log of rankings leave without effect; scores upside down.

    Args:
        looks: at the first rows, too.

    Raises:
        RequestError: the hand asked for what nothing can say [policy-without-scores].
    """
    columns = [*table.frame.collect_schema()]
    odd = check_scores(config.requests, config.policies, config, at=table.at, columns=columns)
    wrong = [repr(each.name) for each in table.row_scores if each.verdict == "contradicts"]
    if wrong:
        message = (
            f"{', '.join(wrong)} may be scores, and contradict the order of the rows, which ranks: "
            "columns of the rankings name no rank and no score"
        )
        odd.append(Warning_("row-order", message, table.model))
    if looks and "score" in columns and "rank" not in columns:
        with reading(table):
            rise = scores_rise(table.frame, is_list=table.is_list)
        if rise:  # told, and no part of the report, which is the same for any order of rows
            message = "scores rise from row to row of each list: its last row ranks first"
            turned = in_words_of(config.entry_point, turn_column(table, "score", "-{}"))
            hint = f"where less is better, as of distances: {turned}"
            warn("rising-scores", message, at=table.at, hint=hint)
    return odd


def check_gains(config: Config, largest: float, at: str) -> None:
    """Refuse relevances whose gains no float64 holds, or that are above a metric's scale.

    Raises:
        DataError: the largest relevance is too large for a metric [gain-overflow], or above the
            top that it names [relevance-above-scale].
    """
    for request in config.requests:
        exponential = str(dict(request.parameters).get("gain")).startswith("exp2")
        limit = LARGEST_EXPONENT if exponential else LARGEST_RELEVANCE
        if config.statistics.two_way is not None and request.metric.name == "DCG":
            limit = LARGEST_OF_ITEMS if exponential else 2.0**LARGEST_OF_ITEMS
        if largest > limit:
            raise DataError(
                f"{request.label} cannot hold the gain of a relevance of {largest!r}; "
                f"at most {limit:g}",
                code="gain-overflow",
                at=at,
                hint='scale it down: relevance = "rating / 100" under [truth.columns]',
            )
        top = dict(request.parameters).get("max_relevance")
        if top is not None and largest > float(top):
            raise DataError(
                f"the truth has a relevance of {largest!r}, above the scale of {request.label}",
                code="relevance-above-scale",
                at=at,
                hint=f"name the top of the scale: max_relevance={largest:g}",
            )


def tell_faults(task: RankingTask, sums: RankingSums) -> None:
    """Raise what is wrong with the users of all shares, as if there were one.

    Raises:
        EvalkitError: all of it at once.
    """
    sources, faults = sums.origin.sources, sums.faults
    with suppress(FaultyShareError), faults.step(GAINS):
        check_gains(task.config, sums.largest, sums.origin.truth)
    for number, name in [(n, name) for n, names in enumerate(sources) for name in names]:
        if name in sums.seen_values.by_name:
            with suppress(FaultyShareError), faults.step(SEGMENTS, number, 1):
                sums.seen_values.check(name)
    with suppress(FaultyShareError), faults.step(SEGMENTS, len(sources)):
        task.most_in_cells(sums.totals.n_segments)
    faults.tell()


def check_shares(sums: RankingSums) -> None:
    """Refuse shares of which users would count twice, or that know fewer models than others.

    Raises:
        DataError: a log laid out by users has rows of one in two shares [user-in-two-shares], or
            no rows of a model for some shares [model-not-in-share].
    """
    if sums.is_cut:
        message = "two shares of the truth have users in common, who would count twice"
        hint = "write all rows of a user into one folder, or leave {share} out of the paths"
        raise DataError(message, code="user-in-two-shares", at=sums.origin.truth, hint=hint)
    lacking = sorted({name for each in sums.together for name in sums.tables.keys() - each})
    if lacking:
        raise DataError(
            f"some shares of the users have no rows of {', '.join(map(repr, lacking))}",
            code="model-not-in-share",
            at=sums.origin.rankings[sums.tables[lacking[0]]],
            hint="give each model a table of its own under [[rankings]]",
        )


def check_whole(task: RankingTask, sums: RankingSums, inputs: Sequence[Input]) -> list[Warning_]:
    """Nothing to read, nobody in common, cutoffs that no list reaches, and what may mislead.

    Args:
        inputs: the tables, with the rows that were read.
    Raises:
        DataError: what the policies refuse [empty-input, no-common-user, no-common-item,
            cutoff-beyond-depth, truth-in-train, truth-is-train, nothing-judged].
    """
    policies, truth, origin = task.config.policies, sums.truth, sums.origin
    told = _Told()
    empty_hint = 'write empty_input = "warn" under [policies] if that can be'
    if truth.rows == 0 and not task.config.is_truthless:
        message = "the truth has no rows"
        told.add(policies.empty_input, "empty-input", message, origin.truth, empty_hint)
    elif truth.rows and not truth.truth_counts().pairs and not task.config.is_truthless:
        message = "no row of the truth is relevant: look at the threshold and at where"
        told.warnings.append(Warning_("nothing-relevant", message))
    asked = of_judged(task.measured, policies)
    if asked and truth.rows and not truth.judged:
        message = (
            f"no item of the truth is judged and not relevant, and {asked[0].label} looks at them: "
            "without them judged is precision, and bpref recall"
        )
        hint = "keep the rows of relevance 0 and those below the threshold in the truth"
        told.add(policies.no_judged, "nothing-judged", message, origin.truth, hint)
    needs = {need for each in task.of_lists for need in needs_of(each)}
    is_on_spark = task.config.engine.kind == "spark"
    for source in inputs:
        is_counted = source.paths and not is_in_catalog(source.paths)
        if is_on_spark and source.role != "train" and not is_counted:
            continue
        what, needed_by = BESIDE.get(source.role, ("", ()))
        if source.rows == 0 and needs.intersection(needed_by):
            at = ", ".join(source.paths) or source.role
            told.add(policies.empty_input, "empty-input", f"{what} no rows", at, empty_hint)
    leak = find_leak(truth.truth_counts(), task.config)
    if leak is not None:
        policy = "error" if leak.refused else "warn"
        told.add(policy, leak.code, leak.message, origin.truth, leak.hint)
    for name in sums.in_order:
        row_counts, at = sums.models[name], origin.rankings[sums.tables[name]]
        if row_counts.rows == 0 and row_counts.users == 0:
            message = f"the rankings of {name!r} have no rows"
            told.add(policies.empty_input, "empty-input", message, at, empty_hint, name)
        elif row_counts.users_with_truth == 0 and truth.rows:
            message = f"none of {row_counts.users:,} ranked users is in the truth"
            hint = "compare some ids of both by eye: are they of one kind and one day?"
            meeting = sums.meetings.get(key_of("user", TRUTH, name), MET)
            if meeting.misses and policies.no_common_user == "error":
                message += f": {meeting.examples}"
                message += f"; {meeting.repair} some are" if meeting.repair else ""
                hint = meeting.hint or hint
            if not row_counts.users:
                dropped = row_counts.model_counts(task.config).rows_dropped
                reasons = [f"{n:,} {each.replace('_', ' ')}" for each, n in dropped.items() if n]
                message = f"all {row_counts.rows:,} rows of {name!r} were dropped: "
                message += ", ".join(reasons)
                hint = "where that can be: " + task.config.spell_policy("no_common_user", "warn")
                if dropped.get("not_sampled") == row_counts.rows:
                    hint = "--sample 0.5 takes half of the users"
            told.add(policies.no_common_user, "no-common-user", message, at, hint, name)
        else:
            for other, of in OTHERS.items():
                _check_items(task, sums, name, other, of, told)
            deep = [r.label for r in task.requests if (r.cutoff or 0) > row_counts.depth]
            if deep:
                message = (
                    f"{', '.join(deep)}: the lists of {name!r} hold at most "
                    f"{row_counts.depth:,} ranks"
                )
                hint = 'lower the cutoff, or write beyond_depth = "warn" under [policies]'
                told.add(policies.beyond_depth, "cutoff-beyond-depth", message, at, hint, name)
        told.warnings.extend(row_counts.warnings(name, task.config))
    raise_all(told.problems)
    return [*told.warnings, *_spellings(sums), *_oddities(task, sums)]


OTHERS = {TRUTH: "the truth", "train": "the training log", "items": "the catalogue"}


def _check_items(
    task: RankingTask, sums: RankingSums, name: str, other: str, of: str, told: "_Told"
) -> None:
    """Refuse a model of whose items none is in another table, where that can be no chance."""
    meeting = sums.meetings.get(key_of("item", other, name), MET)
    if not meeting.misses:
        return
    message = f"no ranked item of {name!r} is in {of}"
    is_sure = bool(meeting.repair) or (meeting.many and other != "train")
    if is_sure:
        message += f": {meeting.examples}"
    message += f"; {meeting.repair} some are" if meeting.repair else ""
    hint = meeting.hint or "compare the ids by eye: are they of one kind and one catalogue?"
    policy = task.config.policies.no_common_item if is_sure else "warn"
    keep = task.config.spell_policy("no_common_item", "warn")
    at = sums.origin.rankings[sums.tables[name]]
    told.add(policy, "no-common-item", message, at, f"{hint}; where it is so: {keep}", name)


def _spellings(sums: RankingSums) -> list[Warning_]:
    """Ids of which some meet as they are, and more would meet in another form."""
    found = []
    for key, meeting in sorted(sums.meetings.items()):
        what, _, number = key.partition(" ")
        if meeting.met and meeting.repair and meeting.after > meeting.before:
            names = [name for name in sums.in_order if sums.tables[name] == int(number)]
            message = (
                f"of the {what}s of {', '.join(map(repr, names))} looked at, {meeting.before:.1%} "
                f"are in the truth as they are, {meeting.after:.1%} {meeting.repair}: "
                f"{meeting.examples}"
            )
            message += f"; read {what} as {meeting.sql}" if meeting.sql else ""
            found.append(Warning_("id-spelling", message))
    return found


@dataclass(frozen=True, slots=True)
class _Told:
    """What policies make errors of, or warnings."""

    problems: list[EvalkitError] = field(default_factory=list)
    warnings: list[Warning_] = field(default_factory=list)

    def add(
        self, policy: str, code: str, message: str, at: str, hint: str, model: str | None = None
    ) -> None:
        if policy == "error":
            self.problems.append(DataError(message, code=code, at=at, hint=hint))
        else:
            self.warnings.append(Warning_(code, message, model))


def checks_of_weights(weights: WeightSums) -> Iterator[Check]:
    """How far propensities carry: few large weights are as good as few items."""
    effective, n = weights.effective, weights.count
    verdict = "ok" if effective >= FEW_EFFECTIVE else "warn"
    yield Check("effective-sample-size", None, None, effective, float(n), None, verdict)
    yield Check("weight-max", None, None, weights.largest, None, None, "ok")
    verdict = "warn" if weights.n_raised else "ok"
    yield Check("propensity-raised", None, None, float(weights.n_raised), 0.0, None, verdict)


def _warnings_of_weights(weights: WeightSums, floor: float | None) -> Iterator[Warning_]:
    if weights.n_raised and floor is not None:
        share = weights.n_raised / weights.count
        message = (
            f"{weights.n_raised:,} relevant items ({share:.2%}) have a propensity below "
            f"{floor:g}, and count as if it were that: their weight is too small"
        )
        yield Warning_("raised-propensity", message)
    if weights.effective < FEW_EFFECTIVE:
        message = (
            f"weights of 1 / propensity make {weights.count:,} relevant items as good as "
            f"{weights.effective:,.0f}: fewer than {FEW_EFFECTIVE} tell little"
        )
        yield Warning_("few-effective", message)


def _oddities(task: RankingTask, sums: RankingSums) -> list[Warning_]:
    """What lets all numbers stand but may mislead."""
    found: list[Warning_] = []
    if sums.truth.negative and task.config.policies.negative_relevance == "ignore":
        message = f"{sums.truth.negative:,} items of the truth have a relevance below 0"
        found.append(Warning_("negative-relevance", message + ", which counts as 0"))
    inferred = [each.label for each in task.requests if each.metric.base.name == "infAP"]
    if inferred and not sums.truth.negative:
        message = (
            f"{inferred[0]}: no relevance is below 0, so no item was pooled and never judged: "
            "it is a biased AP then"
        )
        found.append(Warning_("nothing-pooled", message))
    if sums.weights is not None and task.config.truth is not None:
        found += _warnings_of_weights(sums.weights, task.config.truth.min_propensity)
    if task.config.log is not None:
        message = "relevant items are those logged: what was never shown cannot be missed"
        found.append(Warning_("joined-log", message))
    drawn = [each.label for each in task.requests if each.metric.base.name == "sampled"]
    if drawn:
        message = (
            f"{', '.join(drawn)}: ranks among sampled candidates can put models in another "
            "order than ranks in the whole catalogue; the estimate has less bias, more spread"
        )
        found.append(Warning_("sampled-candidates", message))
    if (sample := task.options.sample) is not None:
        message = f"numbers stand on a sample of {sample:.2%} of the users"
        found.append(Warning_("sample", message))
    return found
