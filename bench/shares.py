"""The same bytes in any shares: partials merged in random trees against one run.

    python bench/shares.py                          # 20 random logs of each kind, and the examples
    python bench/shares.py --logs 200 --seed 7

Every case of same.py is run once, then measured in 1, 3 and 16 shares, whose partials are written,
put together in random trees and orders, and concluded. What is compared is what same.py compares,
and the run key. Prints what differs; the exit status is 1 then.
"""

import json
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from same import differences, spell

from harness import BENCH, ROOT, make_parser, tell

SHARES = (1, 3, 16)


def main() -> int:
    """Exit status: 0, or 1 where shares differ from a run."""
    parser = make_parser(__doc__)
    parser.add_argument("--logs", type=int, default=20, help="Random logs of each kind.")
    parser.add_argument("--fixtures", type=int, default=20, help="Records of other libraries.")
    parser.add_argument("--only", default="", help="Cases whose name begins so.")
    given = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    draw = random.Random(given.seed)
    wrong, kinds = 0, Counter[str]()
    with tempfile.TemporaryDirectory(prefix="evalkit-shares-") as scratch:
        make = [str(BENCH / "same_cases.py"), scratch, str(given.logs), str(given.seed)]
        subprocess.run([sys.executable, *make], check=True)
        os.chdir(scratch)
        cases = json.loads(Path("cases.json").read_text())
        fixtures = [each for each in cases if each["name"].startswith("fixtures")]
        others = [each for each in cases if not each["name"].startswith("fixtures")]
        chosen = [*others, *draw.sample(fixtures, min(given.fixtures, len(fixtures)))]
        for case in [each for each in chosen if each["name"].startswith(given.only)]:
            whole = answer(case, 0, draw)
            kinds[next(iter(whole))] += 1
            for n_shares in SHARES:
                found = list(differences(whole, answer(case, n_shares, draw)))
                wrong += bool(found)
                for path, one, other in found[:4]:
                    at = f"{case['name']} in {n_shares} shares: {path}"
                    print(f"{at}: {str(one)[:300]} -> {str(other)[:300]}", flush=True)
            tell(f"{case['name']}: {next(iter(whole))}")
    print(f"{kinds.total():,} cases ({spell(kinds)}), {wrong:,} differ")
    return 1 if wrong else 0


def answer(case: dict[str, Any], n_shares: int, draw: random.Random) -> dict[str, Any]:
    """The report and the values of users of one run, or of shares; or the error."""
    from evalkit.config import load_config, parse_variables
    from evalkit.errors import EvalkitError
    from evalkit.pipeline import run_config

    try:
        config = load_config(Path(case["config"]), variables=parse_variables(case["variables"]))
        if n_shares:
            report = in_shares(config, case, n_shares, draw)
        else:
            report = run_config(
                config, per_user=case["per_user"], keep_parts=True, **case["options"]
            )
    except EvalkitError as error:
        return {"error": [str(each) for each in getattr(error, "errors", (error,))]}
    kept = report.per_user_values
    users = {} if kept is None or kept.frames is None else kept.frames
    return {
        "report": json.loads(report.to_json()),
        "key": report.run_key if all(each.fingerprint for each in report.inputs) else None,
        "parts": None if report.parts is None else report.parts.write_csv(),
        "users": {model: frame.write_csv() for model, frame in users.items()},
    }


def in_shares(config: Any, case: dict[str, Any], n_shares: int, draw: random.Random) -> Any:
    """The report of partials that were put together in a random tree."""
    from evalkit.pipeline import conclude_partials, measure_partial
    from evalkit.planning.partials import open_partials

    with tempfile.TemporaryDirectory() as folder:
        partials = []
        for number in draw.sample(range(1, n_shares + 1), n_shares):
            options = {**case["options"], "threads": draw.choice((1, 2, 8))}
            if draw.random() < 0.1:
                options["memory_limit"] = 1 << 30
            share = (number, n_shares)
            partials.append(measure_partial(config, share, per_user=case["per_user"], **options))
        while len(partials) > 1 and draw.random() < 0.7:
            one, other = draw.sample(range(len(partials)), 2)
            partials[one].merge(partials[other])
            del partials[other]
        files = [Path(folder, str(number)) for number in range(len(partials))]
        for path, partial in zip(files, partials, strict=True):
            partial.write(path)
        draw.shuffle(files)
        return conclude_partials(open_partials(files), per_user=case["per_user"], keep_parts=True)


if __name__ == "__main__":
    sys.exit(main())
