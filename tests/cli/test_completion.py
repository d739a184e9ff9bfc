"""Shells complete commands and options."""

import shutil
import subprocess

import pytest


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_script_is_there(python, shell):
    code = "from evalkit.cli import main; import sys; sys.argv = ['evalkit']; main()"

    outcome = python(code, _EVALKIT_COMPLETE=f"source_{shell}")

    assert outcome.status == 0
    assert "evalkit" in outcome.out


def test_bash_takes_the_script(process, tmp_path):
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("bash is not installed")
    script = process(_EVALKIT_COMPLETE="source_bash").out

    done = subprocess.run(
        [bash, "-c", f"{script}\ncomplete -p evalkit"], capture_output=True, text=True
    )

    assert done.returncode == 0, done.stderr
    assert "evalkit" in done.stdout


@pytest.mark.parametrize(
    ("words", "place", "found"),
    [
        ("evalkit hist", "1", ["history"]),
        ("evalkit run --if", "2", ["--if-new"]),
        ("evalkit history pr", "2", ["prune"]),
    ],
)
def test_words_are_completed(evalkit, words, place, found):
    outcome = evalkit(_EVALKIT_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=place)

    assert outcome.out.split() == found


FILES = "evalkit evaluate --truth truth.parquet --rankings good=good.parquet"


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("evalkit evaluate -m nDCG@", ["nDCG@5", "nDCG@10", "nDCG@20", "nDCG@50"]),
        ("evalkit evaluate -m GA", []),
        ("evalkit history show R-precision@1", ["R-precision@10"]),
        ("evalkit run --profile ra", ["ranx"]),
        ("evalkit explain few-u", ["few-users"]),
        ("evalkit compare --config job.toml g", ["good"]),
        ("evalkit compare last-", ["last-passed"]),
        ("evalkit why 2", ["20261120-010000-000-aaaaaa"]),
        ("evalkit report --out elsewhere p", ["prod"]),
        (f"{FILES} --relevance ra", ["rating", "rank"]),
        ("evalkit evaluate --truth half.csv --user u", ["user"]),
        ("evalkit evaluate --truth none.parquet --user u", []),
        ("evalkit compare --config none.toml g", []),
    ],
)
def test_what_an_option_takes_is_completed(evalkit, logs, words, found):
    runs, elsewhere = logs / "runs", logs / "elsewhere" / "tags"
    for name in ("20261120-010000-000-aaaaaa", "2 a\nb", "20261120-020000-000-bbbbbb"):
        (runs / name).mkdir(parents=True, exist_ok=True)
    (runs / "20261120-010000-000-aaaaaa" / "manifest.json").write_text("{}")
    (runs / "2 a\nb" / "manifest.json").write_text("{}")
    elsewhere.mkdir(parents=True, exist_ok=True)
    (elsewhere / "prod").write_text("")
    (logs / "half.csv").write_text("item;user\n1;2\n")
    place = str(len(words.split()) - 1)

    outcome = evalkit(_EVALKIT_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=place)

    assert outcome.out.split() == found
    assert outcome.err == ""
