"""What the gates of a run came to, in a word, a line, and Prometheus' text format."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from evalkit.errors import clean
from evalkit.report.entries import Estimate, Gate, ModelCounts, TruthCounts
from evalkit.report.record import Report, readable
from evalkit.report.text import count_noun, show_values

_Samples = list[tuple[Sequence[tuple[str, str]], float | None]]

PASS, FAIL, UNCLEAR = "pass", "fail", "cannot tell"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Gates by outcome; `failed` counts those that end a run with status 1."""

    passed: int
    broken: int
    unclear: int
    failed: int
    warnings: int

    @property
    def is_fine(self) -> bool:
        """Whether no gate failed, one that cannot tell and shall fail then included."""
        return not self.failed

    @property
    def word(self) -> str:
        """`fine` or `failed`."""
        return "fine" if self.is_fine else "failed"

    def __str__(self) -> str:
        counts = [
            f"{number} {word}"
            for number, word in (
                (self.broken, "failed"),
                (self.unclear, "cannot tell"),
                (self.passed, "passed"),
            )
            if number
        ]
        total = self.passed + self.broken + self.unclear
        gates = f"{count_noun(total, 'gate')}: {', '.join(counts)}" if counts else ""
        parts = [self.word, gates or "no gate configured"]
        if self.warnings:
            parts.append(count_noun(self.warnings, "warning"))
        return ", ".join(parts)


def is_first(report: Report) -> bool:
    """Whether gates failed for want of what they compare with, and none for another reason.

    That is a run, or in the last that passed the number, measured alike. Such a run may be the one
    that later runs are compared with; otherwise there never is one.
    """
    failed = [each for each in report.gates if each.fails]
    return bool(failed) and all(
        each.outcome == UNCLEAR
        and each.value is not None
        and each.baseline is not None
        and each.baseline not in report.models
        and (each.baseline_run is None or (each.baseline == "last-passed" and each.delta is None))
        and (each.judged_by == "bound" or each.kind == "max_change")  # not on too few rounds
        for each in failed
    )


def verdict_of(report: Report) -> Verdict:
    """The verdict over all gates of a report."""
    outcomes = [each.outcome for each in report.gates]
    return Verdict(
        passed=outcomes.count(PASS),
        broken=outcomes.count(FAIL),
        unclear=outcomes.count(UNCLEAR),
        failed=sum(each.fails for each in report.gates),
        warnings=len(report.warnings),
    )


def summarize(report: Report, *, path: str = "") -> str:
    """One line for a chat or a subject: name, verdict, each model's primary metric, what failed."""
    parts = [f"{clean(report.name)}: {verdict_of(report)}"]
    label = report.leading[0] if report.labels else ""
    chosen = [
        each for each in report.estimates if each.metric == label and each.segmentation is None
    ]
    if chosen:
        shown = show_values([each.value for each in chosen])
        values = ", ".join(
            f"{clean(each.model)} {text}" for each, text in zip(chosen, shown, strict=True)
        )
        parts.append(f"{clean(label)}: {values}")
    parts += [clean(each.message) for each in report.gates if each.fails]
    parts.append(f"{report.meta.seconds:.1f} s")
    return " | ".join([*parts, *([clean(path)] if path else [])])


def render_prometheus(report: Report) -> str:
    """The run in Prometheus' text format, for node_exporter's textfile collector.

    Undefined numbers are NaN. Gates are 1 passed, 0 failed, -1 cannot tell.
    """
    job = ("job_name", report.name)
    verdict = verdict_of(report)
    started = datetime.fromisoformat(report.meta.started.replace("Z", "+00:00")).timestamp()
    families: list[tuple[str, str, _Samples]] = [
        ("info", "The last run.", [([job, ("run_id", report.run_id)], 1)]),
        ("start_timestamp_seconds", "When the last run began.", [([job], started)]),
        ("duration_seconds", "What the last run took.", [([job], report.meta.seconds)]),
        ("peak_bytes", "Memory of the last run.", [([job], report.meta.peak_bytes)]),
        ("fine", "1 where no gate failed.", [([job], verdict.is_fine)]),
        ("warnings", "Warnings of the last run.", [([job], verdict.warnings)]),
    ]
    for name, help_text in (
        ("value", "A metric of a model."),
        ("low", "Lower limit of its interval."),
        ("high", "Upper limit of its interval."),
    ):
        found: _Samples = [
            (
                [job, *_labels(each, "model", "metric", "segmentation", "segment")],
                getattr(each, name),
            )
            for each in report.estimates
        ]
        families.append((f"metric_{name}", help_text, found))
    rows: _Samples = []
    dropped: _Samples = []
    of_models = report.counts.models.items()
    logs: list[tuple[str, str, TruthCounts | ModelCounts]] = [("truth", "", report.counts.truth)]
    logs += [("rankings", model, counts) for model, counts in of_models]
    for log, model, counts in logs:
        place = [job, ("log", log), ("model", model)]
        rows.append((place, counts.rows))
        dropped += [
            ([*place, ("reason", reason)], number) for reason, number in counts.rows_dropped.items()
        ]
    outcomes: _Samples = []
    distances: _Samples = []
    for number, gate in enumerate(report.gates):
        names = ("metric", "model", "segmentation", "segment", "kind", "baseline")
        place = [job, ("gate", str(number)), *_labels(gate, *names)]
        outcomes.append((place, {PASS: 1, FAIL: 0, UNCLEAR: -1}.get(gate.outcome)))
        distances.append((place, _distance(report, gate)))
    families += [
        ("rows", "Rows of a log.", rows),
        ("rows_dropped", "Rows of a log that were not used.", dropped),
        (
            "users_without_ranking",
            "Users of the truth without a ranking.",
            [
                ([job, ("model", model)], counts.users_without_ranking)
                for model, counts in of_models
            ],
        ),
        ("gate", "1 passed, 0 failed, -1 cannot tell.", outcomes),
        ("gate_distance", "How much better than its bound; below 0 beyond it.", distances),
    ]
    lines: list[str] = []
    shown = _Labels()
    for name, help_text, samples in families:
        known = [(labels, value) for labels, value in samples if value is not None]
        if known:
            lines += [f"# HELP evalkit_{name} {help_text}", f"# TYPE evalkit_{name} gauge"]
            lines += [
                f"evalkit_{name}{{{shown.of(labels)}}} {_number(float(value))}"
                for labels, value in known
            ]
    return "\n".join(lines) + "\n"


def _distance(report: Report, gate: Gate) -> float | None:
    """How much better than its bound a gate's value or difference is; None without one."""
    if gate.kind == "min":
        return None if gate.value is None else gate.value - gate.bound
    if gate.kind == "max":
        return None if gate.value is None else gate.bound - gate.value
    if gate.delta is None:
        return None
    if gate.kind == "max_change":
        return gate.bound - abs(gate.delta)
    found = report.estimate(gate.model or "", gate.metric, gate.segmentation, gate.segment)
    is_lower_better = found is not None and found.higher_is_better is False
    return gate.bound + (-gate.delta if is_lower_better else gate.delta)


def _labels(of: Estimate | Gate, *names: str) -> list[tuple[str, str]]:
    return [(name, getattr(of, name) or "") for name in names]


_ESCAPED = {"\\": "\\\\", '"': '\\"', "\n": "\\n"}


class _Labels:
    """Values of labels as they are shown: what differs in the report differs here, too."""

    def __init__(self) -> None:
        self._shown: dict[tuple[str, str], str] = {}
        self._taken: set[tuple[str, str]] = set()

    def of(self, labels: Sequence[tuple[str, str]]) -> str:
        return ",".join(f'{key}="{self._value(key, text)}"' for key, text in labels)

    def _value(self, key: str, text: str) -> str:
        if (key, text) not in self._shown:
            shown = wanted = _label(text)
            number = 1
            while (key, shown) in self._taken:
                number += 1
                shown = f"{wanted} ({number})"
            self._taken.add((key, shown))
            self._shown[key, text] = shown
        return self._shown[key, text]


def _label(text: str) -> str:
    text = "\n".join(clean(line) for line in readable(text).split("\n"))
    return re.sub(r'[\\"\n]', lambda found: _ESCAPED[found[0]], text)


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(value)
