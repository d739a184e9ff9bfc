"""Training libraries as they are used, batch by batch: the digits of `evaluate` on the whole.

Each is skipped by its name where it is not installed. LightFM and RecBole install on few machines:
what their calls give is taken by its shape, and says so.
"""

import numpy as np
import pytest
from scipy import sparse

import evalkit

N_USERS, N_ITEMS = 40, 30
METRICS = ["nDCG@10", "recall@5", "RR"]
RANDOM = np.random.default_rng(1)
SCORES = RANDOM.random((N_USERS, N_ITEMS)).astype(np.float32)
TRUTH = {user: sorted({*RANDOM.integers(N_ITEMS, size=3).tolist()}) for user in range(N_USERS)}
SEEN = {user: [int(RANDOM.integers(N_ITEMS))] for user in range(N_USERS)}
BATCHES = np.array_split(RANDOM.permutation(N_USERS), 6)


def values(report):
    return {each.metric: each.value for each in report.estimates}


def whole(scores=SCORES, **more):
    return values(
        evalkit.evaluate(TRUTH, scores, metrics=METRICS, train=SEEN, drop_seen=True, **more)
    )


def test_torch_loop():
    torch = pytest.importorskip("torch")
    model = torch.nn.Embedding.from_pretrained(torch.tensor(SCORES), freeze=False)
    full = evalkit.Evaluation(TRUTH, metrics=METRICS, train=SEEN)
    top = evalkit.Evaluation(TRUTH, metrics=METRICS, train=SEEN)

    for users in map(torch.tensor, BATCHES):
        scores = model(users)
        full.update(users, scores=scores)
        found = scores.topk(N_ITEMS)
        top.update(users, found.indices, found.values)

    assert values(full.compute()) == values(top.compute()) == whole()


def test_lightning_callback():
    torch = pytest.importorskip("torch")
    lightning = pytest.importorskip("lightning")
    evaluation = evalkit.Evaluation(TRUTH, metrics=METRICS, train=SEEN, per_user=True)
    stopping = evalkit.EarlyStopping("nDCG@10", epochs=5, patience=1)
    reports = []

    class Model(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.scores = torch.nn.Embedding.from_pretrained(torch.tensor(SCORES), freeze=False)

        def training_step(self, users, number):
            return (self.scores(users) * 0).sum()

        def validation_step(self, users, number):
            return {"users": users, "scores": self.scores(users)}

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    class Ranking(lightning.Callback):
        def on_validation_epoch_start(self, trainer, model):
            evaluation.reset()

        def on_validation_batch_end(self, trainer, model, outputs, batch, number, loader=0):
            evaluation.update(outputs["users"], scores=outputs["scores"])

        def on_validation_epoch_end(self, trainer, model):
            reports.append(evaluation.compute())
            trainer.should_stop = stopping.update(reports[-1])

    loader = torch.utils.data.DataLoader(torch.arange(N_USERS), batch_size=7)
    trainer = lightning.Trainer(
        max_epochs=5, accelerator="cpu", callbacks=[Ranking()], num_sanity_val_steps=0,
        logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(Model(), loader, loader)

    assert values(reports[0]) == whole()
    assert len(reports) == 2  # the second epoch is no better


@pytest.mark.parametrize("of", ["als", "bpr"])
def test_implicit_models(of):
    implicit = pytest.importorskip("implicit")
    models = {
        "als": implicit.als.AlternatingLeastSquares,
        "bpr": implicit.bpr.BayesianPersonalizedRanking,
    }
    rows = [(user, item) for user, items in SEEN.items() for item in items]
    rows += [(user, (user * 7) % N_ITEMS) for user in range(N_USERS)]
    users, items = map(np.array, zip(*rows, strict=True))
    log = sparse.csr_matrix((np.ones(len(rows)), (users, items)), (N_USERS, N_ITEMS))
    model = models[of](factors=4, iterations=2, random_state=1, use_gpu=False)
    model.fit(log, show_progress=False)
    evaluation = evalkit.Evaluation(TRUTH, metrics=["nDCG@10", "recall@5"])

    for part in BATCHES:
        ids, scores = model.recommend(part, log[part], N=10)
        evaluation.update(part, ids, scores)

    ids, _ = model.recommend(np.arange(N_USERS), log, N=10)
    lists = dict(enumerate(ids.tolist()))
    expected = evalkit.evaluate(TRUTH, {"model": lists}, metrics=["nDCG@10", "recall@5"])
    assert values(evaluation.compute()) == values(expected)


def test_hugging_face_dataset():
    datasets = pytest.importorskip("datasets")
    truth = datasets.Dataset.from_dict(
        {
            "user": [user for user, items in TRUTH.items() for _ in items],
            "item": [item for items in TRUTH.values() for item in items],
        }
    )
    evaluation = evalkit.Evaluation(truth, metrics=METRICS, train=SEEN)

    for users in BATCHES:
        evaluation.update(users, scores=SCORES[users])

    assert values(evaluation.compute()) == whole()


def test_rows_as_lightfm_predicts_them():
    """`model.predict(users, items)` is an array beside two of ids, float32[n_users x n_items]."""
    evaluation = evalkit.Evaluation(TRUTH, metrics=METRICS, train=SEEN)

    for users in BATCHES:
        items = np.tile(np.arange(N_ITEMS), len(users))
        evaluation.update(users.repeat(N_ITEMS), items, SCORES[users].ravel())

    assert values(evaluation.compute()) == whole()


def test_scores_as_recbole_sorts_them():
    """`full_sort_scores` is a matrix with -inf at seen items and at column 0, which is padding."""
    padded = np.hstack([np.full((N_USERS, 1), -np.inf, np.float32), SCORES])
    for user, items in SEEN.items():
        padded[user, [item + 1 for item in items]] = -np.inf
    truth = {user: [item + 1 for item in items] for user, items in TRUTH.items()}
    evaluation = evalkit.Evaluation(truth, metrics=METRICS)

    for users in BATCHES:
        evaluation.update(users, scores=padded[users])

    assert values(evaluation.compute()) == whole()
