"""Batches of a training loop, in any order and of any library, are the whole that they make."""

import json
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy import sparse

import evalkit
from evalkit import Evaluation
from evalkit.errors import DataError, EvalkitError, RequestError
from evalkit.report import render

RANDOM = np.random.default_rng(4)
N_USERS, N_ITEMS = 12, 30
RELEVANT = (RANDOM.random((N_USERS, N_ITEMS)) < 0.2).astype(int)
SCORES = np.round(RANDOM.random((N_USERS, N_ITEMS)).astype(np.float32), 2)  # with ties
SEEN = ((RANDOM.random((N_USERS, N_ITEMS)) < 0.3) & (RELEVANT == 0)).astype(int)
METRICS = ["nDCG@5", "recall@{3,10}", "RR@10"]
ORDER = RANDOM.permutation(N_USERS)
PARTS = np.array_split(ORDER, 4)


class Tensor:
    """A tensor of another library, as far as it is looked at.

    Args:
        device: 1 where it lies in memory, 2 on a GPU.
    """

    def __init__(self, array: np.ndarray, device: int = 1, *, has_grad: bool = False) -> None:
        self.array, self.device, self.has_grad = np.ascontiguousarray(array), device, has_grad

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device, 0

    def __dlpack__(self, **asked: object) -> object:
        if self.has_grad or self.device != 1:
            raise BufferError("detach it, or bring it here")
        return self.array.__dlpack__(**asked)

    def detach(self) -> "Tensor":
        return Tensor(self.array, self.device)

    def cpu(self) -> "Tensor":
        return Tensor(self.array, has_grad=self.has_grad)


class Bfloat16(Tensor):
    """One of a type that NumPy lacks."""

    def __dlpack__(self, **asked: object) -> object:
        raise BufferError("bfloat16")

    def detach(self) -> "Bfloat16":
        return self

    def float(self) -> np.ndarray:
        return self.array


KINDS = {
    "numpy": lambda array: array,
    "cpu": Tensor,
    "gradients": lambda array: Tensor(array, has_grad=True),
    "gpu": lambda array: Tensor(array, 2, has_grad=True),
    "bfloat16": Bfloat16,
    "lists": lambda array: array.tolist(),
}


def numbers(report, without=("run_id", "run_key", "inputs", "meta", "name", "warnings")):
    return {
        key: value
        for key, value in json.loads(render(report, "json")).items()
        if key not in (*without, "counts")
    }


def whole(scores=SCORES, metrics=METRICS, **more):
    return evalkit.evaluate(RELEVANT, {"model": scores}, metrics=metrics, **more)


@pytest.mark.parametrize("kind", KINDS)
def test_matrices_of_all_items_in_any_order_are_the_whole(kind):
    make = KINDS[kind]
    evaluation = Evaluation(RELEVANT, metrics=METRICS)

    for users in PARTS:
        evaluation.update(make(users), scores=make(SCORES[users]))

    assert numbers(evaluation.compute()) == numbers(whole())


@pytest.mark.parametrize("metrics", [METRICS, ["AUC", "RR"]])
def test_sparse_matrices_and_metrics_of_whole_lists(metrics):
    some = np.where(SCORES > 0.5, SCORES, 0)
    evaluation = Evaluation(sparse.csr_matrix(RELEVANT), metrics=metrics)

    for users in PARTS:
        evaluation.update(users, scores=sparse.csr_array(some[users]))

    assert numbers(evaluation.compute()) == numbers(whole(sparse.csr_array(some), metrics))


@pytest.mark.parametrize("has_scores", [True, False])
@pytest.mark.parametrize("is_flat", [True, False])
def test_lists_with_and_without_scores_are_the_whole(has_scores, is_flat):
    top = np.argsort(-SCORES, axis=1, kind="stable")[:, :10]
    scores = np.take_along_axis(SCORES, top, axis=1)
    evaluation = Evaluation(RELEVANT, metrics=METRICS)

    for users in PARTS:
        given = [np.repeat(users, 10) if is_flat else users, top[users], scores[users]]
        given[1:] = [each.reshape(-1) if is_flat else each for each in given[1:]]
        evaluation.update(*(given if has_scores else given[:2]))

    ranked = dict(enumerate(top.tolist()))
    if has_scores:
        ranked = {
            u: dict(zip(top[u].tolist(), scores[u].tolist(), strict=True)) for u in range(N_USERS)
        }
    assert numbers(evaluation.compute()) == numbers(whole(ranked))


def test_what_train_holds_is_never_ranked_nor_what_is_minus_infinity():
    by_train = Evaluation(RELEVANT, metrics=METRICS, train=sparse.coo_matrix(SEEN))
    by_score = Evaluation(RELEVANT, metrics=METRICS)
    masked = np.where(SEEN > 0, -np.inf, SCORES)

    for users in PARTS:
        by_train.update(users, scores=Tensor(SCORES[users]))
        by_score.update(users, scores=masked[users])

    wanted = numbers(whole(masked))["metrics"]
    assert numbers(by_train.compute())["metrics"] == wanted
    assert numbers(by_score.compute())["metrics"] == wanted
    assert numbers(whole(train=SEEN, drop_seen=True))["metrics"] == wanted


def test_users_whose_scores_come_in_pieces_are_the_whole():
    evaluation = Evaluation(RELEVANT, metrics=METRICS)
    users, items = (each.reshape(-1) for each in np.indices(SCORES.shape))

    for part in np.array_split(RANDOM.permutation(users.size), 7):
        evaluation.update(users[part], items[part], SCORES.reshape(-1)[part])

    assert numbers(evaluation.compute()) == numbers(whole(metrics=METRICS))


def test_users_whose_lists_come_in_pieces_need_scores():
    for second in ([[3, 4]], [[1, 2, 3]], [[2, 1]]):
        evaluation = Evaluation({0: [1]}, metrics=["RR"])
        evaluation.update([0], [[1, 2]])
        evaluation.update([0], second)
        with pytest.raises(RequestError, match="user 0 came in several batches") as caught:
            evaluation.compute()
        assert caught.value.code == "user-split"


def test_pieces_with_ties_in_the_order_of_rows_are_refused():
    evaluation = Evaluation({0: [1]}, metrics=["RR"], policies={"ties": "input"})
    evaluation.update([0], [[1]], [[0.5]])
    assert evaluation.compute().value("RR") == 1.0
    evaluation.update([0], [[2]], [[0.5]])

    with pytest.raises(RequestError, match="order of rows") as caught:
        evaluation.compute()
    assert caught.value.code == "user-split"


@pytest.mark.parametrize("has_scores", [True, False])
def test_repeats_of_a_padding_sampler_count_once_and_are_told(has_scores):
    truth, lists = {0: [1], 1: [5]}, [[2, 1], [6, 7]]
    scores = np.array([[0.9, 0.5], [0.4, 0.3]], dtype=np.float32)
    ranks = [Evaluation(truth, metrics=["RR"]) for _ in range(2)]
    for rank, users in zip(ranks, ([0, 1], [1, 0]), strict=True):
        noise = np.float32(1 + 1e-7 * users[0])
        given = [lists[user] for user in users], scores[users] * noise
        rank.update(users, *(given if has_scores else given[:1]))

    ranks[0].merge(ranks[1].to_bytes())
    report = ranks[0].compute()

    (told,) = [each.message for each in report.warnings if each.code == "repeated-rows"]
    assert told.startswith("4 of 8 rows came again")
    assert report.value("RR") == 0.25
    assert report.estimates[0].n_users == 2


def test_an_item_with_two_scores_is_refused():
    evaluation = Evaluation({0: [1]}, metrics=["RR"])
    for score in (0.5, 0.6):
        evaluation.update([0], [[1]], [[score]])

    with pytest.raises(DataError, match=r"user 0, item 1, 0\.5 and 0\.6") as caught:
        evaluation.compute()
    assert caught.value.code == "scores-disagree"


def test_processes_merge_their_bytes_in_any_order():
    parts = [Evaluation(RELEVANT, metrics=METRICS, train=SEEN) for _ in PARTS]
    for part, users in zip(parts, PARTS, strict=True):
        part.update(users, scores=SCORES[users])
    packed = [part.to_bytes() for part in parts] + [
        Evaluation(RELEVANT, metrics=METRICS, train=SEEN).to_bytes()
    ]

    reports = []
    for order in (packed, packed[::-1]):
        merged = Evaluation(RELEVANT, metrics=METRICS, train=SEEN)
        for content in order:
            merged.merge(content)
        reports.append(numbers(merged.compute()))

    assert reports[0] == reports[1] == numbers(whole(train=SEEN, drop_seen=True))


@pytest.mark.parametrize(
    ("other", "code"),
    [
        (lambda: Evaluation(RELEVANT, metrics=["RR"]), "foreign-partial"),
        (lambda: Evaluation(1 - RELEVANT, metrics=METRICS), "foreign-partial"),
        (lambda: Evaluation(RELEVANT, metrics=METRICS, threshold=2), "foreign-partial"),
        (lambda: b"nothing", "not-a-partial"),
        (lambda: Evaluation(RELEVANT, metrics=METRICS).to_bytes()[:-1], "damaged-partial"),
    ],
)
def test_what_is_of_something_else_is_not_merged(other, code):
    with pytest.raises(EvalkitError) as caught:
        Evaluation(RELEVANT, metrics=METRICS).merge(other())

    assert caught.value.code == code


@pytest.mark.parametrize(
    ("given", "code"),
    [
        (([0, 1], [[1, 2]]), "bad-matrix"),
        (([0], [[1, 2]], [[0.5]]), "bad-matrix"),
        (([0, 1], [[1, 2], [1]]), "bad-matrix"),
        (([0], None, [[0.5, 0.4], [0.3, 0.2]]), "bad-matrix"),
        (([0], [[1, 1]]), "duplicate-item"),
        (([0], [[0.5, 0.4]]), "two-readings"),
        (([0], [[1, 2]], [["a", "b"]]), "bad-type"),
        (([0],), "missing-key"),
        ((["ann"], [[1]], [[0.5]]), "bad-type"),
    ],
)
def test_batches_that_do_not_fit_are_refused(given, code):
    evaluation = Evaluation({0: [1]}, metrics=["RR"])
    evaluation.update([5], [[1]], [[0.5]])

    with pytest.raises(EvalkitError) as caught:
        evaluation.update(*given)

    assert caught.value.code == code


def test_a_wrong_request_is_refused_before_the_first_epoch():
    for asked, code in (
        ({"metrics": ["ndgc@2"]}, "unknown-metric"),
        ({"metrics": "nDCG@2"}, "wrong-type"),
        ({"metrics": ["RR"], "policies": {"ties": "no"}}, "unknown-choice"),
    ):
        with pytest.raises(EvalkitError) as caught:
            Evaluation({0: [1]}, **asked)
        assert caught.value.code == code
    with pytest.raises(TypeError, match="unexpected keyword argument 'threshhold'"):
        Evaluation({0: [1]}, metrics=["RR"], threshhold=3)
    with pytest.raises(EvalkitError, match="not 1 or more"):
        evalkit.EarlyStopping("RR", epochs=0)


def test_nothing_is_computed_of_no_batch_and_reset_forgets():
    evaluation = Evaluation({0: [1]}, metrics=["RR"])
    evaluation.update([0], [[1]])
    evaluation.reset()

    with pytest.raises(EvalkitError) as caught:
        evaluation.compute()
    assert caught.value.code == "no-rankings"


def test_ids_are_those_of_the_truth_and_later_changes_of_a_batch_change_nothing():
    truth = pl.DataFrame({"user": ["ann", "bob"], "item": ["x", "y"]})
    evaluation = Evaluation(truth, metrics=["RR"], item_ids=["x", "y", "z"], model="als")
    scores = np.array([[0.3, 0.2, 0.9], [0.1, 0.4, 0.2]])

    evaluation.update(["ann", "bob"], scores=scores)
    scores[:] = 0

    report = evaluation.compute()
    assert report.models == ("als",)
    assert report.value("RR") == 0.75


def test_the_page_runs():
    page = (Path(__file__).parent.parent / "docs" / "training.md").read_text(encoding="utf-8")
    names = {"__name__": "page"}
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(compile(block, "training.md", "exec"), names)
    assert names["stopping"].best == 1


# ---------------------------------------------------------------- stopping early


def epoch_of(n_right, n_users=200, **more):
    users = np.arange(n_users)
    evaluation = Evaluation(
        {int(u): [int(u)] for u in users}, metrics=["recall@1"], per_user=True, **more
    )
    evaluation.update(users, np.where(users < n_right, users, -1)[:, None])
    return evaluation.compute()


def test_training_stops_when_no_epoch_is_clearly_better():
    stopping = evalkit.EarlyStopping("recall@1", epochs=20, patience=2)

    stops = [stopping.update(epoch_of(n)) for n in (50, 100, 101, 150, 149, 151)]

    assert stops == [False] * 5 + [True]
    assert [each.best for each in stopping.history] == [1, 2, 2, 4, 4, 4]
    assert stopping.history[3].delta == 0.25
    assert stopping.report.value("recall@1") == 0.75
    (told,) = [each for each in stopping.report.warnings if each.code == "chosen-on-this-data"]
    assert told.message.startswith("epoch 4 of 6 was chosen on this data")


def test_the_level_is_that_of_all_declared_epochs():
    few, many = (evalkit.EarlyStopping("recall@1", epochs=n) for n in (2, 1000))
    for stopping in (few, many):
        stopping.update(epoch_of(100))
        stopping.update(epoch_of(107))

    assert (few.best, many.best) == (2, 1)
    assert few.history[1].low > 0 > many.history[1].low


def test_it_needs_values_of_users_and_no_more_epochs_than_declared():
    stopping = evalkit.EarlyStopping("recall@1", epochs=1)
    with pytest.raises(EvalkitError) as caught:
        stopping.update(whole())
    assert caught.value.code == "per-user-off"
    assert stopping.update(epoch_of(3))
    with pytest.raises(EvalkitError) as caught:
        stopping.update(epoch_of(3))
    assert caught.value.code == "more-epochs"


def test_an_own_metric_decides_too():
    def first_is_right(relevances):
        return float(relevances[:1].sum())

    truth = {user: [user] for user in range(100)}
    stopping = evalkit.EarlyStopping("first_is_right", epochs=3)
    for n_right in (10, 90):
        evaluation = Evaluation(truth, metrics=[first_is_right], per_user=True)
        evaluation.update(range(100), [[user if user < n_right else 777] for user in range(100)])
        stopping.update(evaluation.compute())

    assert stopping.best == 2


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"epochs": 2.5}, "wrong-type"),
        ({"epochs": 5, "patience": 0}, "bad-value"),
        ({"epochs": 5, "level": 95}, "out-of-range"),
        ({"epochs": 5, "level": 0}, "out-of-range"),
    ],
)
def test_what_early_stopping_cannot_mean_is_refused(asked, code):
    with pytest.raises(evalkit.EvalkitError) as caught:
        evalkit.EarlyStopping("RR", **asked)

    assert caught.value.code == code


def test_an_epoch_without_a_value_is_not_the_best():
    truth = {user: [user] for user in range(60)}
    stopping = evalkit.EarlyStopping("first_hit_rank", epochs=9, patience=2)

    for n_right in (0, 30, 0, 30):
        evaluation = evalkit.Evaluation(truth, metrics=["first_hit_rank"], per_user=True)
        lists = [[user if user < n_right else -1] for user in truth]
        evaluation.update(list(truth), lists)
        stops = stopping.update(evaluation.compute())

    assert (stops, stopping.best) == (True, 2)
    assert stopping.report.value("first_hit_rank") == 1.0
