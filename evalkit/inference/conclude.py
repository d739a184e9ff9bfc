"""From exact sums to what a report says: values with intervals, and comparisons of models."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from evalkit import report
from evalkit.aggregate.accumulators.resampling import Resampling
from evalkit.aggregate.sums import GrandTotals
from evalkit.config import Config, StatisticsSection
from evalkit.inference import caveats
from evalkit.inference.comparisons import comparisons_of, correct, family_in
from evalkit.inference.drafts import note_relative
from evalkit.inference.estimates import estimates_of, gaps_of, macros_of, with_gate_limits
from evalkit.inference.geometric import shown_means, shown_ratios
from evalkit.inference.ratios import RatioTotals
from evalkit.inference.summed import Summed
from evalkit.inference.verdicts import findings_of, standings_of, with_verdicts
from evalkit.metrics import Request

if TYPE_CHECKING:
    from evalkit.inference.ordered import OrderedValues
    from evalkit.inference.shown import ShownNumbers


@dataclass(frozen=True, slots=True)
class Inference:
    """What the sums of a run say."""

    estimates: tuple[report.Estimate, ...]
    comparisons: tuple[report.Comparison, ...]
    standings: tuple[report.Standing, ...]
    findings: tuple[report.Finding, ...]
    macros: tuple[report.Macro, ...]
    used: report.StatisticsUsed
    warnings: tuple[report.Warning_, ...]
    gaps: tuple[report.Gap, ...] = ()

    @classmethod
    def of(
        cls,
        config: Config,
        measured: Sequence[Request],
        models: Sequence[str],
        totals: GrandTotals,
        resampling: Resampling | None = None,
        ratios: RatioTotals | None = None,
        estimates: Sequence[report.Estimate] | None = None,
        shown: "ShownNumbers | OrderedValues | None" = None,
    ) -> "Inference":
        """Estimates and comparisons of all models, segment by segment.

        Args:
            measured: the requests, then what helps them.
            resampling: what was drawn, where the config asks for it.
            ratios: sums over clusters, or with weights, where the config asks for them; or
                numbers that are no means of users.
            estimates: in place of those of the sums.
            shown: numbers of all lists together, or on the order of users, where these are asked
                for.

        Raises:
            DataError: a value is infinite [infinite-value].
        """
        chosen = config.statistics
        requests = measured[: len(config.requests)]
        known = estimates is not None
        summed = Summed(totals, len(requests))
        if estimates is None:
            given = config, measured, models, summed, resampling, ratios
            estimates = list(estimates_of(*given, cast("ShownNumbers | None", shown)))
            if ratios is None:
                estimates = list(with_gate_limits(estimates, requests, totals, chosen.level))
        estimates = tuple(shown_means(estimates, requests, config.policies))
        drafts = comparisons_of(config, summed, resampling, ratios, requests, shown)
        primary = config.primary if config.metrics.primary else ()
        n_tests = correct(drafts, chosen, primary, resampling)
        note_relative(drafts, chosen.level)
        few = (
            {}
            if known
            else caveats.of_few_values(summed, requests, models, ratios if chosen.weight else None)
        )
        estimates = caveats.with_caveats(estimates, few)
        skewed = [
            *caveats.of_skewed_differences(
                drafts, bootstraps="bootstrap" in (chosen.method, chosen.test)
            )
        ]
        judged = with_verdicts(drafts, chosen, requests, primary)
        judged = tuple(shown_ratios(judged, requests))
        standings = standings_of(estimates, judged, chosen, requests)
        family = family_in(chosen, primary)
        used = _used(chosen, family, n_tests, draws=resampling is not None)
        warnings = (
            *caveats.of_small_segments(totals),
            *caveats.of_few_clusters(
                estimates,
                "users or items" if chosen.two_way else "clusters",
                ratios,
                [each.label for each in requests],
            ),
            *(caveats.of_few_users(estimates) if known else caveats.of_caveats(few)),
            *skewed,
            *caveats.of_withheld(drafts),
            *caveats.of_small_margins(drafts, chosen.margin, 1.0 - chosen.level),
            *caveats.of_no_interval(requests),
            *caveats.of_other_users(judged),
            *caveats.of_uneven_judgements(judged, requests),
            *(() if known else caveats.of_ties(config, estimates, totals, measured, ratios)),
            *(() if shown is None else shown.warnings(models)),
        )
        findings = tuple(findings_of(config, summed, requests)) if chosen.search else ()
        macros = tuple(macros_of(config, estimates))
        gaps = tuple(gaps_of(config, estimates))
        return cls(estimates, judged, standings, findings, macros, used, warnings, gaps)


def _used(
    chosen: StatisticsSection, family: str, n_tests: int, *, draws: bool
) -> report.StatisticsUsed:
    return report.StatisticsUsed(
        level=chosen.level,
        method=chosen.method,
        test=chosen.test,
        correction=chosen.correction,
        family=family,
        n_tests=n_tests,
        baseline=chosen.baseline,
        margin=chosen.margin,
        replicates=chosen.replicates if draws else None,
        seed=chosen.seed if draws else None,
        power=chosen.power,
    )
