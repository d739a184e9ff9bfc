"""Every metric of lists against plain Python over sets, on logs that repeat, lack and do not know.

What they are in sets is in `list_sets`; a metric without an oracle there fails.
"""

import math
from copy import copy

import polars as pl
import pytest
from list_axes import CHOICES_OF_ALL, CHOICES_OF_USERS
from list_sets import NOW, OF_ALL, OF_USERS, Log, mean

from evalkit.config import build_config
from evalkit.errors import DataError
from evalkit.metrics import registry_of
from evalkit.pipeline import run_config

CUTOFFS = (1, 3, 5)
LAST = 7  # no list is longer


def test_every_metric_of_lists_has_an_oracle():
    asked = {text.partition("(")[0] for text in (*OF_USERS, *OF_ALL)}

    assert sorted(set(registry_of("lists")) - asked) == []


def test_every_choice_has_an_oracle():
    texts = [*OF_USERS, *OF_ALL, *CHOICES_OF_USERS, *CHOICES_OF_ALL]
    lacking = [
        f"{name}({parameter.name}={choice!r})"
        for name, metric in registry_of("lists").items()
        for parameter in metric.parameters
        for choice in parameter.choices[1:]
        if not any(t.startswith(f"{name}(") and f"{parameter.name}={choice!r}" in t for t in texts)
    ]

    assert lacking == ["bias_disparity(of_train='all')"]  # of users without a list: list_users


def frame(lists):
    rows = [(user, item, rank) for user, own in lists.items() for rank, item in enumerate(own, 1)]
    return pl.DataFrame(rows, schema=["user", "item", "rank"], orient="row")


def table(log):
    known = list(log.genres)
    return pl.DataFrame(
        {
            "item": known,
            "genres": pl.Series([sorted(log.genres[i]) for i in known], dtype=pl.List(pl.String)),
            **{name: [getattr(log, name)[i] for i in known] for name in ("vector", "published")},
            "provider": [log.provider[i] for i in known],
        }
    )


def report_of(folder, log, names, **policies):
    def path(name, table):
        table.write_parquet(folder / f"{name}.parquet")
        return str(folder / f"{name}.parquet")

    truth = [(u, i, grade) for u, own in log.relevance.items() for i, grade in own.items()]
    schema = ["user", "item", "relevance"]
    groups = pl.DataFrame({"user": list(log.group), "group": list(log.group.values())})
    tree = {
        "truth": {"path": path("truth", pl.DataFrame(truth, schema, orient="row")), "threshold": 2},
        "train": {"path": path("train", pl.DataFrame(log.train, schema[:2], orient="row"))},
        "items": {"path": path("items", table(log)), "now": NOW},
        "users": {"path": path("users", pl.DataFrame({"user": sorted(log.targets)}))},
        "rankings": [
            {
                "path": path("run", frame(log.run)),
                "model": "run",
                "earlier": [path("first", frame(log.first)), path("last", frame(log.last))],
            },
            {"path": path("reference", frame(log.reference)), "model": "other"},
        ],
        "statistics": {"baseline": "run"},
        "metrics": {"names": names, "reference": "other"},
        "segments": {"group": {"path": path("groups", groups), "by": "group"}},
        "policies": {"truth_in_train": "count", **policies},
    }
    config = build_config(tree, name="sets")
    labels = {text: config.read_metrics([text])[0].label for text in names}
    return labels, run_config(config, per_user=True, threads=1)


def asked():
    """Each text with its cutoff, and the key of its oracle."""
    for name in (*OF_USERS, *OF_ALL):
        for k in CUTOFFS if name != "prediction_coverage" else (LAST,):
            yield name if k == LAST else f"{name}@{k}", name, k


def who_counts(log, name, users):
    """The users whom a number of all lists stands on: some who have a list."""
    metric = name.partition("(")[0]
    needs = registry_of("lists")[metric].lists.needs(registry_of("lists")[metric].defaults)
    has = {"relevant": log.wanted, "history": log.had}
    return [user for user in users if all(has[need](user) for need in needs if need in has)]


def settled(value):
    return math.nan if value is None else value


@pytest.mark.some_cases(1)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("duplicates", ["error", "count", "best"])
def test_every_number_is_what_sets_give(tmp_path, seed, duplicates):
    log = Log(seed, repeats=duplicates != "error")
    labels, report = report_of(tmp_path, log, [text for text, *_ in asked()], duplicates=duplicates)
    if duplicates == "best":  # what is shown again is no row
        for lists in (log.run, log.reference, log.last, log.first):
            lists.update({user: list(dict.fromkeys(own)) for user, own in lists.items()})
    other, wrong = copy(log), []
    other.run, other.last, other.first = log.reference, {}, {}

    def check(found, wanted, *where):
        if settled(found) != pytest.approx(wanted, abs=1e-11, rel=1e-11, nan_ok=True):
            wrong.append((*where, found, wanted))

    users = {row["user"]: row for row in report.per_user_values.scan("run").collect().to_dicts()}
    estimates = {(e.metric, e.segment): e for e in report.estimates if e.model == "run"}
    deltas = {(each.metric, each.segment): each for each in report.comparisons}
    groups = {None: set(log.group)} | {
        each: {user for user, group in log.group.items() if group == each} for each in "ab"
    }
    for text, name, k in asked():
        for segment, own in groups.items():
            shown, both = (
                sorted(own & log.run.keys()),
                sorted(own & log.run.keys() & other.run.keys()),
            )
            where = text, segment
            one, delta = estimates[labels[text], segment], deltas.get((labels[text], segment))
            if name in OF_ALL:
                if name.startswith("mad") and segment is not None:
                    continue
                measure = OF_ALL[name]
                check(one.value, measure(log, shown, k), *where)
                if not math.isnan(one.value):
                    check(one.n_users, len(who_counts(log, name, shown)), *where, "n")
                difference = measure(other, both, k) - measure(log, both, k)
                check(delta and delta.delta, difference, *where, "delta")
                continue
            measure = OF_USERS[name]
            here = sorted(own & log.targets) if name.startswith("user_coverage") else shown
            values = {user: measure(log, user, k) for user in here}
            kept = [value for value in values.values() if not math.isnan(value)]
            check(one.value, mean(kept), *where)
            check(one.n_users, len(kept), *where, "n")
            there = here if name.startswith("user_coverage") else both
            pairs = [measure(other, user, k) - values[user] for user in there]
            pairs = [each for each in pairs if not math.isnan(each)]
            check(delta and delta.delta, mean(pairs), *where, "delta")
            if segment is None:
                for user, value in values.items():
                    check(users.get(user, {}).get(labels[text]), value, *where, user)
    for estimate in report.estimates:
        low, high = registry_of("lists")[estimate.name].bounds
        if estimate.low is not None and not math.isnan(estimate.low):
            assert low <= estimate.low <= estimate.high <= high, estimate
    assert wrong == []


@pytest.mark.some_cases(1)
@pytest.mark.parametrize(("seed", "duplicates"), [(0, "error"), (2, "error"), (1, "count")])
def test_every_choice_is_what_sets_give(tmp_path, seed, duplicates):
    log, wrong = Log(seed, repeats=duplicates != "error"), []
    texts = [*CHOICES_OF_USERS, *CHOICES_OF_ALL]
    asked = [
        (t if t.startswith("prediction") else f"{t}@{k}", t, LAST if "prediction" in t else k)
        for t in texts
        for k in (2, 4)
    ]
    labels, report = report_of(tmp_path, log, [text for text, *_ in asked], duplicates=duplicates)
    estimates = {e.metric: e for e in report.estimates if (e.model, e.segment) == ("run", None)}
    users = {row["user"]: row for row in report.per_user_values.scan("run").collect().to_dicts()}
    shown = sorted(log.run)
    for text, name, k in asked:
        pairs = []
        if name in CHOICES_OF_USERS:
            values = {user: CHOICES_OF_USERS[name](log, user, k) for user in shown}
            kept = [value for value in values.values() if not math.isnan(value)]
            pairs += [(u, users[u][labels[text]], value) for u, value in values.items()]
            pairs.append(("mean", estimates[labels[text]].value, mean(kept)))
        else:
            number = CHOICES_OF_ALL[name](log, shown, k)
            pairs.append(("all", estimates[labels[text]].value, number))
        for whom, found, wanted in pairs:
            if settled(found) != pytest.approx(wanted, abs=1e-11, rel=1e-11, nan_ok=True):
                wrong.append((text, whom, found, wanted))
    assert wrong == []


OF_ROWS = [
    "avg_popularity@3", "tail_share@3", "EFD@3", "popularity_quantile@3", "unexpectedness@3",
]  # fmt: skip


@pytest.mark.parametrize("order", ["by user", "scattered"])
def test_each_row_of_train_counts_where_that_is_asked(tmp_path, order):
    log = Log(3, repeats=False)
    assert sum(log.rows.values()) > log.popularity.total()
    if order == "scattered":
        log.train.sort(key=lambda row: (row[1] * 7 % 11, row[0]))
    labels, report = report_of(tmp_path, log, OF_ROWS, train_rows="rows")
    log.popularity = log.rows  # which nothing but popularity is made of

    for text in OF_ROWS:
        name, k = text.split("@")
        values = [OF_USERS[name](log, user, int(k)) for user in log.run]
        kept = [value for value in values if not math.isnan(value)]
        found = next(e for e in report.estimates if (e.metric, e.segment) == (labels[text], None))
        assert found.value == pytest.approx(mean(kept), rel=1e-12), text


@pytest.mark.parametrize("name", ["novelty@3", "EPC@3", "novelty_of_rows@3"])
def test_no_item_may_have_more_than_all_users(tmp_path, name):
    log = Log(3, repeats=False)
    log.train += [(5, 1)] * 40
    assert not math.isnan(report_of(tmp_path, log, [name])[1].estimates[0].value)
    with pytest.raises(DataError) as raised:
        report_of(tmp_path, log, [name], train_rows="rows")

    assert raised.value.code == "popularity-above-one"
