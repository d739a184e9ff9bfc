"""Rarer measures of rankings against trec_eval 9 and 10, and ir_measures, under their profiles.

`vectors/measures` has the records. What a truth without judged others makes of bpref and judged is
compared under `no_judged = "warn"`; as it is refused otherwise, `test_judged.py` tests that.
"""

import gzip
import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from itertools import islice
from typing import Any

import polars as pl
import pytest

import evalkit
from peers import VECTORS, fixture, number, rankings_of, truth_of

EXACT = 1e-9
PARTS = 3  # of the logs and options: one in every run, all in campaigns
PROFILES = {"ir_measures": "ir_measures", "pytrec_eval": "trec_eval", "trec_eval": "trec_eval_10"}

# a record's metric, and how evalkit writes it; K stands for the record's k, MOST for the largest
# relevance of the log
NAMES = {
    "bpref": "bpref",
    "infAP": "infAP",
    "judged": "judged@K",
    "set_ap": "SetAP",
    "set_map": "SetAP",
    "iprec": "iprec(recall=K)",
    "iprec_at_recall": "iprec(recall=K)",
    "11pt_avg": "11pt_avg",
    "utility": "utility",
    "utility_2,-1,-0.5,0": "utility(a=2, b=-1, c=-0.5, d=0)",
    "yaap": "yaap",
    "rbp": "RBP",
    "rbp_p=0.5": "RBP(patience=0.5)",
    "rbp_resid": "rbp_residual",
    "rbp_resid_p=0.5": "rbp_residual(patience=0.5)",
    "unj": "unjudged@K",
    "num_nonrel_judged_ret": "judged_misses",
    "ideal_dcg": "ideal_DCG",
    "dcg": "DCG",
    "relative_P": "relative_P@K",
    "set_relative_P": "relative_P",
    "err": "ERR(max_relevance=4, round_users=5)@K",
    "nerr8": "NERR8(max_relevance=MOST)@K",
    "nerr9": "NERR9(max_relevance=MOST)@K",
    "nerr10": "NERR10(max_relevance=MOST)",
    "nerr11": "NERR11(max_relevance=MOST)",
    "inst": "INST(T=OWN, max_relevance=MOST)",
    "insq": "INSQ(T=OWN, max_relevance=MOST)",
    "bpm": "BPM(T=OWN, max_relevance=MOST)@K",
    "sdcg": "SDCG(max_relevance=MOST)@K",
    "compat": "compat(patience=OWN)",
    "accuracy_pairs": "Accuracy@K",
    "gm_map": "gm_map",
    "gm_bpref": "gm_bpref",
}
BY_VARIANT = {
    ("rbp", "rel 1, p 0.8"): "RBP@K",
    ("nerr10", "p 0.5"): "NERR10(patience=0.5, max_relevance=MOST)",
    ("compat", "p 0.95, not normalised"): "compat(normalize='none')",
    ("ndcg", "judged_only"): "nDCG(unjudged='skip')@K",
    ("ap", "judged_only"): "AP(unjudged='skip')",
    ("precision", "judged_only"): "precision(unjudged='skip')@K",
    ("rr", "judged_only"): "RR(unjudged='skip')",
}
SUMS = ("num_nonrel_judged_ret",)  # over users, where evalkit has the mean
EXPERIMENTAL = "refused: experimental, unpublished"
EXEMPT = {
    "G": EXPERIMENTAL,
    "binG": EXPERIMENTAL,
    "Rndcg": EXPERIMENTAL,
    "ndcg_rel": EXPERIMENTAL,
    "Rprec_mult": "refused: points of a curve",
}


def records(library: str) -> list[dict[str, Any]]:
    text = gzip.decompress((VECTORS / "measures" / f"{library}.jsonl.gz").read_bytes())
    return [json.loads(line) for line in text.decode("utf-8").splitlines()[1:]]


def written(record: Mapping[str, Any]) -> str:
    """How evalkit writes a record's metric."""
    metric, variant = (
        record["metric"].replace(".p=", "_p=").replace("y.2", "y_2"),
        record["variant"],
    )
    name = BY_VARIANT.get((metric, variant)) or NAMES[metric]
    k = record["k"]
    name = name.replace("@K", "" if k is None else f"@{k}").replace("=K", f"={k}")
    own = re.search(r"(?:T|p) ([\d.]+)", variant)
    return name.replace("OWN", own[1] if own else "1")


def is_of_empty_lists(record: Mapping[str, Any]) -> bool:
    """Whether some user has no list, and the measure is not 0 of an empty one, or lower is better.

    evalkit counts such a user as 0, or leaves out who is better the lower.
    """
    is_odd = record["metric"].startswith(("utility_", "yaap", "rbp_resid", "unj", "ideal_dcg"))
    return is_odd and record["fixture"] in ("missing_run", "mixed_users")


def options(library: str, variant: str) -> tuple[float, dict[str, str]]:
    """The threshold of a variant, and its policies."""
    policies = {"no_judged": "warn"}
    if variant.endswith("all_qrels_users"):
        policies["missing_ranking"] = "zero"
    return (2.0 if variant.startswith("rel 2") else 1.0), policies


@pytest.mark.some_cases(len(PROFILES))
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("library", sorted(PROFILES))
def test_every_record_is_reproduced(library, part, record_property):
    groups: dict[tuple[str, float, str], list[dict[str, Any]]] = defaultdict(list)
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    for record in records(library):
        if record["metric"] in EXEMPT:
            counts[f"exempt, {record['metric']}: {EXEMPT[record['metric']]}"] += 1
        elif record["variant"].endswith("all_qrels_users") and is_of_empty_lists(record):
            counts["exempt: what a measure says of an empty list, of users without any"] += 1
        elif "error" in record:
            counts["exempt: the library raised"] += 1
        else:
            threshold, policies = options(library, record["variant"])
            groups[record["fixture"], threshold, json.dumps(policies)].append(record)
    for (log, threshold, policies), asked in islice(groups.items(), part, None, PARTS):
        data = fixture(log)
        most = str(max(max(row["rels"], default=0) for row in data["qrels"]))
        names = [written(record).replace("MOST", most) for record in asked]
        report = evalkit.evaluate(
            truth_of(data),
            {"run": rankings_of(data, "rows")},
            metrics=list(dict.fromkeys(names)),
            profile=PROFILES[library],
            policies=json.loads(policies),
            threshold=threshold,
            columns={"user": "user", "item": "item", "score": "score", "relevance": "relevance"},
            per_user=True,
            threads=1,
        )
        for record, name in zip(asked, names, strict=True):
            counts["compared"] += 1
            is_of_users = name.startswith("gm_")  # one number made of all users
            frame = pl.DataFrame() if is_of_users else report.per_user(name)
            column = next((each for each in frame.columns if each != "user"), None)
            users = map(str, frame["user"]) if column else ()
            values = dict(zip(users, frame[column] if column else (), strict=True))
            n_added = sum(not math.isnan(each) for each in values.values())
            n_added = n_added if record["metric"] in SUMS else 1
            pairs = [("mean", number(record["mean"]) / n_added, report.value(name))]
            for user, value in ({} if is_of_users else record.get("per_user") or {}).items():
                pairs.append((user, number(value), values.get(user, math.nan)))
            wrong += [
                f"{record['metric']} {record['variant']} k={record['k']} on {log}, {whom}: "
                f"{theirs!r}, evalkit {ours!r}"
                for whom, theirs, ours in pairs
                if ours != pytest.approx(theirs, abs=EXACT, nan_ok=True)
            ]
    for what, n in sorted(counts.items()):
        record_property("summary", f"{library}: {n:,} {what}")
        print(f"{library}: {n:,} {what}")
    assert not wrong, "\n".join(wrong)
