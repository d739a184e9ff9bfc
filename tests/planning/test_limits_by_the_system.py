"""Peaks of whole processes stay below `--memory-limit`, by the operating system, or are refused."""

import re
from pathlib import Path

import polars as pl
import pytest
from program import run_program

import evalkit
from tests.peaks import Ended, run_evalkit, run_measured

NEED = re.compile(r"give --memory-limit (\d+)MiB")

COMPILING_COUNTS_AS_NOTHING = """
import sys
from evalkit.cli.app import run_command
from evalkit.kernels import memory
memory.COMPILING, memory._to_compile = 0, lambda: True
memory.let_polars_give_back()
sys.exit(run_command(sys.argv[1:]))
"""


def assert_held(limit_mib: int, *arguments: str) -> Ended:
    """The limit is held, or refused with one that is held."""
    ended = run_evalkit(*arguments, "--memory-limit", f"{limit_mib}MiB")
    if ended.status == 4:
        assert "error[memory-limit]" in ended.stderr
        limit_mib = int(NEED.findall(ended.stderr)[0])
        ended = run_evalkit(*arguments, "--memory-limit", f"{limit_mib}MiB")
    assert ended.status == 0, ended.stderr
    assert ended.peak_mib <= limit_mib
    return ended


def keep_kernels(limit_mib: int, *arguments: str) -> tuple[int, bool]:
    """Compile what runs in passes need, as if that took no memory.

    Returns:
        The limit, or what is needed, and whether it was held even so: nothing had to be compiled.
    """
    for _ in range(2):
        limit = ("--memory-limit", f"{limit_mib}MiB")
        ended = run_measured("-c", COMPILING_COUNTS_AS_NOTHING, *arguments, *limit)
        if not ended.status:
            break
        limit_mib = int(NEED.findall(ended.stderr)[0])
    assert ended.status == 0, ended.stderr
    return limit_mib, ended.peak_mib <= limit_mib


def assert_held_once_kept(limit_mib: int, *arguments: str) -> None:
    """The limit is held by a run that compiles nothing."""
    ended = run_evalkit(*arguments, "--memory-limit", f"{limit_mib}MiB")
    if ended.status != 0 or ended.peak_mib > limit_mib:
        limit_mib, is_held = keep_kernels(limit_mib, *arguments)
        if not is_held:
            assert_held(limit_mib, *arguments)


def long_ids(folder: Path, n_ids: int, n_bytes: int, form: str) -> list[str]:
    """Options of an evaluation whose items are texts of so many bytes."""
    users = [number // 10 for number in range(n_ids)]
    items = [f"{number:012}" + "x" * (n_bytes - 12) for number in range(n_ids)]
    truth = pl.DataFrame({"user": users, "item": items})
    rankings = truth.with_columns(rank=pl.int_range(pl.len()).over("user") + 1)
    for name, frame in (("truth", truth), ("m", rankings)):
        path = folder / f"{name}.{form}"
        frame.write_csv(path) if form == "csv" else frame.write_parquet(path)
    return [
        "evaluate", "--truth", str(folder / f"truth.{form}"), "-m", "nDCG@5",
        "--rankings", f"m={folder / f'm.{form}'}",
    ]  # fmt: skip


def log_of_numbers(folder: Path, n_users: int) -> list[str]:
    """Options of an evaluation of two models, whose values of users are put in order."""
    users = pl.select(user=pl.int_range(n_users), item=pl.int_range(n_users) % 1000)
    users.write_parquet(folder / "truth.parquet")
    for name, further in (("a", 0), ("b", 7)):
        frame = users.with_columns(item=(pl.col("item") + further) % 1000, rank=1)
        frame.write_parquet(folder / f"{name}.parquet")
    return [
        *("evaluate", "--truth", str(folder / "truth.parquet")),
        *("-m", "RR", "-m", "recall@2", "-m", "nDCG@3", "-m", "hit@1"),
        *("--rankings", f"a={folder / 'a.parquet'}", f"b={folder / 'b.parquet'}"),
        *("--per-user", str(folder / "values.parquet")),
    ]


@pytest.fixture(autouse=True, scope="module")
def kernels_are_kept(tmp_path_factory):
    """Whoever comes first compiles kernels, which takes 200 MiB that are no part of the rows."""
    folder = tmp_path_factory.mktemp("few")
    for options in (log_of_numbers(folder, 1000), long_ids(folder, 100, 100, "csv")):
        ended = run_program([*options, "--memory-limit", "2GiB"], folder)
        assert ended.status == 0, ended.err


@pytest.mark.some_cases(1)
@pytest.mark.parametrize(("n_ids", "n_bytes"), [(12_000, 10_000), (60_000, 2_000), (300, 500_000)])
def test_long_ids_are_counted_by_their_length(tmp_path, n_ids, n_bytes):
    assert_held_once_kept(750, *long_ids(tmp_path, n_ids, n_bytes, "parquet"))


@pytest.mark.parametrize("dtype", [pl.Categorical, pl.Enum([f"id {n}" for n in range(9)])])
def test_ids_of_few_kinds_are_as_long_as_their_texts(dtype):
    ids = pl.Series([f"id {n}" for n in range(9)])
    truth = pl.DataFrame({"user": ids.cast(dtype), "item": ids.cast(dtype)})
    rankings = pl.DataFrame({"user": ids, "item": ids.cast(dtype), "rank": [1] * 9})

    report = evalkit.evaluate(truth, rankings, metrics=["RR"], memory_limit=8 << 30)

    assert report.value("RR") == 1


@pytest.mark.campaign
def test_long_ids_of_text_files_are_counted_by_their_length(tmp_path):
    ended = assert_held(400, *long_ids(tmp_path, 12_000, 10_000, "csv"))

    assert ended.peak_mib > 400  # so the limit was refused, with one that is not far away
    assert_held(ended.peak_mib * 3 // 2, *long_ids(tmp_path, 12_000, 10_000, "csv"))


def test_what_is_larger_than_the_limit_is_not_even_decoded(tmp_path):
    options = long_ids(tmp_path, 230, 1_000_000, "parquet")

    ended = run_evalkit(*options, "--memory-limit", "200MiB")

    assert ended.status == 4
    assert "error[memory-limit]" in ended.stderr
    assert ended.peak_mib < 200


def test_long_lists_in_one_row_group_come_a_few_at_a_time(tmp_path):
    users = pl.select(user=pl.int_range(10_000))
    shown = pl.int_ranges(pl.col("user") % 1000, pl.col("user") % 1000 + 1000)
    lists = users.with_columns(item=shown, score=shown.cast(pl.List(pl.Float64)))
    lists.write_parquet(tmp_path / "lists.parquet", row_group_size=10_000)
    users.with_columns(item=pl.col("user") % 1000 + 3).write_parquet(tmp_path / "truth.parquet")
    options = ("evaluate", "--truth", str(tmp_path / "truth.parquet"), "-m", "nDCG@5")

    assert_held_once_kept(350, *options, "--rankings", f"m={tmp_path / 'lists.parquet'}")


@pytest.mark.campaign
def test_items_of_lists_whose_users_come_back_are_not_held_to_find_copies(tmp_path):
    users = pl.select(user=pl.int_range(120_000))
    halves = [users.with_columns(item=pl.int_ranges(first, first + 60)) for first in (0, 60)]
    pl.concat(halves).write_parquet(tmp_path / "lists.parquet", row_group_size=4_096)
    users.with_columns(item=pl.col("user") % 100).write_parquet(tmp_path / "truth.parquet")
    options = ("evaluate", "--truth", str(tmp_path / "truth.parquet"), "-m", "nDCG@10")

    assert_held_once_kept(350, *options, "--rankings", f"m={tmp_path / 'lists.parquet'}")


@pytest.mark.campaign
def test_values_of_users_that_are_put_in_order_are_counted(tmp_path):
    assert_held(340, *log_of_numbers(tmp_path, 1_500_000))


def test_values_of_many_metrics_of_models_that_nothing_compares_are_counted(tmp_path):
    asked = log_of_numbers(tmp_path, 60_000)
    models = [f"--rankings=m{n}={tmp_path / 'b.parquet'}" for n in range(8)]
    metrics = [f"--metric={name}@{k}" for name in ("nDCG", "recall") for k in range(1, 21)]

    assert_held(8, *asked, *models, *metrics)


@pytest.fixture(scope="module")
def finished_runs(tmp_path_factory) -> Path:
    """A folder of two runs that keep values of 300,000 users."""
    folder = tmp_path_factory.mktemp("finished")
    log_of_numbers(folder, 300_000)
    (folder / "job.toml").write_text(
        f'name = "job"\n[truth]\npath = "{folder}/truth.parquet"\n[[rankings]]\nmodel = "a"\n'
        f'path = "{folder}/a.parquet"\n[metrics]\nnames = ["RR", "recall@2", "nDCG@3"]\n'
        "[output]\nper_user = true\n"
    )
    for _ in range(2):
        ended = run_program(["run", "job.toml", "--out", "runs"], folder)
        assert ended.status == 0, ended.err
    return folder / "runs"


@pytest.mark.some_cases(1)
@pytest.mark.parametrize("test", ["wilcoxon", "t"])
def test_values_of_finished_runs_are_counted(finished_runs, test):
    command = ["compare", "last~1", "last", "--out", str(finished_runs), "--test", test]
    assert run_program(command, finished_runs).status == 0  # keeps kernels

    assert_held(150, *command)


@pytest.mark.some_cases(1)
@pytest.mark.parametrize("is_apart", [False, True])
@pytest.mark.parametrize(("id_type", "limit"), [(pl.Int64, 250), (pl.Int32, 250), (pl.String, 360)])
def test_ranks_are_held_by_small_limits(tmp_path, id_type, limit, is_apart):
    row = pl.int_range(4_000_000)
    rankings = pl.select(
        user=(row // 20).cast(id_type), item=(row * 104_729 % 1000).cast(id_type), rank=row % 20 + 1
    )
    if is_apart:
        rankings = rankings.sample(fraction=1, shuffle=True, seed=1)
    rankings.write_parquet(tmp_path / "m.parquet", row_group_size=1 << 18)
    truth = rankings.filter(pl.col("rank") < 3).drop("rank")
    truth.write_parquet(tmp_path / "truth.parquet", row_group_size=1 << 18)
    evaluate = ("evaluate", "--truth", str(tmp_path / "truth.parquet"), "-m", "nDCG@10")
    ranked = ("--rankings", f"m={tmp_path / 'm.parquet'}")
    assert_held_once_kept(limit, *evaluate, *ranked)


@pytest.mark.campaign
@pytest.mark.parametrize("is_apart", [False, True])
@pytest.mark.parametrize("form", ["rows", "lists"])
def test_lists_that_are_looked_at_whole_are_counted_as_they_come(tmp_path, form, is_apart):
    row = pl.int_range(2_000_000)
    rankings = pl.select(user=row // 20 * 7919 % 100_000, item=row * 104_729 % 1000, score=-row)
    truth = rankings.filter(row % 20 < 2).drop("score")
    truth.write_parquet(tmp_path / "truth.parquet", row_group_size=1 << 18)
    if form == "lists":
        rankings = rankings.group_by("user", row // 10, maintain_order=True).all()
        rankings = rankings.select("user", pl.col("item").alias("items"))
    if is_apart:
        rankings = pl.concat([rankings[1::2], rankings[::2]])
    rankings.write_parquet(tmp_path / "m.parquet", row_group_size=1 << 16)
    evaluate = ("evaluate", "--truth", str(tmp_path / "truth.parquet"), "-m", "nDCG@10")
    ranked = ("--rankings", f"m={tmp_path / 'm.parquet'}", "--set", "policies.duplicates=best")
    assert_held_once_kept(330, *evaluate, *ranked)


@pytest.mark.campaign
def test_short_texts_by_score_are_counted_as_they_come(tmp_path):
    n_users = 60_000
    row = pl.int_range(20 * n_users)
    rankings = pl.select(
        user=(row // 20).cast(pl.String), item=(row * 104_729 % 1000).cast(pl.String),
        score=1 / (row % 20 + 1),
    )  # fmt: skip
    rankings.sample(fraction=1, shuffle=True, seed=1).write_parquet(tmp_path / "m.parquet")
    row = pl.int_range(5 * n_users)
    truth = pl.select(user=(row // 5).cast(pl.String), item=(row * 7919 % 1000).cast(pl.String))
    truth.write_parquet(tmp_path / "truth.parquet")
    evaluate = ("evaluate", "--truth", str(tmp_path / "truth.parquet"), "-m", "nDCG@10")
    ranked = ("--rankings", f"m={tmp_path / 'm.parquet'}")
    assert_held_once_kept(240, *evaluate, *ranked)


@pytest.mark.campaign
@pytest.mark.parametrize(
    ("id_type", "rule"),
    [
        (pl.Int64, ("--write", "assignment")), (pl.String, ("--validation", "1")),
        (pl.Int64, ("--folds", "2")), (pl.String, ()),
    ],
)  # fmt: skip
def test_splits_count_what_is_decoded_and_written(tmp_path, id_type, rule):
    row = pl.int_range(3_000_000)
    log = pl.select(
        user=(row * 7919 % 50_000).cast(id_type), item=(row % 9973).cast(id_type),
        time=row * 104_729 % 2_999_999, value=row % 5,
    )  # fmt: skip
    log.write_parquet(tmp_path / "log.parquet", row_group_size=1 << 20)
    test = "0.2" if not rule else "1"
    split = ("split", str(tmp_path / "log.parquet"), "--by", "user", "--test", test, *rule)
    log.gather_every(50).write_parquet(tmp_path / "few.parquet")
    few = ["split", "few.parquet", *split[2:], "--out", "first"]
    assert run_program(few, tmp_path).status == 0  # keeps kernels

    assert_held(300, *split, "--out", str(tmp_path / "out"))


@pytest.mark.campaign
def test_labels_are_refused_before_kernels_are_compiled(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "no kernels"))
    n_rows, log = 1_000_000, tmp_path / "m.parquet"
    row = pl.int_range(n_rows)
    rows = pl.select(user=row % 100_000, score=(row * 7919 % n_rows) / n_rows, label=row % 3 // 2)
    rows.write_parquet(log)
    config = tmp_path / "labels.toml"
    config.write_text(
        f'[[labels]]\nmodel = "m"\npath = "{log}"\n'
        """[metrics]\nnames = ["AUC", "AUC(over='users')", "log-loss"]\n"""
    )

    refused = run_evalkit("run", str(config), "--memory-limit", "300MiB")

    assert refused.status == 4
    assert refused.peak_mib <= 300
    assert_held(int(NEED.findall(refused.stderr)[0]), "run", str(config))


def models_side_by_side(
    folder: Path, n_models: int, n_segments: int, pairs: str, n_users: int, n_cutoffs: int
) -> list[str]:
    """A job of models of one table, which are compared, in segments if there are any."""
    row = pl.int_range(3 * n_users)
    ranked = pl.select(user=row // 3, item=row % 3)
    ranked = ranked.with_columns(rank=pl.int_range(pl.len()).over("user") + 1)
    truth = ranked.filter(pl.col("item") % 2 == 0)
    truth.with_columns(part=pl.col("user") % max(1, n_segments)).write_parquet(
        folder / "truth.parquet"
    )
    item, user = pl.col("item"), pl.col("user")
    models = [
        ranked.with_columns(item=(item + user % 7 + n) % (11 + n % 50), model=pl.lit(f"m{n}"))
        for n in range(n_models)
    ]
    pl.concat(models).write_parquet(folder / "rankings.parquet")
    metrics = ("nDCG", "precision", "recall", "F", "RR", "AP", "RBP", "ERR")
    names = [f"{name}@{k}" for name in metrics for k in range(1, n_cutoffs + 1)]
    segments = '[segments.part]\nby = "part"' if n_segments else ""
    (folder / "job.toml").write_text(f"""
[truth]
path = "truth.parquet"
columns = {{ user = "user", item = "item" }}
[[rankings]]
path = "rankings.parquet"
columns = {{ model = "model" }}
[metrics]
names = {names}
[statistics]
{pairs}
{segments}
""")
    return ["run", str(folder / "job.toml")]


@pytest.mark.campaign
@pytest.mark.parametrize("limit", [100, 340])
def test_values_of_models_side_by_side_are_counted(tmp_path, limit):
    job = models_side_by_side(tmp_path, 16, 0, 'baseline = "m0"', 20_000, 12)  # 246 MB of values
    assert_held_once_kept(limit, *job)


@pytest.mark.campaign
@pytest.mark.parametrize(("n_models", "n_segments"), [(8, 100), (16, 20)])
def test_comparisons_are_counted_while_they_are_made(tmp_path, n_models, n_segments):
    job = models_side_by_side(tmp_path, n_models, n_segments, 'pairs = "all"', 10_000, 4)
    assert_held_once_kept(100, *job)
