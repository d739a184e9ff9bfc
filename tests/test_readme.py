"""Every command and example of README and guide runs, and the two commands are those of CI."""

import re
import shlex
import shutil
from pathlib import Path

import pytest
from program import run_here, run_program

import evalkit
from evalkit.config import parse_config

ROOT = Path(__file__).parent.parent
PAGES = ("README.md", "docs/guide.md", "docs/benchmarks.md")
README = "\n".join((ROOT / page).read_text(encoding="utf-8") for page in PAGES)


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def test_commands_run_one_after_the_other(tmp_path: Path) -> None:
    for name, mark in (("trials.toml", "selection = "), ("choose.toml", "[selection]")):
        (config,) = (block for block in blocks("ini") if mark in block)
        (tmp_path / name).write_text(config, encoding="utf-8")
    shutil.copy(ROOT / "evalkit" / "demo" / "train.parquet", tmp_path / "log.parquet")
    lines = [line[2:] for block in blocks("console") for line in block.splitlines()]
    assert len(lines) >= 5
    for line in lines:
        name, *arguments = shlex.split(line)
        assert name == "evalkit", line

        done = run_here(arguments, tmp_path)

        assert done.status == 0, f"{line}\n{done.out}{done.err}"


def test_python_examples_say_the_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    n_shown = 0
    for block in blocks("python"):
        names: dict[str, object] = {}
        for piece in re.split(r"\n\n(?=\w+ = pl)", block):  # a report at a time
            exec(piece, names)
            report = names.get("report")
            for name, value in re.findall(r'report\.value\("(.+?)"\) +# ([0-9.]+)', piece):
                assert isinstance(report, evalkit.Report)
                assert report.value(name) == float(value), name
                n_shown += 1

    assert n_shown == 4


def test_the_first_example_prints_what_stands_below_it(capsys: pytest.CaptureFixture[str]) -> None:
    exec(blocks("python")[0], {})

    assert capsys.readouterr().out == blocks("text")[0]


def test_config_examples_load() -> None:
    variables = [{"day": "2026-11-20"}, {}]
    configs = [
        parse_config(block, source="README.md", base="", variables=given)
        for block, given in zip(blocks("toml"), variables, strict=True)
    ]

    assert [config.name for config in configs] == ["nightly-als", "candidates"]


def test_demo_prints_what_the_readme_shows(tmp_path: Path) -> None:
    shown = blocks("text")[1].strip()

    done = run_program(["demo"], tmp_path, {"NO_COLOR": "1"})

    assert done.status == 0, done.err
    assert done.out.startswith(shown), done.out


def test_ci_calls_the_test_command() -> None:
    _, command = blocks("sh")

    assert command.strip() in (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 155


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")

    for link in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text):
        assert ((ROOT / page).parent / link).exists(), link
