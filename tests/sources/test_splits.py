"""Tables that mix the parts of a split: refused with what to write, kept, written by init."""

import re

import polars as pl
import pytest
from program import run_here

import evalkit
from evalkit import pipeline
from evalkit.config import build_config, load_config
from evalkit.errors import EvalkitError
from evalkit.jobs.check import check_config
from evalkit.sources.splits import part_of, parts_of_files

PARTS = ["train", "valid", "test", "test"]
ROWS = pl.DataFrame({"user": [1, 1, 2, 2], "item": [10, 11, 20, 21]})
RANKS = pl.DataFrame({"user": [1, 1, 2, 2], "item": [11, 10, 20, 21], "rank": [1, 2, 1, 2]})
TRUTH = ROWS.tail(2)


def split_by(values, name="split", rows=ROWS):
    return rows.with_columns(pl.Series(name, values, dtype=pl.String))


def evaluate(truth, rankings=RANKS, **options):
    return evalkit.evaluate(truth, rankings, metrics=["hits@2"], **options)


def refused(act, *arguments, **options):
    with pytest.raises(EvalkitError) as caught:
        act(*arguments, **options)
    error = caught.value
    assert error.code == "mixed-splits"
    assert error.exit_status == 3
    return error


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("train", "train"),
        ("TRAINING", "train"),
        (" Train_set ", "train"),
        ("train-00", "train"),
        ("val", "valid"),
        ("Validation", "valid"),
        ("dev", "dev"),
        ("test", "test"),
        ("testing data", "test"),
        ("test_2", "test"),
        ("hold-out", "holdout"),
        ("held_out", "holdout"),
        ("eval", "eval"),
        ("trained by", None),
        ("Trains", None),
        ("testament", None),
        ("value", None),
        ("set", None),
        ("", None),
        ("0", None),
        ("Обучение", None),
    ],
)
def test_words_that_mean_a_part(text, part):
    assert part_of(text) == part


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize("name", ["split", "SPLIT", "part", "fold", "Subset", "set", "data_split"])
@pytest.mark.parametrize("dtype", [pl.String, pl.Categorical, pl.Enum(["train", "valid", "test"])])
def test_a_truth_of_several_parts_is_refused(name, dtype):
    truth = split_by(PARTS, name).with_columns(pl.col(name).cast(dtype))

    for table in (truth, truth.lazy(), truth.to_pandas(), truth.to_arrow()):
        error = refused(evaluate, table)
        assert f'truth.filter(pl.col("{name}") == "test")' in error.hint
        assert 'policies={"mixed_splits": "keep"}' in error.hint


@pytest.mark.parametrize(
    "values",
    [
        ["train", "train", "test", "test"],
        ["train", "train", "valid", "valid"],
        ["valid", "valid", "test", "test"],
        ["Training", None, None, "HOLDOUT"],
        ["test", "holdout", "other", "other"],
        ["dev", "validation", "dev", "dev"],
    ],
)
def test_two_parts_are_too_many(values):
    refused(evaluate, split_by(values))


@pytest.mark.parametrize(
    "values",
    [
        ["test"] * 4,
        ["train"] * 4,  # training error may be wanted
        ["test", "Test", "TESTING", "test_2"],
        ["test", None, None, "test"],
        [None] * 4,
        ["Train", "Castle", "Space", "Pirates"],  # of toys
        ["a", "b", "c", "d"],
        ["0", "1", "2", "3"],
        ["x" * 100_000 + "train", "test", "", " "],
    ],
)
def test_one_part_is_fine(values):
    assert evaluate(split_by(values)).value("hits@2") == 2.0


def test_a_column_that_is_read_as_something_else_splits_nothing():
    truth = split_by(PARTS).drop("user")
    rankings = RANKS.with_columns(user=pl.lit("test"), rank=pl.int_range(1, 5))

    report = evalkit.evaluate(
        truth.rename({"split": "user"}), rankings, metrics=["hits@2"], columns={"user": "user"}
    )
    assert report.counts.truth.users == 3


def test_all_rows_are_kept_where_the_policy_says_so():
    report = evaluate(split_by(PARTS), policies={"mixed_splits": "keep"})

    assert report.counts.truth.pairs == 4


def test_train_may_hold_what_models_are_trained_on():
    fine = split_by(["train", "train", "valid", "dev"]).with_columns(pl.col("item") + 100)
    for values in (PARTS, ["test"] * 4, ["train", "train", "train", "eval"]):
        error = refused(evaluate, TRUTH, train=split_by(values))
        assert "train holds held-out rows" in error.message

    assert evaluate(TRUTH, train=fine).counts.truth.in_train == 0


def test_rankings_may_hold_lists_of_other_parts_but_not_of_one_user():
    mixed = split_by(["test", "valid", "test", "test"], rows=RANKS)
    apart = split_by(["valid", "valid", "test", "test"], rows=RANKS)

    assert 'rankings.filter(pl.col("split") == "test")' in refused(evaluate, ROWS, mixed).hint
    assert evaluate(ROWS, apart).value("hits@2") == 2.0


def test_ratings_and_labels_of_several_parts_are_refused():
    ratings = split_by(PARTS).with_columns(rating=pl.lit(1.0), prediction=pl.lit(2.0))
    labels = split_by(PARTS).with_columns(score=pl.Series([0.1, 0.2, 0.3, 0.4]), label=pl.lit(1))
    predictions = ratings.select("user", "item", "prediction", "split")

    error = refused(evalkit.evaluate_ratings, ratings, metrics=["MAE"])
    assert 'ratings.filter(pl.col("split") == "test")' in error.hint
    refused(evalkit.evaluate_labels, labels, metrics=["log-loss"])
    refused(evalkit.evaluate_labels, {"a": labels.drop("split"), "b": labels}, metrics=["Brier"])
    kept = evalkit.evaluate_ratings(ratings.drop("split"), predictions, metrics=["MAE"])
    assert kept.value("MAE") == 1.0


# ---------------------------------------------------------------- files and where


def write_job(folder, truth="truth.parquet", **sections):
    RANKS.write_parquet(folder / "als.parquet")
    tree = {
        "truth": {"path": [str(folder / truth)]},
        "rankings": [
            {"model": "als", "path": [str(folder / "als.parquet")], "columns": {"rank": "rank"}}
        ],
        "metrics": {"names": ["hits@2"]},
    }
    return {**tree, **sections}


def run(tree):
    return pipeline.run_config(build_config(tree, name="job"))


def test_where_leaves_one_part(tmp_path):
    split_by(PARTS).write_parquet(tmp_path / "truth.parquet")
    tree = write_job(tmp_path, truth="truth.parquet")
    tree["truth"]["where"] = "split = 'test'"
    assert run(tree).counts.truth.pairs == 2

    tree = write_job(tmp_path)
    tree["truth"]["where"] = "user >= 1"
    refused(run, tree)


@pytest.mark.parametrize("where", [None, "user > 0 or item > 0"])
@pytest.mark.parametrize("name", ["split", "data split", "set", '"fold"', "Subset"])
@pytest.mark.parametrize("texts", [("train", "test"), ("tr\u00e4in", "te"), ("train", "it's test")])
def test_the_where_of_the_hint_can_be_pasted(tmp_path, where, name, texts):
    values = [texts[0], "train", texts[1], "Test"]
    split_by(values, name).write_parquet(tmp_path / "truth.parquet")
    tree = write_job(tmp_path)
    tree["truth"] |= {} if where is None else {"where": where}
    path = tmp_path / "job.toml"
    lines = [f"{key} = {value!r}" for key, value in tree["truth"].items()]
    ranked = f"[[rankings]]\nmodel = 'als'\npath = '{tmp_path}/als.parquet'\ncolumns.rank = 'rank'"
    rest = [ranked, "[metrics]\nnames = ['hits@2']"]
    path.write_text("\n".join(["[truth]", *lines, *rest]), encoding="utf-8")
    hint = refused(pipeline.run_config, load_config(path)).hint
    pasted = re.search(r'write (where = ".*") under \[truth\]', hint)[1]
    kept = [line for line in lines if not line.startswith("where")]
    path.write_text("\n".join(["[truth]", *kept, pasted, *rest]), encoding="utf-8")

    assert pipeline.run_config(load_config(path)).counts.truth.pairs == 1 + (texts[1] == "test")


@pytest.mark.parametrize("suffix", ["csv", "ndjson", "arrow", "parquet"])
def test_every_format_is_looked_at(tmp_path, suffix):
    frame = split_by(PARTS)
    write = {"csv": "write_csv", "ndjson": "write_ndjson", "arrow": "write_ipc"}
    getattr(frame, write.get(suffix, "write_parquet"))(tmp_path / f"truth.{suffix}")

    refused(run, write_job(tmp_path, truth=f"truth.{suffix}"))


def test_partition_folders_are_columns(tmp_path):
    for part, rows in (("train", ROWS.head(2)), ("test", ROWS.tail(2))):
        (tmp_path / f"t/split={part}").mkdir(parents=True)
        rows.write_parquet(tmp_path / f"t/split={part}/a.parquet")

    refused(run, write_job(tmp_path, truth="t"))
    assert run(write_job(tmp_path, truth="t/split=test")).counts.truth.pairs == 2


def test_files_that_lack_the_column_or_have_another_type_of_it_do_no_harm(tmp_path):
    (tmp_path / "t").mkdir()
    ROWS.head(1).write_parquet(tmp_path / "t/a.parquet")
    split_by(["train", "test", "test"], rows=ROWS.tail(3)).write_parquet(tmp_path / "t/b.parquet")
    refused(run, write_job(tmp_path, truth="t"))

    ROWS.tail(3).with_columns(split=pl.lit(3)).write_parquet(tmp_path / "t/b.parquet")
    split_by(["train"], rows=ROWS.head(1)).write_parquet(tmp_path / "t/a.parquet")
    assert run(write_job(tmp_path, truth="t")).counts.truth.pairs == 4
    assert remarks(write_job(tmp_path, truth="t")) == []


def test_a_joined_log_of_several_parts_is_refused_once(tmp_path):
    log = split_by(PARTS, rows=RANKS).with_columns(label=pl.lit(1))
    log.write_parquet(tmp_path / "log.parquet")
    tree = {
        "log": {"path": [str(tmp_path / "log.parquet")], "model": "als"},
        "metrics": {"names": ["hits@2"]},
    }
    tree["log"]["columns"] = {"label": "label", "rank": "rank"}
    error = refused(run, tree)

    assert str(error).count("mixed-splits") == 1


def test_every_mixed_table_is_told_at_once():
    table = split_by(PARTS)
    error = refused(evaluate, table, train=table)

    assert [each.code for each in error.errors] == ["mixed-splits"] * 2


# ---------------------------------------------------------------- check


def remarks(tree):
    found = check_config(build_config(tree, name="job"))
    codes = ("mixed-splits", "train-rows", "numbered-folds", "split-flag", "split-files")
    return [(each.code, each.is_error) for each in found if each.code in codes]


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (pl.Series("split", PARTS), [("mixed-splits", True)]),
        (pl.Series("split", ["train"] * 4), [("train-rows", False)]),
        (pl.Series("split", ["test"] * 4), []),
        (pl.Series("fold", [0, 1, 2, 3]), [("numbered-folds", False)]),
        (pl.Series("fold", [1.0, 2.0, None, None]), [("numbered-folds", False)]),
        (pl.Series("fold", ["fold_1", "fold_2", "fold_2", "fold_3"]), [("numbered-folds", False)]),
        (pl.Series("fold", [2] * 4), []),
        (pl.Series("fold_u", [1, 2, 3, 1]), [("numbered-folds", False)]),
        (pl.Series("userSplit", PARTS), [("mixed-splits", True)]),
        (pl.Series("part_number", PARTS), []),
        (pl.Series("splitter", PARTS), []),
        (pl.Series("set", [7000, 8000, 1, 2]), []),
        (pl.Series("set", ["Castle", "Space", "Train", "City"]), []),
        (pl.Series("is_train", [True, False, True, True]), [("split-flag", False)]),
        (pl.Series("is_test", [0, 1, 0, 0]), [("split-flag", False)]),
        (pl.Series("is_test", [1, 1, 1, 1]), []),
        (pl.Series("split", ["train", "train", "other", None]), [("train-rows", False)]),
        (pl.Series("test", ["a", "b", "c", "d"]), []),
        (pl.Series("day", ["train", "test", "test", "test"]), []),
    ],
)
def test_check_says_what_tells_of_a_split(tmp_path, column, said):
    ROWS.with_columns(column).write_parquet(tmp_path / "truth.parquet")

    assert remarks(write_job(tmp_path)) == said


def test_check_says_nothing_of_folds_that_where_or_a_split_has_chosen(tmp_path):
    frame = ROWS.with_columns(fold=pl.Series([0, 1, 2, 2]))
    frame.write_parquet(tmp_path / "truth.parquet")
    tree = write_job(tmp_path)
    tree["truth"]["where"] = "fold <> 0"
    assert remarks(tree) == []

    split_by(["test"] * 4, rows=frame).write_parquet(tmp_path / "truth.parquet")
    assert remarks(write_job(tmp_path)) == []


def test_check_remarks_what_the_policy_keeps(tmp_path):
    split_by(PARTS).write_parquet(tmp_path / "truth.parquet")
    tree = write_job(tmp_path, policies={"mixed_splits": "keep"})

    assert remarks(tree) == [("mixed-splits", False)]


def test_check_says_that_files_are_of_several_parts(tmp_path):
    (tmp_path / "t").mkdir()
    ROWS.head(2).write_parquet(tmp_path / "t/train.parquet")
    ROWS.tail(2).write_parquet(tmp_path / "t/test.parquet")

    assert remarks(write_job(tmp_path, truth="t")) == [("split-files", False)]
    assert remarks(write_job(tmp_path, truth="t/test.parquet")) == []
    assert remarks(write_job(tmp_path, truth="t/t*.parquet")) == [("split-files", False)]


def test_check_looks_at_labels_too(tmp_path):
    labels = split_by(PARTS).with_columns(score=pl.Series([0.1, 0.2, 0.3, 0.4]), label=pl.lit(1))
    labels.write_parquet(tmp_path / "labels.parquet")
    tree = {
        "labels": [{"model": "ctr", "path": [str(tmp_path / "labels.parquet")]}],
        "metrics": {"names": ["log-loss"]},
    }

    assert remarks(tree) == [("mixed-splits", True)]


@pytest.mark.parametrize(
    ("files", "parts"),
    [
        (["a/train.parquet", "a/test.parquet"], {"train", "test"}),
        (["train/0.parquet", "test/0.parquet"], {"train", "test"}),
        (["/test/a/x.parquet", "/test/a/y.parquet"], set()),
        (["/test/a/x.parquet"], set()),
        (["d/ml-train-00001.parquet"], {"train"}),
        (["d/split=train/0.parquet", "d/split=test/0.parquet"], set()),
        (["latest.parquet", "contest.parquet"], set()),
        ([], set()),
    ],
)
def test_parts_that_files_are_named_after(files, parts):
    assert set(parts_of_files(files)) == parts


# ---------------------------------------------------------------- the command line


def command(folder, *arguments):
    done = run_here([*arguments], folder)
    return done.status, done.out, done.err


def test_init_writes_where_and_says_so(tmp_path):
    split_by(PARTS).with_columns(relevance=pl.lit(1)).write_parquet(tmp_path / "truth.parquet")
    RANKS.write_parquet(tmp_path / "als.parquet")
    given = ["--truth", "truth.parquet", "--rankings", "als.parquet", "--train", "truth.parquet"]
    status, _, said = command(tmp_path, "init", *given, "--out", "job.toml")

    text = (tmp_path / "job.toml").read_text()
    assert status == 0
    assert re.findall(r"(?m)^where = .*", text) == [
        "where = \"split = 'test'\"",
        "where = \"split = 'train'\"",
    ]
    assert "truth: split has train, valid, test" in said
    assert pipeline.run_config(load_config(tmp_path / "job.toml")).counts.truth.pairs == 2


def test_options_are_told_what_to_add(tmp_path):
    split_by(PARTS).write_parquet(tmp_path / "truth.parquet")
    RANKS.write_parquet(tmp_path / "als.parquet")
    asked = ["evaluate", "--truth", "truth.parquet", "--rankings", "als.parquet", "-m", "hits@2"]
    status, _, said = command(tmp_path, *asked)
    setting = re.search(r'add --set "(.*?)"', said)[1]

    assert status == 3
    assert command(tmp_path, *asked, "--set", setting)[0] == 0
    assert command(tmp_path, *asked, "--set", "policies.mixed_splits=keep")[0] == 0
