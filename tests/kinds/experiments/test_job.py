"""Experiments as a config: run, shares, merge, gates; the same through every entry point."""

import datetime as dt
import json
import re

import numpy as np
import polars as pl
import pytest

import evalkit
from evalkit.cli.app import run_command
from evalkit.config import load_config
from evalkit.errors import Errors, MachineError, RequestError
from evalkit.kernels import memory
from evalkit.kinds.experiments import measure
from evalkit.kinds.experiments.kind import units_of_config
from evalkit.kinds.pointwise import passes
from evalkit.pipeline import run_config
from evalkit.statistics.spending import Sequential, bounds_of

JOB = """
name = "job"
[experiment]
variants = { control = 50, b = 50 }
window = "3d"
sums = { shown = "show", clicks = "click", spent = { kind = "buy", of = "value" } }
[exposures]
path = "exposures.parquet"
[events]
path = "events.parquet"
[metrics]
names = ["mean(clicks)", "ratio(clicks, shown)", "mean(spent, winsor=0.9)",
    "quantile(spent, q=0.5, over='events')"]
primary = ["ratio(clicks, shown)"]
guardrails = ["mean(spent, winsor=0.9)"]
[statistics]
strata = ["country"]
[segments]
country = { by = "country" }
"""
START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
ALWAYS = "method = 'always-valid', tightest_at = 600"


@pytest.fixture(scope="module")
def logs():
    """600 units in two variants, with events before and after exposure."""
    draw = np.random.default_rng(1)
    units = np.arange(600)
    exposures = pl.DataFrame(
        {
            "unit": [f"unit-{n}" for n in units],
            "variant": np.where(draw.random(600) < 0.5, "control", "b"),
            "time": [START + dt.timedelta(hours=int(h)) for h in draw.integers(0, 72, 600)],
            "country": np.where(draw.random(600) < 0.3, "de", "fr"),
        }
    )
    n = 8000
    events = pl.DataFrame(
        {
            "unit": [f"unit-{n}" for n in draw.integers(0, 620, n)],
            "time": [START + dt.timedelta(minutes=int(m)) for m in draw.integers(-4000, 12000, n)],
            "kind": draw.choice(["show", "click", "buy"], n, p=[0.7, 0.2, 0.1]),
            "value": np.round(draw.lognormal(1.0, 2.0, n), 3),
        }
    )
    return exposures, events


@pytest.fixture
def job(tmp_path, monkeypatch, logs):
    for name, frame in zip(("exposures", "events"), logs, strict=True):
        frame.write_parquet(tmp_path / f"{name}.parquet", row_group_size=500)
    (tmp_path / "job.toml").write_text(JOB)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def numbers(report) -> str:
    """What a report says, without what the run cost."""
    found = json.loads(report.to_json())
    for name in ("meta", "run_id", "inputs", "run_key"):
        found.pop(name)
    return json.dumps(found)


def test_no_order_of_rows_and_no_number_of_threads_moves_a_digit(job, logs):
    whole = numbers(run_config(load_config("job.toml"), threads=1))
    for name, frame in zip(("exposures", "events"), logs, strict=True):
        frame.sample(fraction=1.0, shuffle=True, seed=7).write_parquet(f"{name}.parquet")

    assert numbers(run_config(load_config("job.toml"), threads=2)) == whole


def test_shares_merge_to_the_same_bytes(job, capsys):
    whole = run_config(load_config("job.toml"))
    for share in (2, 1, 3):
        assert not run_command(
            ["partial", "job.toml", "--share", f"{share}/3", "--out", f"{share}.partial"]
        )

    merged = evalkit.merge(sorted(job.glob("*.partial")))
    assert numbers(merged) == numbers(whole)
    assert merged.run_key == whole.run_key


@pytest.mark.parametrize("more", ["", 'distribution = "t"\ncorrection = "holm"\nsequential = "no"'])
def test_shares_know_a_profile_and_what_was_written_beside_it(job, more):
    text = JOB.replace('window = "3d"', 'window = "3d"\nprofile = "spotify-confidence"')
    (job / "job.toml").write_text(text.replace("[statistics]", f"[statistics]\n{more}"))
    whole = run_config(load_config("job.toml"))
    assert not run_command(["partial", "job.toml", "--share", "1/1", "--out", "1.partial"])

    merged = evalkit.merge(["1.partial"])
    assert numbers(merged) == numbers(whole)
    assert whole.comparisons[0].test == ("welch" if more else "z")
    assert whole.statistics.correction == ("holm" if more else "bonferroni")


def test_passes_hold_a_memory_limit_and_move_no_digit(job, monkeypatch):
    whole = numbers(run_config(load_config("job.toml")))
    monkeypatch.setattr(passes, "BYTES_AT_REST", 0)
    monkeypatch.setattr(measure, "BYTES_ON_THE_WAY", 0)

    assert numbers(run_config(load_config("job.toml"), memory_limit=150_000)) == whole
    with pytest.raises(MachineError, match="units need about 1 MiB, the limit is 0 MiB"):
        run_config(load_config("job.toml"), memory_limit=1000)


def test_units_are_counted_where_each_was_exposed_often(job, logs, monkeypatch):
    exposures = pl.concat([logs[0]] * 40)
    exposures.write_parquet("exposures.parquet")
    monkeypatch.setattr(passes, "BYTES_AT_REST", 0)
    monkeypatch.setattr(measure, "BYTES_ON_THE_WAY", 0)
    config = load_config("job.toml")

    with pytest.raises(MachineError, match=r"6\d\d units need about") as refused:
        run_config(config, memory_limit=1000)
    assert "24,000" not in str(refused.value)
    assert numbers(run_config(config, memory_limit=1 << 20)) == numbers(run_config(config))


@pytest.mark.parametrize("log", ["exposures", "events"])
def test_logs_whose_rows_nobody_has_counted_hold_a_limit(job, logs, log):
    frame = logs[log == "events"]
    frame.with_columns(pl.col("time").dt.epoch("s")).write_csv(f"{log}.csv")
    other = logs[log != "events"].with_columns(pl.col("time").dt.epoch("s"))
    other.write_parquet(f"{'exposures' if log == 'events' else 'events'}.parquet")
    (job / "job.toml").write_text(JOB.replace(f"{log}.parquet", f"{log}.csv"))

    with pytest.raises(MachineError, match="600 units need about"):
        run_config(load_config("job.toml"), memory_limit=100 << 20)


def test_equal_events_that_are_left_out_count_in_a_limit(job, monkeypatch):
    (job / "job.toml").write_text(JOB + '[policies]\nequal_events = "once"\n')
    whole = numbers(run_config(load_config("job.toml")))
    monkeypatch.setattr(passes, "BYTES_AT_REST", 0)
    monkeypatch.setattr(measure, "BYTES_ON_THE_WAY", 0)
    with pytest.raises(MachineError, match="600 units need about 51 MiB"):
        run_config(load_config("job.toml"), memory_limit=1 << 20)
    monkeypatch.setattr(measure, "BYTES_OF_HASHING", 0)

    assert numbers(run_config(load_config("job.toml"), memory_limit=150_000)) == whole


def test_the_process_itself_is_counted_and_so_is_compiling(job, monkeypatch):
    monkeypatch.setattr(memory, "COMPILING", 256 << 20)
    monkeypatch.setattr(memory, "_to_compile", lambda: False)
    run_config(load_config("job.toml"), memory_limit=500 << 20)
    monkeypatch.setattr(memory, "_to_compile", lambda: True)

    with pytest.raises(MachineError, match="units need about") as refused:
        run_config(load_config("job.toml"), memory_limit=500 << 20)

    needed = int(re.search(r"--memory-limit (\d+)MiB", refused.value.hint)[1])
    assert run_config(load_config("job.toml"), memory_limit=needed << 20).estimates


def test_sums_by_day_and_by_date_are_those_of_events_in_the_window(job, logs):
    """From halves of days, of counts and of values, against the rows themselves."""
    more = JOB.replace('primary = ["ratio', 'primary = ["mean(spent)", "ratio')
    (job / "job.toml").write_text(more.replace("names = [", 'names = ["mean(spent)", '))
    number = pl.col("unit").str.slice(5).cast(pl.Int64)
    exposures, events = (frame.with_columns(number) for frame in logs)
    exposures.write_parquet("exposures.parquet")
    events.write_parquet("events.parquet")
    _, units = units_of_config(load_config("job.toml"), None)
    assert set(units.days) == {"day", "date"}
    times = exposures.select("unit", first="time").join(events, on="unit")
    since = pl.col("time") - pl.col("first")
    times = times.filter((since >= dt.timedelta()) & (since < dt.timedelta(days=3)))
    for way, days in units.days.items():
        for day, name in enumerate(days.names):
            key = since.dt.total_days() if way == "day" else pl.col("time").dt.date().cast(str)
            rows = times.filter(key == (day if way == "day" else name))
            for column, kind in (("shown", "show"), ("clicks", "click"), ("spent", "buy")):
                total = pl.col("value").sum() if column == "spent" else pl.len().cast(float)
                own = rows.filter(kind=kind).group_by("unit").agg(total.alias("sum"))
                wanted = units.ids.join(own, on="unit", how="left", maintain_order="left")["sum"]
                found = days.column(column, day)
                assert found == pytest.approx(wanted.fill_null(0.0).to_numpy(), rel=1e-12)


def test_a_run_is_written_read_and_judged(job, capsys):
    gates = '[[gates]]\nmetric = "mean(spent, winsor=0.9)"\nmodel = "b"\nmax_drop_relative = 5.0\n'
    (job / "job.toml").write_text(JOB + gates)

    assert run_command(["run", "job.toml", "--quiet"]) == 0
    report = evalkit.load("runs/latest")
    assert report.kind == "experiment"
    assert report.checks[0].check == "sample-ratio"
    assert [gate.outcome for gate in report.gates] == ["pass"]
    assert run_command(["gate", "last", "--config", "job.toml"]) == 0


def test_a_baseline_of_gates_may_be_a_variant(job):
    gate = '[[gates]]\nmetric = "mean(spent, winsor=0.9)"\nmodel = "b"\nmax_drop = 50.0\n'
    (job / "job.toml").write_text(JOB + gate + 'baseline = "control"\n')
    assert run_command(["run", "job.toml", "--quiet"]) == 0

    (job / "job.toml").write_text(JOB + gate + 'baseline = "zz"\n')
    with pytest.raises(RequestError, match="no run is called 'zz'"):
        run_command(["run", "job.toml", "--quiet"])


def test_a_sample_ratio_alarm_stands_above_every_number(job, capsys):
    text = JOB.replace("control = 50, b = 50", "control = 80, b = 20")
    (job / "job.toml").write_text(text)

    assert run_command(["run", "job.toml", "--quiet"]) == 1
    report = evalkit.load("runs/latest")
    assert report.gates[0].metric == "sample-ratio"
    assert report.gates[0].fails
    assert "cannot be read" in report.verdict
    assert "cannot be read" in capsys.readouterr().out.splitlines()[0]


def test_the_python_door_says_the_same_as_a_config(job, logs):
    of_config = run_config(load_config("job.toml"))
    report = evalkit.evaluate_experiment(
        *logs,
        variants={"control": 50, "b": 50},
        window="3d",
        sums={"shown": "show", "clicks": "click", "spent": {"kind": "buy", "of": "value"}},
        metrics=[each.label for each in load_config("job.toml").requests],
        primary=["ratio(clicks, shown)"],
        guardrails=["mean(spent, winsor=0.9)"],
        statistics={"strata": ["country"]},
        segments=["country"],
    )

    assert report.comparisons == of_config.comparisons
    assert report.checks == of_config.checks


def test_what_a_config_cannot_say_is_told(job):
    wrong = JOB.replace("b = 50 }", "b = 0 }").replace("names = [", 'names = ["mea(clicks)", ')
    (job / "job.toml").write_text(wrong)

    with pytest.raises(Errors) as raised:
        load_config("job.toml")
    assert {each.code for each in raised.value.errors} == {"bad-share", "unknown-metric"}


def test_values_of_units_are_kept_where_a_config_asks_for_them(job, logs, capsys):
    plain = JOB.replace('strata = ["country"]', "")  # whose means are those of units
    (job / "job.toml").write_text(plain + "[output]\nper_user = true\n")
    for share in (1, 2):
        args = ["partial", "job.toml", "--share", f"{share}/2", "--out", f"{share}.partial"]
        assert not run_command(args)
    assert run_command(["merge", "1.partial", "2.partial", "--quiet"]) in (0, 1)
    merged = evalkit.load("runs/latest")
    assert run_command(["run", "job.toml", "--quiet"]) in (0, 1)
    kept = evalkit.load("runs/latest")

    for metric, raw in (
        ("mean(clicks)", "mean(clicks, cuped='off')"),
        ("mean(spent, winsor=0.9)", "mean(spent, winsor=0.9, cuped='off')"),
    ):
        found = kept.per_user(metric, model="b")
        assert found.sort("unit").equals(merged.per_user(metric, model="b").sort("unit"))
        values = found["value"].drop_nulls()
        (estimate,) = (
            e for e in kept.estimates if (e.model, e.segment, e.metric) == ("b", None, raw)
        )
        assert len(values) == estimate.n_users
        assert values.mean() == pytest.approx(kept.value(raw, model="b"))
    with pytest.raises(RequestError, match="no values of single users"):
        kept.per_user("ratio(clicks, shown)", model="b")


def test_the_page_says_first_what_to_do_and_draws_every_effect_on_one_axis(job, capsys):
    (job / "job.toml").write_text(
        JOB.replace("[statistics]", "[statistics]\nsequential = { method = 'always-valid', "
                    "tightest_at = 600 }\nmargin_relative = 0.1")
        + '[[gates]]\nmetric = "mean(clicks)"\nmodel = "b"\nmin = 0.01\n'
    )  # fmt: skip
    assert run_command(["run", "job.toml", "--quiet"]) == 0

    report = evalkit.load("runs/latest")
    page = report.to_html()
    verdict = page[page.index('class="verdict unclear"') :]
    said = verdict[verdict.index(">") + 1 : verdict.index("<small")]
    assert said == report.verdict
    assert "not yet" in said
    assert "Fine: 1 of 1 gate passed" in verdict
    assert "Effects in percent of control" in page
    assert "Paired by user" not in page
    assert 'id="checks"' in page
    (path,) = (each for each in report.graphs if each.kind == "path-over-looks")
    assert path.rows == tuple(sorted(path.rows))
    assert path.rows[-1] == 600
    assert [-each for each in path.low] == list(path.high)
    assert "outside it, an effect is found" in page
    assert path.high[-1] == pytest.approx(Sequential(600.0, 0.95).reach(0.05, 600.0))


def test_one_look_has_no_path(job):
    report = run_config(load_config("job.toml"))

    assert {each.kind for each in report.graphs} == {"effect-by-day", "effect-by-date"}
    assert "path over looks" not in report.to_html()


def test_strata_may_stand_with_the_experiment_and_kinds_in_place_of_sums(job):
    whole = numbers(run_config(load_config("job.toml")))
    moved = JOB.replace('[statistics]\nstrata = ["country"]', "").replace(
        'window = "3d"', 'window = "3d"\nstrata = ["country"]'
    )
    (job / "job.toml").write_text(moved)
    assert numbers(run_config(load_config("job.toml"))) == whole

    (job / "job.toml").write_text(moved.replace("quantile(spent,", "quantile(buy,"))
    found = run_config(load_config("job.toml")).estimates
    old = [e["value"] for e in json.loads(whole)["metrics"] if "quantile" in e["metric"]]
    assert [e.value for e in found if e.name == "quantile"] == old
    (job / "job.toml").write_text(moved + '[statistics]\nstrata = ["country"]\n')
    with pytest.raises(RequestError, match="named twice"):
        load_config("job.toml")


def test_a_kind_without_events_is_told_where_a_metric_reads_it(job):
    unread = JOB.replace("sums = {", 'sums = { carts = "cart",')
    (job / "job.toml").write_text(unread.replace('"click"', '"clcik"'))

    told = run_config(load_config("job.toml")).warnings
    assert ["clcik" in each.message for each in told if each.code == "kind-without-events"] == [
        True
    ]


@pytest.mark.parametrize("plan", ["spending = 'obrien-fleming', final = 600", ALWAYS])
def test_earlier_looks_are_read_from_the_runs(job, plan):
    """Three looks; the last is at the bound that a plan of these three has."""
    text = JOB.replace("[statistics]", f"[statistics]\nsequential = {{ {plan} }}")
    seen = []
    for until in ("2026-01-05", "2026-01-05T12:00:00", "2026-01-12"):
        line = f'[experiment]\nuntil = "{until}"'
        (job / "job.toml").write_text(text.replace("[experiment]", line))
        assert run_command(["run", "job.toml", "--quiet"]) == 0
        seen.append(evalkit.load("runs/latest"))

    report, n_looks = seen[-1], range(3)
    own = [next(e for e in each.comparisons if e.metric == "ratio(clicks, shown)") for each in seen]
    paths = {e.y_name: e for e in report.graphs if e.kind == "path-over-looks"}
    path = paths["effect on ratio(clicks, shown) in standard errors"]
    assert len(paths) == 2  # of the guardrail, too
    assert path.x == tuple(each.n_users for each in own)
    assert path.y == pytest.approx([each.delta / each.std_error for each in own])
    halves = [(own[i].high - own[i].low) / 2 / own[i].std_error for i in n_looks]
    assert path.high == pytest.approx(halves)
    assert ["spending-look" in {w.code for w in each.warnings} for each in seen] == [
        plan != ALWAYS, False, False
    ]  # fmt: skip
    if plan != ALWAYS:
        sizes = [sum(e.n_users for e in r.estimates if e.metric == own[0].metric
                     and e.segment is None) for r in seen]  # fmt: skip
        assert path.high == pytest.approx(bounds_of([n / 600 for n in sizes], "obrien-fleming"))
    assert "Path over looks: effect on ratio" in report.to_html()


def test_a_look_that_leaves_the_first_plan_is_told_and_decides_nothing(job):
    """The error is spent by one plan: a final size that is chosen by what was seen is none."""
    plans = ["'no'", "{ spending = 'pocock', final = 900 }", "{ spending = 'pocock', final = 900 }",
             "{ spending = 'pocock', final = 900, looks = [0.1] }",
             "{ spending = 'pocock', final = 700 }", f"{{ {ALWAYS} }}", "'no'",
             "{ spending = 'pocock', final = 900 }"]  # fmt: skip
    told, limited = [], []
    for plan in plans:
        (job / "job.toml").write_text(
            JOB.replace("[statistics]", f"[statistics]\nsequential = {plan}")
        )
        assert run_command(["run", "job.toml", "--quiet"]) == 0
        report = evalkit.load("runs/latest")
        told += [w.message for w in report.warnings if w.code == "changed-plan"]
        ends = {each.low is not None for each in report.comparisons}
        ones = {each.p_value == 1.0 for each in report.comparisons if each.p_value is not None}
        assert len(ends) == 1
        assert (ones == {True}) not in ends
        limited += ends
        paths = [graph for graph in report.graphs if graph.kind == "path-over-looks"]
        assert limited[-1] or not any(each for graph in paths for each in graph.high)

    left = 'went by sequential = { spending = "pocock", final = 900.0 }: this one, by another plan'
    assert [left in each for each in told] == [False] * 3 + [True] * 3 + [False]
    seen = [each.split(" earlier")[0] for each in told if left not in each]
    assert seen == ["1 of 1", "1 of 2", "1 of 3", "4 of 7"]
    assert limited == [True] * 4 + [False] * 3 + [True]


def test_hostile_names_are_read_back_and_stay_text(tmp_path, monkeypatch):
    """A column with a comma, a variant that is code; an effect of exactly 0 is a number."""
    monkeypatch.chdir(tmp_path)
    names = ["<img src=x onerror=alert(1)>", "b\n\x1b[31m\u202e|`$(x)`"]
    units = {"unit": range(400), "variant": names * 200, "cl,icks": [0, 0, 1, 1] * 100,
             "seg": ["=cmd|' /C calc'!A0", "</script><b>"] * 200}  # fmt: skip
    pl.DataFrame(units).write_parquet("units.parquet")
    variants = ", ".join(f"{json.dumps(name)} = 1" for name in names)
    (tmp_path / "job.toml").write_text(
        f"[experiment]\nvariants = {{ {variants} }}\n[exposures]\npath = 'units.parquet'\n"
        "columns = { unit = 'unit', variant = 'variant' }\n[metrics]\n"
        "names = [\"mean('cl,icks')\"]\nprimary = [\"mean('cl,icks')\"]\n"
        "[segments.seg]\nby = 'seg'\n"
    )
    assert run_command(["run", "job.toml", "--quiet"]) == 0

    report = evalkit.load("runs/latest")
    assert report.comparisons[0].metric == "mean('cl,icks')"
    assert (report.comparisons[0].delta, report.comparisons[0].statistic) == (0.0, 0.0)
    page = report.to_html()
    assert not any(each in page for each in ("<img", "</script><b>", "\x1b", "\u202e"))


def test_a_final_size_that_is_passed_is_told(job):
    plan = "[statistics]\nsequential = { spending = 'pocock', final = 500 }"
    (job / "job.toml").write_text(JOB.replace("[statistics]", plan))

    told = [e.message for e in run_config(load_config("job.toml")).warnings]
    assert any("600 units are more than the final size, 500" in each for each in told)
    assert any("no run of this job came before" in each for each in told)


def test_a_look_after_the_final_size_was_reached_decides_nothing(job):
    """Each look from the final size on went by the bound at it: six found 12 % that were none."""
    plan = "[statistics]\nsequential = { spending = 'obrien-fleming', final = 100 }"
    text, seen = JOB.replace("[statistics]", plan), []
    for until in ("2026-01-05", "2026-01-05", "2026-01-12"):  # the same look twice is one
        line = f'[experiment]\nuntil = "{until}"'
        (job / "job.toml").write_text(text.replace("[experiment]", line))
        assert run_command(["run", "job.toml", "--quiet"]) == 0
        seen.append(evalkit.load("runs/latest"))

    own = [next(e for e in each.comparisons if e.metric == "ratio(clicks, shown)") for each in seen]
    assert own[0].n_users == own[1].n_users < own[2].n_users
    assert (own[0].low, own[0].p_value) == (own[1].low, own[1].p_value)
    assert own[0].low is not None
    assert (own[2].low, own[2].p_value, own[2].verdict) == (None, 1.0, "cannot tell")
    path = next(e for e in seen[-1].graphs if e.y_name.startswith("effect on ratio"))
    assert path.high[0] == pytest.approx(1.96, abs=0.001)
    assert path.high[1] is None
    assert "Path over looks" in seen[-1].to_html()


def test_a_named_look_at_the_final_size_leaves_graphs_without_limits(job):
    plan = "sequential = { spending = 'pocock', final = 200, looks = [0.5, 1.0] }"
    (job / "job.toml").write_text(JOB.replace("[statistics]", f"[statistics]\n{plan}"))

    report = run_config(load_config("job.toml"))
    by_date = [each for each in report.graphs if each.kind == "effect-by-date"]
    assert by_date
    assert {(each.low, each.high) for each in by_date} == {((), ())}
    assert "effect by date" in report.to_html().lower()
