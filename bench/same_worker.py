"""What one commit says of the cases in a folder; run by same.py.

    python -P same_worker.py FOLDER TREE

FOLDER holds cases.json; the code in TREE runs each. Prints a line of JSON a case.
"""

import hashlib
import json
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any


def main() -> None:
    """Answer every case."""
    folder, tree = Path(sys.argv[1]).resolve(), sys.argv[2]
    sys.path.insert(0, tree)
    for number, case in enumerate(json.loads((folder / "cases.json").read_text())):
        os.chdir(folder)
        print(json.dumps({"case": case["name"], "answer": answer(case)}), flush=True)
        if sys.stderr.isatty() and number % 20 == 0:
            print(f"\r{number:,}", end="", file=sys.stderr)


def answer(case: dict[str, Any]) -> dict[str, Any]:
    """The report and a digest of users' values, or the error."""
    from evalkit.config import load_config, parse_variables
    from evalkit.errors import EvalkitError

    home = "pipeline" if Path(sys.argv[2], "evalkit", "pipeline.py").exists() else "street"
    run_config = import_module(f"evalkit.{home}").run_config

    try:
        config = load_config(
            Path(case["config"]), overrides=[], variables=parse_variables(case["variables"])
        )
        report = run_config(config, per_user=case["per_user"], **case["options"])
    except EvalkitError as error:
        return {"error": [str(each) for each in getattr(error, "errors", (error,))]}
    except Exception as crash:  # a fault of the code, which same.py tells
        return {"crash": f"{type(crash).__name__}: {crash}"}
    values = {}
    kept = report.per_user_values
    for model, frame in kept.frames.items() if kept is not None and kept.frames else ():
        values[model] = hashlib.sha256(frame.write_csv().encode()).hexdigest()
    return {"report": json.loads(report.to_json()), "users": values}


if __name__ == "__main__":
    main()
