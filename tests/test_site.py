"""Commands, configs and snippets of the site's pages run, on files that look like a reader's."""

import re
import shlex
import sys
from pathlib import Path
from types import ModuleType

import polars as pl
import pytest
from program import ROOT

import evalkit
from evalkit.cli.app import COMMANDS, run_command
from evalkit.cli.codes import all_codes
from evalkit.config import Config, parse_config
from evalkit.config._joined import joined
from evalkit.metrics import FOLDERS, other_kinds, registry_of

DEMO = ROOT / "evalkit" / "demo"
PAGES = ("start", "concepts", "coming-from", "promises")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that the pages speak of."""
    users = pl.col("user") <= 200
    truth = pl.read_parquet(DEMO / "test.parquet").filter(users)
    train = pl.read_parquet(DEMO / "train.parquet").filter(users)
    knn, ease = (
        pl.read_parquet(DEMO / "rankings" / f"{name}.parquet").filter(users, pl.col("rank") <= 20)
        for name in ("item-knn", "ease")
    )
    ours = {"user": "customer_id", "item": "sku"}
    held_out = truth.select(customer_id="user", sku="item", stars="rating")
    held_out.write_csv(tmp_path / "held-out.csv", separator=";")
    knn.rename({**ours, "rank": "position"}).drop("score").write_csv(tmp_path / "prod.csv")
    lists = ease.group_by("user", maintain_order=True).agg(recs="item")
    lists.rename({"user": "customerId"}).write_parquet(tmp_path / "candidate.parquet")
    log = pl.concat([train, truth]).select(visitor="user", article="item", time="timestamp")
    log.with_columns(pl.col("time").dt.epoch("s")).write_csv(tmp_path / "events.csv", separator=";")
    relevant = truth.filter(pl.col("rating") >= 4)
    with (tmp_path / "qrels.test").open("w") as file:
        file.writelines(f"{user} 0 {item} 1\n" for user, item, *_ in relevant.iter_rows())
    with (tmp_path / "results.test").open("w") as file:
        rows = ease.select("user", "item", "rank", "score").iter_rows()
        file.writelines(
            f"{user} Q0 {item} {rank} {score} ease\n" for user, item, rank, score in rows
        )
    shown = ease.join(truth, on=("user", "item"), how="left")
    shown.select(
        user_id="user", item_id="item", prediction="score", target=pl.col("rating").fill_null(0) > 3
    ).write_parquet(tmp_path / "current.parquet")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def blocks(page: str, language: str) -> list[str]:
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


@pytest.mark.parametrize("page", PAGES)
def test_commands_run_one_after_the_other(
    folder: Path, page: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [line[2:] for block in blocks(page, "console") for line in block.splitlines()]
    for line in lines:
        name, *arguments = shlex.split(line)
        assert name == "evalkit", line

        status = run_command(arguments)
        out, err = capsys.readouterr()

        assert status == 0, f"{line}\n{out}{err}"
        if arguments[0] == "run":
            assert re.search(r" (is (better|worse|identical)|shows no clear difference)", out), out
            assert "page: runs/" in out


def commands(page: str) -> list[list[str]]:
    """The commands of a page's shell blocks, without comments and loops."""
    lines = "".join([*blocks(page, "sh"), *blocks(page, "bash")]).splitlines()
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("evalkit ")]


def test_commands_of_a_job_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    day = Path("logs/day=20")
    day.mkdir(parents=True)
    Path("held-out.csv").rename(day / "truth.csv")
    Path("candidate.parquet").rename(day / "als.parquet")
    Path("nightly.toml").write_text(
        '[truth]\npath = "logs/day={day}/truth.csv"\n'
        'columns = { user = "customer_id", item = "sku", relevance = "stars" }\n'
        '[[rankings]]\nmodel = "als"\npath = "logs/day={day}/als.parquet"\n'
        'columns = { user = "customerId", item = "recs" }\n'
        '[[rankings]]\nmodel = "prod"\npath = "prod.csv"\n'
        'columns = { user = "customer_id", item = "sku", rank = "position" }\n'
        '[metrics]\nnames = ["nDCG@10", "RR"]\n[statistics]\nbaseline = "prod"\n'
    )
    for _ in range(2):
        assert run_command(["run", "nightly.toml", "--var", "day=20", "--quiet"]) == 0
    for arguments in commands("jobs")[1:]:  # the first is run by the tests of configs
        assert run_command(arguments) == 0, capsys.readouterr()
    Path("nightly.toml").write_text(Path("nightly.toml").read_text().replace("{day}", "20"))
    loop, merge = blocks("partials", "sh")[0].splitlines()
    share = loop.removeprefix("for i in 1 2 3 4; do evalkit ").removesuffix("; done")
    for number in "1234":
        assert run_command(shlex.split(share.replace("$i", number))) == 0, capsys.readouterr()
    files = [str(each) for each in Path().glob("part-*.evalkit")]
    assert run_command(["merge", *files, *shlex.split(merge)[3:]]) == 0, capsys.readouterr()
    names: dict[str, object] = {"evalkit": evalkit}
    exec(blocks("partials", "python")[0], names)
    assert names["report"].value("RR", model="als") > 0  # type: ignore[attr-defined]


def test_commands_from_a_log_to_lists_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = pl.read_csv("events.csv", separator=";")
    log = log.select(user_id="visitor", item_id="article", ts="time")
    Path("logs/interactions").mkdir(parents=True)
    for path in ("logs/interactions/a.parquet", "log.parquet"):
        log.write_parquet(path)
    Path("shop.toml").write_text(blocks("splits", "toml")[0])
    cut, by_config, check = commands("splits")
    again, baseline, select, looks, _ = commands("selection")
    for arguments in (cut, by_config):
        assert run_command(arguments) == 0, capsys.readouterr()
    for part, name in (("train", "train"), ("validation", "valid"), ("test", "test")):
        (file,) = Path("splits/week", part).glob("*.parquet")
        file.rename(f"{name}.parquet")
    days = [each.replace("7d", "900d") for each in again[:-1]]  # the log is thin and long
    for arguments in (check, [*days, "splits/other"]):
        assert run_command(arguments) == 0, capsys.readouterr()
    Path("lists").mkdir()
    *made, out = [each.replace("splits/week/", "splits/other/") for each in baseline]
    of_test = [each.replace("/validation", "/test") for each in made]
    for number, window in enumerate(("7d", "60d", "600d")):
        made[1] = of_test[1] = "recent"
        for command, end in ((made, ""), (of_test, "-test")):
            command = [*command, f"lists/{number}{end}.parquet", "--window", window]
            assert run_command(command) == 0, capsys.readouterr()
    assert run_command(["baseline", "popular", *made[2:], out]) == 0, capsys.readouterr()
    Path("trials.csv").write_text("number,params_window\n0,7\n1,60\n2,600\n")
    Path("choose.toml").write_text(blocks("selection", "ini")[1].replace("/week", "/other"))
    for arguments in (select, looks):
        assert run_command(arguments) == 0, capsys.readouterr()
    assert "selections/" in capsys.readouterr().out


def test_data_sets_are_compared(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    truth = pl.read_csv("held-out.csv", separator=";")
    lists = ["--rankings", "a=prod.csv", "--rankings", "b=candidate.parquet"]
    *_, across = commands("selection")
    for number, run in enumerate(across[2:]):
        truth.filter(pl.col("customer_id") % 3 == number).write_csv("truth.csv")
        asked = ["--truth", "truth.csv", *lists, "--metric", "nDCG@10"]
        assert run_command(["evaluate", *asked, "--out", str(Path(run).parent)]) == 0
    assert run_command(across) == 0, capsys.readouterr()


@pytest.mark.parametrize("page", PAGES)
def test_snippets_say_the_values(folder: Path, page: str) -> None:
    for block in blocks(page, "python"):
        names: dict[str, object] = {}
        exec(block, names)
        for expression, value in re.findall(
            r"^([^\s#=]+\(.*?\))  # ([0-9.]+)$", block, re.MULTILINE
        ):
            assert eval(expression, names) == pytest.approx(float(value), abs=1e-6), expression


@pytest.mark.parametrize("page", PAGES)
def test_configs_load(page: str) -> None:
    for block in blocks(page, "toml"):
        rest = '[truth]\npath = "t.parquet"\n' if "[truth]" not in block else ""
        metrics = '[metrics]\nnames = ["nDCG@10"]\n' if "[metrics]" not in block else ""
        rankings = '[[rankings]]\nmodel = "m"\npath = "m.parquet"\n'

        assert parse_config(f"{block}\n{rest}{metrics}{rankings}", source=page, base="")


def test_the_reference_holds_all_that_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    formulas = ModuleType("latex2mathml.converter")
    formulas.convert = lambda latex, display: latex  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "latex2mathml.converter", formulas)
    monkeypatch.syspath_prepend(ROOT / "docs")
    from make_reference import pages

    made = pages()

    def headings(name: str) -> set[str]:
        return set(re.findall(r"^## `?(.+?)`?$", made[f"reference/{name}.md"], re.MULTILINE))

    assert headings("codes") == set(all_codes())
    for kind in FOLDERS:
        assert headings(f"metrics-{kind}") == set(registry_of(kind))
    sections = set(joined(Config, other_kinds()).model_fields) - {"name", "storage", "verify_pages"}
    assert {each.strip("[]") for each in headings("config")} == sections
    assert {f"evalkit {each}" for each in COMMANDS} - {"evalkit history"} < headings("commands")
    fields = re.findall(r"^\| `\w+` \|(.*)\|$", made["reference/config.md"], re.MULTILINE)
    assert all(each.split("|")[0].strip() for each in fields)  # each key has a meaning
