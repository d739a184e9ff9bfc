"""Runs the notebooks of docs/notebooks, each in an empty folder, and keeps what they gave.

    python docs/make_notebooks.py            # docs/notebooks/*.ipynb, in place
    python docs/make_notebooks.py segments   # one of them

Outputs hold no path of a machine; `tests/test_notebooks.py` says so, and runs every cell.
"""

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).parent / "notebooks"


def execute(path: Path) -> nbformat.NotebookNode:
    """The notebook with the outputs of a run; an error of a cell is an error here."""
    notebook = nbformat.read(path, as_version=4)
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    os.environ |= {"NO_COLOR": "1", "COLUMNS": "100"}
    with TemporaryDirectory() as folder:
        place = {"metadata": {"path": folder}}
        NotebookClient(notebook, timeout=300, record_timing=False, resources=place).execute()
    notebook.metadata = {"language_info": {"name": "python"}}
    return notebook


def main() -> None:
    """Run those that are named, or all."""
    named = sys.argv[1:] or [path.stem for path in sorted(NOTEBOOKS.glob("*.ipynb"))]
    for name in named:
        path = NOTEBOOKS / f"{name}.ipynb"
        nbformat.write(execute(path), path)
        print(path.name, path.stat().st_size)


if __name__ == "__main__":
    main()
