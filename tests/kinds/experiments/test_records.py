"""Every record of the libraries' answers, given back through the Python entry point, or named."""

import json
import math
import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from scipy import stats

from evalkit.kinds.experiments.api import evaluate_experiment
from evalkit.kinds.experiments.planning import plan_experiment
from evalkit.statistics.corrections import adjust
from evalkit.statistics.sample_ratio import sample_ratio_p
from evalkit.statistics.spending import bounds_of

FOLDER = Path(os.environ.get("EVALKIT_TEST_DATA", "nowhere")) / "conformance" / "online"
pytestmark = pytest.mark.skipif(not FOLDER.exists(), reason="EVALKIT_TEST_DATA has no records")
NAMES = {  # field of a record -> column of a comparison
    name: name
    for name in (
        *("value_baseline", "value_candidate", "delta", "low", "high", "relative"),
        *("relative_low", "relative_high", "p_value", "statistic", "std_error", "theta", "cap"),
    )
}
RELATIVE = {"delta": "relative", "low": "relative_low", "high": "relative_high"}
TEA: dict[str, dict[str, Any]] = {
    "welch": {},
    "welch-normal": {"distribution": "normal"},
    "pooled": {"variance": "pooled"},
    "level=0.9": {"level": 0.9},
    "one-sided greater": {"alternative": "greater"},
    "one-sided less": {"alternative": "less"},
    **{name: {} for name in ("ratio", "cuped", "ratio-cuped", "ratio-cuped-by-mean")},
    "cuped constant_pre": {},
}
GREATER, SEQUENTIAL = (
    {"alternative": "greater"},
    {"sequential": {"method": "always-valid", "tightest_at": 5000}},
)
GROWTH: dict[str, dict[str, Any]] = {
    "mean": {}, "ratio": {}, "cuped": {},
    "sequential": SEQUENTIAL, "OneSidedTreatmentGreaterTTest": GREATER,
}  # fmt: skip
# what evalkit says otherwise, and why
OTHERWISE = {
    ("tea-tasting", "cuped missing_pre"): "moments of different units are mixed there",
    ("tea-tasting", "two-proportions"): "a pooled z test; fraction() has Newcombe's limits",
    ("gbstats", "proportion"): "its variance is over n, not over n - 1",
    ("spotify-confidence", "converted"): "its variance of shares is over n, not over n - 1",
    ("spotify-confidence", "z-linreg"): "its covariate terms are over n, not over n - 1",
    ("any", "negative_baseline"): "a relative effect on a baseline below 0 is undefined",
    ("any", "zero_baseline"): "no variance in either variant: no limits, no test",
    ("any", "constant"): "no variance in either variant: no limits, no test",
    ("any", "all_zero"): "no variance in either variant: no limits, no test",
    ("any", "none_shown"): "a denominator of 0: the ratio is undefined",
}


@cache
def fixture(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / "fixtures" / f"{name}.json").read_text())
    return found


def records(library: str) -> list[dict[str, Any]]:
    path = FOLDER / f"{library}.jsonl"
    lines = path.read_text().splitlines()[1:] if path.exists() else []
    return [each for each in map(json.loads, lines) if "values" in each]


def compared(
    record: Mapping[str, Any], profile: str, statistics: Mapping[str, Any], **more: Any
) -> dict[str, Any]:
    data = fixture(record["fixture"])
    candidate = record.get("candidate") or next(n for n in data["expected"] if n != "control")
    units = pl.DataFrame(data["units"], strict=False)
    pair = units.filter(pl.col("variant").is_in(["control", candidate]))
    columns = record["metric"].split("/")
    kind, before = ("ratio" if len(columns) == 2 else "mean"), {}
    if "cuped" in record["variant"]:
        of = record["variant"].partition("cuped ")[2]
        before = {columns[0]: of if of in units.columns else f"pre_{columns[0]}"}
        if record["variant"] == "ratio-cuped":
            before[columns[1]] = f"pre_{columns[1]}"
    metric = more.pop("metric", f"{kind}({', '.join(columns)})")
    report = evaluate_experiment(
        pair,
        variants={name: data["expected"].get(name, 1) for name in ("control", candidate)},
        metrics=[metric],
        before=more.pop("before", before),
        profile=profile,
        statistics=statistics,
        **more,
    )
    return report.comparisons.frame.row(0, named=True)


def check(record: Mapping[str, Any], row: Mapping[str, Any], names: Mapping[str, str]) -> None:
    for name, column in names.items():
        if name not in record["values"]:
            continue
        wanted = float(record["values"][name])
        found = math.nan if row[column] is None else row[column]
        is_open = math.isinf(wanted) and math.isnan(found)
        same = math.isnan(wanted) and math.isnan(found)
        assert is_open or same or found == pytest.approx(wanted, rel=1e-9, abs=1e-15), name


def is_otherwise(library: str, record: Mapping[str, Any]) -> bool:
    text = f"{record['variant']} {record['metric']}"
    return any(of in (library, "any") and what in text for of, what in OTHERWISE)


def tea_records() -> list[dict[str, Any]]:
    return [
        each
        for each in records("tea-tasting")
        if each["variant"] in TEA
        and each["fixture"] not in ("two_units", "empty_arm")
        and not is_otherwise("tea-tasting", each)
    ]


def name_of(record: Mapping[str, Any]) -> str:
    parts = (record["fixture"], record["metric"], record["variant"], record.get("candidate"))
    return "-".join(str(each) for each in parts)


@pytest.mark.parametrize("record", tea_records(), ids=name_of)
def test_tea_tasting_is_given_back(record: dict[str, Any]) -> None:
    check(record, compared(record, "tea-tasting", TEA[record["variant"]]), NAMES)


def growth_records() -> list[dict[str, Any]]:
    return [
        each
        for each in records("gbstats")
        if each["variant"].split()[0] in GROWTH
        and not each.get("not_a_target")
        and each["fixture"] not in ("two_units", "empty_arm")
        and not is_otherwise("gbstats", each)
    ]


@pytest.mark.parametrize("record", growth_records(), ids=name_of)
def test_gbstats_is_given_back(record: dict[str, Any]) -> None:
    row = compared(record, "gbstats", GROWTH[record["variant"].split()[0]])

    names = {name: NAMES[name] for name in ("delta", "low", "high", "p_value", "std_error")}
    check(record, row, RELATIVE if "relative" in record["variant"] else names)


SPOTIFY: dict[str, dict[str, Any]] = {"z": {}, "t": {"distribution": "t"}}


@pytest.mark.parametrize(
    "record",
    [
        each
        for each in records("spotify-confidence")
        if each["variant"].split()[0] in SPOTIFY and not is_otherwise("spotify-confidence", each)
    ],
    ids=name_of,
)
def test_spotify_confidence_is_given_back(record: dict[str, Any]) -> None:
    row = compared(record, "spotify-confidence", SPOTIFY[record["variant"].split()[0]])

    names = {name: NAMES[name] for name in ("delta", "low", "high", "p_value")}
    check(record, row, {**RELATIVE, "p_value": "p_value"} if "relative" in record["variant"]
          else names)  # fmt: skip


STATS: dict[str, tuple[str | None, dict[str, Any]]] = {
    "t unequal": (None, {}),
    "t pooled": (None, {"variance": "pooled"}),
    "ols HC2": (None, {"distribution": "normal"}),
    "difference newcomb": ("fraction({})", {"limits": "newcombe"}),
}


@pytest.mark.parametrize(
    "record", [each for each in records("statsmodels") if each["variant"] in STATS], ids=name_of
)
def test_statsmodels_is_given_back(record: dict[str, Any]) -> None:
    metric, statistics = STATS[record["variant"]]
    more = {} if metric is None else {"metric": metric.format(record["metric"])}
    row = compared(record, "statsmodels", statistics, **more)

    names = {k: k for k in ("delta", "low", "high", "p_value", "statistic", "std_error", "df")}
    record = {**record, "values": {k: v for k, v in record["values"].items() if k in names}}
    for name, wanted in record["values"].items():
        assert row[name] == pytest.approx(wanted, rel=1e-8, abs=1e-12), name


@pytest.mark.parametrize(
    "record",
    [e for e in records("statsmodels") if e["variant"].startswith("tost")],
    ids=name_of,
)
def test_equivalence_is_that_of_statsmodels(record: dict[str, Any]) -> None:
    variance = "pooled" if "pooled" in record["variant"] else "welch"
    row = compared(record, "statsmodels", {"margin": 0.5, "variance": variance})

    assert row["p_equivalent"] == pytest.approx(record["values"]["p_value"], rel=1e-8)


@pytest.mark.parametrize(
    "record",
    [e for e in records("own") if e["variant"].startswith("relative fieller")],
    ids=name_of,
)
def test_fieller_carries_the_joint_mean(record: dict[str, Any]) -> None:
    row = compared(record, "evalkit", {})

    names = {"relative": "relative", "low": "relative_low", "high": "relative_high"}
    check(record, row, names)


@pytest.mark.parametrize(
    "record", [e for e in records("own") if e["variant"].startswith("winsorised")], ids=name_of
)
def test_caps_are_quantiles_of_all_variants(record: dict[str, Any]) -> None:
    metric = f"mean({record['metric']}, winsor=0.99)"

    check(record, compared(record, "evalkit", {}, metric=metric), NAMES)


@pytest.mark.parametrize(
    "record", [e for e in records("own") if e["variant"] == "post-stratified"], ids=name_of
)
def test_strata_weigh_by_their_share_of_units(record: dict[str, Any]) -> None:
    check(record, compared(record, "evalkit", {"strata": ["stratum"]}), NAMES)


@pytest.mark.parametrize(
    "record", [e for e in records("own") if e["variant"] == "ratio over clusters"], ids=name_of
)
def test_clusters_are_units_of_the_delta_method(record: dict[str, Any]) -> None:
    check(record, compared(record, "statsmodels", {"cluster": "cluster"}), NAMES)


@pytest.mark.parametrize(
    "record",
    [e for lib in ("tea-tasting", "gbstats", "scipy", "spotify-confidence") for e in records(lib)
     if e["fixture"] == "ratios" and e["variant"] in ("binom", "chi-square", "exact binomial")],
    ids=name_of,
)  # fmt: skip
def test_sample_ratios_are_those_of_all(record: dict[str, Any]) -> None:
    (case,) = (e for e in fixture("ratios")["cases"] if e["case"] == record["case"])
    method = "chi-squared" if record["variant"] == "chi-square" else "exact"

    found = sample_ratio_p(case["counts"], case["shares"], method)

    assert found == pytest.approx(record["values"]["p_value"], rel=1e-9)


@pytest.mark.parametrize(
    "record",
    [e for lib in ("own", "spotify-confidence") for e in records(lib) if e["metric"] == "bounds"],
    ids=lambda e: f"{e['variant']}-{e['case']}",
)
def test_spending_bounds_are_those_published(record: dict[str, Any]) -> None:
    (case,) = (e for e in fixture("looks")["cases"] if e["case"] == record["case"])
    words = record["variant"].split()
    is_own = words[0] == "spending"
    spending = words[1] if is_own else f"power({words[1]})"

    found = bounds_of(case["fractions"], spending, sides=2 if is_own else int(words[2][-1]))

    tolerance = 1e-6 if is_own else 2e-3
    assert found == pytest.approx(record["values"]["bounds"], abs=tolerance)


LOG_METRICS = {
    "click a unit": "mean(click)", "purchase a unit": "mean(purchase)",
    "dwell a unit": "mean(dwell)", "impression a unit": "mean(impression)",
    "conversion": "fraction(orders)", "click/impression": "ratio(click, impression)",
    "purchase/orders": "ratio(purchase, orders)",
}  # fmt: skip


@cache
def log_report(windows: str) -> Any:
    folder = FOLDER / "fixtures" / "log"
    return evaluate_experiment(
        folder / "exposures.parquet",
        folder / "events.parquet",
        variants={"control": 1, "b": 1},
        window="7d",
        sums={
            "click": "click",
            "impression": "impression",
            "dwell": {"kind": "dwell", "of": "value"},
            "purchase": {"kind": "purchase", "of": "value"},
            "orders": "purchase",
        },
        metrics=list(LOG_METRICS.values()),
        policies={"open_windows": windows, "unknown_variants": "drop", "bad_values": "drop"},
    )


@pytest.mark.parametrize(
    "record", [e for e in records("own-log") if e["metric"] != "counts"], ids=name_of
)
def test_logs_become_units_by_every_rule(record: dict[str, Any]) -> None:
    windows = "keep" if "kept" in record["variant"] else "skip"
    rows = log_report(windows).comparisons.frame
    metric = LOG_METRICS[record["metric"]]
    if "cuped" not in record["variant"]:
        raw = f"{metric[:-1]}, cuped='off')"
        metric = raw if raw in rows["metric"].to_list() else metric

    check(record, rows.filter(pl.col("metric") == metric).row(0, named=True), NAMES)


def test_counts_of_the_log_are_those_by_hand() -> None:
    found = dict(log_report("skip").counts_frame.iter_rows())
    (rows,) = (e["values"] for e in records("own-log") if e["variant"] == "rows")

    same = ("exposure_rows", "event_rows", "units", "units_in_two_variants",
            "units_with_open_window")  # fmt: skip
    assert {name: found[name] for name in same} == {name: rows[name] for name in same}
    assert found["unknown_variant"] == rows["variant not declared"]
    assert found["event_in_two_variants"] == rows["event of a unit in two variants"]
    assert found["event_never_exposed"] == rows["event of a unit never exposed"]
    assert (found["event_value_nan"], found["event_value_null"]) == (1, 1)


AMBROSIA: dict[str, dict[str, Any]] = {
    "welch absolute": {}, "delta relative": {}, "cuped absolute": {}, "cuped two covariates": {},
    "welch absolute greater": {"alternative": "greater"},
    "welch absolute less": {"alternative": "less"},
    "negative_baseline absolute": {}, "outlier absolute": {}, "outlier relative": {},
}  # fmt: skip
NOT_AMBROSIA = {  # what evalkit says otherwise, and why
    "mann-whitney": "ranks do not merge: not built",
    **{
        f"{name} {effect}": "no variance, or a baseline at or below 0: undefined"
        for name in ("constant", "zero_baseline", "all_zero", "negative_baseline")
        for effect in ("absolute", "relative")
        if (name, effect) != ("negative_baseline", "absolute")
    },
}


def asked_of_ambrosia(record: Mapping[str, Any]) -> str:
    """The variant of a record, of edges with the column."""
    variant = str(record["variant"])
    return f"{record['metric']} {variant}" if record["fixture"] == "edges" else variant


def test_every_record_of_ambrosia_is_given_back_or_named() -> None:
    wanted = {asked_of_ambrosia(each) for each in records("ambrosia")}

    assert wanted == {*AMBROSIA, *NOT_AMBROSIA}


@pytest.mark.parametrize(
    "record", [e for e in records("ambrosia") if asked_of_ambrosia(e) in AMBROSIA], ids=name_of
)
def test_ambrosia_is_given_back_but_for_its_limits(record: dict[str, Any]) -> None:
    """Its limits follow from our errors and its degrees of freedom, of se^2 in place of se^4."""
    values, variant, metric = record["values"], asked_of_ambrosia(record), record["metric"]
    before = {metric: "pre_clicks"} if "cuped" in variant else {}
    if "two covariates" in variant:
        before = {metric: ["pre_clicks", "pre_impressions"]}
    record = {**record, "variant": variant.replace("cuped", "adjusted")}
    row = compared(record, "ambrosia", AMBROSIA[variant], before=before)

    if "relative" in variant:  # of its tests one size stands for both variants
        assert row["relative"] == pytest.approx(values["delta"], rel=1e-9)
        return
    near = 1e-5 if variant == "cuped absolute" else 1e-9  # 1e-5 is added to a covariate's variance
    assert row["delta"] == pytest.approx(values["delta"], rel=near)
    assert row["p_value"] == pytest.approx(values["p_value"], rel=near)
    df = ambrosia_df(record, before)
    tail = 0.025 if row["low"] is not None and row["high"] is not None else 0.05
    reach = float(stats.t.isf(tail, df)) * row["std_error"]
    for name, sign in (("low", -1.0), ("high", 1.0)):
        if row[name] is not None:
            assert row["delta"] + sign * reach == pytest.approx(values[name], rel=1e-6, abs=1e-4)


def ambrosia_df(record: Mapping[str, Any], before: Mapping[str, Any]) -> float:
    """theoretical_tools.py:752: the variance of the difference where its square belongs."""
    data = fixture(record["fixture"])
    candidate = record.get("candidate") or next(n for n in data["expected"] if n != "control")
    units = pl.DataFrame(data["units"], strict=False)
    pair = units.filter(pl.col("variant").is_in(["control", candidate]))
    label = f"mean({record['metric']})"
    report = evaluate_experiment(
        pair, variants={"control": 1, candidate: 1}, metrics=[label], before=before
    )
    found = [e for e in report.estimates if e.metric == label]
    errors = [((each.std_error or 0.0) ** 2, each.n_users - 1) for each in found]
    return sum(v for v, _ in errors) / sum(v**2 / df for v, df in errors)


CORRECTIONS = {"holm": "holm", "bonferroni": "bonferroni", "bh": "bh", "fdr_bh": "bh"}


@pytest.mark.parametrize(
    "record",
    [e for lib in ("tea-tasting", "statsmodels") for e in records(lib)
     if e["metric"] == "correction" and e["variant"] in CORRECTIONS],
    ids=lambda e: f"{e['variant']}-{e['case']}",
)  # fmt: skip
def test_corrections_are_those_of_all(record: dict[str, Any]) -> None:
    (case,) = (e for e in fixture("p_values")["cases"] if e["case"] == record["case"])

    found = adjust(case["p"], CORRECTIONS[record["variant"]]).p_adjusted

    assert list(found) == pytest.approx(record["values"]["p_adjusted"], rel=1e-9)


SIZES = {
    "power n_obs": "n_obs", "power t effect=0.02": "n_per_variant",
    "power t effect=0.05": "n_per_variant", "power normal effect=0.02": "n_per_variant",
    "power normal effect=0.05": "n_per_variant", "power mde=0.05": "required",
}  # fmt: skip


@pytest.mark.parametrize(
    "record",
    [e for lib in ("tea-tasting", "statsmodels", "spotify-confidence") for e in records(lib)
     if e["variant"] in SIZES],
    ids=name_of,
)  # fmt: skip
def test_sizes_are_those_of_all(record: dict[str, Any]) -> None:
    """Of both variants, or of one; a part of a unit is one more."""
    variant, values = record["variant"], record["values"]
    relative = values.get("rel_effect_size") or record.get("relative_effect")
    is_normal = "normal" in variant or "mde" in variant
    control = pl.DataFrame(fixture("medium")["units"]).filter(variant="control")
    found = plan_experiment(
        control,
        metrics=[f"mean({record['metric']})"],
        relative=relative or float(variant.partition("mde=")[2]),
        statistics={"distribution": "normal" if is_normal else "t"},
    ).sizes["units"]

    wanted = values[SIZES[variant]]
    n = found[0] if "n_per_variant" in values else found.sum()
    assert n == math.ceil(wanted)


WITHOUT = "not built: holm, bonferroni and bh are"
GAPS: dict[str, dict[str, str]] = {  # what no test above gives back, and why
    "tea-tasting": {
        **dict.fromkeys(("by", "hochberg", "hochberg-sidak", "holm-sidak"), WITHOUT),
        **dict.fromkeys(("auto", "norm", "norm uncorrected"), "normal; chi-squared here"),
        "cuped missing_pre": OTHERWISE["tea-tasting", "cuped missing_pre"],
        "two-proportions": OTHERWISE["tea-tasting", "two-proportions"],
        "power effect_size": "test_plans.py has it",
        "power power": "the power of so many units is not asked",
    },
    "gbstats": {
        "proportion absolute": OTHERWISE["gbstats", "proportion"],
        "proportion relative": OTHERWISE["gbstats", "proportion"],
    },
    "spotify-confidence": {
        **dict.fromkeys(
            ("non-inferior 0.05 decrease", "non-inferior 0.05 increase"),
            "its margin is a share of a baseline that is taken as known",
        ),
        "power mde=0.1": "a share's variance in the candidate is another; ours is that of before",
        "chi-square absolute": "a pooled z test; fraction() has Newcombe's limits",
        "z-linreg absolute": OTHERWISE["spotify-confidence", "z-linreg"],
    },
    "statsmodels": {
        **dict.fromkeys(("fdr_by", "holm-sidak", "hommel", "sidak", "simes-hochberg"), WITHOUT),
        **{f"difference {name}": "fraction() has Newcombe's limits"
           for name in ("agresti-caffo", "score", "wald")},
        **{f"ratio {name}": "relative effects are Fieller's, delta or log"
           for name in ("log", "log-adjusted", "score")},
        "two-proportions pooled z": "fraction() has Newcombe's limits",
        "lin HC2": "Lin's regression is refused", "ancova HC2": "CUPED differs by O(1/n)",
        **dict.fromkeys(("ols HC1", "ols cluster", "ols cluster uncorrected"),
                        "by k / (k - 1) ours over clusters: own records have it"),
        "detectable n=0.02": "its n is no whole number",
    },
}  # fmt: skip


@pytest.mark.parametrize("library", sorted(GAPS))
def test_every_record_of_a_library_is_given_back_or_named(library: str) -> None:
    built = {*TEA, *CORRECTIONS, *SIZES, *STATS, "binom", "chi-square", "exact binomial"}
    words = {"gbstats": {*GROWTH}, "spotify-confidence": {*SPOTIFY}, "statsmodels": {"tost"}}.get(
        library, set()
    )
    left = {
        each["variant"]
        for each in records(library)
        if each["variant"] not in built
        and each["variant"].split()[0] not in words
        and not each.get("not_a_target")
        and each["metric"] != "bounds"
    }

    assert left == set(GAPS[library])
