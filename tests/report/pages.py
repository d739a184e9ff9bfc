"""Reports for the page's tests: everything that one can hold, and the largest one promised."""

import random

from evalkit.report import (
    Comparison,
    Counts,
    Curve,
    Distribution,
    Estimate,
    Gate,
    Graph,
    Input,
    Meta,
    ModelCounts,
    Report,
    Standing,
    StatisticsUsed,
    TruthCounts,
    Warning_,
)

METRICS = ("nDCG", "recall", "precision", "AP", "hit")
CUTOFFS = (5, 10, 20, 50)


def gate(metric: str, model: str, outcome: str, **more: object) -> Gate:
    fields = {
        "segmentation": None,
        "segment": None,
        "kind": "max_drop",
        "bound": 0.002,
        "value": 0.11,
        "delta": -0.001,
        "low": -0.0015,
        "high": -0.0005,
        "baseline": "last",
        "baseline_run": "20261120-030000-000-aaaaaa",
        "judged_by": "paired",
        "n_users": 48_000,
        "fails": outcome != "pass",
        "message": f"{metric} of {model} fell by 0.0010 (0.0005 … 0.0015), allowed drop: 0.0020",
    }
    return Gate(metric=metric, model=model, outcome=outcome, **{**fields, **more})


def page_report(
    n_models: int = 4, n_segments: int = 6, n_metrics: int = 20, name: str = "nightly-als"
) -> Report:
    """A report of `n_models`, whose metrics, segments, gates and curves look like real ones."""
    rng = random.Random(7)
    models = ["popularity", "item-knn", "als", "ease", "two-tower", "sasrec", "bert4rec"]
    models += [f"candidate-{number}" for number in range(n_models)]
    models = models[:n_models]
    labels = [f"{metric}@{cutoff}" for metric in METRICS for cutoff in CUTOFFS][:n_metrics]
    quality = {model: 0.08 + 0.012 * place for place, model in enumerate(models)}

    def estimate(model: str, label: str, rule: str | None, segment: str | None, users: int):
        metric, _, cutoff = label.partition("@")
        value = quality[model] * (1 + METRICS.index(metric)) * (0.7 + int(cutoff) / 60)
        value *= 1.0 if segment is None else rng.uniform(0.7, 1.3)
        half = 0.9 / users**0.5
        return Estimate(
            model=model,
            metric=label,
            name=metric,
            cutoff=int(cutoff),
            parameters={},
            value=value,
            low=value - half,
            high=value + half,
            std_error=half / 1.96,
            n_users=users,
            n_undefined=12,
            segmentation=rule,
            segment=segment,
        )

    segments = [("country", f"country {number:02}") for number in range(n_segments)]
    if n_segments > 4:
        segments[:4] = [("activity", each) for each in ("new", "casual", "regular", "heavy")]
    estimates = [estimate(model, label, None, None, 48_210) for model in models for label in labels]
    estimates += [
        estimate(model, label, rule, segment, rng.randint(300, 6_000))
        for rule, segment in segments
        for model in models
        for label in labels
    ]
    comparisons = [
        Comparison(
            baseline=baseline,
            candidate=model,
            metric=label,
            segmentation=None,
            segment=None,
            delta=(delta := quality[model] - quality[baseline] + rng.uniform(-0.01, 0.01)),
            std_error=0.002,
            low=delta - 0.004,
            high=delta + 0.004,
            relative=delta / quality[baseline],
            relative_low=None,
            relative_high=None,
            p_value=0.01,
            p_adjusted=0.03 if abs(delta) > 0.004 else 0.4,
            effect_size=0.1,
            test="t",
            n_users=48_000,
            wins=9_000,
            ties=30_000,
            losses=9_000,
            margin=None,
            verdict="cannot tell" if abs(delta) < 0.004 else "better" if delta > 0 else "worse",
            smallest_difference=0.002,
            users_needed=None,
        )
        for place, baseline in enumerate(models)
        for model in models[place + 1 :]
        for label in labels
    ]
    counts = ModelCounts(
        rows=2_410_500,
        rows_used=2_400_000,
        rows_dropped={"null_id": 500, "unknown_user": 10_000, "bad_score": 0},
        users=48_210,
        users_without_ranking=31,
        users_without_truth=200,
        duplicates=2,
        duplicates_searched="relevant",
        seen_in_train=17,
        bad_ranks=1,
        ties=0,
        depth=50,
    )
    steps = [number / 20 for number in range(21)]
    cutoffs = tuple(range(1, 101))
    return Report(
        evalkit="0.1.0",
        run_id="20261121-030405-678-abcdef",
        run_key="0123456789abcdef0123456789abcdef",
        name=name,
        profile="evalkit",
        inputs=(
            Input("truth", None, ("logs/interactions/day=2026-11-20/",), 402_113, "f" * 32),
            *(Input("rankings", each, (f"logs/{each}/",), 2_410_500, "a" * 32) for each in models),
        ),
        counts=Counts(
            TruthCounts(402_113, 402_100, {"null_id": 13}, 48_241, 19, 371_004),
            dict.fromkeys(models, counts),
        ),
        estimates=tuple(estimates),
        meta=Meta(
            "2026-11-21T03:04:05.678Z", 3.21, 5.9, 812 << 20, 3.1e6, 2,
            {"truth": 0.5, "probe": 2.2}, {"evalkit": "0.1.0", "polars": "2.1.0"},
        ),
        comparisons=tuple(comparisons),
        gates=(
            gate(labels[0], models[-1], "pass"),
            gate(labels[1], models[0], "fail"),
            gate(labels[0], models[0], "cannot tell", segmentation="activity", segment="new"),
        ),
        warnings=(Warning_("cutoff-beyond-depth", "recall@50 needs 50 ranks", models[0]),),
        statistics=StatisticsUsed(
            level=0.95, method="normal", test="t", correction="holm", family="metric", n_tests=12,
            baseline=models[0], power=0.8,
        ),
        standings=(
            Standing(
                labels[0],
                tuple(
                    (model, quality[model], "abcdefghij"[place // 2])
                    for place, model in enumerate(reversed(models))
                ),
            ),
        ),
        curves=tuple(
            Curve(
                model,
                metric,
                cutoffs,
                tuple(quality[model] * scale * (0.5 + each / 160) for each in cutoffs),
                tuple(quality[model] * scale * (0.5 + each / 160) - 0.004 for each in cutoffs),
                tuple(quality[model] * scale * (0.5 + each / 160) + 0.004 for each in cutoffs),
            )
            for scale, metric in enumerate(METRICS, start=1)
            for model in models
        ),
        distributions=tuple(
            Distribution(
                model, label, tuple(steps), tuple(rng.randint(0, 4_000) for _ in range(20))
            )
            for label in labels
            for model in models
        ),
        graphs=tuple(
            Graph(
                model, "roc", "false positive rate", "true positive rate",
                tuple(each / 200 for each in range(201)),
                tuple((each / 200) ** 0.5 for each in range(201)),
            )
            for model in models
        ),
        config={"name": name, "truth": {"path": ["logs/interactions/day=2026-11-20/"]}},
    )  # fmt: skip
