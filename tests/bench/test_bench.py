"""Every script of the benchmark runs on tiny logs and refuses to show times of wrong numbers."""

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from evalkit.statistics.skewness import reach

ROOT = Path(__file__).parent.parent.parent
WITHOUT_COMPILING = {"NUMBA_DISABLE_JIT": "1"}
pytestmark = pytest.mark.campaign  # nobody's numbers but those of our own pages


def run_script(name: str, out: Path, *options: str, **variables: str):
    command = [sys.executable, ROOT / "bench" / f"{name}.py", "--out", out, *options]
    return subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **variables}, check=False
    )


def read_record(out: Path, stem: str) -> dict:
    (file,) = out.glob(f"{stem}-*.json")
    return json.loads(file.read_text())


def test_engines_agree_and_libraries_that_are_not_there_are_named(tmp_path):
    only = "floor,evalkit_call,evalkit_command,duckdb_query,polars_query,rectools_metrics"
    sizes = ["--users", "300", "--peer-users", "200", "--rounds", "1", "--peer-rounds", "1"]

    done = run_script("run", tmp_path, *sizes, "--only", only)

    assert done.returncode == 0, done.stderr
    record = read_record(tmp_path, "run")
    assert [each["name"] for each in record["engines"]["results"]] == only.split(",")[:5]
    assert record["peers"]["skipped"] == {"RecTools": "not installed"}
    assert [each["name"] for each in record["peers"]["results"]] == ["evalkit_four", "evalkit_call"]
    assert "x floor" in done.stdout


def test_scale_gives_the_same_report_below_a_memory_limit(tmp_path):
    sizes = ["--sizes", "2e3", "--depth", "20", "--rounds", "1", "--memory-limit", "450e6"]

    done = run_script("scale", tmp_path, *sizes)

    assert done.returncode == 0, done.stderr
    runs = read_record(tmp_path, "scale")["runs"]
    limits = [(each["rows"], each["memory_limit"]) for each in runs]
    assert limits == [(2000, None), (2000, 450_000_000)]
    assert all(each["is_checked"] for each in runs)


def test_more_models_and_numbers_are_told_beside_few(tmp_path):
    done = run_script("more", tmp_path, "--users", "200", "--models", "3", "--rounds", "0")

    assert done.returncode == 0, done.stderr
    record = read_record(tmp_path, "more")
    assert record["models"]["ratio"] < 1.0
    sizes = [each["n_metrics"] * each["n_cutoffs"] for each in record["widths"]]
    assert sizes == [1, 35, 200, 700, 4000]


def test_limits_of_memory_are_held_or_refused(tmp_path):
    done = run_script("memory", tmp_path, "--only", "copies", "--scale", "0.01")

    assert done.returncode == 0, done.stdout + done.stderr
    runs = read_record(tmp_path, "memory")["runs"]
    assert {each["log"] for each in runs} == {"copies"}
    assert all(each["peak_mib"] <= each["limit_mib"] for each in runs if each["is_named"])


def test_shapes_agree(tmp_path):
    sizes = ["--users", "300", "--depth", "10", "--rounds", "0"]
    heavy = ["--heavy-rows", "2000", "--heavy-relevant", "200"]
    whole = "uuid-bytes,categorical,text24-by-user,list,scattered-score"  # each way to write a log
    only = ["--only", f"{whole},models,heavy"]

    done = run_script("shapes", tmp_path, *sizes, *heavy, *only)

    assert done.returncode == 0, done.stderr
    record = read_record(tmp_path, "shapes")
    results = {each["name"]: each for each in record["results"]}
    assert len(results) == 8
    assert {each["name"] for each in record["wholes"]} == {*whole.split(","), "rank"}
    assert results["heavy"]["ranked_rows"] == 5000
    assert results["models"]["ranked_rows"] == 30_000


def test_threads_agree(tmp_path):
    sizes = ["--users", "300", "--depth", "10", "--rounds", "1", "--threads", "2"]

    done = run_script("threads", tmp_path, *sizes)

    assert done.returncode == 0, done.stderr
    lines = read_record(tmp_path, "threads")["lines"]
    assert [line["gain"] for line in lines if line["title"].endswith("threads: 1")] == [1, 1]
    assert len(lines) == 6


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="no git repository")
def test_compare_takes_a_commit_and_the_working_tree(tmp_path):
    sizes = ["--users", "100", "--depth", "10", "--rounds", "2"]

    done = run_script("compare", tmp_path, "HEAD", *sizes, **WITHOUT_COMPILING)

    assert done.returncode == 0, done.stderr
    record = read_record(tmp_path, "compare")
    assert record["after"]["asked"] == "the working tree"
    assert len(record["ratios"]) == 2


def test_startup_measures_commands_and_shows_no_time_of_a_wrong_number(tmp_path):
    names = ["version", "help", "whole"]
    options = ["--users", "100", "--depth", "10", "--rounds", "1", "--only"]

    done = run_script("startup", tmp_path, *options, ",".join(names), **WITHOUT_COMPILING)

    assert done.returncode == 0, done.stderr
    record = read_record(tmp_path, "startup")
    assert [each["name"] for each in record["results"]] == names
    assert record["call"]["cpu"] > 0

    (reference,) = tmp_path.glob("logs/100x*/reference-*.json")
    numbers = json.loads(reference.read_text())
    reference.write_text(json.dumps({**numbers, "AP@10": numbers["AP@10"] + 1e-6}))

    done = run_script("startup", tmp_path, *options, "whole", **WITHOUT_COMPILING)

    assert done.returncode == 1
    assert "AP@10: the Polars query says" in done.stderr
    assert done.stdout == ""


def test_every_library_has_pinned_packages_and_a_contestant():
    listing = "import json, contestants as c, peers; print(json.dumps([peers.list_peers(), sorted("
    listing += "{each.environment for each in c.CONTESTANTS.values() if each.environment})]))"

    done = subprocess.run(
        [sys.executable, "-c", listing], cwd=ROOT / "bench", capture_output=True, text=True
    )

    assert done.returncode == 0, done.stderr
    pinned, wanted = json.loads(done.stdout)
    asked = (ROOT / "bench" / "names_worker.py").read_text()
    assert set(wanted) <= set(pinned)
    assert [name for name in set(pinned) - set(wanted) if f"def {name}(" not in asked] == []


def test_nights_of_a_scheduler_end_with_whole_runs():
    command = [sys.executable, ROOT / "bench" / "nights.py", "--nights", "2", "--kills", "0.5"]

    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["nights"] == 2


def test_simulations_print_how_often_intervals_hold(tmp_path):
    sizes = ["--sizes", "20", "--shares", "0.3", "--draws", "6", "--resampled-draws", "2"]

    done = run_script("simulate", tmp_path, *sizes, "--replicates", "100")

    assert done.returncode == 0, done.stderr
    record = read_record(tmp_path, "simulate")
    assert {each["values"] for each in record["coverage"]} >= {"hit", "nDCG", "difference"}
    assert all(0 <= each["held"] <= 100 for each in record["coverage"])
    assert {each["test"] for each in record["levels"]} >= {"t", "Wilcoxon", "permutation"}
    assert "| report |" in done.stdout


def test_simulated_families_are_printed_by_correction(tmp_path):
    done = run_script("simulate", tmp_path, "--families", "--sizes", "100", "--draws", "4")

    assert done.returncode == 0, done.stderr
    cells = read_record(tmp_path, "simulate-families")["families"]
    of_five = next(each["found"] for each in cells if each["n_tests"] == 5)
    assert of_five["auto, holm"] == of_five["auto, bonferroni"] <= of_five["auto, bh"]
    heads = ("auto, tukey, 6", "t, tukey, 6", "t, holm, 60")
    assert all(f"| {head} |" in done.stdout for head in heads)


def test_choices_of_correction_are_simulated_beside_the_one_that_reports_have(tmp_path):
    sizes = ["--sizes", "50", "--shares", "0.1", "--draws", "40"]

    done = run_script("simulate", tmp_path, "--skewness", *sizes)

    assert done.returncode == 0, done.stderr
    found = {each["choice"]: each for each in read_record(tmp_path, "simulate-skewness")["choices"]}
    assert found["none of it"]["width"] == 1.0 < found["half"]["width"] < found["all"]["width"]
    known = runpy.run_path(str(ROOT / "bench" / "simulate_skewness.py"))["CHOICES"]["as chosen"]
    ks = np.array([-0.9, -0.4, -0.1, 0.0, 0.2, 0.7])
    assert known.reaches(2.0, ks) == pytest.approx([reach(2.0, k * 10.0, 100) for k in ks])


def test_errors_of_metrics_on_samples_are_printed(tmp_path):
    sizes = ["--items", "200", "--others", "9", "--users", "300", "--draws", "2"]

    done = run_script("sampled", tmp_path, *sizes)

    assert done.returncode == 0, done.stderr
    rows = read_record(tmp_path, "sampled")["rows"]
    assert len(rows) == 16
    assert all(each["errors"]["steps=100"] < each["errors"]["plain"] for each in rows)


def test_simulations_of_rows_print_how_often_intervals_hold(tmp_path):
    done = run_script(
        "simulate_rows", tmp_path, "--sizes", "20", "--draws", "2", "--true-users", "50"
    )

    assert done.returncode == 0, done.stderr
    record = read_record(tmp_path, "simulate_rows")
    assert {each["metric"] for each in record["coverage"]} >= {"AUC", "log-loss", "RMSE"}
    assert all(0 <= each["held"] <= 100 for each in record["coverage"])


def test_simulations_of_nights_print_how_often_limits_hold(tmp_path):
    done = run_script("simulate_nights", tmp_path, "--sizes", "30", "--draws", "2")

    assert done.returncode == 0, done.stderr
    record = read_record(tmp_path, "simulate_nights")
    assert {each["values"] for each in record["coverage"]} == {"hits", "graded"}
    assert all(0 <= each["held"]["mix"] <= 100 for each in record["coverage"])


def test_labels_are_checked_and_held_against_the_floor(tmp_path):
    done = run_script("labels", tmp_path, "--rows", "3e4", "--rounds", "1")

    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert record["checked"] == ["AUC", "Brier", "base-rate", "log-loss"]
    assert record["times_floor"] > 0
    assert record["peak_mib"] > 0


def test_libraries_beside_which_nothing_stands_are_named(tmp_path):
    done = run_script("names", tmp_path, "--only", "ranx,sklearn")

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "ranx: not installed; python bench/peers.py --only ranx",
        "sklearn: not installed; python bench/peers.py --only sklearn",
    ]


def test_a_commit_gives_the_same_bytes_as_itself(tmp_path):
    done = run_script("same", tmp_path, "HEAD", "HEAD", "--logs", "1", "--quick")

    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 differ" in done.stdout


def test_a_report_is_read_back_before_its_time_is_shown(tmp_path):
    done = run_script("report", tmp_path, "--segments", "20", "--models", "3")

    assert done.returncode == 0, done.stderr
    rows = read_record(tmp_path, "report")["rows"]
    assert {row["step"] for row in rows} >= {"json", "html", "run and index", "read back"}
    assert {row["comparisons"] for row in rows} == {True, False}


def test_damaged_files_end_in_an_answer_or_an_error_of_the_data(tmp_path):
    done = run_script("fuzz", tmp_path, "--files", "30")

    assert done.returncode == 0, done.stdout + done.stderr
    record = read_record(tmp_path, "fuzz")
    assert sum(sum(each.values()) for each in record["ends"].values()) == record["files"] == 30
    assert {"fine", "unreadable-file"} <= {end for each in record["ends"].values() for end in each}
    assert record["findings"] == []


def test_killed_commands_leave_nothing_torn(tmp_path):
    done = run_script("kills", tmp_path, "--kills", "1")

    assert done.returncode == 0, done.stdout + done.stderr
    assert read_record(tmp_path, "kills")["findings"] == []
