"""Lists the public metric names of other libraries from their sources: docs/names.json.

    python docs/list_names.py FOLDER [RUN]

By Python 3.12 or newer, whose syntax some of them have. FOLDER holds the unpacked source of each
library under its profile's name: `FOLDER/ranx/ranx/...`.
Nothing of them is imported. A registry that is not there keeps the names that the page has. RUN is
the file that `bench/names.py` wrote: which names of rankings were equal beside their library, and
where the others are not.
"""

import ast
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

PAGE = Path(__file__).parent / "names.json"

# library: version, and the files of its registries, each with how names stand in them
REGISTRIES: dict[str, tuple[str, dict[str, str]]] = {
    "trec_eval": ("10.0, commit f425365", {"m_*.c": "c"}),
    "ir_measures": ("0.4.3", {"ir_measures/measures/__init__.py": "__all__"}),
    "ranx": ("0.3.21", {"ranx/metrics/__init__.py": "strings"}),
    "rectools": ("0.19.0", {"rectools/metrics/__init__.py": "__all__"}),
    "replay": ("0.22.0", {"replay/metrics/__init__.py": "imports"}),
    "recommenders": ("1.2.1", {"recommenders/evaluation/python_evaluation.py": "functions"}),
    "lenskit": ("2026.4.0, commit 3bd1c17", {
        "src/lenskit/metrics/__init__.py": "__all__",
        "src/lenskit/metrics/ranking/__init__.py": "__all__",
        "src/lenskit/metrics/reranking/__init__.py": "__all__",
    }),
    "recbole": ("1.2.1", {"recbole/evaluator/metrics.py": "classes"}),
    "elliot": ("commit fc27efe", {"elliot/evaluation/metrics/__init__.py": "keys"}),
    "torchmetrics": ("1.9.0", {
        "torchmetrics/__init__.py": "__all__",
        "torchmetrics/classification/__init__.py": "__all__",
        "torchmetrics/regression/__init__.py": "__all__",
        "torchmetrics/retrieval/__init__.py": "__all__",
        "torchmetrics/functional/__init__.py": "__all__",
        "torchmetrics/functional/retrieval/__init__.py": "__all__",
    }),
    "sklearn": ("1.9.1", {"sklearn/metrics/__init__.py": "__all__"}),
    "spark": ("4.3.0", {"pyspark/mllib/evaluation.py": "methods"}),
    "cornac": ("3.0.1", {"cornac/metrics/__init__.py": "imports"}),
    "recmetrics": ("0.1.5", {"recmetrics/metrics.py": "functions"}),
    "rs_metrics": ("0.6.0", {"rs_metrics/metrics.py": "functions"}),
    "evidently": ("0.7.23", {
        "evidently/metrics/__init__.py": "__all__",
        "evidently/legacy/metrics/recsys/*.py": "metrics",
    }),
    "rexmex": ("0.1.3", {"rexmex/metrics/*.py": "functions"}),
    "recpack": ("0.3.6", {"recpack/metrics/__init__.py": "keys"}),
    "tfma": ("0.52.0", {"tensorflow_model_analysis/metrics/__init__.py": "__all__"}),
    "jurity": ("2.1.0", {"jurity/recommenders/*.py": "classes"}),
    "informfully": ("commit d516570", {"cornac/metrics/__init__.py": "imports"}),
    "beir": ("2.2.0", {"beir/retrieval/custom_metrics.py": "functions"}),
}  # fmt: skip
ENVIRONMENTS = {"trec_eval": ("pytrec_eval", "trec_eval_10")}  # of bench/names.py


def names_in(text: str, how: str) -> Iterator[str]:
    """The public names of one registry."""
    if how == "c":
        yield from re.findall(r'TREC_MEAS te_meas_\w+\s*=\s*\{\s*"(\w+)"', text)
        return
    tree = ast.parse(text)
    for node in ast.walk(tree) if how in ("strings", "methods") else tree.body:
        match how, node:
            case "__all__", ast.Assign(targets=[ast.Name(id="__all__")]):
                yield from ast.literal_eval(node.value)
            case "keys", ast.Assign(value=ast.Dict(keys=keys)):
                yield from (key.value for key in keys if isinstance(key, ast.Constant))
            case "strings", ast.Compare(left=ast.Name(id="metric"), comparators=[ast.Constant()]):
                yield node.comparators[0].value  # type: ignore[attr-defined]
            case "imports", ast.ImportFrom():
                yield from (each.asname or each.name for each in node.names)
            case (("functions" | "methods"), ast.FunctionDef(name=name)):
                yield name
            case (("classes" | "metrics"), ast.ClassDef(name=name)):
                if how == "classes" or name.endswith("Metric"):
                    yield name


def outcomes_of(library: str, run: dict[str, dict[str, dict[str, str]]]) -> dict[str, str]:
    """What is known of each name from running its library: equal, or why not."""
    found: dict[str, str] = {}
    for program in ENVIRONMENTS.get(library, (library,)):
        for name, told in run.get(program, {}).items():
            word = told["outcome"] + (f": {told['why']}" if told["why"] else "")
            found[name] = min(found.get(name, word), word, key=order_of)
    return found


def order_of(word: str) -> int:
    """Of two programs of one library, the outcome that stands is the first of these."""
    return ("differs", "equal", "refused", "not run").index(word.partition(":")[0])


def main(folder: Path, run: dict[str, dict[str, dict[str, str]]]) -> None:
    known = json.loads(PAGE.read_text(encoding="utf-8")) if PAGE.exists() else {}
    for library, (version, registries) in REGISTRIES.items():
        found: set[str] = set()
        for pattern, how in registries.items():
            for file in sorted((folder / library).glob(pattern)):
                found |= set(names_in(file.read_text(encoding="utf-8"), how))
        public = sorted(each for each in found if not each.startswith("_"))
        if public:
            known[library] = {**known.get(library, {}), "version": version, "names": public}
        if ran := outcomes_of(library, run):
            known[library]["ran"] = ran
    lines = (
        f'"{library}": {json.dumps(record, ensure_ascii=False)}'
        for library, record in known.items()
    )
    PAGE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    print(PAGE, sum(len(record["names"]) for record in known.values()))


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text()) if sys.argv[2:] else {})
