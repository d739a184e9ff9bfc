"""Splits through every entry point: parts as they were, a manifest, nothing half done."""

import json
import os
import shutil
from itertools import pairwise

import numpy as np
import polars as pl
import pytest

import evalkit
from evalkit.cli.app import run_command
from evalkit.config import find_part, load_config, load_split
from evalkit.errors import BusyError, DataError, EvalkitError, MachineError, RequestError
from evalkit.kernels import memory
from evalkit.sources import Table
from evalkit.splits import make
from evalkit.splits._groups import RowGroups
from evalkit.splits._log import LogFeed
from evalkit.splits._reverse_scan import Back
from evalkit.splits._source import Log
from evalkit.splits.make import make_split

N = 3_000
PARTS = ("train", "test")


@pytest.fixture(scope="module")
def log():
    draw = np.random.default_rng(7)
    return pl.DataFrame(
        {
            "user": draw.integers(0, 200, N),
            "item": [f"i{each}" for each in draw.integers(0, 90, N)],
            "ts": np.sort(draw.integers(1_600_000_000, 1_603_000_000, N)),
            "note": [["x"] * (each % 3) for each in range(N)],
        }
    )


def parts_of(made, log):
    return {
        name: made.part(name).collect().select(log.columns)
        for name in ("train", "validation", "test")
    }


def test_parts_hold_input_rows_in_input_order(log, tmp_path):
    made = evalkit.split(log, by="user", test=1, validation=1, out=tmp_path / "s")

    parts = parts_of(made, log)
    letters = made.assignment[0]
    for letter, part in enumerate(parts.values(), 1):
        assert part.equals(log.filter(letters == letter))
    assert sum(part.height for part in parts.values()) == N
    told = json.loads((tmp_path / "s" / "split.json").read_text())
    assert [each["rows"] for each in told["parts"]] == [part.height for part in parts.values()]
    assert {"cold_user", "cold_item"} <= set(pl.read_parquet(tmp_path / "s/test").columns)


def test_config_command_and_python_make_one_split(log, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    log.drop("note").write_parquet("log.parquet")
    (tmp_path / "c.toml").write_text('[split]\npath = "log.parquet"\ntest = "7d"\n')

    assert run_command(["split", "c.toml", "--out", "one"]) == 0
    assert run_command(["split", "log.parquet", "--test", "7d", "--out", "two"]) == 0
    evalkit.split("log.parquet", test="7d", out="three")

    texts = [(tmp_path / name / "split.json").read_text() for name in ("one", "two", "three")]
    assert texts[0] == texts[1] == texts[2]
    assert run_command(["split", "c.toml", "--out", "one"]) == 0
    assert "nothing was done" in capsys.readouterr().err
    with pytest.raises(RequestError, match="holds no such split"):
        run_command(["split", "c.toml", "--set", "split.test=8d", "--out", "one"])
    assert not list(tmp_path.glob(".evalkit-*"))


@pytest.mark.parametrize("size", ["1", "0.2", "1602000000"])
def test_sizes_are_numbers_through_every_door(size, log, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    log.drop("note").write_parquet("log.parquet")
    by = "time" if len(size) > 3 else "user"
    (tmp_path / "c.toml").write_text(f'[split]\npath = "log.parquet"\nby = "{by}"\ntest = {size}\n')
    common = ["split", "log.parquet", "--by", by]

    assert run_command(["split", "c.toml", "--out", "one"]) == 0
    assert run_command([*common, "--test", size, "--out", "two"]) == 0
    assert run_command([*common, "--set", f"split.test={size}", "--out", "three"]) == 0
    evalkit.split("log.parquet", by=by, test=size, out="four")

    names = ("one", "two", "three", "four")
    assert len({(tmp_path / name / "split.json").read_text() for name in names}) == 1


def test_another_order_and_cut_of_files_give_the_same_contents(log, tmp_path):
    plain = log.drop("note")
    whole = evalkit.split(plain, test="7d").manifest["parts"]
    folder = tmp_path / "many"
    folder.mkdir()
    shuffled = plain.sample(fraction=1, shuffle=True, seed=3)
    for number, part in enumerate(shuffled.iter_slices(N // 37 + 1)):
        part.write_parquet(folder / f"{number:02}.parquet")

    many = evalkit.split(folder, test="7d").manifest["parts"]

    assert [each["content"] for each in many] == [each["content"] for each in whole]
    for rule in (
        {"by": "rows", "test": 0.2},
        {"by": "users", "test": 0.2},
        {"by": "user", "test": 1, "ties": "item"},
    ):
        one, two = (evalkit.split(each, **rule).manifest["parts"] for each in (plain, folder))
        assert [each["content"] for each in one] == [each["content"] for each in two]


@pytest.mark.parametrize(
    ("rule", "code", "kind"),
    [
        ({"test": True}, "wrong-type", RequestError),
        ({"ratios": [float("nan"), 0.1]}, "bad-split", RequestError),
        ({"test": 0.6, "validation": 0.5}, "bad-split", RequestError),
        ({}, "bad-split", RequestError),
        ({"test": "90d"}, "empty-part", DataError),
        ({"test": "1999-01-01"}, "empty-part", DataError),
        ({"by": "user", "test": 1, "like": "recbol"}, "unknown-choice", RequestError),
        ({"by": "user", "test": 1, "columns": {"time": "absent"}}, "missing-column", DataError),
        ({"by": "user", "test": 1, "columns": {"item": ""}}, "missing-key", RequestError),
        ({"by": "user", "test": 1, "columns": {"user": []}}, "missing-key", RequestError),
        ({"test": 1, "bye": 1}, "unknown-key", RequestError),
        ({"by": "user", "test": "2026-01-01"}, "bad-split", RequestError),
        ({"by": "user", "test": "1d", "validation": 1}, "bad-split", RequestError),
        ({"by": "new-users", "test": 1}, "bad-split", RequestError),
        ({"by": "percentile-user", "test": 0.1}, "bad-split", RequestError),
        ({"test": "2026-01-01", "zone": "Mars"}, "bad-split", RequestError),
        ({"by": "user", "test": 1, "out": "s3://bucket/split"}, "bad-path", RequestError),
        ({"by": "user", "test": 1, "out": "a\0b"}, "bad-path", RequestError),
    ],
)
def test_what_cannot_be_split_is_refused(log, rule, code, kind):
    with pytest.raises(kind) as refused:
        evalkit.split(log, **rule)

    assert refused.value.code == code


def test_the_size_that_is_wrong_is_named(log):
    for rule, told in (
        ({"by": "user", "test": 1, "where": "user < 0"}, "no row is left: where leaves none"),
        ({"test": "x", "validation": "7d"}, "test = 'x' is no moment"),
        ({"test": "2026-01-01", "validation": "7d"}, "validation = '7d' is no moment, as test is"),
    ):
        with pytest.raises(EvalkitError) as refused:
            evalkit.split(log, **rule)
        assert refused.value.message == told


def test_a_time_that_is_not_read_is_in_the_hint(log, tmp_path):
    log.write_parquet(tmp_path / "log.parquet")
    text = (
        f'[split]\npath = "{tmp_path}/log.parquet"\nby = "user"\ntest = 1\ncolumns.user = "user"\n'
    )
    (tmp_path / "split.toml").write_text(text)
    config = load_split(tmp_path / "split.toml")

    with pytest.raises(DataError) as refused:
        make_split(config.split)

    assert refused.value.hint.startswith('time = "ts" under [split.columns]')


def test_no_folder_but_a_split_is_to_be_removed(log, tmp_path):
    evalkit.split(log, by="user", test=1, out=tmp_path / "made")
    hints = []
    for folder in (tmp_path, tmp_path / "made"):
        with pytest.raises(RequestError) as refused:
            evalkit.split(log, by="user", test=2, out=folder)
        hints.append(refused.value.hint)

    assert ["rm -r" in hint for hint in hints] == [False, True]


@pytest.mark.parametrize("dtype", [pl.Int128, pl.Struct({"a": pl.UInt128}), pl.Struct({})])
def test_types_that_no_part_holds_are_told_before_anything_is_written(log, tmp_path, dtype):
    rows = log.with_columns(more=pl.lit(None, dtype=dtype))

    with pytest.raises(DataError, match=r"more is .*, which the files of parts cannot hold"):
        evalkit.split(rows, by="user", test=1, out=tmp_path / "made")

    assert not [*tmp_path.iterdir()]
    evalkit.split(rows, by="user", test=1, out=tmp_path / "made", write="assignment")


def test_nulls_are_told_or_counted(log):
    torn = log.with_columns(ts=pl.when(pl.col("ts") % 7 != 0).then("ts"))
    n_null = torn["ts"].null_count()
    with pytest.raises(DataError) as refused:
        evalkit.split(torn, by="user", test=1)
    assert refused.value.code == "null-time"

    dropped = evalkit.split(torn, by="user", test=1, bad_times="drop")
    kept = evalkit.split(torn, by="user", test=1, bad_times="train")

    assert dropped.manifest["dropped"] == {"null_times": n_null}
    assert (dropped.assignment[0] == 0).sum() == n_null
    assert ((dropped.assignment[0] == 0) & (kept.assignment[0] == 1)).sum() == n_null


RUN = """
[truth]
split = "s"
part = "{part}"
[train]
split = "s"
[[rankings]]
model = "m"
path = "log.parquet"
columns = {{ user = "user", item = "item", score = "ts" }}
[metrics]
names = ["hit@1"]
[policies]
duplicates = "best"
"""


def test_a_run_reads_parts_by_their_manifest(log, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    log.drop("note").write_parquet("log.parquet")
    evalkit.split("log.parquet", by="user", test=1, validation=1, out="s")
    for part in ("validation", "train"):
        (tmp_path / f"{part}.toml").write_text(RUN.format(part=part))

    config = load_config("validation.toml")
    assert config.truth.path == ("s/validation/part-0.parquet",)
    assert config.truth.columns.user == ("user",)
    assert run_command(["run", "validation.toml", "-q"]) == 0
    gate = '\n[[gates]]\ndata = "leakage.train_after_test"\nmax = {}\n'
    text = RUN.format(part="validation")
    for most, status in ((0, 1), (N, 0)):
        (tmp_path / "gated.toml").write_text(text + gate.format(most))
        assert run_command(["run", "gated.toml", "-q"]) == status
    (tmp_path / "gated.toml").write_text(
        text.replace('split = "s"\npart = "validation"', 'path = "s/test"') + gate.format(N)
    )
    assert run_command(["run", "gated.toml", "-q"]) == 1
    with pytest.raises(RequestError, match="as truth and as train"):
        load_config("train.toml")
    (tmp_path / "s/validation/part-0.parquet").write_bytes(
        (tmp_path / "s/test/part-0.parquet").read_bytes()
    )
    with pytest.raises(DataError) as refused:
        run_command(["run", "validation.toml", "-q"])
    assert refused.value.code == "split-changed"


def test_a_finished_run_is_judged_by_the_split_that_it_measured(log, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    log.drop("note").write_parquet("log.parquet")
    evalkit.split("log.parquet", by="user", test=1, out="s")
    gate = '[[gates]]\ndata = "leakage.{}"\nmax = {}\n'
    text = RUN.format(part="test")
    (tmp_path / "run.toml").write_text(text + gate.format("train_after_test", 0))
    (tmp_path / "other.toml").write_text(text + gate.format("train_after_own_test", N))
    assert run_command(["run", "run.toml", "-q"]) == 1
    own, other = ["gate", "last"], ["gate", "last", "--config", "other.toml"]
    assert [run_command(own), run_command(other)] == [1, 0]

    shutil.rmtree("s")
    evalkit.split("log.parquet", by="time-ratio", test=0.1, out="s")

    capsys.readouterr()
    assert [run_command(own), run_command(other)] == [1, 1]
    assert "the split is not the one that was measured: run it again" in capsys.readouterr().out


FORMS = {  # a pattern of `strftime`, and the form that is found
    "%Y-%m-%dT%H:%M:%S.000": "%Y-%m-%dT%H:%M:%S%.f",
    "%Y-%m-%d %H:%M:%S": "%Y-%m-%d %H:%M:%S%.f",
    "%Y-%m-%dT%H:%M:%SZ": "%+",
    "%Y-%m-%d %H:%M:%S+02:00": "%+",
    "%Y-%m-%d": "%Y-%m-%d",
}


@pytest.mark.some_cases(2)
@pytest.mark.parametrize("pattern", FORMS)
def test_a_raw_text_file_is_cut_and_measured_as_init_writes_it(
    pattern, log, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    times = pl.from_epoch(pl.col("ts")).dt.strftime(pattern)
    rows = log.drop("note").with_columns(ts=times, rating=pl.int_range(pl.len()) % 10 / 2 + 0.5)
    rows.rename({"ts": "timestamp"}).write_csv("events.csv")

    statuses = [
        run_command(["init", "--split", "events.csv", "-o", "shop.toml"]),
        run_command(["split", "shop.toml", "-q"]),
        run_command(["run", "shop.toml", "-q", "--set", "truth.threshold=4"]),
    ]

    assert statuses == [0, 0, 0], capsys.readouterr()
    columns = load_config("shop.toml").split.columns
    assert columns.time == f"strptime(timestamp, '{FORMS[pattern]}')"
    train = pl.read_parquet_schema("splits/shop/train/part-0.parquet")
    assert (train["user"], train["item"], train["rating"]) == (pl.Int64, pl.String, pl.Float64)


def test_init_of_a_raw_log_takes_what_init_of_cut_files_takes(log, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    log.drop("note").write_parquet("log.parquet")
    users, items = log.select("user").unique(), log.select("item").unique()
    users.with_columns(
        land=pl.when(pl.int_range(pl.len()) % 2 == 0).then(pl.lit("x")).otherwise(pl.lit("y"))
    ).write_parquet("users.parquet")
    items.with_columns(genres=pl.lit("a")).write_parquet("items.parquet")
    tables = ["--items", "items.parquet", "--users", "users.parquet", "--reference", "popular"]

    assert run_command(["init", "--split", "log.parquet", *tables, "-o", "shop.toml"]) == 0
    assert "evalkit split shop.toml cuts the log, then" in capsys.readouterr().err
    with pytest.raises(DataError, match="evalkit split with this config writes it") as told:
        run_command(["check", "shop.toml"])  # truth and train lack it: one error
    assert told.value.code == "bad-manifest-of-split"
    assert run_command(["split", "shop.toml", "-q"]) == 0
    config = load_config("shop.toml")

    assert (config.items.columns.genres, config.users.columns.user) == ("genres", ("user",))
    assert (config.metrics.reference, config.statistics.baseline) == ("popular", "popular")
    assert {"item_coverage@10", "overlap@10"} <= set(config.metrics.names)
    assert '# land = { path = "users.parquet"' in (tmp_path / "shop.toml").read_text()


def test_a_merge_knows_the_test_part_of_a_split_without_opening_it(
    log, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    log.drop("note").write_parquet("log.parquet")
    evalkit.split("log.parquet", by="user", test=1, out="splits/log")
    (tmp_path / "lists.toml").write_text(
        '[truth]\nsplit = "splits/log"\n[metrics]\nnames = ["RR"]\n'
        '[[rankings]]\nmodel = "popular"\npath = "popular.parquet"\n'
    )
    made = ["--train", "splits/log/train", "--users", "splits/log/test", "--out"]
    assert run_command(["baseline", "popular", *made, "popular.parquet"]) == 0
    for share in (1, 2):
        done = ["partial", "lists.toml", "--share", f"{share}/2", "--out", f"{share}.evalkit"]
        assert run_command(done) == 0
    merge = ["merge", "1.evalkit", "2.evalkit"]

    assert run_command(merge) == 0
    assert "first use of this test set" in capsys.readouterr().out
    assert run_command(merge) == 0
    assert "use 2 of this test set" in capsys.readouterr().out
    (tmp_path / "splits").rename("elsewhere")  # where nobody knows what it is
    assert run_command(merge) == 0
    assert "this test part" not in capsys.readouterr().out


def test_leaks_end_with_status_1_where_that_is_asked(log, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    log.drop("note").write_parquet("log.parquet")
    (tmp_path / "c.toml").write_text(
        '[split]\npath = "log.parquet"\nby = "user"\ntest = 1\n'
        '[[gates]]\ndata = "leakage.train_after_test"\nmax = 0\n'
    )

    assert run_command(["split", "c.toml", "--out", "s"]) == 1
    assert "gate FAIL" in capsys.readouterr().out
    both = ["split", "--check", "--train", "s/train", "--test", "s/test"]
    assert run_command(both) == 0
    assert run_command([*both, "--fail-on", "across-users", "--out", "leaks"]) == 1
    assert run_command([*both, "--fail-on", "within-users"]) == 0
    assert "<svg" in (tmp_path / "leaks" / "leakage.html").read_text()


def test_the_page_says_above_all_when_train_lacks_most_users_and_has_dates(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    day = 86_400
    for name, users, first in (("train", [1, 2, 3], 9_130), ("test", [3, 4, 5], 9_135)):
        times = [(first + place) * day for place in range(3)]
        columns = {"user": users, "item": [1, 2, 3], "time": times}
        pl.DataFrame(columns).write_parquet(f"{name}.parquet")

    both = ["--train", "train.parquet", "--test", "test.parquet"]
    assert run_command(["split", "--check", *both, "--out", "leaks"]) == 0
    page = (tmp_path / "leaks" / "leakage.html").read_text()

    assert "Verdict: train lacks 2 of 3 test users" in page
    assert "clean" not in page
    assert "1994-12-31" in page


def test_a_limit_of_memory_is_held_by_passes_or_refused_by_name(log, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    log.drop("note").sample(fraction=1, shuffle=True, seed=1).write_parquet("log.parquet")
    free = evalkit.split("log.parquet", by="user", test=0.2, out="free").manifest
    monkeypatch.setattr("evalkit.splits._memory.LEAST", 1 << 12)
    monkeypatch.setattr("evalkit.splits._memory.FIXED", 1 << 20)
    monkeypatch.setattr("evalkit.splits._memory._of_groups", lambda *_: 0)
    monkeypatch.setattr(memory, "COMPILING", 0)
    shares = []
    lay = RowGroups._lay_share
    monkeypatch.setattr(
        "evalkit.splits._groups.RowGroups._lay_share",
        lambda self, feed, low, high: shares.append(low) or lay(self, feed, low, high),
    )

    (tmp_path / "c.toml").write_text('[split]\npath = "log.parquet"\nby = "user"\ntest = 0.2\n')
    assert run_command(["split", "c.toml", "--memory-limit", "1140KiB", "--out", "tight"]) == 0

    assert len(shares) > 1
    assert json.loads((tmp_path / "tight" / "split.json").read_text()) == free
    for rule in (
        {"dedupe": "last", "core": {"user": 9, "item": 24}},
        {"core": {"user": 9, "item": 24, "count": "pairs"}},
    ):
        passes = evalkit.split("log.parquet", test="7d", memory_limit="1140KiB", **rule)
        whole = evalkit.split("log.parquet", test="7d", **rule)
        assert passes.manifest == whole.manifest
        assert passes.manifest["dropped"]["core"]
    with pytest.raises(MachineError, match="a split of") as refused:
        evalkit.split("log.parquet", test="7d", memory_limit="1025KiB")
    assert refused.value.code == "memory-limit"


def test_compiling_is_counted_within_a_limit(log, tmp_path, monkeypatch):
    log.drop("note").write_parquet(tmp_path / "log.parquet")
    limit = {"by": "user", "test": 0.2, "memory_limit": "400MiB"}
    monkeypatch.setattr(memory, "_to_compile", lambda: False)
    assert evalkit.split(tmp_path / "log.parquet", **limit).manifest
    monkeypatch.setattr(memory, "_to_compile", lambda: True)

    with pytest.raises(MachineError, match=r"a split of .* needs about 56. MiB"):
        evalkit.split(tmp_path / "log.parquet", **limit)


@pytest.mark.parametrize(
    "rule",
    [
        {"by": "rows", "test": 0.2},
        {"by": "rows", "test": 50, "validation": 20},
        {"by": "user", "test": 0.2, "order": "hash"},
        {"by": "time-quantile", "test": 0.2, "validation": 0.3},
        {"by": "percentile-user", "ratios": [0.7, 0.2, 0.1]},
        {"test": "7d", "seen": "drop", "cold_users": "drop", "cold_items": "drop"},
        {"test": "7d", "seen": "error"},
        {"by": "user", "test": 2, "part_duplicates": "first by time"},
        {"by": "users", "folds": 3, "seen": "drop", "part_duplicates": "first"},
    ],
)
def test_what_all_rows_tell_is_the_same_by_passes(log, tmp_path, monkeypatch, rule):
    mixed = log.drop("note").sample(fraction=1, shuffle=True, seed=1)
    pl.concat([mixed, mixed.head(50)]).write_parquet(tmp_path / "log.parquet")
    monkeypatch.setattr("evalkit.splits._memory.LEAST", 1 << 12)
    monkeypatch.setattr("evalkit.splits._memory.FIXED", 1 << 20)
    monkeypatch.setattr("evalkit.splits._memory._of_groups", lambda *_: 0)
    monkeypatch.setattr(memory, "COMPILING", 0)
    gathered = []
    gather = LogFeed.gather
    monkeypatch.setattr(LogFeed, "gather", lambda *a, **k: gathered.append(a) or gather(*a, **k))

    def answer(**limit):
        try:
            made = evalkit.split(tmp_path / "log.parquet", time_unit="s", **rule, **limit)
        except DataError as error:
            return str(error)
        return made.manifest, made.leakage, [each.to_list() for each in made.assignment]

    whole = answer()
    n_whole = len(gathered)
    assert answer(memory_limit="1200KiB") == whole
    assert n_whole <= 1 + ("error" in rule.values())  # it is told without footers, too
    assert len(gathered) > n_whole + 1 or not rule.keys() & {"seen", "part_duplicates"}


LATEST = [
    {"test": 1},
    {"test": 2, "validation": 3},
    {"test": 0.2},
    {"ratios": [0.6, 0.3, 0.1]},
    {"test": 1, "min_train": 0},
    {"test": 2, "core": {"user": 9, "item": 24}},
    {"test": 0.3, "write": "assignment"},
]


@pytest.mark.some_cases(3)
@pytest.mark.parametrize("rule", LATEST)
@pytest.mark.parametrize("kind", ["fine", "coarse", "one time", "mixed groups", "two files"])
def test_a_log_in_time_order_is_read_from_its_end(log, tmp_path, monkeypatch, rule, kind):
    step = {"coarse": 90_000, "one time": 10**12}.get(kind, 1)
    ordered = log.with_columns(pl.col("ts") // step + 5).sort("ts", maintain_order=True)
    ordered = pl.concat([ordered, *[ordered.tail(1)] * 9])
    if kind == "mixed groups":
        order = pl.int_range(pl.len()) // 100
        ordered = ordered.sample(fraction=1, shuffle=True, seed=2).sort("ts").with_columns(g=order)
        ordered = ordered.sort("g", -pl.col("ts"), maintain_order=True).drop("g")
    folder = tmp_path / "log"
    folder.mkdir()
    cuts = (0, 333, ordered.height) if kind == "two files" else (0, ordered.height)
    for begin, end in pairwise(cuts):
        file = folder / f"{begin:04}.parquet"
        ordered[begin:end].write_parquet(file, row_group_size=100)
    monkeypatch.setattr("evalkit.splits._source.AT_ONCE", 150)
    monkeypatch.setattr("evalkit.splits._log.BATCH", 64)
    looked = []
    add = Back.add
    monkeypatch.setattr(Back, "add", lambda *a: looked.append(1) or add(*a))
    asked = {"by": "user", "time_unit": "s", "empty": "keep"} | rule
    quick = evalkit.split(folder, out=tmp_path / "quick", **asked)
    n_looked = len(looked)
    monkeypatch.setattr(Log, "slices", lambda _: [])
    slow = evalkit.split(folder, out=tmp_path / "slow", **asked)

    assert quick.assignment[0].to_list() == slow.assignment[0].to_list()
    assert quick.manifest == slow.manifest
    assert quick.leakage == slow.leakage
    assert len(looked) == n_looked
    assert n_looked == 1 if kind == "mixed groups" else n_looked > 8


@pytest.mark.parametrize("count", ["rows", "pairs"])
def test_a_core_of_whole_numbers_in_time_order_is_that_of_a_frame(tmp_path, count):
    draw = np.random.default_rng(3)
    table = pl.DataFrame(
        {name: draw.integers(0, n, 60) for name, n in {"user": 14, "item": 6}.items()}
    ).with_columns(time=pl.int_range(60))
    table.write_parquet(tmp_path / "log.parquet", row_group_size=9)
    rule = {"by": "user", "test": 0.3, "time_unit": "s", "empty": "keep"}
    rule["core"] = {"user": 3, "item": 5, "count": count}

    made = [evalkit.split(each, **rule) for each in (table, tmp_path / "log.parquet")]

    one, other = (each.assignment[0].to_list() for each in made)
    assert one == other
    assert 0 in one
    assert made[0].leakage == made[1].leakage


def test_repeats_leave_by_a_guessed_relevance_in_memory_and_in_files(log, tmp_path):
    rated = log.drop("note").with_columns(rating=pl.int_range(pl.len()) % 5)
    rated.write_parquet(tmp_path / "log.parquet")
    rule = {"by": "user", "test": 1, "dedupe": "max"}

    made = [evalkit.split(each, **rule) for each in (rated, tmp_path / "log.parquet")]

    assert made[0].assignment[0].equals(made[1].assignment[0])


def test_what_libraries_fix_is_not_refused_where_a_rule_has_no_use_for_it(log):
    for library in ("daisyrec", "elliot", "cornac", "replay"):
        for rule in ({"by": "rows", "test": 9}, {"test": 0.1}, {"by": "user", "test": 1}):
            assert evalkit.split(log, like=library, **rule).assignment


def test_odd_logs_are_told(log, caplog):
    plain = log.drop("note")
    first = pl.int_range(pl.len()) < 4
    evalkit.split(plain.with_columns(ts=pl.when(first).then(0).otherwise("ts")), by="user", test=1)
    evalkit.split(plain.with_columns(ts=pl.col("ts") + 10**10), test="7d", time_unit="s")
    half = pl.when(pl.int_range(pl.len()) % 2 == 0).then(0).otherwise("user")
    evalkit.split(plain.with_columns(user=half), by="user", test=1)

    zero, later, one = (record.getMessage() for record in caplog.records)
    assert "odd-times" in zero
    assert "4 rows at 0" in zero
    assert "odd-times" in later
    assert f"{N:,} rows after now" in later
    assert "one-has-half" in one
    assert f"of {N:,} rows" in one
    with pytest.raises(DataError, match="Float32 times of today are steps of 128 s"):
        evalkit.split(plain.with_columns(pl.col("ts").cast(pl.Float32)), test="7d")


@pytest.mark.parametrize("rule", [{"test": 1}, {"test": 2, "validation": 3}, {"ties": "first"}])
@pytest.mark.parametrize("least", [{}, {"min_train": 0}, {"min_rows": 9}, {"null_ids": "drop"}])
def test_latest_rows_are_those_that_counting_finds(log, rule, least, monkeypatch):
    mixed = log.sample(fraction=1, shuffle=True, seed=3).with_columns(pl.col("ts") // 9_000)
    if "null_ids" in least:
        mixed = mixed.with_columns(pl.when(pl.col("item") != "i4").then("item").alias("item"))
    asked = {"by": "user", "test": 1, "time_unit": "s"} | rule | least
    quick = evalkit.split(mixed, **asked)
    monkeypatch.setattr("evalkit.splits._latest.MOST", 0)
    slow = evalkit.split(mixed, **asked)

    assert quick.assignment[0].to_list() == slow.assignment[0].to_list()
    assert quick.manifest == slow.manifest
    assert quick.leakage == slow.leakage
    assert slow.manifest["ties"]["users_that_hang_on_row_order"]


def test_footers_tell_times_and_are_held_against_the_rows(log, tmp_path, monkeypatch):
    log.with_columns(pl.lit(7).alias("item")).write_parquet(
        tmp_path / "a.parquet", row_group_size=100
    )
    rule = {"by": "time", "test": "2d", "validation": "3d"}
    calls = []
    read = LogFeed.batches
    monkeypatch.setattr(LogFeed, "batches", lambda *a, **k: calls.append(1) or read(*a, **k))
    quick = evalkit.split(tmp_path / "a.parquet", **rule)
    n_quick = len(calls)
    found = Table.extents(quick._log.table, "time")
    late = [(rows, low, high + 900_000) for rows, low, high in found]
    early, emptied = (
        [(rows, low, found[0][2]) for rows, low, _ in found[:-n]] + found[-n:] for n in (4, 1)
    )
    made = []
    for told in (late, early, emptied, []):
        monkeypatch.setattr(Table, "extents", lambda *_, told=told: told)
        made.append(evalkit.split(tmp_path / "a.parquet", **rule))

    assert sum(rows for rows, _, _ in found) == N
    assert (found[0][1], found[-1][2]) == (log["ts"].min(), log["ts"].max())
    assert n_quick == 1
    for split_made in made:
        assert quick.manifest == split_made.manifest
        assert quick.leakage == split_made.leakage
        assert quick.assignment[0].to_list() == split_made.assignment[0].to_list()


@pytest.mark.parametrize("core", [{"user": 1}, {"user": 9, "item": 24}])
@pytest.mark.parametrize("rule", [{"by": "user", "test": 1}, {"by": "time", "test": "2d"}])
def test_cores_by_footers_are_those_by_rows(log, tmp_path, monkeypatch, rule, core):
    log.drop("note").write_parquet(tmp_path / "a.parquet", row_group_size=100)
    quick = evalkit.split(tmp_path / "a.parquet", core=core, **rule)
    found = Table.extents(quick._log.table, "time")
    late = [(rows, low, high + 900_000) for rows, low, high in found]
    early = [(rows, low, found[0][2]) for rows, low, _ in found[:-4]] + found[-4:]

    assert found
    assert bool(quick.manifest["dropped"]) == ("item" in core)
    for told in (late, early, []):
        monkeypatch.setattr(Table, "extents", lambda *_, told=told: told)
        slow = evalkit.split(tmp_path / "a.parquet", core=core, **rule)
        assert quick.manifest == slow.manifest
        assert quick.leakage == slow.leakage
        assert quick.assignment[0].to_list() == slow.assignment[0].to_list()


def test_a_core_that_leaves_nothing_is_told(log, tmp_path):
    for order in ("time", "hash"):
        with pytest.raises(DataError, match="no row is left: core") as refused:
            evalkit.split(log, by="user", test=1, order=order, core={"user": 10_000})
        assert refused.value.code == "empty-part"


def test_repeats_leave_before_little_relevance(tmp_path):
    columns = ["user", "item", "time", "relevance"]
    rows = [(1, 7, 1, 5.0), (1, 7, 2, 2.0), (1, 8, 3, None), (1, 8, 4, 4.0), (1, 9, 5, 3.0)]
    table = pl.DataFrame(rows, schema=columns, orient="row")
    rule = {"by": "user", "test": 1, "time_unit": "s", "threshold": 3.0}

    last = evalkit.split(table, dedupe="last", **rule)
    best = evalkit.split(table, dedupe="max", **rule)

    assert last.assignment[0].to_list() == [0, 0, 0, 1, 3]  # the last word on 7 was a 2
    assert last.manifest["dropped"] == {"dedupe": 2, "threshold": 1}
    assert best.assignment[0].to_list() == [1, 0, 0, 1, 3]  # what is null is worth nothing


def test_times_of_text_are_guessed_as_what_they_are(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    lines = ["user,item,timestamp"]
    lines += [f"{n % 3},{n},2026-01-{1 + n:02}T10:00:00.5" for n in range(20)]
    (tmp_path / "log.csv").write_text("\n".join(lines))

    assert run_command(["split", "log.csv", "--test", "3d", "--out", "s"]) == 0
    assert "%Y-%m-%dT%H:%M:%S%.f" in capsys.readouterr().err
    told = json.loads((tmp_path / "s" / "split.json").read_text())
    assert [each["rows"] for each in told["parts"]] == [17, 3]
    baseline = ["baseline", "recent", "--train", "s/train", "--users", "s/test", "--out", "r.csv"]
    assert run_command([*baseline, "--k", "2"]) == 0


@pytest.mark.parametrize(
    "rule",
    [
        {"by": "blocks", "folds": 2, "validation": 0.1},
        {"by": "round-robin", "folds": 2, "test": 1},
        {"by": "rows", "folds": 2, "validation": 0.1},
        {"by": "users", "folds": 2, "test": 0.1},
        {"by": "user", "test": 0.2, "folds": 2},
        {"by": "user", "ratios": [0.8, 0.2], "validation": 1},
        {"by": "time", "test": 0.2, "folds": 2},
        {"by": "time", "test": "7d", "fold_in": 0.5},
        {"by": "user", "test": 1, "left_out": "train"},
        {"by": "user", "test": 1, "below_min": "drop"},
        {"by": "user", "test": 1, "train": "sliding"},
        {"by": "user", "test": 1, "boundary": "after"},
        {"by": "time-quantile", "test": 0.1, "validation": 3},
        {"by": "time", "test": 0.1, "order": "input"},
        {"by": "time", "test": "7d", "order": "hash"},
        {"by": "user", "test": "7d", "order": "input"},
        {"by": "rows", "test": 0.1, "order": "reversed"},
        {"by": "time", "test": 0.1, "ties": "item"},
        {"by": "time", "test": "7d", "ties": "first"},
        {"by": "user", "test": 1, "ties": "together"},
        {"by": "item", "test": 1, "ties": "item"},
        {"by": "new-users", "test": 0.1, "min_train": 3},
        {"by": "user", "test": 1, "rounding": "ceil"},
        {"by": "rows", "test": 0.1, "rounding": "ceil"},
        {"by": "user", "test": 0.1, "validation_of_rest": True},
        {"by": "rows", "test": 0.1, "validation": 0.1, "validation_of_rest": True},
        {"by": "time", "test": "7d", "train": "sliding"},
        {"by": "user", "test": 1, "threshold_in": "test"},
        {"by": "user", "test": 1, "core": {"count": "pairs"}},
        {"by": "user", "test": 1, "zone": "Europe/Berlin"},
        {"by": "time", "test": "7d", "end": "last", "zone": "Europe/Berlin"},
        {"by": "user", "test": 1, "seed": 7},
    ],
)
def test_keys_that_a_rule_would_pass_over_are_refused(log, rule):
    with pytest.raises(RequestError) as error:
        evalkit.split(log, **rule)

    assert error.value.code == "bad-split"


def test_a_seed_draws_other_rows_of_each_user_in_any_order_of_rows(log):
    def drawn(rows, **seed):
        made = evalkit.split(rows, by="user", test=1, order="hash", **seed)
        return made.part("test").collect().select("user", "item", "ts").sort(pl.all()).rows()

    rows = log.drop("note").unique()

    assert drawn(rows) == drawn(rows, seed=1)
    assert drawn(rows, seed=2) == drawn(rows.sample(fraction=1, shuffle=True, seed=1), seed=2)
    assert len({tuple(drawn(rows, seed=seed)) for seed in range(5)}) == 5


@pytest.mark.parametrize(
    ("code", "columns", "rule", "told"),
    [
        ("missing-time", "item", {"by": "user", "test": 1}, 'or order="input"'),
        ("missing-time", "item", {"test": "7d"}, 'or by="rows"'),
        (
            "missing-column",
            "item time",
            {"by": "user", "test": 1, "threshold": 3},
            'columns={"relevance": "rating"}',
        ),
        (
            "bad-split",
            "item time cold_user",
            {"by": "user", "test": 1, "out": "s"},
            "mark_cold=False",
        ),
        ("wrong-type", "item time", {"by": "user", "test": 1, "memory_limit": "a lot"}, "8GiB"),
    ],
)
def test_what_a_rule_needs_and_a_log_lacks_is_told(
    tmp_path, monkeypatch, code, columns, rule, told
):
    monkeypatch.chdir(tmp_path)
    log = pl.DataFrame({name: [1, 2, 3, 4] for name in ("user", *columns.split())})

    with pytest.raises(EvalkitError) as error:
        evalkit.split(log.with_columns(user=pl.lit(1)), time_unit="s", **rule)

    assert error.value.code == code
    assert told in str(error.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("policy", ["cold_users", "cold_items", "seen"])
def test_held_out_rows_that_a_rule_forbids_are_refused(policy):
    rows = {"user": [1, 1, 2, 2, 3, 1], "item": [7, 8, 7, 8, 5, 7], "time": [1, 2, 3, 4, 9, 9]}

    with pytest.raises(DataError, match=f"(?s)1 held-out rows are .*hint: {policy}") as error:
        evalkit.split(pl.DataFrame(rows), test=0.3, time_unit="s", **{policy: "error"})

    assert error.value.code == "cold-rows"


@pytest.mark.parametrize("rule", [{}, {"out": "s"}, {"out": "s", "write": "assignment"}])
@pytest.mark.parametrize("named", [("tset",), ("test", 0), ("test", 4)])
def test_a_part_that_a_split_lacks_is_refused(log, tmp_path, monkeypatch, rule, named):
    monkeypatch.chdir(tmp_path)
    made = evalkit.split(log.drop("note"), by="users", folds=3, **rule)

    with pytest.raises(RequestError, match=r"hint: it has .* in 3 folds") as error:
        made.part(*named)

    assert error.value.code == "unknown-part"


@pytest.mark.parametrize("rule", [{"by": "user", "test": 1}, {"by": "time", "test": "7d"}])
@pytest.mark.parametrize("rows", [slice(1, None), slice(-1), slice(None, None, -1)])
def test_a_log_that_changes_meanwhile_is_refused_and_leaves_nothing(
    log, tmp_path, monkeypatch, rule, rows
):
    log.drop("note").write_parquet(tmp_path / "log.parquet")
    look_again = make._look_again

    def changed(*given):
        log.drop("note")[rows].write_parquet(tmp_path / "log.parquet")
        return look_again(*given)

    monkeypatch.setattr(make, "_look_again", changed)

    with pytest.raises(BusyError) as error:
        evalkit.split(tmp_path / "log.parquet", out=tmp_path / "s", time_unit="s", **rule)

    assert error.value.code == "input-changed"
    assert [each.name for each in tmp_path.iterdir()] == ["log.parquet"]


@pytest.mark.parametrize(
    "change",
    [
        {"schema_version": 99},
        {"parts": 3},
        {"columns": []},
        {"parts": [{"name": "test", "fold": None, "files": []}]},
        {"parts": [{"name": [], "fold": 1, "files": []}]},
        *({"parts": [{"name": "test", "fold": 1, "files": each}]} for each in ("x", [3], [{}])),
        "",
        "[" * 100_000,
    ],
)
def test_a_manifest_that_nobody_wrote_is_refused(log, tmp_path, change):
    evalkit.split(log.drop("note").head(90), by="user", test=1, out=tmp_path / "s")
    manifest = tmp_path / "s" / "split.json"
    told = json.loads(manifest.read_text())
    manifest.write_text(change if isinstance(change, str) else json.dumps({**told, **change}))

    with pytest.raises(DataError) as error:
        find_part(tmp_path / "s", "test")

    assert (error.value.code, error.value.at) == ("bad-manifest-of-split", str(manifest))


def test_a_manifest_without_the_right_to_read_asks_for_it(log, tmp_path):
    evalkit.split(log.drop("note").head(90), by="user", test=1, out=tmp_path / "s")
    (tmp_path / "s" / "split.json").chmod(0)
    if os.access(tmp_path / "s" / "split.json", os.R_OK):
        pytest.skip("this user may read everything")

    with pytest.raises(DataError) as error:
        find_part(tmp_path / "s", "test")

    assert error.value.hint == "give this user the right to read it"


def test_a_split_that_was_there_and_keeps_no_rows_says_so(log, tmp_path):
    log.drop("note").write_parquet(tmp_path / "log.parquet")
    asked = {"by": "user", "test": 1, "out": tmp_path / "s", "write": "assignment"}
    made = [evalkit.split(tmp_path / "log.parquet", **asked) for _ in range(2)]

    assert made[0].part("test").collect().height
    with pytest.raises(RequestError, match='hint: write="parts"'):
        made[1].part("test")


@pytest.mark.parametrize("time", [pl.Date, pl.Datetime("ms"), pl.Datetime("us")])
def test_times_of_parts_that_cannot_be_compared_are_refused(log, tmp_path, time):
    log.write_parquet(tmp_path / "train.parquet")
    log.with_columns(pl.col("ts").cast(time)).write_parquet(tmp_path / "test.parquet")

    with pytest.raises(DataError) as error:
        run_command(["split", "--check", *(f"--{n}={tmp_path}/{n}.parquet" for n in PARTS)])

    assert error.value.code == "time-kind"


@pytest.mark.parametrize(
    ("rows", "more", "code", "told"),
    [
        (slice(0), [], "empty-part", "each part needs rows"),
        (slice(None), ["--set", "split.null_ids=error"], "null-id", "split.null_ids=drop"),
        (slice(None), ["--out", "test.parquet"], "file-exists", "name another folder"),
    ],
)
def test_parts_that_nothing_can_be_found_of_are_refused(
    log, tmp_path, monkeypatch, rows, more, code, told
):
    monkeypatch.chdir(tmp_path)
    log.write_parquet("train.parquet")
    nulls = pl.when(pl.int_range(pl.len()) > 0).then("item").alias("item")
    log.with_columns(nulls)[rows].write_parquet("test.parquet")

    with pytest.raises(EvalkitError) as error:
        run_command(["split", "--check", *(f"--{n}={n}.parquet" for n in PARTS), *more])

    assert (error.value.code, told in error.value.hint) == (code, True)


def test_a_folder_that_takes_no_files_is_told_at_once(log):
    with pytest.raises(MachineError):
        evalkit.split(log, by="user", test=1, out="/proc/split")


@pytest.mark.parametrize(
    ("rule", "kind"),
    [
        ({"by": "rows", "test": 4}, "users_that_hang_on_row_order"),
        ({"by": "user", "test": 1, "order": "hash"}, "users_that_hang_on_row_order"),
        (
            {"by": "user", "test": 1, "ties": "item", "dedupe": "last"},
            "users_whose_repeats_hang_on_row_order",
        ),
    ],
)
def test_users_whose_rows_only_their_order_tells_apart_are_counted(rule, kind):
    alike = [(user, 7, 5, float(rating)) for user in range(4) for rating in (1, 2, 3)]
    apart = [(user, item, item, 1.0) for user in range(4, 9) for item in range(3)]
    columns = ["user", "item", "time", "relevance"]
    log = pl.DataFrame(alike + apart, schema=columns, orient="row")

    for table in (log, log[::-1]):
        made = evalkit.split(table, empty="keep", time_unit="s", **rule)
        letters = made.assignment[0]
        mixed = table.with_columns(letters).filter(pl.col("user") < 4).group_by("user")
        n = mixed.agg(pl.col("part").n_unique() > 1)["part"].sum()
        assert made.manifest["ties"][kind] == n > 0
        assert sum(made.manifest["ties"].values()) == n


@pytest.mark.parametrize(("step", "every"), [(3600, "by day"), (86_400, "in 9 days each")])
def test_the_page_of_leaks_says_how_long_its_steps_are(tmp_path, step, every):
    times = range(1_600_000_000, 1_600_000_000 + 1000 * step, step)
    log = pl.DataFrame({"user": [1] * 1000, "item": range(1000), "time": times})

    evalkit.split(log, test=0.2, out=tmp_path / "s")

    assert f"Rows of each part, {every}" in (tmp_path / "s" / "leakage.html").read_text()


def test_a_test_part_of_few_users_is_told(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    log = pl.DataFrame({"user": [*range(300)], "item": [*range(300)], "time": [*range(300)]})
    log = log.with_columns(pl.col("time") * 3600 + 1_600_000_000)
    log.write_parquet("log.parquet")

    assert run_command(["split", "log.parquet", "--test", "3h", "--out", "few"]) == 0
    few = capsys.readouterr().out
    assert run_command(["split", "log.parquet", "--test", "0.2", "--out", "enough"]) == 0

    assert "test has 3 users, where another part has 297: few for an interval" in few
    assert "few for" not in capsys.readouterr().out
