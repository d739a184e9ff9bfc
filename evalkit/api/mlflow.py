"""Rankings in `mlflow.models.evaluate(..., model_type="ranker", evaluators="evalkit")`.

A row is one user, or one query: its targets are the relevant items (a list, or a mapping to
relevance), its predictions the ranked ones (a list from best to worst, or a mapping to scores).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from evalkit.errors import RequestError
from evalkit.jobs.mlflow import log_numbers

if TYPE_CHECKING:
    from mlflow.models import EvaluationResult

MODEL_TYPE = "ranker"
METRICS = ("nDCG@10", "recall@10", "AP@10", "RR")


class Evaluator:
    """What MLflow asks of an evaluator; it is registered as `evalkit`."""

    @classmethod
    def can_evaluate(cls, *, model_type: str | None, **_: object) -> bool:
        """Whether it is a ranker's lists that are to be judged."""
        return model_type == MODEL_TYPE

    def evaluate(
        self,
        *,
        dataset: Any,
        run_id: str,
        evaluator_config: Mapping[str, Any] | None = None,
        model: Any = None,
        **_: object,
    ) -> EvaluationResult:
        """Numbers as `model/nDCG_at_10`, and the page as an artifact.

        Args:
            evaluator_config: `model`, its name in the report, and arguments of `evalkit.evaluate`,
                `metrics` among them.
        Raises:
            RequestError: there are no targets or predictions [missing-key]; as evalkit.evaluate.
        """
        from mlflow.models import EvaluationResult
        from mlflow.tracking import MlflowClient

        from evalkit.api import evaluate

        options = {"metrics": METRICS, **(evaluator_config or {})}
        name = str(options.pop("model", "model"))
        ranked = dataset.predictions_data
        if ranked is None and model is not None:
            ranked = model.predict(dataset.features_data)
        if ranked is None or dataset.labels_data is None:
            message = "MLflow gave no targets, or neither predictions nor a model"
            hint = 'mlflow.models.evaluate(data=table, targets="relevant", predictions="ranked")'
            raise RequestError(message, code="missing-key", at="mlflow.models.evaluate", hint=hint)
        report = evaluate(_by_row(dataset.labels_data), {name: _by_row(ranked)}, **options)
        client = MlflowClient()
        numbers = log_numbers(client, run_id, report)
        client.log_text(run_id, report.to_html(), "evalkit/report.html")
        client.log_text(run_id, report.to_json(), "evalkit/report.json")
        return EvaluationResult(numbers, {}, run_id)


def _by_row(lists: Any) -> dict[int, Any]:
    """Lists by the number of their row, as Python's own."""
    plain = (each.tolist() if hasattr(each, "tolist") else each for each in list(lists))
    return dict(enumerate(plain))
