"""`evalkit check`: everything that is wrong or odd with a config and its data, nothing written."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import polars as pl
import polars.selectors as cs

from evalkit.aggregate.user_values.checks import check_item_segments, check_threshold, check_two_way
from evalkit.config import Config, Policies, SplitConfig
from evalkit.errors import DATA_WRONG, FINE, Errors, EvalkitError
from evalkit.jobs.whole_lists import find_copies, read_whole_lists
from evalkit.metrics import declared
from evalkit.pipeline import run_config
from evalkit.planning.leakage import find_leak, find_mixed, split_remarks
from evalkit.planning.tables import Given, Tables, open_tables, plan_ids_of
from evalkit.report import ModelCounts, Report
from evalkit.sources import Guessing, Table, reading, spell_guesses, verifying
from evalkit.sources.ids import IdPlan
from evalkit.splits.make import make_split

LOOKED_AT = 1000  # rows, for some ids
LISTED = 20  # rows of one fault that are shown

LENIENT = {
    "null_ids": "drop",
    "bad_scores": "last",
    "bad_ranks": "keep",
    "duplicates": "best",
    "truth_duplicates": "max",
    "negative_relevance": "ignore",
    "unknown_users": "skip",
    "beyond_depth": "warn",
    "no_common_user": "warn",
    "no_common_item": "warn",
    "empty_input": "warn",
    "truth_in_train": "count",
    "mixed_splits": "keep",
}


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """One thing that `evalkit check` found; an error where the config's policy is to refuse."""

    is_error: bool
    exit_status: int
    code: str
    message: str
    at: str = ""
    hint: str = ""

    def __str__(self) -> str:
        lines = [f"{'error' if self.is_error else 'odd'}[{self.code}]: {self.message}"]
        lines += [f"  at:   {self.at}"] if self.at else []
        lines += [f"  hint: {self.hint}"] if self.hint else []
        return "\n".join(lines)


def check_config(config: Config, *, threads: int | None = None) -> list[CheckFinding]:
    """Every fault and oddity, errors first.

    The data is read once with policies that refuse nothing, so that one fault does not hide
    another; then rows that list an item twice are searched for among all rows.
    """
    policies = config.policies.model_copy(update=LENIENT)
    lenient = config.model_copy(update={"policies": policies})
    if config.kind != "rankings":
        return _check_rows(config, lenient, threads)
    findings: list[CheckFinding] = []
    try:
        tables = open_tables(config, Given())
        check_item_segments(config.requests, config)  # under its own policies
        check_two_way(config.requests, config)
        check_threshold(config)
        findings += _columns_found(tables.all)
        findings += _splits(tables.logs, tables.config)
        report = run_config(lenient, threads=threads)
    except EvalkitError as error:
        return [*_findings_of(error), *findings]
    findings += _oddities(report, config.policies)
    try:
        if any(each.code == "no-common-user" for each in findings):
            findings = [*_with_ids(findings, [tables.truth, *(t for _, t in tables.rankings)])]
        findings += [*_leaks(report, tables, config), *_all_relevant(tables)]
    except EvalkitError as error:
        findings += _findings_of(error)
    for model, table in tables.rankings:
        try:
            users, _ = plan_ids_of(tables, 1)
            findings += _listed_faults(table, model, config.policies, users)
        except EvalkitError as error:
            findings += _findings_of(error)
    return sorted(_distinct(findings), key=lambda finding: not finding.is_error)


def _with_ids(findings: Sequence[CheckFinding], logs: Sequence[Table]) -> Iterator[CheckFinding]:
    """The same, with some ids of truth and rankings where they have none in common."""
    said = []
    for table in logs:
        with reading(table):
            users = table.frame.select(cs.starts_with("user_")).head(LOOKED_AT)
            rows = users.unique(maintain_order=True).head(3).collect(engine="streaming").rows()
        ids = ", ".join(repr(row[0] if len(row) == 1 else row) for row in rows)
        said.append(f"{table.at} has {ids}")
    hint = f"compare the ids: {'; '.join(said)}"
    for each in findings:
        yield replace(each, hint=hint) if each.code == "no-common-user" else each


def check_split(config: SplitConfig) -> list[CheckFinding]:
    """What is wrong with a split, and what it gives away; the log is read, nothing is written."""
    try:
        with verifying(config.verify_pages):
            made = make_split(
                config.split,
                guessing=Guessing(config.entry_point, section="split"),
                at=config.at("split"),
                storage=config.storage,
            )
    except EvalkitError as error:
        return [*_findings_of(error)]
    leaks = made.manifest["leakage"]
    counts = ", ".join(f"{name} {count:g}" for name, count in sorted(leaks["counts"].items()))
    clean = leaks["verdict"] == "clean"
    return [] if clean else [_finding(False, "leakage", f"{leaks['verdict']}: {counts}", "split")]


def _check_rows(config: Config, lenient: Config, threads: int | None) -> list[CheckFinding]:
    """Of ratings and labels: rows that were left out, and what else may mislead."""
    kind = declared(config.kind)
    policies = lenient.policies.model_copy(update=dict(kind.lenient))
    opened: list[Table] = []
    lenient = lenient.model_copy(update={"policies": policies})
    problems: list[CheckFinding] = []
    try:
        report = run_config(lenient, threads=threads, opened=opened.extend)
    except EvalkitError as error:
        problems = list(_findings_of(error))
    findings = [*problems, *_columns_found(opened)]
    try:
        findings += _splits(opened, config)
    except EvalkitError as error:
        findings += _findings_of(error)
    if problems:
        return findings
    for name, counts in report.counts.models.items():
        for fault in kind.faults:
            if number := counts.rows_dropped.get(fault.reason, 0):
                refused = getattr(config.policies, fault.policy) == "error"
                message = f"{number:,} rows are left out: {fault.reason.replace('_', ' ')}"
                findings.append(_finding(refused, fault.code, message, f"model {name}"))
    for fault in kind.faults:
        if number := report.row_counts.get(fault.reason, 0):
            refused = bool(fault.policy) and getattr(config.policies, fault.policy) == "error"
            message = f"{number:,} are left out: {fault.reason.replace('_', ' ')}"
            findings.append(_finding(refused, fault.code, message))
    failed = {each.check for each in report.checks if each.verdict == "fail"}
    told = {finding.code for finding in findings}
    for warning in report.warnings:
        if warning.code not in told:
            refused = warning.code == "empty-input" and config.policies.empty_input == "error"
            refused |= warning.code == "duplicate-row" and config.policies.duplicates == "error"
            refused |= warning.code == "unpredicted" and config.policies.unpredicted == "error"
            refused |= warning.code in failed and config.policies.crossed_units != "first"
            refused |= warning.code == "sample-ratio"
            refused |= warning.code == "crossed-units" and config.policies.crossed_units == "error"
            at = f"model {warning.model}" if warning.model else ""
            findings.append(_finding(refused, warning.code, warning.message, at))
    return sorted(_distinct(findings), key=lambda finding: not finding.is_error)


def _columns_found(tables: Sequence[Table]) -> Iterator[CheckFinding]:
    """Columns that were guessed, those that look like what is not read, and footers that lie."""
    for table in tables:
        for error in table.wrong_statistics():
            yield CheckFinding(True, DATA_WRONG, error.code, error.message, error.at, error.hint)
    for line in spell_guesses(tables):
        yield _finding(False, "guessed-columns", line)
    for table in tables:
        if table.is_by_row:
            message = "no rank and no score is read: ranks are the order of the rows"
            for each in table.row_scores:
                message += f"; column {each.name!r} {each.verdict.removesuffix('s')}s"
            hint = "name the column, if there is one: rank (or score) among its columns"
            yield CheckFinding(False, FINE, "row-order", message, table.at, hint)
        if table.left_out:
            names = ", ".join(table.left_out[:LISTED]) + ", ..." * (len(table.left_out) > LISTED)
            message = f"{len(table.left_out):,} files or folders beside the data are not read: "
            yield CheckFinding(False, FINE, "files-left-out", message + names, table.at)
        for key, column in table.chosen.unread.items():
            if column in table.used:  # by where
                continue
            message = f"column {column!r} looks like the {key}, and is not read"
            hint = f'{key} = "{column}" among its columns reads it'
            if (table.role, key) == ("rankings", "day"):
                hint = f'take the lists of one day, if there are several: where = "{column} = ..."'
            if key == "model" and table.model is not None:
                message += f": all rows are those of {table.model!r}"
                hint = f"write columns.model instead of model = {table.model!r}"
            yield CheckFinding(False, FINE, "unread-column", message, table.at, hint)


def _splits(tables: Sequence[Table], config: Config) -> Iterator[CheckFinding]:
    """Tables that mix the parts of a split, and what else tells of one."""
    for error in find_mixed(tables, config):
        refused = config.policies.mixed_splits == "error"
        status = DATA_WRONG if refused else FINE
        yield CheckFinding(refused, status, error.code, error.message, error.at, error.hint)
    for each in split_remarks(tables, config):
        yield CheckFinding(False, FINE, each.code, each.message, each.at, each.hint)


def _distinct(findings: list[CheckFinding]) -> list[CheckFinding]:
    return list(dict.fromkeys(findings))


def _findings_of(error: EvalkitError) -> Iterator[CheckFinding]:
    for each in error.errors if isinstance(error, Errors) else (error,):
        yield CheckFinding(True, each.exit_status, each.code, each.message, each.at, each.hint)


def _finding(refused: bool, code: str, message: str, at: str = "") -> CheckFinding:
    return CheckFinding(refused, DATA_WRONG if refused else FINE, code, message, at)


_TOLD_OTHERWISE = (
    *("bad-ranks", "duplicate-item", "truth-in-train", "train-rows", "split-files", "row-order"),
    "several-lists",
)


def _oddities(report: Report, policies: Policies) -> Iterator[CheckFinding]:
    truth = report.counts.truth
    dropped = truth.rows_dropped
    if dropped["null_id"]:
        message = f"{dropped['null_id']:,} rows of the truth have no user or no item"
        yield _finding(policies.null_ids == "error", "null-id", message)
    if dropped["duplicate"]:
        message = f"{dropped['duplicate']:,} rows of the truth repeat a user's item"
        yield _finding(policies.truth_duplicates == "error", "duplicate-truth", message)
    if truth.users_without_relevant:
        message = f"{truth.users_without_relevant:,} of {truth.users:,} users have no relevant item"
        yield _finding(False, "no-relevant", message)
    for name, counts in report.counts.models.items():
        yield from _model_oddities(name, counts, policies)
    refusing = {
        "cutoff-beyond-depth": policies.beyond_depth == "error",
        "no-common-user": policies.no_common_user == "error",
        "empty-input": policies.empty_input == "error",
        "negative-relevance": policies.negative_relevance == "error",
    }
    for warning in report.warnings:
        if warning.code not in _TOLD_OTHERWISE:
            refused = refusing.get(warning.code, False)
            if warning.code == "no-common-item":  # with examples where it can be no chance
                refused = policies.no_common_item == "error" and "' against '" in warning.message
            yield _finding(refused, warning.code, warning.message)


def _model_oddities(name: str, counts: ModelCounts, policies: Policies) -> Iterator[CheckFinding]:
    dropped, no_policy = counts.rows_dropped, ""
    no_ranks = f"ranks that are no whole numbers from {policies.first_rank} on"
    again = "rows that list a relevant item a second time"
    unknown, unranked = counts.users_without_truth, counts.users_without_ranking
    faults = [  # how many, the policy that may refuse them, code, what
        (dropped["null_id"], "null_ids", "null-id", "rows without user or item"),
        (dropped["bad_rank"], "bad_ranks", "bad-rank", no_ranks),
        (counts.bad_ranks, "bad_ranks", "bad-ranks", "users whose ranks have gaps or repeats"),
        (counts.duplicates, "duplicates", "duplicate-item", again),
        (unknown, "unknown_users", "unknown-users", "ranked users that the truth lacks"),
        (unranked, no_policy, "no-ranking", "users of the truth without a ranking"),
        (counts.ties, no_policy, "ties", "hits that share their score with another row"),
        (counts.seen_in_train, no_policy, "seen-in-train", "ranked items that training had seen"),
    ]
    for number, policy, code, what in faults:
        if number:
            refused = bool(policy) and getattr(policies, policy) == "error"
            yield _finding(refused, code, f"{number:,} {what}", f"model {name}")


def _all_relevant(tables: Tables) -> Iterator[CheckFinding]:
    """Ratings without a threshold, of which the lowest is a relevant item too."""
    frame = tables.truth.frame
    if tables.threshold is not None or "relevance" not in frame.collect_schema():
        return
    column = pl.col("relevance")
    with reading(tables.truth):
        found = frame.select(column.min().alias("low"), column.max().alias("high"))
        low, high = found.collect(engine="streaming").row(0)
    if low is not None and 0.0 < low < high:
        message = f"relevances are {low:g} to {high:g}: without a threshold every row is relevant"
        hint = f"threshold = {(low + high) / 2.0 + 0.5:.0f} under [truth] takes the upper ones"
        yield CheckFinding(False, FINE, "no-threshold", message, tables.truth.at, hint)


def _leaks(report: Report, tables: Tables, config: Config) -> Iterator[CheckFinding]:
    """Pairs of the truth that stand in train, the first of them by user."""
    leak = find_leak(report.counts.truth, config)
    if leak is None or tables.train is None:
        return
    plans = plan_ids_of(tables, 1)
    ids = [column for plan in plans for column in plan.canonical()]
    users, names = list(plans[0].columns), [name for plan in plans for name in plan.columns]
    relevance = pl.col("relevance")
    if "relevance" in tables.truth.frame.collect_schema():
        joined = {"sum": relevance.sum(), "last": relevance.last()}
        pairs = tables.truth.frame.select(*ids, relevance.cast(pl.Float64)).drop_nulls(names)
        pairs = pairs.group_by(names, maintain_order=True).agg(
            joined.get(config.policies.truth_duplicates, relevance.max())
        )
        lowest = tables.threshold
        pairs = pairs.filter(relevance > 0 if lowest is None else relevance >= lowest)
    else:
        pairs = tables.truth.frame.select(ids)
    shared = pairs.select(names).join(tables.train.frame.select(ids), on=names, how="semi")
    with reading(tables.truth):
        rows = shared.unique().sort(names).head(LISTED).collect(engine="streaming")
    message = f"{leak.message}: {_rows(rows, users, report.counts.truth.in_train)}"
    status = DATA_WRONG if leak.refused else FINE
    yield CheckFinding(leak.refused, status, leak.code, message, tables.truth.at, leak.hint)


def _listed_faults(
    table: Table, model: str | None, policies: Policies, plan: IdPlan
) -> Iterator[CheckFinding]:
    """Rows that list an item twice, repeated ranks and bad scores, the first of each by user."""
    at = table.at if model is None else f"{table.at} (model {model})"
    if table.is_list:
        lists = ["item", "score"] if "score" in table.frame.collect_schema() else ["item"]
        frame = table.frame.explode(lists)
    else:
        frame = table.frame
    names = frame.collect_schema().names()
    users = [name for name in names if name.startswith("user_")]
    by = [*users, "model"] if "model" in names else users
    if table.is_list:
        with reading(table):
            counted = table.frame.drop_nulls(by).group_by(by).len().filter(pl.col("len") > 1)
            again = counted.drop("len").sort(by).collect(engine="streaming")
        if again.height:
            message = f"{again.height:,} users have several lists, which are read as one"
            message += f": {_rows(again, users)}"
            hint = "several days or models in one table? take one by where, or name columns.model"
            yield CheckFinding(False, FINE, "several-lists", message, at, hint)

    def fault(policy: str, code: str, message: str, rows: pl.DataFrame) -> Iterator[CheckFinding]:
        if rows.height:
            message = f"{rows.height:,} {message}: {_rows(rows, users)}"
            yield _finding(getattr(policies, policy) == "error", code, message, at)

    keys = ["item", "rank"] if "rank" in names else ["item"]
    twice: list[list[pl.DataFrame]] = [[] for _ in keys]
    for rows in read_whole_lists(table, frame.select(*by, *keys), by, plan):
        for key, parts in zip(keys, twice, strict=True):
            parts.append(find_copies(rows.select(*by, key).drop_nulls()))
    copies, *ranks = [pl.concat(parts).sort(parts[0].columns) for parts in twice]
    what = "(user, item) pairs stand in a list more than once"
    yield from fault("duplicates", "duplicate-item", what, copies)
    for given in ranks:
        yield from fault("bad_ranks", "duplicate-rank", "ranks are given twice", given)
    if "score" in names:
        score = pl.col("score")
        is_float = frame.collect_schema()["score"].is_float()
        bad = frame.filter(score.is_null() | score.is_nan() if is_float else score.is_null())
        with reading(table):
            found = bad.collect(engine="streaming").select(*users, "item").sort(users)
        yield from fault("bad_scores", "bad-score", "scores are null or NaN", found)


def _rows(frame: pl.DataFrame, users: list[str], total: int | None = None) -> str:
    others = [name for name in frame.columns if name not in users]
    shown = []
    for row in frame.head(LISTED).iter_rows(named=True):
        user = " / ".join(str(row[name]) for name in users)
        rest = " ".join(f"{name} {row[name]}" for name in others)
        shown.append(f"user {user} {rest}".rstrip())
    left = (frame.height if total is None else total) - len(shown)
    return ", ".join(shown) + (f", and {left:,} more" if left > 0 else "")
