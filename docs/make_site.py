"""Builds the site: the pages of docs/, the reference made from the code, notebooks, examples.

    python docs/make_site.py FOLDER      # FOLDER/index.html; the exit status is 1 for any dead link

Sphinx, because it is kept, warns of every dead link and searches without a server; the pages are
plain Markdown (MyST), so that they are read on disk too. Everything is first laid out as one tree
in FOLDER.pages: pages link to files of the project as they lie there (`../configs/nightly.toml`),
and what is linked is brought in.
"""

import json
import re
import shutil
import sys
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

from make_reference import pages
from sphinx.cmd.build import build_main

DOCS = Path(__file__).parent.resolve()
ROOT = DOCS.parent
LANGUAGES = {".yml": "yaml", ".yaml": "yaml", ".py": "python", ".toml": "toml"}
FOLDERS = {
    "configs": "Examples of configs",
    "configs/schedules": "Schedules",
    "configs/operations": "Image, workflow, alerts",
    "bench/contestants": "Contestants of the benchmark",
}
NAV = {
    "": ["start"],
    "Guides": [
        "guide",
        "splits",
        "selection",
        "labels",
        "lists",
        "judges",
        "logged",
        "experiments",
        "training",
        "adding-a-metric",
    ],
    "Notebooks": [
        f"notebooks/{name}" for name in ("nightly-job", "papers-number", "segments", "experiment")
    ],
    "Concepts": ["concepts", "statistics", "conventions", "coming-from"],
    "Reference": [
        *("reference/config", "reference/commands", "reference/python"),
        *(
            f"reference/metrics-{kind}"
            for kind in ("rankings", "lists", "ratings", "labels", "judges", "logged", "experiment")
        ),
        *("reference/codes", "reference/files"),
    ],
    "Operations": [
        "jobs",
        "partials",
        "spark",
        *(f"{name}/index" for name in FOLDERS if "bench" not in name),
    ],
    "Inside": ["architecture", "benchmarks", "bench/README", "bench/contestants/index"],
    "Project": ["promises", "CHANGELOG", "CONTRIBUTING", "SECURITY", "citation"],
}
SETTINGS = {
    "project": "evalkit",
    "html_title": "evalkit",
    "html_theme": "furo",
    "extensions": "myst_parser",
    "myst_heading_anchors": "4",
    "html_copy_source": "0",
    "smartquotes": "0",
    "html_show_sphinx": "0",
    "html_show_copyright": "0",
    "html_css_files": "site.css",
    "html_static_path": "static",
    "suppress_warnings": "myst.header,misc.highlighting_failure",  # levels skipped; {day} in TOML
}
STYLE = """
.formula { margin: 1em 0; overflow-x: auto; font-size: 1.15em; }
.formula math { text-align: left; }
.output { overflow-x: auto; margin: 1em 0; }
.output th, .output td { padding: .1em .5em; border: 0; }
article table { display: block; overflow-x: auto; width: 100%; }
"""


def main() -> int:
    """Lay the pages out, and let Sphinx make HTML of them; every warning is an error."""
    site = Path(sys.argv[1]).resolve()
    laid_out = site.with_name(f"{site.name}.pages")
    shutil.rmtree(laid_out, ignore_errors=True)
    for name, text in {**project_pages(), **pages()}.items():
        target = laid_out / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    options = [f"-D{name}={value}" for name, value in SETTINGS.items()]
    return build_main(["-C", "-W", "--keep-going", "-q", *options, str(laid_out), str(site)])


def project_pages() -> dict[str, str]:
    """Every page that is not made from the code, by its place in the site."""
    files = [*DOCS.glob("*.md"), *ROOT.glob("*.md"), ROOT / "bench" / "README.md"]
    found = {place_of(file): led(file) for file in sorted(files)}
    found["index.md"] += "".join(toctree(title, names) for title, names in NAV.items())
    for name in FOLDERS:
        found[f"{name}/index.md"] = "\n".join(folder_lines(name))
    for notebook in sorted((DOCS / "notebooks").glob("*.ipynb")):
        found[f"notebooks/{notebook.stem}.md"] = "\n\n".join(notebook_parts(notebook)) + "\n"
    found["citation.md"] = "\n".join(citation_lines())
    found["static/site.css"] = STYLE
    return found


def place_of(file: Path) -> str:
    """Where a file, or a folder, of the project stands on the site."""
    name = file.relative_to(ROOT).as_posix()
    if name in FOLDERS:
        return f"{name}/index.md"
    return {"README.md": "index.md", "CITATION.cff": "citation.md"}.get(
        name, name.removeprefix("docs/")
    )


def led(file: Path) -> str:
    """A page whose links to files of the project lead to where these stand on the site."""
    up = "../" * place_of(file).count("/")

    def lead(link: re.Match[str]) -> str:
        target, anchor = (file.parent / link["path"]).resolve(), link["anchor"] or ""
        if not target.exists() or not target.is_relative_to(ROOT):
            return link[0]  # which Sphinx then tells
        if target.parent.relative_to(ROOT).as_posix() in FOLDERS and target.is_file():
            anchor, target = f"#{anchor_of(target.name)}", target.parent
        if target.suffix in (".md", ".cff") or target.is_dir():
            return f"]({up}{place_of(target)}{anchor})"
        return f"]({up}index.md#licence)"  # the one text of a licence

    text = file.read_text(encoding="utf-8")
    return re.sub(r"\]\((?P<path>(?!\w+:)[^)#\s]+)(?P<anchor>#[^)]*)?\)", lead, text)


def toctree(title: str, names: list[str]) -> str:
    caption = f":caption: {title}\n" if title else ""
    return f"\n```{{toctree}}\n:hidden:\n{caption}\n" + "\n".join(names) + "\n```\n"


def anchor_of(name: str) -> str:
    """The anchor of a heading that is a file's name."""
    return re.sub(r"[^\w-]", "", name.lower())


def folder_lines(name: str) -> Iterator[str]:
    """Every file of a folder as it stands."""
    yield f"# {FOLDERS[name]}"
    for file in sorted((ROOT / name).iterdir()):
        if file.is_file() and not file.name.startswith("_"):
            language = "docker" if file.name == "Dockerfile" else LANGUAGES.get(file.suffix, "text")
            text = file.read_text(encoding="utf-8").rstrip()
            yield f"\n## {file.name}\n\n````{language}\n{text}\n````"


def citation_lines() -> Iterator[str]:
    """CITATION.cff, and the same for BibTeX."""
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8").rstrip()
    said = dict(re.findall(r"^(\w+): (.+)$", text, re.MULTILINE))
    (author,) = re.findall(r"- name: (.+)", text)
    yield f"# How to cite\n\n{said['message']}\n\n```bibtex\n@software{{evalkit,"
    yield f"  title = {{{said['title']}: {said['abstract'].rstrip('.')}}},"
    yield f"  author = {{{{{author}}}}},\n  version = {{{said['version']}}}\n}}\n```\n"
    yield f"The same as `CITATION.cff`:\n\n```yaml\n{text}\n```\n"


def notebook_parts(path: Path) -> Iterator[str]:
    """A notebook as Markdown: its cells, and what they gave when it was run."""
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            yield source
            continue
        yield f"```python\n{source}\n```"
        for output in cell["outputs"]:
            data = output.get("data", {"text/plain": output.get("text", "")})
            html = "".join(data.get("text/html", ""))
            if "image/svg+xml" in data:  # its colours are its own
                drawn = b64encode("".join(data["image/svg+xml"]).encode()).decode()
                html = f'<img alt="plot" src="data:image/svg+xml;base64,{drawn}">'
            if html:  # on one line, so that Markdown leaves it alone
                yield f'<div class="output">{" ".join(html.split())}</div>'
            else:
                yield f"```text\n{''.join(data['text/plain']).rstrip()}\n```"


if __name__ == "__main__":
    sys.exit(main())
