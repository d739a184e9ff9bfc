"""The notebooks of the site run, give what they are committed with, and hold nothing of a machine.

Cells run here as plain Python, and their commands as commands; `-m slow` starts the kernel too.
"""

import ast
import json
import shlex
from pathlib import Path

import pytest
from program import ROOT

from evalkit.cli.app import run_command

FOLDER = ROOT / "docs" / "notebooks"
NAMES = ("nightly-job", "papers-number", "segments", "experiment")


def cells(name: str) -> list[dict]:
    notebook = json.loads((FOLDER / f"{name}.ipynb").read_text(encoding="utf-8"))
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


@pytest.mark.parametrize("name", NAMES)
def test_cells_run_and_give_what_is_shown(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for cell in cells(name):
        source = "".join(cell["source"])
        if source.startswith("!"):
            command, _, after = source[1:].partition(";")
            _, *arguments = shlex.split(command)
            status = run_command(arguments)
            assert status == (1 if after else 0), f"{command}\n{capsys.readouterr()}"
            continue
        tree = ast.parse(source)
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, name, "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), name, "eval"), names)
            shown = [each["data"] for each in cell["outputs"] if "data" in each]
            if shown and "image/svg+xml" not in shown[0]:
                told = f"python docs/make_notebooks.py {name} writes it anew"
                assert "".join(shown[0]["text/plain"]) == repr(value), told


@pytest.mark.parametrize("name", NAMES)
def test_outputs_are_small_and_of_no_machine(name: str) -> None:
    path = FOLDER / f"{name}.ipynb"
    text = path.read_text(encoding="utf-8")

    assert path.stat().st_size < 100_000
    assert not [each for each in ("/tmp", "/home", "/root", "/work", "/Users") if each in text]
    assert not [each for cell in cells(name) for each in cell["outputs"] if "ename" in each]
    assert all(cell["execution_count"] for cell in cells(name))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_kernel_runs_them_all(
    name: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    if "slow" not in request.config.option.markexpr:
        pytest.skip("starts a kernel for each: -m slow")
    pytest.importorskip("nbclient")
    monkeypatch.syspath_prepend(FOLDER.parent)
    from make_notebooks import execute

    done = execute(FOLDER / f"{name}.ipynb")

    found = [cell for cell in done.cells if cell.cell_type == "code"]
    assert [len(each.outputs) > 0 for each in found] == [len(c["outputs"]) > 0 for c in cells(name)]
