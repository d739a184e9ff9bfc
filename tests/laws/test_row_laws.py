"""Laws of every metric of ratings and of labels, also of those that are yet to come."""

import math

import polars as pl
import pytest
from campaigns import examples
from hypothesis import given, settings
from hypothesis import strategies as st

import evalkit
from evalkit.metrics import registry_of

laws = settings(deadline=None, max_examples=examples(8))
EIGHTHS = st.integers(0, 8)  # exact in binary, and so is 1 less them; many are equal
LABELED = st.lists(
    st.tuples(st.integers(1, 3), EIGHTHS, st.integers(0, 1), st.integers(0, 3)),
    min_size=1,
    max_size=12,
)
RATED = st.lists(
    st.tuples(st.integers(1, 3), st.integers(1, 10), st.integers(-4, 12)), min_size=1, max_size=12
)


def names_of(kind):
    """Every metric, each of its choices, and it over users, as far as these tables allow."""
    found = []
    for metric in registry_of(kind).values():
        found.append(metric.request().label)
        has_users = any(each.name == "over" for each in metric.parameters)
        for parameter in metric.parameters:
            is_of_users = has_users and parameter.name != "at"  # chosen on all rows
            around = {"over": "users"} if is_of_users else {}
            found.extend(
                metric.request(None, **{**around, parameter.name: choice}).label
                for choice in parameter.choices[1:]
                if choice != "sessions"
            )
    return list(dict.fromkeys(found))


NAMES = {kind: names_of(kind) for kind in ("ratings", "labels")}
LIMITED = [  # exist of numbers above a bound alone
    name
    for name in NAMES["ratings"]
    if registry_of("ratings")[name.partition("(")[0]].domain is not None
]
NAMES["ratings"] = [name for name in NAMES["ratings"] if name not in LIMITED]
SUMS = ("Minkowski",)  # grow with rows, as counts do
OF_SCALE = ("log-cosh", "within-tolerance", "threat-score")  # know a size of ratings

COUNTS = ("TP", "FP", "TN", "FN")  # grow with rows


def but(names, others):
    return [name for name in names if name.partition("(")[0] not in others]


def labels_of(rows):
    frame = pl.DataFrame(rows, schema=["user", "score", "label", "weight"], orient="row")
    return frame.with_columns(pl.col("score") / 8)


def ratings_of(rows):
    frame = pl.DataFrame(rows, schema=["user", "rating", "prediction"], orient="row")
    return frame.with_columns(pl.col("rating") / 2, pl.col("prediction") / 2)


def measure(frame, kind, names=None, *, weighted=False, threads=1):
    asked = list(names or NAMES[kind])
    if kind == "ratings":
        report = evalkit.evaluate_ratings(frame, metrics=asked, threads=threads)
    else:
        columns = {"weight": "weight"} if weighted else {}
        report = evalkit.evaluate_labels(frame, metrics=asked, columns=columns, threads=threads)
    return {each.metric: each.value for each in report.estimates}


def assert_close(found, expected, names=None):
    for name in names or expected:
        assert found[name] == pytest.approx(expected[name], rel=1e-12, abs=1e-12, nan_ok=True), name


def assert_in_bounds(values, kind):
    metrics = registry_of(kind)
    for name, value in values.items():
        low, high = metrics[_bare(name, metrics)].bounds
        assert math.isnan(value) or low <= value <= high, (name, value)


def _bare(name, metrics):
    bare = name.partition("(")[0]
    return "F" if bare not in metrics and bare.startswith("F") else bare


def over_rows(name):
    """The same metric over all rows."""
    return name.replace("over='users', ", "").replace("(over='users')", "")


# ---------------------------------------------------------------- labels


@laws
@given(LABELED)
def test_labels_stay_inside_bounds(rows):
    assert_in_bounds(measure(labels_of(rows), "labels"), "labels")


@laws
@given(LABELED)
def test_weighted_labels_stay_inside_bounds(rows):
    assert_in_bounds(measure(labels_of(rows), "labels", weighted=True), "labels")


@laws
@given(LABELED, st.lists(st.floats(-1e300, 1e300), min_size=9, max_size=9, unique=True))
def test_areas_depend_on_the_order_of_scores_alone(rows, levels):
    areas = [name for name in NAMES["labels"] if "AUC" in name]
    frame = labels_of(rows)
    steps = dict(zip((each / 8 for each in range(9)), sorted(levels), strict=True))
    moved = frame.with_columns(pl.col("score").replace_strict(steps, return_dtype=pl.Float64))

    assert_close(measure(moved, "labels", areas), measure(frame, "labels", areas))


@laws
@given(LABELED)
def test_areas_are_the_same_of_turned_scores_and_labels(rows):
    areas = ["AUC", "AUC(ties='lost')", "GAUC", "AUC(over='users')"]
    frame = labels_of(rows)
    turned = frame.with_columns(-pl.col("score"), label=1 - pl.col("label"))

    assert measure(turned, "labels", areas) == pytest.approx(
        measure(frame, "labels", areas), nan_ok=True
    )


TURNED = {
    "Brier": "Brier",
    "log-loss": "log-loss",
    "normalised-entropy": "normalised-entropy",
    "accuracy": "accuracy(rule='above')",
    "recall(threshold=0.25)": "specificity(threshold=0.75, rule='above')",
    "specificity": "recall(rule='above')",
    "balanced-accuracy(threshold=0.125)": "balanced-accuracy(threshold=0.875, rule='above')",
    "MCC": "MCC(rule='above')",
}


@laws
@given(LABELED)
def test_kinds_of_labels_change_places(rows):
    frame = labels_of(rows)
    turned = frame.with_columns(score=1 - pl.col("score"), label=1 - pl.col("label"))

    found = measure(turned, "labels", TURNED.values())
    expected = measure(frame, "labels", TURNED)
    for name, other in TURNED.items():
        assert found[other] == pytest.approx(expected[name], rel=1e-12, nan_ok=True), name


@laws
@given(LABELED)
def test_a_whole_weight_is_so_many_rows(rows):
    repeated = [row for row in rows for _ in range(row[3])]
    if not repeated:
        return
    weighted = measure(labels_of(rows), "labels", weighted=True)
    found = measure(labels_of(repeated), "labels")

    alone = {row[0] for row in rows} == {row[0] for row in repeated}
    names = [name for name in found if alone or "users" not in name]
    # rows of weight 0 offer thresholds too, of which the highest of equals counts
    of_scores = [name for name in names if "at='best'" in name or name.startswith("threshold(")]
    assert_close(found, weighted, [name for name in names if name not in of_scores])


@laws
@given(LABELED, st.integers(-100, 100))
def test_the_scale_of_weights_does_not_matter(rows, power):
    frame = labels_of(rows)
    scaled = frame.with_columns(pl.col("weight") * 2.0**power)

    assert_close(
        measure(scaled, "labels", weighted=True),
        measure(frame, "labels", weighted=True),
        [name for name in but(NAMES["labels"], COUNTS) if "at='best'" not in name],
    )


@laws
@given(LABELED)
def test_a_log_that_is_there_twice_says_the_same(rows):
    found, expected = (measure(labels_of(each), "labels") for each in (rows * 2, rows))
    assert_close(found, expected, but(expected, COUNTS))


@laws
@given(LABELED, st.randoms())
def test_no_order_of_labels_moves_a_bit(rows, random):
    mixed = random.sample(rows, len(rows))

    found = measure(labels_of(mixed), "labels", weighted=True, threads=2)
    expected = measure(labels_of(rows), "labels", weighted=True)
    assert {k: v.hex() for k, v in found.items()} == {k: v.hex() for k, v in expected.items()}


@laws
@given(LABELED)
def test_one_user_is_all_rows(rows):
    frame = labels_of(rows).with_columns(user=1)
    names = [name for name in NAMES["labels"] if "over='users'" in name]
    pairs = {
        name: name.replace("over='users', ", "").replace("(over='users')", "") for name in names
    }

    found = measure(frame, "labels", [*pairs, *dict.fromkeys(pairs.values())])
    for name, other in pairs.items():
        if "weighting='positives'" not in name:
            assert found[name] == pytest.approx(found[other], rel=1e-12, nan_ok=True), name


# ---------------------------------------------------------------- ratings


@laws
@given(RATED)
def test_ratings_stay_inside_bounds_and_in_their_order(rows):
    values = measure(ratings_of(rows), "ratings")

    assert_in_bounds(values, "ratings")
    assert values["RMSE"] >= values["MAE"] * (1 - 1e-15) >= abs(values["bias"]) * (1 - 1e-14)
    if not math.isnan(values["R2"]):
        assert values["explained-variance"] >= values["R2"]


@laws
@given(RATED, st.integers(-20, 20))
def test_a_constant_moves_the_bias_and_no_explained_variance(rows, constant):
    frame = ratings_of(rows)
    moved = frame.with_columns(pl.col("prediction") + constant)

    found, before = measure(moved, "ratings"), measure(frame, "ratings")
    assert found["bias"] == pytest.approx(before["bias"] + constant, abs=1e-14)
    assert_close(found, before, [name for name in before if name.startswith("explained-variance")])


LINEAR = ("MAE", "RMSE", "bias", "max-error", "median-error", "pinball", "Minkowski")
POWERS = {**dict.fromkeys(LINEAR, 1), "MSE": 2}


@laws
@given(RATED, st.sampled_from([0.25, 2.0, 2.0**300, 2.0**-300]))
def test_the_unit_of_ratings_moves_errors_and_no_relatives(rows, factor):
    frame = ratings_of(rows)
    scaled = frame.with_columns(pl.col("rating") * factor, pl.col("prediction") * factor)

    found, before = measure(scaled, "ratings"), measure(frame, "ratings")
    for name in but(before, OF_SCALE):
        value = before[name]
        power = POWERS.get(name.partition("(")[0], 0)
        expected = value * factor**power
        assert found[name] == pytest.approx(expected, rel=1e-12, abs=0, nan_ok=True), name


@laws
@given(RATED)
def test_turned_signs_turn_the_bias_alone(rows):
    frame = ratings_of(rows)

    found, before = (
        measure(frame.with_columns(-pl.col("rating", "prediction")), "ratings"),
        measure(frame, "ratings"),
    )
    for name in but(before, ("threat-score",)):
        value = before[name]
        expected = -value if name.startswith("bias") else value
        assert found[name] == pytest.approx(expected, rel=1e-12, abs=1e-14, nan_ok=True), name


@laws
@given(RATED)
def test_ratings_that_are_there_twice_say_the_same(rows):
    found, before = (measure(ratings_of(each), "ratings") for each in (rows * 2, rows))

    names = [
        name
        for name in but(before, SUMS)
        if not name.startswith(("R2(over", "relative-squared-error(over", "D2-pinball("))
        and not any(each in name for each in ("'sample'", "'l2'"))
    ]
    assert_close(found, before, names)


@laws
@given(RATED, st.sampled_from([1.0, 0.25, 4.0]))
def test_metrics_of_numbers_above_a_bound_keep_the_laws_there(rows, factor):
    frame = ratings_of([(user, rating, abs(guess) + 1) for user, rating, guess in rows])
    frame = frame.with_columns(pl.col("rating", "prediction") * factor)

    values = measure(frame, "ratings", LIMITED, threads=2)
    assert_in_bounds(values, "ratings")
    mixed = measure(frame.reverse(), "ratings", LIMITED)
    assert {k: v.hex() for k, v in values.items()} == {k: v.hex() for k, v in mixed.items()}
    alone = measure(frame.with_columns(user=1), "ratings", LIMITED)
    for name, value in alone.items():
        expected = pytest.approx(alone[over_rows(name)], rel=1e-9, abs=1e-12, nan_ok=True)
        assert value == expected, name


@laws
@given(RATED, st.randoms())
def test_no_order_of_ratings_moves_a_bit(rows, random):
    mixed = random.sample(rows, len(rows))

    found = measure(ratings_of(mixed), "ratings", threads=2)
    expected = measure(ratings_of(rows), "ratings")
    assert {k: v.hex() for k, v in found.items()} == {k: v.hex() for k, v in expected.items()}


@laws
@given(RATED)
def test_one_user_has_the_errors_of_all_rows(rows):
    values = measure(ratings_of([(1, *row[1:]) for row in rows]), "ratings")

    for name, value in values.items():
        if "over='users'" in name:
            other = values.get(over_rows(name), value)
            assert value == pytest.approx(other, rel=1e-12, abs=1e-14, nan_ok=True), name


# ---------------------------------------------------------------- numbers at the edges


def test_infinite_scores_order_as_numbers():
    frame = pl.DataFrame({"user": [1] * 4, "score": [math.inf, 1.0, 1e308, -math.inf]})
    frame = frame.with_columns(label=pl.Series([1, 0, 1, 0]))

    assert measure(frame, "labels", ["AUC", "PR-AUC", "recall"])["AUC"] == 1.0


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_ratings_that_are_no_numbers_are_refused(value):
    frame = pl.DataFrame({"user": [1, 1], "rating": [1.0, 2.0], "prediction": [1.0, value]})

    with pytest.raises(evalkit.EvalkitError) as caught:
        evalkit.evaluate_ratings(frame, metrics=["MAE"])

    assert caught.value.code == "bad-score"


def test_every_metric_and_choice_is_in_these_laws():
    for kind, names in NAMES.items():
        n_names = len(names) + (len(LIMITED) if kind == "ratings" else 0)
        assert n_names >= 2 * len(registry_of(kind))
        assert len(set(names)) == len(names)
