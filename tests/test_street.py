"""The code is built as docs/architecture.md says: imports point one way, metrics are complete."""

import ast
import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from itertools import pairwise
from pathlib import Path

from naive import NAIVE
from parsed import PACKAGE, folder_of, module_of, name_of, nodes_of, trees
from raised import Raised, raised

from evalkit.cli.codes import all_codes
from evalkit.metrics import registry

FILES = sorted(PACKAGE.rglob("*.py"))
PAGE = (PACKAGE.parent / "docs" / "architecture.md").read_text(encoding="utf-8")
CASES = (
    "perfect",
    "worst",
    "one swap",
    "short ranking",
    "empty ranking",
    "no relevant item",
    "cutoff above depth",
)
MOST_ROOMS = 24  # with the two files of the package itself
MOST_ARROWS = 150  # pairs of rooms that know each other


def stages() -> dict[str, int]:
    """Each room with its place, read from the page."""
    (line,) = re.findall(r"^errors < [^`]*?(?=\n\n|\n```)", PAGE, re.MULTILINE)
    places = places_in(line)
    return {**places, "__main__": places["cli"] + 1}


def places_in(line: str) -> dict[str, int]:
    """Each name of `a < b, c < d` with its place."""
    return {
        name.strip(): place
        for place, names in enumerate(line.split("<"))
        for name in names.split(",")
    }


def inner_stages() -> dict[str, dict[str, int]]:
    """Folders and files inside of rooms with their places; `own` are all others of the room."""
    lines = re.findall(r"^in (\w+): (.*)$", PAGE, re.MULTILINE)
    return {room: places_in(line) for room, line in lines}


def inner_of(module: str, places: dict[str, int]) -> str:
    """The part of its room that a module belongs to."""
    parts = module.split(".")
    return parts[2] if len(parts) > 2 and parts[2] in places else "own"


def test_every_folder_of_a_room_has_a_place_in_it():
    inner = inner_stages()
    found = {
        (room, folder.name)
        for room in inner
        for folder in (PACKAGE / room).iterdir()
        if (folder / "__init__.py").exists()
    }
    own = {("report", "forms"), ("report", "html")}
    own |= {(room, name) for room, name in found if room == "metrics"}  # of kinds

    assert found - own <= {(room, name) for room, places in inner.items() for name in places}


@cache
def imports_of(file: Path) -> tuple[tuple[str, int], ...]:
    """Every module of the package that a file imports, wherever in the file, with its line."""
    return tuple(
        (name, node.lineno)
        for _, node in nodes_of(file)
        if isinstance(node, ast.Import | ast.ImportFrom | ast.Call)
        for name in _named(node, folder_of(file))
        if name.split(".")[0] == "evalkit"
    )


def _named(node: ast.Import | ast.ImportFrom | ast.Call, package: str) -> Iterator[str]:
    """The modules that an import, or a call of `import_module`, names."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        relative = "." * node.level + (node.module or "")
        base = importlib.util.resolve_name(relative, package) if node.level else relative
        for alias in node.names:
            inner = f"{base}.{alias.name}"
            yield inner if inner in modules() else base
    elif name_of(node.func) == "import_module":
        yield from (given.value for given in node.args if isinstance(given, ast.Constant))


@cache
def modules() -> frozenset[str]:
    """Every module and package of the package, by its dotted name."""
    return frozenset(map(module_of, FILES))


def test_no_files_import_each_other_in_a_circle():
    arrows = {module_of(file): {name for name, _ in imports_of(file)} for file in FILES}

    list(TopologicalSorter(arrows).static_order())  # raises where there is one, and names it


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


def test_rooms_say_of_themselves_what_the_page_says():
    wrong = []
    for room, told in re.findall(r"^\| `(\w+)` \| (.*) \|$", PAGE, re.MULTILINE):
        folder = PACKAGE / room
        file = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
        docstring = ast.get_docstring(trees()[file]) or ""
        first = " ".join(docstring.split("\n\n")[0].split())
        if first.lower() != f"{told.lower()}.":
            wrong.append(f"{room}: {first!r} there, {told!r} on the page")

    assert not wrong


def test_imports_point_left():
    places = stages()
    wrong = [
        f"{file.relative_to(PACKAGE)}:{line}: {module}"
        for file in FILES
        if (here := stage_of(module_of(file))) is not None
        for module, line in imports_of(file)
        if (there := stage_of(module)) not in (None, here) and places[there] >= places[here]
    ]

    assert not wrong


def test_inside_of_a_room_imports_point_left_too():
    inner = inner_stages()
    wrong = [
        f"{file.relative_to(PACKAGE)}:{line}: {module}"
        for file in FILES
        if (places := inner.get(room := stage_of(module_of(file)) or "")) is not None
        for module, line in imports_of(file)
        if stage_of(module) == room
        and (here := inner_of(module_of(file), places)) != (there := inner_of(module, places))
        and places[there] >= places[here]
    ]

    assert not wrong


def test_rooms_are_few_and_know_few_others():
    arrows = {
        (here, there)
        for file in FILES
        for module, _ in imports_of(file)
        if (there := stage_of(module)) != (here := stage_of(module_of(file)))
    }

    assert len({"__init__", *stages()}) <= MOST_ROOMS
    assert len(arrows) <= MOST_ARROWS


def test_rooms_say_what_comes_in_what_leaves_and_where_to_begin():
    wrong = []
    for folder in sorted({file.parent for file in FILES if file.parent.parent == PACKAGE}):
        docstring = ast.get_docstring(trees()[folder / "__init__.py"]) or ""
        said = re.findall(r"^(In|Out|Open first): (.+)$", docstring, re.MULTILINE)
        files = re.findall(r"`([\w/]+\.py)`", dict(said).get("Open first", ""))
        if len(said) < 3 or not files or not all((folder / name).exists() for name in files):
            wrong.append(folder.name)

    assert not wrong


def test_private_modules_are_imported_by_their_folder_alone():
    wrong = [
        f"{file.relative_to(PACKAGE)}:{line}: {module}"
        for file in FILES
        for module, line in imports_of(file)
        if module.rpartition(".")[2].startswith("_")
        and module.rpartition(".")[0] != folder_of(file)
        and module in modules()
    ]

    assert not wrong


def test_changes_are_told_beside_the_docs_and_not_in_the_package():
    stray = sorted(file.name for file in (PACKAGE / "changes").glob("*"))

    assert not stray, f"git mv evalkit/changes/NAME docs/changes/NAME for {stray}"


def test_no_file_is_a_drawer():
    assert {file.stem for file in FILES}.isdisjoint({"utils", "helpers", "common", "misc"})


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


def test_every_metric_has_summary_source_and_bounds():
    wrong = [
        name
        for name, metric in registry().items()
        if not (
            metric.summary.endswith(".")
            and re.search(r"\b(18|19|20)\d\d\b", metric.source)
            and metric.bounds[0] < metric.bounds[1]
            and metric.undefined
        )
    ]

    assert not wrong


def test_every_metric_has_a_twin_in_plain_python():
    for name in registry():
        assert NAIVE[name]  # says what to write where there is none


def test_every_metric_has_goldens_of_every_case():
    wrong = []
    for name, metric in registry().items():
        stem = metric.kernel.py_func.__module__.rpartition(".")[2]
        file = PACKAGE.parent / "tests" / "metrics" / "rankings" / f"test_{stem}.py"
        if not file.exists():
            wrong.append(f"{name}: {file.name} is missing")
            continue
        found = _golden_cases(file)
        lacking = [case for case in CASES if not any(row.startswith(case) for row in found)]
        wrong += [f"{name}: GOLDENS of {file.name} lack {case!r}" for case in lacking]

    assert not wrong


@cache
def _golden_cases(file: Path) -> tuple[str, ...]:
    """The first fields of the rows of `GOLDENS`."""
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "GOLDENS":
            assert isinstance(node.value, ast.List)
            firsts = [row.elts[0] for row in node.value.elts if isinstance(row, ast.Tuple)]
            return tuple(str(one.value) for one in firsts if isinstance(one, ast.Constant))
    return ()


@cache
def found_codes() -> tuple[Raised, ...]:
    return tuple(raised())


def test_every_code_of_the_source_is_explained():
    missing = {
        found.code: found.place
        for found in found_codes()
        if found.code and found.code not in all_codes()
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
    extra = set(all_codes()) - {found.code for found in found_codes()}

    assert not extra, f"take these tables out of evalkit/cli/codes.toml: {sorted(extra)}"


def test_every_code_can_be_seen_in_the_source():
    hidden = [found.place for found in found_codes() if found.code is None]

    assert not hidden, f"write the code as a literal, or a choice of literals: {hidden}"


def test_codes_stand_in_the_order_of_the_alphabet():
    names = list(all_codes())
    before = [two for one, two in pairwise(names) if one > two]

    assert not before, f"further up in evalkit/cli/codes.toml: {before}"


def test_modules_and_functions_are_small_or_say_why_not():
    wrong = [
        f"{file.relative_to(PACKAGE)}: {said}" for file in FILES for said in _large_things(file)
    ]

    assert not wrong


def _large_things(file: Path) -> Iterator[str]:
    """What is longer or wider than it may be; a function's docstring does not count."""
    text = file.read_text(encoding="utf-8")
    lines = text.splitlines()
    if len(lines) > 500 and "# Long: " not in text:
        yield "the module"
    for _, function in nodes_of(file):
        if not isinstance(function, ast.FunctionDef):
            continue
        n_lines, n_parameters = _size_of(function)
        own = "\n".join(lines[function.lineno : function.end_lineno])
        is_command = file.parent.name == "cli"  # its parameters are options
        is_metric = any("metric(" in ast.unparse(made) for made in function.decorator_list)
        if n_lines > 80 and not (is_command or "# Long: " in own):
            yield f"{function.name}: {n_lines} lines"
        if n_parameters > 8 and not (is_command or is_metric or "# Wide: " in own):
            yield f"{function.name}: {n_parameters} parameters"


def _size_of(function: ast.FunctionDef) -> tuple[int, int]:
    """The lines of a function without its docstring, and its positional parameters."""
    n_lines = (function.end_lineno or 0) - function.lineno + 1
    first = function.body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
        n_lines -= (first.end_lineno or 0) - first.lineno + 1
    given = [*function.args.posonlyargs, *function.args.args]
    return n_lines, len(given) - any(argument.arg in ("self", "cls") for argument in given[:1])
