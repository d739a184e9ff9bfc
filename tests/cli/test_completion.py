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


def test_bash_takes_the_script(evalkit, tmp_path):
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("bash is not installed")
    script = evalkit(_EVALKIT_COMPLETE="source_bash").out

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
