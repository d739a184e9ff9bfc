"""Baselines give what plain Python gives, at every entry point, for any order and type of the
rows.
"""

from collections import Counter, defaultdict

import polars as pl
import pytest
from campaigns import examples
from hypothesis import given, settings
from hypothesis import strategies as st

import evalkit
from evalkit.config import build_config
from evalkit.errors import DataError, EvalkitError
from evalkit.item_lists.baselines import _rankings
from evalkit.pipeline import run_config
from evalkit.planning.tables import Given

TRAIN = st.lists(
    st.tuples(st.integers(1, 4), st.integers(-3, 5), st.integers(0, 40)), min_size=1, max_size=30
)
USERS = st.lists(st.integers(1, 6), min_size=1, max_size=6)
A_DAY = 86400


def frames(train, users, name=lambda each: each):
    """The two tables, times as whole days."""
    rows = [(name(user), name(item), day * A_DAY) for user, item, day in train]
    return (
        pl.DataFrame(rows, schema=["user", "item", "time"], orient="row"),
        pl.DataFrame({"user": [name(user) for user in users]}),
    )


def naive(builtin, train, users, k, *, seen="drop", half_life=30, window=None, by="time"):
    """Rows of user, item, rank by plain Python."""
    now, weights, had = max(day for _, _, day in train), Counter(), defaultdict(list)
    for user, item, day in train:
        if builtin == "recent":
            weights[item] += day > now - window if window else 2 ** (-(now - day) / half_life)
        else:
            weights[item] += 1
        had[user].append((item, day))
    rows = []
    for user in sorted(set(users)):
        own = {item for item, _ in had[user]}
        if builtin == "last":
            worth = {
                item: len(days) if by == "count" else max(days)
                for item in own
                for days in [[day for each, day in had[user] if each == item]]
            }
        else:
            worth = {item: weights[item] for item in weights if seen == "keep" or item not in own}
        listed = sorted(worth, key=lambda item: (-worth[item], item))[:k]
        rows += [(user, item, rank) for rank, item in enumerate(listed, 1)]
    return rows


@settings(max_examples=examples(15), deadline=None)
@given(
    TRAIN,
    USERS,
    st.integers(1, 5),
    st.sampled_from(
        [
            ("popular", {}),
            ("popular", {"seen": "keep"}),
            ("recent", {"half_life": "3d", "seen": "keep"}),
            ("recent", {"window": "5d"}),
            ("last", {}),
            ("last", {"by": "count"}),
        ]
    ),
    st.randoms(use_true_random=False),
)
def test_lists_are_those_of_plain_python_in_any_order(train, users, k, rule, random):
    builtin, options = rule
    spans = {key: int(each[:-1]) for key, each in options.items() if each[-1] == "d"}
    wanted = naive(builtin, train, users, k, **{**options, **spans})
    shuffled = random.sample(train, len(train))

    for rows in (train, shuffled):
        table, people = frames(rows, users)
        found = evalkit.baseline(builtin, train=table, users=people, k=k, **options)
        assert found.rows() == wanted


def test_draws_are_even_new_and_follow_the_seed():
    items = list(range(20))
    train = pl.DataFrame({"user": [0] * 20, "item": items, "time": [0] * 20})
    users = pl.DataFrame({"user": list(range(4000))})

    found = evalkit.baseline("random", train=train, users=users, k=3)
    again = evalkit.baseline("random", train=train[::-1], users=users[::-1], k=3)
    other = evalkit.baseline("random", train=train, users=users, k=3, seed=2)

    assert found.equals(again)
    assert not found.equals(other)
    assert found.filter(user=0).is_empty()  # has had them all
    assert found.height == 3999 * 3 == found.select("user", "item").n_unique()
    for rank in (1, 3):
        counts = found.filter(rank=rank)["item"].value_counts()["count"]
        expected = 3999 / 20
        assert sum((counts - expected) ** 2) / expected < 50  # chi squared of 19, p > 1e-4


def test_text_ids_dates_and_several_user_columns():
    train, users = frames([(1, 10, 3), (1, 9, 1), (2, 9, 2)], [1, 2, 3], name=str)
    dated = train.with_columns(pl.from_epoch("time").dt.date())
    pairs = {"user": ["a", "b"]}

    found = evalkit.baseline("recent", train=dated, users=users, k=2, half_life="1d", seen="keep")
    two = evalkit.baseline(
        "popular",
        train=train.with_columns(a="user", b="user"),
        users=users.with_columns(a="user", b="user"),
        columns=pairs,
    )

    assert found.rows()[:2] == [("1", "10", 1), ("1", "9", 2)]
    assert two.columns == ["a", "b", "item", "rank"]
    assert two.rows() == [("2", "2", "10", 1), ("3", "3", "9", 1), ("3", "3", "10", 2)]


@pytest.mark.parametrize("builtin", ["random", "popular", "recent", "last"])
def test_a_run_measures_what_the_file_holds(builtin, tmp_path):
    rows = [(user, (user * item) % 11, item) for user in range(30) for item in range(1, 8)]
    train, users = frames(rows, range(35))
    truth = users.with_columns(item=pl.col("user") % 11)
    lists = evalkit.baseline(builtin, train=train, users=truth, k=4)

    def values(table, held):
        tree = {
            "truth": {"path": "truth"},
            "train": {"path": "train"},
            "rankings": [{"model": "it", **table}],
            "metrics": {"names": ["nDCG@4", "recall@2"]},
            "policies": {"truth_in_train": "count"},
        }
        config = build_config(tree, name="x", entry_point="python")
        report = run_config(config, given=Given(truth, [held], train))
        return [each.value for each in report.estimates], report.counts.models["it"]

    assert values({"builtin": builtin, "k": 4}, None) == values({"path": "lists"}, lists)


def test_the_file_has_the_same_bytes_again(tmp_path, monkeypatch):
    from evalkit.cli.app import run_command

    train, users = frames([(1, 10, 3), (1, 9, 1), (2, 9, 2)], range(50))
    train.write_parquet(tmp_path / "train.parquet")
    users.write_parquet(tmp_path / "users.parquet")
    monkeypatch.chdir(tmp_path)
    command = ["baseline", "recent", "--train", "train.parquet", "--users", "users.parquet"]

    for name, rows in (("a.parquet", 1 << 19), ("b.parquet", 8)):
        monkeypatch.setattr(_rankings, "ROWS_A_BATCH", rows)
        assert run_command([*command, "--out", name, "--k", "3"]) == 0

    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()
    assert pl.read_parquet(tmp_path / "a.parquet").columns == ["user", "item", "rank"]


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"k": 0}, "out-of-range"),
        ({"half_life": "3d"}, "conflicting-keys"),
        ({"builtin": "recent", "half_life": "3d", "window": "3d"}, "conflicting-keys"),
        ({"builtin": "recent", "window": "3"}, "out-of-range"),
        ({"builtin": "last", "seen": "drop"}, "conflicting-keys"),
        ({"builtin": "best"}, "unknown-choice"),
    ],
)
def test_what_no_baseline_has_is_refused(options, code):
    train, users = frames([(1, 1, 1)], [1])
    asked = {"builtin": "popular", **options}

    with pytest.raises(EvalkitError) as error:
        evalkit.baseline(asked.pop("builtin"), train=train, users=users, **asked)

    assert code in str(error.value)


def test_milliseconds_are_no_seconds_and_the_hint_makes_them_such():
    train = pl.DataFrame(
        [(n % 9, n * 7 % 11, 1_700_000_000 + n * 9_600) for n in range(45)],
        schema=["user", "item", "time"],
        orient="row",
    )
    finer = train.with_columns(pl.col("time") * 1000)
    given = {"builtin": "recent", "users": train.select("user"), "k": 4, "window": "2d"}

    with pytest.raises(DataError, match="no seconds of any year") as refused:
        evalkit.baseline(train=finer, **given)

    assert refused.value.code == "bad-time"
    columns = {"time": refused.value.hint.partition(': "')[2].partition('"}')[0]}
    wanted = evalkit.baseline(train=train, **given)
    assert evalkit.baseline(train=finer, columns=columns, **given).equals(wanted)


@pytest.mark.parametrize("dtype", [pl.Int64, pl.Datetime("ms"), pl.Date])
def test_ages_from_a_time_after_now_are_told(dtype, caplog):
    a_day = 1 if dtype == pl.Date else 86_400_000 if dtype == pl.Datetime("ms") else 86_400
    for year in (50, 80):
        train = pl.DataFrame({"user": [1, 2], "item": [3, 4], "time": [1, year * 365 * a_day]})
        evalkit.baseline(
            "recent",
            train=train.with_columns(
                pl.col("time").cast(pl.Int32 if a_day == 1 else pl.Int64).cast(dtype)
            ),
            users=train.select("user"),
        )

    assert ["odd-times" in each.getMessage() for each in caplog.records] == [True]


def test_bad_rows_are_refused():
    train, users = frames([(1, 1, 1), (2, 2, 2)], [1])
    cases = {
        "null-id": ("popular", train.with_columns(item=pl.Series([1, None]))),
        "bad-time": ("last", train.with_columns(time=pl.Series([1, None]))),
        "empty-input": ("popular", train.clear()),
        "missing-column": ("recent", train.drop("time")),
        "id-kind": ("popular", train.with_columns(pl.col("user").cast(pl.String))),
    }
    for code, (builtin, table) in cases.items():
        with pytest.raises(DataError) as error:
            evalkit.baseline(builtin, train=table, users=users)
        assert error.value.code == code


def test_a_config_says_what_a_builtin_lacks():
    base = {"truth": {"path": "t"}, "metrics": {"names": ["RR"]}}
    cases = [
        ({"builtin": "popular"}, None, "missing-key"),
        ({"builtin": "popular", "path": "x"}, {"path": "y"}, "conflicting-keys"),
        ({"builtin": "popular"}, {"path": "y/{share}"}, "share-places"),
        ({"k": 3, "path": "x"}, None, "conflicting-keys"),
        ({}, None, "missing-key"),
    ]
    for table, train, code in cases:
        tree = {**base, "rankings": [{"model": "m", **table}]}
        tree |= {} if train is None else {"train": train}
        with pytest.raises(EvalkitError) as error:
            build_config(tree, name="x")
        assert code in str(error.value)


@pytest.mark.parametrize("builtin", ["random", "popular", "recent", "last"])
def test_lists_are_as_long_as_train_lets_them(builtin):
    train, users = frames([(1, 7, 3)], [1, 2])  # one item, and k above it
    shown = {"last": [(1, 7, 1)]}.get(builtin, [(2, 7, 1)])

    assert evalkit.baseline(builtin, train=train, users=users, k=9).rows() == shown
    for tables in ((train.clear(), users), (train, users.clear())):
        with pytest.raises(DataError, match="has no rows"):
            evalkit.baseline(builtin, train=tables[0], users=tables[1], k=9)


@pytest.mark.parametrize(
    "users", [{2: [7], 3: []}, {"user": [2, 3]}, [{"user": 2, "item": 7}, {"user": 3, "item": 7}]]
)
def test_dicts_and_lists_are_taken_as_elsewhere(users):
    shown = evalkit.baseline("popular", train={1: [7, 8], 2: [8]}, users=users, k=2)

    assert shown.rows() == [(2, 7, 1), (3, 8, 1), (3, 7, 2)]
