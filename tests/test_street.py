"""The code is built as docs/architecture.md says: imports point one way, metrics are complete."""

import ast
import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from itertools import pairwise
from pathlib import Path

import pytest
from raised import raised_in

import evalkit
from evalkit.cli.codes import all_codes
from evalkit.metrics import registry

PACKAGE = Path(evalkit.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))
PAGE = (PACKAGE.parent / "docs" / "architecture.md").read_text(encoding="utf-8")
LEAVES = ("demo", "synth")  # stand beside the street: only the command line imports them
CASES = (
    "perfect",
    "worst",
    "one swap",
    "short ranking",
    "empty ranking",
    "no relevant item",
    "cutoff above depth",
)


def stages() -> dict[str, int]:
    """Each module of the street with its place, read from the page."""
    (line,) = re.findall(r"^errors < [^`]*", PAGE, re.MULTILINE)
    places = {
        name.strip(): place
        for place, names in enumerate(line.split("<"))
        for name in names.split(",")
    }
    return {**places, **dict.fromkeys(LEAVES, places["cli"] - 1), "__main__": places["cli"] + 1}


def module_of(file: Path) -> str:
    parts = file.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(file: Path) -> Iterator[tuple[str, int]]:
    """Every module of the package that a file imports, wherever in the file, with its line."""
    package = module_of(file) if file.name == "__init__.py" else module_of(file).rpartition(".")[0]
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((each.name, node.lineno) for each in node.names)
        elif isinstance(node, ast.Call) and "import_module" in ast.unparse(node.func):
            named = [each.value for each in node.args if isinstance(each, ast.Constant)]
            yield from ((name, node.lineno) for name in named)
        elif isinstance(node, ast.ImportFrom):
            base = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
            for each in node.names:
                inner = f"{base}.{each.name}"
                is_module = base.split(".")[0] == "evalkit" and _is_module(inner)
                yield inner if is_module else base, node.lineno


def test_no_files_import_each_other_in_a_circle():
    arrows = {module_of(file): {name for name, _ in imports_of(file)} for file in FILES}

    list(TopologicalSorter(arrows).static_order())  # raises where there is one, and names it


def _is_module(name: str) -> bool:
    place = PACKAGE.parent.joinpath(*name.split("."))
    return place.with_suffix(".py").exists() or (place / "__init__.py").exists()


def stage_of(module: str) -> str | None:
    """The first name behind `evalkit`; None of the package itself, which is a leaf."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else None


def test_every_module_has_a_place_in_the_street():
    found = {stage for stage in map(stage_of, map(module_of, FILES)) if stage is not None}

    assert found == set(stages())


def test_every_module_has_a_line_in_the_table_of_rooms():
    listed = re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)

    assert [*listed, "__main__"] == [*stages()]


@pytest.mark.parametrize(
    ("room", "told"), re.findall(r"^\| `(\w+)` \| (.*) \|$", PAGE, re.MULTILINE)
)
def test_a_room_says_of_itself_what_the_page_says(room, told):
    folder = PACKAGE / room
    file = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    docstring = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    first = " ".join(docstring.split("\n\n")[0].split())

    assert first.lower() == f"{told.lower()}."


@pytest.mark.parametrize("file", FILES, ids=module_of)
def test_imports_point_left(file):
    places, here = stages(), stage_of(module_of(file))
    wrong = [
        f"{file.name}:{line}: {module}"
        for module, line in imports_of(file)
        if module.split(".")[0] == "evalkit"
        and (there := stage_of(module)) is not None
        and there != here
        and here is not None
        and (places[there] >= places[here] or (there in LEAVES and here != "cli"))
    ]

    assert not wrong


@pytest.mark.parametrize("file", FILES, ids=module_of)
def test_private_modules_are_imported_by_their_folder_alone(file):
    folder = module_of(file) if file.name == "__init__.py" else module_of(file).rpartition(".")[0]
    wrong = [
        f"{file.name}:{line}: {module}"
        for module, line in imports_of(file)
        if module.startswith("evalkit.")
        and module.rpartition(".")[2].startswith("_")
        and module.rpartition(".")[0] != folder
    ]

    assert not wrong


@pytest.mark.parametrize("file", FILES, ids=module_of)
def test_no_file_is_a_drawer(file):
    assert file.stem not in ("utils", "helpers", "common", "misc")


def test_the_package_and_its_config_load_nothing_heavy():
    script = (
        "import sys, evalkit, evalkit.config, evalkit.cli\n"
        "print([name for name in ('numpy', 'numba', 'polars', 'pyarrow') if name in sys.modules])"
    )

    done = subprocess.run(
        [sys.executable, "-c", script],
        check=True,
        capture_output=True,
        text=True,
        cwd=PACKAGE.parent,
    )

    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("name", sorted(registry()))
def test_every_metric_has_summary_source_and_bounds(name):
    metric = registry()[name]

    assert metric.summary.endswith(".")
    assert re.search(r"\b(18|19|20)\d\d\b", metric.source)
    assert metric.bounds[0] < metric.bounds[1]
    assert metric.undefined


@pytest.mark.parametrize("name", sorted(registry()))
def test_every_metric_has_goldens_of_every_case(name):
    stem = registry()[name].kernel.py_func.__module__.rpartition(".")[2]
    file = PACKAGE.parent / "tests" / "metrics" / "rankings" / f"test_{stem}.py"
    spec = importlib.util.spec_from_file_location(f"goldens_of_{stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    cases = [row[0] for row in module.GOLDENS]

    assert [case for case in CASES if not any(each.startswith(case) for each in cases)] == []


RAISED = raised_in(PACKAGE)


def test_every_code_of_the_source_is_explained():
    missing = {
        each.code: each.place for each in RAISED if each.code and each.code not in all_codes()
    }
    wanted = "\n".join(
        f'\n# {place}\n[{code}]\nmeans = "What is the case."\n'
        f'cause = "What usually leads to it."\ncure = "What to write, run or mend."'
        for code, place in sorted(missing.items())
    )

    assert not missing, (
        f"evalkit/cli/codes.toml lacks, each in its place of the alphabet:\n{wanted}"
    )


def test_no_code_is_explained_that_nothing_raises():
    extra = set(all_codes()) - {each.code for each in RAISED}

    assert not extra, f"take these tables out of evalkit/cli/codes.toml: {sorted(extra)}"


def test_every_code_can_be_seen_in_the_source():
    hidden = [each.place for each in RAISED if each.code is None]

    assert not hidden, f"write the code as a literal, or a choice of literals: {hidden}"


def test_codes_stand_in_the_order_of_the_alphabet():
    names = list(all_codes())
    before = [two for one, two in pairwise(names) if one > two]

    assert not before, f"further up in evalkit/cli/codes.toml: {before}"


def _functions(file: Path) -> Iterator[tuple[ast.FunctionDef, int, int]]:
    """Every function of a file, its lines without the docstring, and its positional parameters."""
    for each in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(each, ast.FunctionDef):
            lines = (each.end_lineno or 0) - each.lineno + 1
            first = each.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                lines -= (first.end_lineno or 0) - first.lineno + 1
            given = [*each.args.posonlyargs, *each.args.args]
            yield each, lines, len(given) - any(arg.arg in ("self", "cls") for arg in given[:1])


@pytest.mark.parametrize("file", FILES, ids=module_of)
def test_modules_and_functions_are_small_or_say_why_not(file):
    text = file.read_text(encoding="utf-8")
    is_command = file.parent.name == "cli"  # its parameters are options
    found = []
    if text.count("\n") > 500 and "# Long: " not in text:
        found.append("the module")
    for function, n_lines, n_parameters in _functions(file):
        is_metric = any("metric(" in ast.unparse(each) for each in function.decorator_list)
        own = text.splitlines()[function.lineno : function.end_lineno]
        says_why = any("# Long: " in line for line in own)
        if n_lines > 80 and not (is_command or says_why):
            found.append(f"{function.name}: {n_lines} lines")
        is_declared = is_command or is_metric or any("# Wide: " in line for line in own)
        if n_parameters > 8 and not is_declared:
            found.append(f"{function.name}: {n_parameters} parameters")

    assert found == []
