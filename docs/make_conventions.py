"""Writes docs/conventions.md from the declarations of metrics and policies, and from the profiles.

    python docs/make_conventions.py            # write the page
    python docs/make_conventions.py --check    # exit status 1 where the page is out of date

Nothing of the page is written by hand but the sentences of this file: every value, meaning and
number comes from where it is declared, or is measured by `evalkit.evaluate`.
"""

import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import polars as pl

import evalkit
from evalkit.config import Policies
from evalkit.metrics import POLICIES, Parameter, names_like, parse_metrics, registry, registry_of
from evalkit.metrics.profiles import DEFAULT, Profile, find_profile, speaking_of

PAGE = Path(__file__).parent / "conventions.md"
NAMES_OF_ROWS = Path(__file__).parent / "names_of_rows.json"  # by bench/names_pointwise.py
NAMES = Path(__file__).parent / "names.json"  # by docs/list_names.py, from the libraries' sources
NO = {("elliot", "AUC"): "no: over relevant items, not users"}
BY_SOURCE = {"recpack rankings"}  # numbers that were not run, but follow what was read
METRICS = (
    "precision",
    "recall",
    "F",
    "hit",
    "R-precision",
    "RR",
    "AP",
    "DCG",
    "nDCG",
    "RBP",
)

# one small log on which every policy moves a number
TRUTH = [
    ("ann", "a", 3.0),
    ("ann", "b", 1.0),
    ("ann", "c", 2.0),
    ("ann", "z", 2.0),
    ("ben", "a", 1.0),
    ("ben", "d", -1.0),
    ("cat", "a", 0.0),  # nothing is relevant to cat
    ("dan", "b", 1.0),  # has no ranking
    ("eve", "c", 1.0),  # her list is empty
    ("fay", "b", 1.0),  # nothing of what she is shown hits
]
RANKINGS = {
    "ann": (["x", "a", "b", "y", "a", "c"], [0.9, 0.7, 0.7, 0.7, 0.2, -0.1]),
    "ben": (["d", "x", "a"], [0.9, 0.5 + 1e-10, 0.5]),
    "cat": (["b", "a"], [0.6, 0.4]),
    "eve": ([], []),
    "fay": (["x", "y"], [0.5, 0.4]),
    "gus": (["a", "b"], [0.5, 0.4]),  # whom the truth lacks
}
TRAIN = {"ann": ["x", "y"], "ben": ["y"], "dan": ["a"], "gus": ["b"]}
BASE = {"ties": "input", "duplicates": "count"}
SHOWN_BY = {
    "ties": "RR",
    "score_type": "RR",
    "duplicates": "nDCG",
    "rel_size": "recall",
    "unjudged": "RR",
    "pooled": "judged",
    "seen": "recall",
    "nonpositive_scores": "recall",
    "missing_ranking": "precision@3",
    "empty_ranking": "precision@3",
    "no_relevant": "recall",
    "unknown_users": "precision(no_relevant='zero')@3",
    "zeros": "RR",
    "list_users": "user_coverage@3",
    "propensity": "recall@3",
    "round_users": "nDCG",
    "round_mean": "nDCG",
    "negative_relevance": "DCG",
    "threshold_rule": "recall",
    "fractional_relevance": "nDCG",
}
OF_RUN = ("unknown_users", "negative_relevance", "fractional_relevance", "threshold_rule")
AROUND: dict[str, dict[str, str]] = {
    "rel_size": {"duplicates": "count"},
    "score_type": {"ties": "item"},
    "zeros": {"no_relevant": "skip"},
}

# items and gains of one user, whose list shows a, b, c, d, e; and of four with gains below 0
ONE_USER = [{"a": 3.0, "c": 1.0, "d": 2.0, "z": 2.0}]
BELOW_ZERO = [
    {"a": 3.0, "c": -1.0, "d": 1.0, "z": 2.0},
    {"a": 1.0, "c": -2.0, "d": -1.0},
    {"b": 1.0, "d": -1.0},
    {"b": 2.0, "a": -1.0, "c": -1.0},
]

ORDER = (
    "Where several policies speak of one user, the first of these that applies decides: `skip` by "
    "any of them leaves the user out; `nan` by any makes the mean undefined; "
    "`missing_ranking = 'zero'` counts 0; `no_relevant = 'one'` counts 1; `zero` of "
    "`empty_ranking` and `no_relevant` counts 0 where the metric has no value. Then values are "
    "rounded (`round_users`), and `zeros` looks at what has become 0. Only a list that is given "
    "as empty is an empty ranking: a user whose rows were all dropped, as seen in training, for a "
    "bad score or a bad rank, has no ranking."
)


def measured(metric: str, policies: Mapping[str, str | int], *, threshold: float | None) -> str:
    """One number on the small log, or that there is none."""
    rows = [(user, items, scores) for user, (items, scores) in RANKINGS.items()]
    schema = {"user": pl.String, "item": pl.List(pl.String), "score": pl.List(pl.Float64)}
    fractional = "fractional_relevance" in policies or "threshold_rule" in policies
    truth = [(u, i, r - 0.5 if fractional and r > 1 else r) for u, i, r in TRUTH]
    frame = pl.DataFrame(truth, schema=["user", "item", "relevance"], orient="row")
    columns = {"truth": {"propensity": "p"}} if "propensity" in policies else None
    try:
        value = evalkit.evaluate(
            frame.with_columns(p=1 / (1 + pl.int_range(pl.len()) % 3)),
            pl.DataFrame(rows, schema=schema, orient="row"),
            metrics=[metric],
            columns=columns,
            policies={**BASE, **policies},
            threshold=threshold,
            train=TRAIN if "list_users" in policies else None,
        )
    except evalkit.EvalkitError:
        return "refused"
    number = value.estimates[0].value
    return "undefined" if number != number else f"{number:.6f}"


def lines() -> Iterator[str]:
    """The page."""
    yield "# Conventions"
    yield ""
    yield "<!-- written by docs/make_conventions.py -->"
    yield ""
    yield (
        "Libraries print different numbers under one name. This page lists every choice on which "
        "they differ, and what each value means, with a number that it gives. It has what each "
        "library chooses, what no choice reproduces, and the errors that were found. A choice is a "
        "parameter of a metric or a policy of a run; `evalkit explain nDCG --profile ranx` tells "
        "one library's, `evalkit audit` measures all of them on your own logs."
    )
    yield ""
    yield (
        "Every library was run, in the version that its section names; `tests/conformance` holds "
        "what they printed, value by value."
    )
    yield ""
    yield from parameter_lines()
    yield from policy_lines()
    yield from table_lines()
    yield from list_lines()
    yield from row_lines()
    yield from name_lines()
    yield from library_lines()


def name_lines() -> Iterator[str]:
    """The names of libraries, and what each is here."""
    registries = json.loads(NAMES.read_text(encoding="utf-8"))
    rows, counts = list(rows_of_names(registries)), defaultdict(int)
    for row in rows:
        counts[row[3].partition(":")[0].partition(",")[0]] += row[1].count("`") // 2
    yield "## Names of libraries"
    yield ""
    yield (
        f"The {sum(counts.values()):,} public names of {len(registries)} libraries, from their own "
        "registries (`docs/list_names.py`). "
        f"Under its library's profile a name is read as the third column says ({counts['yes']}), "
        f"or refused ({counts['refused']}); `evalkit explain NAME` says what each library means. "
        "Where a library has no default, `'...'` stands for what has to be written. "
        "Without a profile, a name of several metrics is refused; a metric's own name, in its own "
        "letters, is evalkit's. *Beside it*: `bench/names.py`, or `bench/names_pointwise.py` "
        "of labels and ratings, ran the library beside evalkit, and every number was equal but "
        "where *Library by library* says otherwise; *by records*: numbers that it printed are; "
        "*by source*: the number follows the library's source, which was not run."
    )
    yield ""
    yield from table(["library", "names", "here", "same number"], rows)


def rows_of_names(registries: Mapping[str, Mapping[str, Sequence[str]]]) -> Iterator[list[str]]:
    of_rows = json.loads(NAMES_OF_ROWS.read_text(encoding="utf-8"))
    for library, registry_ in registries.items():
        found: dict[tuple[str, str], list[str]] = defaultdict(list)
        for name in registry_["names"]:
            said = [each for each in names_like(name) if each.library == library]
            kinds = dict.fromkeys(each.kind for each in said if each.kind)
            for kind in kinds:
                means = next(each.means for each in said if each.kind == kind)
                told = registry_.get("ran", {})
                if kind != "rankings":
                    told = of_rows.get(library, {}).get(kind, {})
                ran = told.get(name, "")
                same = how_it_is_known(library, kind, means, ran)
                where = f" ({kind})" if kind != "rankings" else ""
                found[f"`{means}`{where}", same].append(name)
            if not kinds:
                why = said[0].means if said else NO[library, name]
                found["", f"refused: {why}" if said else why].append(name)
        for (here, same), names in found.items():
            listed = ", ".join(f"`{each}`" for each in names)
            yield [f"{library} {registry_['version']}", listed, here, same]


def how_it_is_known(library: str, kind: str, means: str, ran: str) -> str:
    """Whether a name gives the library's number, and how that is known."""
    if ran in ("equal", "by source"):
        return "yes, beside it" if ran == "equal" else "yes, by source"
    if ran.startswith("differs"):
        (request,) = parse_metrics([means.replace("='...'", "=1")])
        name = request.metric.base.name
        differences = (d for d in find_profile(library).differs if name in d.metrics)
        return f"yes, but not {next(differences).what}"
    by_source = not {library, f"{library} {kind}"}.isdisjoint(BY_SOURCE)
    return "yes, by source" if by_source else "yes, by records"


def own_keys(profile: Profile) -> list[str]:
    """The keys of metrics that say something which the metric's own does not."""
    return [
        key
        for key, said in profile.metrics.items()
        if profile.named.get(key, key) == key or said != profile.metrics.get(profile.named[key])
    ]


def parameter_lines() -> Iterator[str]:
    yield "## Parameters of metrics"
    yield ""
    yield (
        "Numbers are of one list of five, whose items have the relevance 3, 0, 1, 2, 0 by rank; a "
        "fourth relevant item of relevance 2 is not shown. Those of `idcg_negative` are means over "
        "four users with relevances below 0, by `discount='jarvelin'`, which makes an ideal 0, and "
        "`negative_relevance = 'subtract'`."
    )
    yield ""
    for name in METRICS:
        metric = registry()[name]
        choices = [each for each in metric.parameters if each.choices]
        if not choices:
            continue
        yield f"### {name}"
        yield ""
        yield f"{metric.summary} {metric.formula}. Source: {metric.source}."
        yield ""
        yield "| parameter | value | meaning | at 3 | at 5 |"
        yield "| --- | --- | --- | ---: | ---: |"
        for parameter in choices:
            yield from rows_of(name, parameter)
        yield ""


def rows_of(name: str, parameter: Parameter) -> Iterator[str]:
    for value, meaning in zip(parameter.choices, parameter.meanings, strict=True):
        is_negative = parameter.name == "idcg_negative"
        around = {"discount": "jarvelin"} if is_negative else {}
        label = registry()[name].request(None, **{**around, parameter.name: value}).label
        mark = " (default)" if value == parameter.default else ""
        users = BELOW_ZERO if is_negative else ONE_USER
        at = [by_hand(f"{label}@{cutoff}", users) for cutoff in (3, 5)]
        yield f"| `{parameter.name}` | `{value}`{mark} | {cell(meaning)} | {at[0]} | {at[1]} |"


def by_hand(label: str, users: Sequence[Mapping[str, float]]) -> str:
    truth = [(user, *pair) for user, items in enumerate(users) for pair in items.items()]
    rankings = [(user, item, n) for user in range(len(users)) for n, item in enumerate("abcde", 1)]
    report = evalkit.evaluate(
        pl.DataFrame(truth, schema=["user", "item", "relevance"], orient="row"),
        pl.DataFrame(rankings, schema=["user", "item", "rank"], orient="row"),
        metrics=[label],
        policies={"negative_relevance": "subtract"},
    )
    return f"{report.estimates[0].value:.6f}"


def policy_lines() -> Iterator[str]:
    yield "## Policies"
    yield ""
    yield (
        "Numbers are means over a small log (in `docs/make_conventions.py`). It has equal scores, "
        "an item listed twice, a score below 0, a user without relevant items, one without "
        "a ranking. One user has an empty list, one the truth lacks. Equal scores in the order "
        "of the log and copies that count, but where the row says otherwise. A policy may be "
        "given to one metric alone: `RR(ties='input')@10`; those with a star hold for a whole run."
    )
    yield ""
    yield "| policy | value | meaning | shown by | gives |"
    yield "| --- | --- | --- | --- | ---: |"
    for name, parameter in POLICIES.items():
        values = parameter.choices or ("17", "2")
        for number, value in enumerate(values):
            meaning = parameter.meanings[number] if parameter.choices else parameter.doc
            if parameter.choices and number == 0:
                meaning = f"{parameter.doc.rstrip('.')}: {meaning}"
            elif number > 0 and not parameter.choices:
                meaning = "so many decimals"
            yield policy_row(name, value, meaning, is_default=number == 0)
    for name in OF_RUN:
        field = Policies.model_fields[name]
        for value in field.annotation.__args__:  # type: ignore[union-attr]
            is_default = value == field.default
            meaning = str(field.description).rstrip(".") if is_default else ""
            yield policy_row(name, value, meaning, is_default=is_default)
    yield ""
    yield ORDER
    yield ""


def policy_row(name: str, value: str, meaning: str, *, is_default: bool) -> str:
    metric = SHOWN_BY[name]
    typed: str | int = int(value) if name.startswith("round") else value
    threshold = 1.7 if name in ("threshold_rule", "fractional_relevance") else None
    given = measured(metric, {**AROUND.get(name, {}), name: typed}, threshold=threshold)
    mark = " (default)" if is_default else ""
    star = "\\*" if name in OF_RUN else ""
    return f"| `{name}`{star} | `{value}`{mark} | {cell(meaning)} | `{metric}` | {given} |"


def libraries() -> list[Profile]:
    return [find_profile(name) for name in speaking_of("rankings") if name != DEFAULT]


def table_lines() -> Iterator[str]:
    yield "## Libraries and choices"
    yield ""
    yield "An empty cell is evalkit's default. Policies of the whole run:"
    yield ""
    names = list(dict.fromkeys(name for each in libraries() for name in each.policies))
    yield from table(
        ["library", *names],
        [
            [each.name, *(spelled(each.policies.get(name)) for name in names)]
            for each in libraries()
        ],
    )
    yield "Parameters and policies of each metric; a dash where the library lacks it:"
    yield ""
    rows = []
    for profile in libraries():
        row = [profile.name]
        for metric in METRICS:
            if not profile.has_metric(metric, 1):
                row.append("-")
                continue
            defaults = registry()[metric].defaults
            said = [
                f"{key}={value}"
                for key, value in profile.conventions(metric, None).items()
                if defaults.get(key) != value
            ]
            at_k = [
                f"{key}={value} at k"
                for key, value in profile.metrics.get(f"{metric}@k", {}).items()
                if defaults.get(key) != value
            ]
            row.append("<br>".join(said + at_k))
        rows.append(row)
    yield from table(["library", *METRICS], rows)


def list_lines() -> Iterator[str]:
    yield "## Metrics of lists"
    yield ""
    yield (
        "Under `--profile` a name is what the library means by it: `gini@10` of Elliot is "
        "`evenness`. Names that are another metric here stand before a colon; options of the "
        "library stand below, with the parameters to write: `tail_share(head='count', "
        "ratio=3)@10`. `tests/metrics/lists/test_libraries.py` holds whole runs under these "
        "profiles against what the libraries printed, list by list."
    )
    yield ""
    rows = []
    for profile in libraries():
        own = [
            written_of_lists(profile, name)
            for name in own_keys(profile)
            if is_of_lists(profile, name)
        ]
        options = [
            f"{name}, `{option}`: {written(profile.named.get(name, name), said)}"
            for name, table in profile.options.items()
            for option, said in table.items()
        ]
        if own:
            rows.append([profile.name, "<br>".join([*own, *options])])
    yield from table(["library", "metrics of lists, and options"], rows)


def is_of_lists(profile: Profile, name: str) -> bool:
    return profile.named.get(name, name) in registry_of("lists")


def written_of_lists(profile: Profile, name: str) -> str:
    meant = written(profile.named.get(name, name), profile.metrics[name])
    return f"{name}: {meant}" if name in profile.named else meant


def row_lines() -> Iterator[str]:
    yield "## Ratings and labels"
    yield ""
    yield (
        "The metrics that a library has of `[ratings]` and `[labels]`, with what they set; "
        "policies stand behind the library's name. `AUC` there is over all rows, `GAUC` over "
        "users. Every name was called beside its library (`bench/names_pointwise.py`): on ties, "
        "labels of one kind, perfect and constant scores, one row and none. Ratings were constant, "
        "0 and below, too. Of TFMA its own code ran on counts and pairs, without "
        "TensorFlow and Beam, which feed it. Elliot's and LensKit's errors of ratings are held "
        "against records."
    )
    yield ""
    for kind in ("ratings", "labels"):
        rows = []
        for each in (profile.of(kind) for profile in libraries() if profile.speaks_of(kind)):
            policies = ", ".join(f"{key}={value}" for key, value in each.policies.items())
            rows.append(
                [
                    f"{each.name}<br>{policies}" if policies else each.name,
                    "<br>".join(written(name, each.metrics[name]) for name in own_keys(each)),
                ]
            )
        yield from table([f"library, {kind}", "metrics"], rows)


def written(name: str, said: Mapping[str, object]) -> str:
    """A metric as somebody writes it who wants the library's."""
    inside = ", ".join(f"{key}={value!r}" for key, value in said.items())
    return f"`{name}({inside})`" if inside else f"`{name}`"


def spelled(value: object) -> str:
    return "" if value is None else str(value)


def cell(text: str) -> str:
    """Text that stands in one cell of a table."""
    return text.replace("|", "\\|")


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{' --- |' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"
    yield ""


def library_lines() -> Iterator[str]:
    yield "## Library by library"
    yield ""
    for profile in libraries():
        yield f"### {profile.name}"
        yield ""
        order = ", ordered by scores alone" if profile.looks_at == "scores" else ""
        yield f"{profile.about} " + (
            f"Held against {profile.version}; read by way of {profile.path}{order}."
        )
        yield ""
        yield from remark_lines(profile, "")
        for kind in profile.rows:
            yield from remark_lines(profile.of(kind), f"{kind}: ")


def remark_lines(profile: Profile, kind: str) -> Iterator[str]:
    for difference in profile.differs:
        yield f"- Not reproduced: {kind}{difference.what}: {difference.why}."
    for fault in profile.errors:
        yield f"- Error in {fault.version}: {kind}{fault.what}."
    if profile.differs or profile.errors:
        yield ""


def main() -> int:
    text = "\n".join(lines()).rstrip() + "\n"
    if "--check" in sys.argv:
        return int(not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text)
    PAGE.write_text(text, encoding="utf-8")
    print(PAGE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
