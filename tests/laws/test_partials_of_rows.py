"""Shares of ratings and labels, merged in any order, say what one run says: also what is wrong."""

import json
import random
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from evalkit.config import load_config
from evalkit.errors import EvalkitError
from evalkit.pipeline import conclude_partials, measure_partial, run_config
from evalkit.planning.partials import open_partials

OWN = ("meta", "run_id")
N_USERS, N_ROWS = 30, 500


def said(run):
    """The report and the values of users, or what is wrong."""
    try:
        report = run()
    except EvalkitError as error:
        return [str(each) for each in getattr(error, "errors", (error,))]
    kept = report.per_user_values
    values = {} if kept is None else {name: each.rows() for name, each in kept.frames.items()}
    found = json.loads(report.to_json())
    return {key: value for key, value in found.items() if key not in OWN}, repr(values)


def merged(config, folder, n_shares, *, per_user):
    files = [folder / f"{share}-of-{n_shares}.part" for share in range(1, n_shares + 1)]
    for share, file in enumerate(files, 1):
        measure_partial(config, (share, n_shares), threads=2, per_user=per_user).write(file)
    random.Random(n_shares).shuffle(files)
    return conclude_partials(open_partials(files), threads=2, per_user=per_user)


def rows_of(seed):
    """One user has most rows; some rows name nobody."""
    draw = np.random.default_rng(seed)
    users = np.where(draw.random(N_ROWS) < 0.4, 0, draw.integers(0, N_USERS, N_ROWS))
    ids = pl.Series("user", [None if draw.random() < 0.02 else f"u{user}" for user in users])
    models = draw.choice(["zeta", "alpha"], N_ROWS)
    return pl.DataFrame(
        {
            "user": ids if seed % 2 else pl.Series("user", users),
            "model": models,
            "item": np.arange(N_ROWS),
            "session": users * 3 + draw.integers(0, 3, N_ROWS),
            "score": draw.integers(0, 33, N_ROWS) / 32,
            "label": draw.integers(0, 2, N_ROWS),
            "weight": draw.random(N_ROWS),
            "rating": draw.integers(1, 11, N_ROWS) / 2,
            "prediction": draw.random(N_ROWS) * 5,
            "age": users % 3,
        }
    )


POLICIES = '[policies]\nnull_ids = "drop"\nbad_scores = "drop"\n'
SEGMENTS = '[segments]\nage = { by = "age" }\nold = { by = "age", quantiles = 2 }\nmin_users = 12\n'
LOG = '[[labels]]\npath = "log.parquet"\ncolumns = { model = "model"'
USERS = "".join(
    f'[[labels]]\nmodel = "{model}"\npath = "log.parquet"\nwhere = "model = \'{name}\'"\n'
    f'columns = {{ score = "{score}" }}\n'
    for model, name, score in (
        ("m", "zeta", "score"),
        ("n", "alpha", "score"),
        ("o", "alpha", "case when age = 2 then null else weight end"),
    )
)
KEPT = ("draws", "ratings")  # cases whose values of users are kept
CASES = {
    "labels": LOG
    + ', weight = "weight" }\n'
    + '[metrics]\nnames = ["AUC", "GAUC", "log-loss", "ECE", "F1(at=\'best\')", "kappa", '
    + '"recall(at_precision=0.4)", "EER", "log-AUC", "Tjur-R2"]\n'
    + SEGMENTS
    + '[statistics]\nbaseline = "zeta"\n',
    "sessions": LOG
    + ', session = "session" }\n'
    + '[metrics]\nnames = ["AUC(over=\'sessions\')", "PR-AUC", "recall"]\n',
    "draws": LOG
    + " }\n[metrics]\nnames = [\"Brier(over='users')\"]\n"
    + '[statistics]\nmethod = "bootstrap"\npairs = "all"\nreplicates = 100\n',
    "clusters": LOG + ' }\n[metrics]\nnames = ["AUC"]\n[statistics]\ncluster = "age"\n',
    "ratings": '[[ratings]]\npath = "log.parquet"\ncolumns = { model = "model" }\n'
    + '[metrics]\nnames = ["RMSE", "R2", "Kendall", "median-error", "RMSLE", "max-error", '
    + "\"MAE(over='users')\"]\n"
    + SEGMENTS,
    "ratings-of-sums": '[[ratings]]\npath = "log.parquet"\ncolumns = { model = "model" }\n'
    + '[metrics]\nnames = ["RMSE", "R2", "RMSLE", "CCC", "MAE", "MAE(over=\'users\')", '
    + "\"Kendall(over='users')\"]\n"
    + '[segments]\nage = { by = "age" }\n',
    "ratings-compared": "".join(
        f'[[ratings]]\nmodel = "{name}"\npath = "log.parquet"\n'
        f'columns = {{ prediction = "{column}" }}\n'
        for name, column in (
            ("m", "prediction"),
            ("n", "score"),
            ("o", "case when age = 2 then null else weight end"),
        )
    )
    + "[metrics]\nnames = [\"MAE(over='users')\", \"RMSE(over='users')\"]\n"
    + '[segments]\nage = { by = "age" }\n[statistics]\nbaseline = "m"\n',
    "joined-in-part": '[[ratings]]\npath = "log.parquet"\nwhere = "item < 300"\n'
    + '[[predictions]]\nmodel = "m"\npath = "log.parquet"\nwhere = "item > 100"\n'
    + '[[predictions]]\nmodel = "n"\npath = "log.parquet"\nwhere = "item > 1000"\n'
    + '[metrics]\nnames = ["MAE", "R2", "MSE"]\n[policies]\nunpredicted = "skip"\n'
    + 'unrated = "skip"\nempty_input = "warn"\n',
    "wrong-joined": '[[ratings]]\npath = "log.parquet"\nwhere = "item < 300"\n'
    + '[[predictions]]\nmodel = "m"\npath = "log.parquet"\nwhere = "item > 100"\n'
    + '[metrics]\nnames = ["MAE", "R2"]\n[policies]\nunpredicted = "error"\n'
    + 'unrated = "error"\n',
    "wrong-domain": '[[ratings]]\npath = "log.parquet"\nmodel = "m"\n'
    + 'columns = { prediction = "rating - 2" }\n[metrics]\nnames = ["RMSLE", "MAE"]\n',
    "joined": '[[ratings]]\npath = "log.parquet"\nwhere = "model = \'zeta\'"\n'
    + '[[predictions]]\nmodel = "m"\npath = "log.parquet"\n'
    + '[metrics]\nnames = ["MAE", "bias"]\n',
    "users": USERS
    + "[metrics]\nnames = [\"AUC(over='users')\", \"recall(over='users')\"]\n"
    + '[segments]\nage = { by = "age" }\n[statistics]\nbaseline = "m"\nsearch = true\n',
    "weighted-users": USERS
    + '[metrics]\nnames = ["GAUC", "Brier(over=\'users\')"]\n'
    + '[segments]\nage = { by = "age" }\n',
    "users-of-many": LOG + ' }\n[metrics]\nnames = ["GAUC", "log-loss(over=\'users\')"]\n',
    "wrong-of-users": USERS + "[metrics]\nnames = [\"AUC(over='users')\"]\n",
    "wrong": '[[labels]]\nmodel = "m"\npath = "log.parquet"\nwhere = "label < 5"\n'
    + 'columns = { score = "rating" }\n[metrics]\nnames = ["log-loss"]\n',
}


def policies_of(case):
    if "joined" not in case and not case.startswith("wrong"):
        return POLICIES
    return 'null_ids = "drop"\n' if case == "joined-in-part" else ""


@pytest.mark.some_cases(len(CASES) // 3)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("n_shares", [1, 3, 8])
def test_shares_put_together_are_one_run(tmp_path, monkeypatch, case, seed, n_shares):
    monkeypatch.chdir(tmp_path)
    rows_of(seed).write_parquet("log.parquet")
    Path("job.toml").write_text(CASES[case] + policies_of(case))
    config = load_config(Path("job.toml"), overrides=[], variables={})
    per_user = case in KEPT

    whole = said(lambda: run_config(config, threads=2, per_user=per_user))
    parts = said(lambda: merged(config, tmp_path, n_shares, per_user=per_user))

    assert parts == whole


@pytest.mark.parametrize("case", ["users", "weighted-users", "ratings-of-sums", "joined-in-part"])
def test_shares_of_sums_leave_no_rows(tmp_path, monkeypatch, case):
    monkeypatch.chdir(tmp_path)
    rows_of(0).write_parquet("log.parquet")
    Path("job.toml").write_text(CASES[case] + policies_of(case))
    config = load_config(Path("job.toml"), overrides=[], variables={})

    sums = measure_partial(config, (1, 3), threads=2).body
    assert not any(each.rows for each in sums.all)
    assert sums.users.models
    kept = measure_partial(config, (1, 3), threads=2, per_user=True).body
    assert kept.users is None
    assert all(each.rows for each in kept.all)


@pytest.mark.parametrize("case", ["labels", "draws", "ratings"])
def test_the_order_of_rows_moves_nothing(tmp_path, case):
    rows, (one, other) = rows_of(0), (tmp_path / "one", tmp_path / "other")
    found = []
    for folder, log in ((one, rows), (other, rows.sample(fraction=1.0, shuffle=True, seed=1))):
        folder.mkdir()
        log.write_parquet(folder / "log.parquet")
        (folder / "job.toml").write_text(CASES[case] + POLICIES)
        config = load_config(folder / "job.toml", overrides=[], variables={})
        document = json.loads(run_config(config, threads=2).to_json())
        found.append(
            {key: document[key] for key in document if key not in (*OWN, "inputs", "run_key")}
        )

    assert found[0] == found[1]
    assert list(found[0]["counts"]["models"]) == ["alpha", "zeta"]


def test_logs_laid_out_by_user_are_read_once_each(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = rows_of(0).drop_nulls("user").with_columns(share=pl.col("user") % 3)
    for (share,), part in rows.group_by("share"):
        part.drop("share", "age").write_parquet(f"part-{share}.parquet")
    users = rows.select("user", "age").unique()
    users.write_parquet("users.parquet")
    text = CASES["labels"].replace("age = { by", 'age = { path = "users.parquet", by')
    text = text.replace("old = { by", 'old = { path = "users.parquet", by')
    Path("shares.toml").write_text(text.replace("log.parquet", "part-{share0}.parquet"))
    Path("whole.toml").write_text(text.replace("log.parquet", "part-*.parquet"))
    shares = load_config(Path("shares.toml"), overrides=[], variables={})
    whole = load_config(Path("whole.toml"), overrides=[], variables={})

    parts = json.loads(merged(shares, tmp_path, 3, per_user=False).to_json())
    expected = json.loads(run_config(whole, threads=2).to_json())

    for key in set(expected) - {*OWN, "name", "run_key", "inputs", "config"}:
        assert parts[key] == expected[key]
    assert [each["rows"] for each in parts["inputs"]] == [rows.height, users.height]
    with pytest.raises(EvalkitError, match="laid out"):
        run_config(shares)
