"""Into how many passes a memory limit cuts the users, and what is refused."""

import gzip
import math
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from evalkit.config import RankingsTable, TrainTable, build_config
from evalkit.errors import MachineError
from evalkit.item_lists.baselines import make_rankings
from evalkit.kernels import kept_alone
from evalkit.kernels import memory as machine
from evalkit.kernels.decorator import UnkeptKernelError
from evalkit.kernels.threads import one_ahead, ordered_map
from evalkit.planning import passes as memory
from evalkit.planning import tables as plan
from evalkit.planning.item_memory import AskedOfItems
from evalkit.planning.list_memory import AskedOfLists
from evalkit.planning.survey import SAMPLED_KEYS, IdBytes, Survey, do_users_come_back
from evalkit.sources import open_train
from evalkit.sources.ids import distinct_keys, mix

ASKED = memory.Asked(1, False, False, False, frozenset(), 1.0)
COLUMNS = {"user": "user", "item": "item"}
TREE = {
    "truth": {"path": ["memory"], "columns": COLUMNS},
    "rankings": [{"model": "a", "path": ["memory"], "columns": COLUMNS}],
    "metrics": {"names": ["hit@1"]},
}


@pytest.fixture(autouse=True, scope="module")
def kernels_are_kept():
    pair = pl.DataFrame({"user": [1], "item": [1]})
    tables = tables_of(pair, pair)
    Survey.of(tables.truth, plan.plan_ids_of(tables, 1)[0])


def tables_of(truth: object, rankings: pl.DataFrame) -> plan.Tables:
    return plan.open_tables(build_config(TREE, name="passes"), plan.Given(truth, [rankings]))


def limit_beside(n_rows: int, room_mib: float) -> int:
    """A limit that leaves so much room beside what is at rest and rows on their way."""
    there = memory.at_rest() + memory.machine.room_to_compile() + 60 * n_rows
    return memory.with_noise(there + room_mib * memory.MIB)


def comes_back(rankings: pl.DataFrame) -> bool:
    named = {"model": "a"} if "model" not in rankings.columns else {}
    columns = {name: name for name in rankings.columns}
    tree = {**TREE, "rankings": [{"path": ["memory"], "columns": columns, **named}]}
    given = plan.Given(rankings.select("user", "item"), [rankings])
    tables = plan.open_tables(build_config(tree, name="users"), given)
    return do_users_come_back(tables.rankings[0][1], plan.plan_ids_of(tables, 1)[0])


def shares_of(truth: pl.DataFrame, room_mib: int, **asked: object) -> int:
    """Passes over a truth and its rows as rankings, with so much room."""
    tables = tables_of(truth, truth)
    return memory.count_shares(
        tables, limit_beside(truth.height, room_mib), replace(ASKED, **asked)
    )


def test_passes_are_counted_by_rows_users_and_what_is_held_of_them():
    rows = pl.select(user=pl.int_range(1_000_000), item=pl.int_range(1_000_000) % 1000)
    few_users = rows.with_columns(user=pl.col("user") // 1000)
    apart = rows.with_columns(user=pl.col("user") % 1000)
    few_texts = few_users.with_columns(pl.format("a long name: {}", "item").alias("item"))
    texts = rows.with_columns(pl.format("a long name: {}", "user").alias("item"))
    n_passes = [shares_of(each, 44) for each in (few_users, apart, rows)]
    more = memory.TEXTS_WAIT + (memory.SCORED_TEXT_ROW - memory.STREAMED_ROW) * texts.height
    with_texts = 44 + math.ceil(more / memory.MIB)
    n_passes.append(shares_of(texts, with_texts))

    assert n_passes == sorted(n_passes)
    assert n_passes[0] == 1
    assert shares_of(few_users, 20) == 1 < shares_of(apart, 20)
    assert n_passes[3] > n_passes[2] > 2
    assert shares_of(few_texts, with_texts) == 1  # kept once each
    assert shares_of(few_users, 300, listed=frozenset([0])) == 1  # looked at as they come
    assert shares_of(apart, 64, listed=frozenset([0])) > 2
    assert memory.count_shares(tables_of(rows, rows), None, ASKED) == 1


def test_users_come_back_where_another_stands_between_their_rows_of_a_model():
    together = pl.select(user=pl.int_range(300_000) // 7, item=pl.int_range(300_000) % 7)
    twice = pl.concat([together, together[:1]])
    models = pl.concat([together.with_columns(model=pl.lit(each)) for each in "ab"])

    assert not comes_back(together)
    assert not comes_back(models)
    assert not comes_back(together.with_columns(user=pl.format("name-{}", "user")))
    assert comes_back(twice)
    assert comes_back(pl.concat([models, models[:1]]))
    assert not comes_back(together[:1])
    assert not comes_back(together[:0])


def test_ranks_that_close_up_over_seen_items_are_held():
    rows = pl.select(user=pl.int_range(1_000_000) // 10, item=pl.int_range(1_000_000) % 10)
    ranked = rows.with_columns(rank=pl.col("item") + 1)
    tree = {**TREE, "rankings": [{**TREE["rankings"][0], "columns": {**COLUMNS, "rank": "rank"}}]}
    tables = plan.open_tables(build_config(tree, name="held"), plan.Given(rows, [ranked]))
    asked, limit = replace(ASKED, listed=frozenset([0])), limit_beside(rows.height, 140)

    assert memory.count_shares(tables, limit, asked) == 1
    assert memory.count_shares(tables, limit, replace(asked, closes_up=True)) > 1


def test_what_no_number_of_passes_holds_is_refused_with_what_it_needs():
    one_user = pl.select(user=pl.repeat(1, 2_000_000), item=pl.int_range(2_000_000))

    tables = tables_of(one_user, one_user)

    with pytest.raises(MachineError, match="a limit of 310 MiB is too small: about") as caught:
        memory.count_shares(tables, 310 << 20, ASKED)

    needed = int(caught.value.hint.removeprefix("give --memory-limit ").partition("MiB")[0])
    assert memory.count_shares(tables, needed << 20, ASKED) >= 1


def test_what_the_machine_has_no_memory_for_is_read_many_times(monkeypatch):
    rows = pl.select(user=pl.int_range(1_000_000), item=pl.int_range(1_000_000) % 1000)
    with pytest.raises(MachineError):
        shares_of(rows, 8)

    monkeypatch.setattr(machine, "default_limit", lambda: 64 << 20)

    assert shares_of(rows, 8) > memory.MOST_SHARES


def test_kernels_that_are_to_be_compiled_take_memory(monkeypatch, tmp_path):
    monkeypatch.delitem(sys.modules, "numba", raising=False)
    monkeypatch.setattr(machine, "kernels_are_compiled", lambda: True)
    (tmp_path / "few").mkdir()
    for number in range(machine.LEAST_KEPT):
        (tmp_path / str(number)).touch()
    sizes = []
    for folder in (tmp_path, tmp_path / "few", None):
        monkeypatch.setattr(machine, "cache_directory", lambda folder=folder: folder)
        with kept_alone:
            sizes.append(machine.room_to_compile())

    assert sizes == [0, machine.COMPILING, machine.COMPILING]
    monkeypatch.setitem(sys.modules, "numba", object())
    monkeypatch.setattr(machine, "cache_directory", lambda: tmp_path)
    assert machine.room_to_compile() == machine.COMPILING


def test_who_counts_on_kept_kernels_and_meets_another_starts_again_with_room(monkeypatch):
    """The first try is ended by the kernel, whatever its error becomes on the way."""
    monkeypatch.setattr(machine, "_to_compile", lambda: machine._leaves_room)
    rooms = []

    def run() -> int:
        rooms.append(machine.room_to_compile())
        try:
            kept_alone.refuse()  # as a kernel does that is to be compiled
        except Exception as error:
            raise ValueError("told otherwise") from error
        return len(rooms)

    assert machine.run_within(run, run) == 2
    assert rooms == [0, machine.COMPILING]
    kept_alone.refuse()  # nobody counts on anything any more
    with pytest.raises(ZeroDivisionError):
        machine.run_within(lambda: 1 // 0, run)


def test_threads_of_a_run_are_held_to_kept_kernels_and_others_compile():
    def refuse(_: int) -> str:
        try:
            kept_alone.refuse()
        except UnkeptKernelError:
            return "refused"
        return "compiled"

    with kept_alone:
        kept_alone.begin()
        own = [*ordered_map(refuse, range(2), threads=2), *one_ahead(refuse, range(2))]
        with ThreadPoolExecutor(1) as other:
            beside = other.submit(refuse, 0).result()
        with kept_alone:  # another one begins inside, and ends
            kept_alone.begin()
        assert kept_alone.is_broken
    after = refuse(0)

    assert own == ["refused"] * 4
    assert (beside, after) == ("compiled", "compiled")


@pytest.mark.some_cases(2)
@pytest.mark.parametrize("form", ["lazy", "csv", "csv.gz", "ndjson", "ipc"])
def test_rows_that_nothing_tells_the_number_of_are_counted_first(form, tmp_path):
    rows = pl.select(user=pl.int_range(400_000), item=pl.int_range(400_000) % 1000)
    file, given = tmp_path / f"rows.{form}", rows.lazy().filter(pl.col("item") >= 0)
    write = {"csv": rows.write_csv, "ndjson": rows.write_ndjson, "ipc": rows.write_ipc}
    if form == "csv.gz":
        file.write_bytes(gzip.compress(rows.write_csv().encode()))
    elif form != "lazy":
        write[form](file)
    tables = tables_of(given if form == "lazy" else str(file), rows)
    limit = limit_beside(rows.height, 32)

    assert memory.count_shares(tables, limit, ASKED) == shares_of(rows, 32) > 1


def test_large_row_groups_that_wait_in_a_share_are_counted(tmp_path):
    rows = pl.select(user=pl.int_range(1_200_000) // 6, item=pl.int_range(1_200_000) % 1000)
    taken = []
    for n_rows in (100_000, 1_200_000):
        rows.write_parquet(tmp_path / "rows.parquet", row_group_size=n_rows)
        tree = {**TREE, "truth": {**TREE["truth"], "path": str(tmp_path / "rows.parquet")}}
        given = plan.Given(None, [rows])
        tables = plan.open_tables(build_config(tree, name="passes"), given)
        with pytest.raises(MachineError) as caught:
            memory.count_shares(tables, 100 << 20, ASKED)
        taken.append(
            int(caught.value.hint.removeprefix("give --memory-limit ").partition("MiB")[0])
        )
        assert tables.truth.largest_group() == n_rows

    assert taken[1] - taken[0] > 30  # MiB; one pass would take no more


def test_ranks_by_user_take_less_than_rows_apart_and_these_less_than_scores():
    order = pl.int_range(4_000_000)
    rows = pl.select(user=order // 20, item=order % 1000, rank=order % 20 + 1)
    truth = rows.filter(pl.col("rank") < 3).drop("rank")
    apart = rows.sample(fraction=1, shuffle=True, seed=1)
    named = rows.with_columns(model=pl.lit("m"))
    scores = apart.select("user", "item", score="rank")
    columns, needed = {**COLUMNS, "rank": "rank"}, []
    for ranked, own in (
        (rows, columns), (apart, columns), (named, {**columns, "model": "model"}),
        (scores, {**COLUMNS, "score": "score"}),
    ):  # fmt: skip
        model = {} if "model" in own else {"model": "a"}
        table = {"path": ["memory"], "columns": own, **model}
        config = build_config({**TREE, "rankings": [table]}, name="passes")
        with pytest.raises(MachineError) as caught:
            memory.count_shares(
                plan.open_tables(config, plan.Given(truth, [ranked])), 100 << 20, ASKED
            )
        needed.append(
            int(caught.value.hint.removeprefix("give --memory-limit ").partition("MiB")[0])
        )

    assert needed == sorted(set(needed))


def test_users_of_the_truth_are_not_read_where_few_segments_fit(tmp_path, monkeypatch):
    rows = pl.select(user=pl.int_range(20_000), item=pl.int_range(20_000) % 1000)
    users = rows.select("user", few=pl.col("user") % 10, some=pl.col("user") % 5, many="user")
    users.write_parquet(tmp_path / "users.parquet")
    asked, limit = replace(ASKED, n_columns=35), 2 << 30

    def shares(*names: str) -> int:
        segments = {
            name: {"path": str(tmp_path / "users.parquet"), "by": name} for name in names
        } | {"cross": [list(names)]}
        config = build_config({**TREE, "segments": segments}, name="passes")
        tables = plan.open_tables(config, plan.Given(rows, [rows]))
        return memory.count_shares(tables, limit, asked)

    def is_read(*given: object) -> None:
        raise RuntimeError("the truth is read")

    monkeypatch.setattr(memory.Survey, "of", is_read)

    assert shares("few", "some") == 1
    with pytest.raises(RuntimeError, match="the truth is read"):
        shares("few", "many")


def test_a_training_log_takes_memory_too():
    rows = pl.select(user=pl.int_range(400_000) // 20, item=pl.int_range(400_000) % 1000)
    tables = tables_of(rows, rows)
    train = open_train(TrainTable(path=("memory",)), rows)
    limit = limit_beside(rows.height, 16)

    assert memory.count_shares(tables, limit, ASKED) == 1
    assert memory.count_shares(replace(tables, train=train), limit, ASKED) > 1


def test_what_polars_keeps_counts_where_it_was_loaded_before_the_limit(monkeypatch):
    """Which is so in Python; the command has Polars give memory back."""
    sizes = []
    for conf in ("dirty_decay_ms:10000,muzzy_decay_ms:0", "dirty_decay_ms:50,muzzy_decay_ms:50"):
        monkeypatch.setenv("_RJEM_MALLOC_CONF", f"dirty_decay_ms:500,{conf}")
        sizes.append(memory.at_rest())

    assert sizes[0] - sizes[1] == memory.KEPT


def test_what_lists_take_is_named_and_held_by_passes():
    rows = pl.select(user=pl.int_range(400_000) // 4, item=pl.int_range(400_000) % 1000)
    train = open_train(TrainTable(path=("memory",)), rows.sample(fraction=1, shuffle=True, seed=1))
    tables = replace(tables_of(rows, rows), train=train)
    lists = AskedOfLists(400, 8, 0, 4, 0, has_train=True, has_history=True, has_relevant=True)
    asked = replace(ASKED, lists=lists)

    with pytest.raises(MachineError, match="is too small") as caught:
        memory.count_shares(tables, 256 << 20, asked)

    needed = int(caught.value.hint.removeprefix("give --memory-limit ").partition("MiB")[0]) << 20
    memory.count_shares(tables, needed, asked)  # is not refused, be it in one pass or several
    assert memory.count_shares(tables, needed << 2, asked) == 1


def test_a_baseline_takes_memory_that_no_pass_cuts():
    rows = pl.select(user=pl.int_range(400_000) // 4, item=pl.int_range(400_000) % 1000)
    tables, train = tables_of(rows, rows), open_train(TrainTable(path=("memory",)), rows)
    rule = RankingsTable(model="last", builtin="last", by="count")
    made = make_rankings(rule, train, tables.truth, null_ids="error")
    made = replace(tables, train=train, rankings=[("last", made)])

    limit = limit_beside(rows.height, 64)

    memory.count_shares(replace(tables, train=train), limit, ASKED)  # is not refused
    with pytest.raises(MachineError, match="is too small"):
        memory.count_shares(made, limit, ASKED)


def test_sums_of_items_are_counted_and_no_pass_cuts_them():
    rows = pl.select(user=pl.int_range(400_000) // 4, item=pl.int_range(400_000) % 100_003)
    tables = tables_of(rows, rows)
    asked = replace(ASKED, items=AskedOfItems(10, ((),)))

    limit = limit_beside(rows.height, 32)

    memory.count_shares(tables, limit, ASKED)  # is not refused
    with pytest.raises(MachineError, match="is too small") as caught:
        memory.count_shares(tables, limit, asked)

    needed = int(caught.value.hint.removeprefix("give --memory-limit ").partition("MiB")[0]) << 20
    memory.count_shares(tables, needed, asked)  # is not refused
    assert memory.count_shares(tables, needed << 2, asked) == 1


def test_users_whom_the_truth_has_too_are_counted_once():
    def survey(first, n):
        hashes = distinct_keys(mix.interpret(np.arange(first, first + n, dtype=np.uint64)))
        nothing = np.zeros(1)
        return Survey(nothing, nothing, hashes[:SAMPLED_KEYS], IdBytes(), in_order=True)

    truth = survey(0, 100_000)

    assert truth.n_users == pytest.approx(100_000, rel=0.03)
    assert truth.n_beside([truth, survey(500, 1_000)]) == 0.0
    assert truth.n_beside([survey(50_000, 100_000)]) == pytest.approx(50_000, rel=0.1)
    assert survey(0, 10).n_beside([survey(5, 10)]) == 5.0
