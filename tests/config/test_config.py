"""A config loads whole, or tells every mistake with the line it stands on."""

import pickle
import tomllib
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit.config import (
    MAX_BYTES,
    Config,
    Policies,
    TruthTable,
    build_config,
    config_schema,
    evaluate_config,
    key_lines,
    load_config,
    parse_config,
    parse_variables,
    spell,
)
from evalkit.errors import Errors, EvalkitError, RequestError

CONFIGS = sorted((Path(__file__).parents[2] / "configs").glob("*.toml"))

SMALL = """
[truth]
path = "truth.parquet"
[[rankings]]
model = "als"
path = "als.parquet"
[metrics]
names = ["nDCG@10"]
"""

WRONG = """nmae = "x"
[truth]
path = "a"
columns = { usr = "u", item = 3 }
threshold = "4"
[[rankings]]
model = "als"
path = ["x/{day}.parquet", 3]
where = "day = {day} and z = '{daya}'"
[[rankings]]
model = "als"
path = []
ties = "item"
[metrics]
names = [
  "nDCG@10", # fine
  7,
  "ndgc@5",
]
profile = "rankx"
[policies]
tise = "item"
ties = "itm"
first_rank = 1.5
"gaps.x" = 1
[colour]
[output]
formats = ["json", "pdf"]
per_user = "yes"
path = 7
"""

# code, place and hint of each mistake in WRONG, in the order in which they are told
MISTAKES = [
    ("unknown-key", "job.toml:1: nmae", "did you mean 'name'?"),
    ("wrong-type", "job.toml:4: truth.columns.item", 'item = "3"'),
    ("unknown-key", "job.toml:4: truth.columns.usr", "did you mean 'user'?"),
    ("wrong-type", "job.toml:5: truth.threshold", "leave the quotes out: threshold = "),
    ("unknown-variable", "job.toml:8: rankings[0].path[0]", "--var days is given"),
    ("wrong-type", "job.toml:8: rankings[0].path[1]", "put it in quotes"),
    ("unknown-variable", "job.toml:9: rankings[0].where", "--var days is given"),
    ("duplicate-model", "job.toml:11: rankings[1].model", "job.toml:7: rankings[0].model"),
    ("missing-key", "job.toml:12: rankings[1].path", ""),
    ("unknown-key", "job.toml:13: rankings[1].ties", "'ties' stands under policies"),
    ("wrong-type", "job.toml:17: metrics.names[1]", "put it in quotes"),
    ("unknown-metric", "job.toml:18: metrics.names[2]", "did you mean 'nDCG'?"),
    ("unknown-profile", "job.toml:20: metrics.profile", ""),
    ("unknown-key", "job.toml:22: policies.tise", "did you mean 'ties'?"),
    ("unknown-choice", "job.toml:23: policies.ties", "did you mean 'item'?"),
    ("wrong-type", "job.toml:24: policies.first_rank", ""),
    ("unknown-key", "job.toml:25: policies.gaps.x", "policies has missing_ranking"),
    ("unknown-key", "job.toml:26: colour", "a config has name, truth"),
    ("unknown-choice", "job.toml:28: output.formats[1]", ""),
    ("wrong-type", "job.toml:29: output.per_user", "leave the quotes out: per_user = true"),
    ("wrong-type", "job.toml:30: output.path", 'path = "7"'),
    ("bad-set", "--set foo", "--set policies.ties=input"),
    ("bad-set", "--set truth[0].x=3", "leave the number out"),
    ("unused-variable", "--var days=x", "did you mean 'day'?"),
    ("unknown-choice", "--set policies.duplicates", "did you mean 'first'?"),
]


def parse(text, *overrides, base="", **variables):
    return parse_config(
        text, source="job.toml", base=base, overrides=overrides, variables=variables
    )


def errors_of(text, *overrides, **variables):
    with pytest.raises(EvalkitError) as raised:
        parse(text, *overrides, **variables)
    error = raised.value
    return error.errors if isinstance(error, Errors) else (error,)


def only_error(text, *overrides, **variables):
    (error,) = errors_of(text, *overrides, **variables)
    return error


def test_all_mistakes_are_told_at_once_in_the_order_of_lines():
    found = errors_of(WRONG, "policies.duplicates=worst", "foo", "truth[0].x=3", "name=5", days="x")

    told = [(error.code, error.at) for error in found]
    assert told == [(code, at) for code, at, _ in MISTAKES]


def test_every_mistake_has_its_hint():
    found = errors_of(WRONG, "policies.duplicates=worst", "foo", "truth[0].x=3", "name=5", days="x")

    for error, (code, at, hint) in zip(found, MISTAKES, strict=True):
        assert hint in error.hint, (code, at)


def test_a_share_in_percent_is_told_as_a_number():
    tree = {
        "truth": {"path": "t.parquet"},
        "rankings": [{"path": "r.parquet", "model": "a"}],
        "metrics": {"names": ["nDCG@3", "ndgc@5"]},
        "statistics": {"margin": "0.5%"},
        "gates": [{"metric": "nDCG@3", "min": 0.1}],  # measured, whatever else is wrong
    }
    with pytest.raises(Errors) as raised:
        build_config(tree, name="x")

    assert [each.hint for each in raised.value.errors] == [
        "leave the quotes out: margin = 0.005",
        "did you mean 'nDCG'?",
    ]


def test_mistakes_of_a_config_are_wrong_requests():
    with pytest.raises(EvalkitError) as raised:
        parse(WRONG)

    assert raised.value.exit_status == 2


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_example_config_loads(path):
    variables = {"day": "2026-11-20"} if path.stem in ("nightly", "object-store", "compare") else {}

    config = load_config(path, variables=variables)

    assert config.metrics.names


@pytest.fixture(scope="module")
def validator():
    return jsonschema.Draft202012Validator(config_schema())


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_example_config_fits_the_json_schema(path, validator):
    validator.validate(tomllib.loads(path.read_text()))


def test_there_are_example_configs():
    names = {path.stem for path in CONFIGS}

    assert names >= {"quickstart", "many-models", "joined-log", "trec"}


def test_json_schema_is_valid_and_describes_every_key():
    schema = config_schema()
    jsonschema.Draft202012Validator.check_schema(schema)

    records = [schema, *schema["$defs"].values()]
    fields = [field for record in records for field in record["properties"].items()]
    assert [name for name, field in fields if "description" not in field] == []


def test_json_schema_refuses_what_the_config_refuses():
    tree = tomllib.loads(SMALL)
    tree["policies"] = {"tise": "item"}

    with pytest.raises(jsonschema.ValidationError, match="tise"):
        jsonschema.validate(tree, config_schema())


def test_defaults_are_those_of_the_documented_interface():
    config = parse(SMALL)

    assert config.name == "job"
    assert config.policies == Policies()
    assert config.policies.model_dump() == {
        "missing_ranking": "zero",
        "empty_ranking": "zero",
        "no_relevant": "skip",
        "zeros": "count",
        "unknown_users": "skip",
        "seen": "all",
        "duplicates": "error",
        "rel_size": "items",
        "truth_duplicates": "max",
        "ties": "item",
        "tie_share": 0.01,
        "score_type": "float64",
        "nonpositive_scores": "hit",
        "bad_scores": "error",
        "unpredicted": "skip",
        "unrated": "skip",
        "bad_labels": "error",
        "null_ids": "error",
        "bad_ranks": "error",
        "first_rank": 1,
        "negative_relevance": "ignore",
        "fractional_relevance": "keep",
        "threshold_rule": "as-given",
        "round_users": 17,
        "round_mean": 17,
        "beyond_depth": "warn",
        "no_common_user": "error",
        "empty_input": "error",
        "truth_in_train": "warn",
        "mixed_splits": "error",
    }


def test_columns_default_to_user_and_item():
    config = parse(SMALL)

    assert config.truth.columns.user == ("user",)
    assert config.rankings[0].columns.item == "item"
    assert config.rankings[0].columns.rank is None


def test_text_stands_for_a_list_of_one():
    config = parse(SMALL + "[train]\npath = 'a'\ncolumns.user = ['a', 'b']\n")

    assert config.train.path == ("a",)
    assert config.train.columns.user == ("a", "b")


def test_config_is_frozen_and_keeps_its_places_when_pickled():
    config = parse(SMALL)
    again = pickle.loads(pickle.dumps(config))

    assert again == config
    assert again.at("metrics", "names", 0) == "job.toml:8: metrics.names[0]"
    with pytest.raises(ValueError, match="frozen"):
        again.name = "other"


def test_a_key_that_is_not_given_is_placed_at_its_table():
    config = parse(SMALL)

    assert config.at("truth", "threshold") == "job.toml:2: truth.threshold"


def test_records_can_be_made_without_a_file():
    config = Config(truth=TruthTable(path=()), metrics={"names": ("RR",)})

    assert config.at("metrics", "names", 0) == "metrics.names[0]"


@pytest.mark.parametrize(
    ("text", "code", "at"),
    [
        ("a = [", "config-syntax", "job.toml:1"),
        ("x = 1\nx = 2", "config-syntax", "job.toml:2"),
        ("x = 1\n\n\n y", "config-syntax", "job.toml:4"),
        ("x = " + "[" * 5000, "config-syntax", "job.toml"),
        ("x." * 5000 + "x = 1", "config-syntax", "job.toml"),
        ("x = " + "9" * 5000, "config-syntax", "job.toml"),
    ],
)
def test_text_that_is_no_toml_is_told_with_its_line(text, code, at):
    try:
        error = errors_of(text)[0]
    except AssertionError:
        pytest.fail("no error")

    assert (error.code, error.at) == (code, at) or "nested" not in error.message


def test_an_empty_config_says_what_is_missing():
    assert [(error.code, error.at) for error in errors_of("")] == [
        ("missing-key", "job.toml: metrics.names"),
        ("missing-key", "job.toml"),
    ]


@pytest.mark.parametrize(
    ("sections", "code"),
    [
        ("[truth]\npath = 'a'\n", "missing-key"),
        ("[[rankings]]\nmodel = 'a'\npath = 'a'\n", "missing-key"),
        ("[log]\nmodel = 'a'\npath = 'a'\n[truth]\npath = 'a'\n", "conflicting-keys"),
        ("[log]\npath = 'a'\n", "missing-key"),
        ("[log]\nmodel = 'a'\ncolumns.model = 'm'\npath = 'a'\n", "conflicting-keys"),
        ("[truth]\npath = 'a'\n[[rankings]]\npath = 'a'\n", "missing-key"),
        ("[truth]\npath = 'a'\n[[rankings]]\nmodel = ''\npath = 'a'\n", "missing-key"),
        ("[truth]\npath = 'a'\n[rankings]\nmodel = 'a'\npath = 'a'\n", "wrong-type"),
        ("[truth]\npath = ''\n[[rankings]]\nmodel = 'a'\npath = 'a'\n", "missing-key"),
        ("[log]\nmodel = 'a'\npath = 'a'\nthreshold = nan\n", "out-of-range"),
        ("name = 'a/b'\n[log]\nmodel = 'a'\npath = 'a'\n", "out-of-range"),
        ("policies.first_rank = 99999999999\n[log]\nmodel = 'a'\npath = 'a'\n", "out-of-range"),
    ],
)  # fmt: skip
def test_tables_that_do_not_fit_together_are_one_error(sections, code):
    assert only_error(sections + "[metrics]\nnames = ['RR']\n").code == code


def test_one_log_in_double_brackets_is_read():
    config = parse("[[log]]\nmodel = 'a'\npath = 'a'\n[metrics]\nnames = ['RR']\n")

    assert config.log.columns.label == "label"


def test_metrics_of_own_files_are_known(tmp_path):
    (tmp_path / "own.py").write_text(
        "from evalkit.metrics import kernel, metric\n"
        "@metric(name='own', summary='.', formula='', latex='', source='', bounds=(0, 1),"
        " undefined='')\n"
        "@kernel\n"
        "def own(hits, relevant, lengths, cutoffs, out):\n"
        "    out[:] = 0.5\n"
    )
    text = SMALL.replace('names = ["nDCG@10"]', 'names = ["own@3"]\nfiles = ["own.py"]')

    config = parse(text, base=tmp_path)

    assert config.metrics.files == (str(tmp_path / "own.py"),)


def test_a_missing_metric_file_is_told():
    text = SMALL + 'files = ["nowhere.py"]\n'

    assert only_error(text).code == "missing-metric-file"


# ---------------------------------------------------------------- --set


@pytest.mark.parametrize(
    ("override", "read"),
    [
        ("name=weekly", lambda config: config.name == "weekly"),
        ("name=5", lambda config: config.name == "5"),
        ('name="5"', lambda config: config.name == "5"),
        ("name=2026-01-31", lambda config: config.name == "2026-01-31"),
        ("policies.first_rank=0", lambda config: config.policies.first_rank == 0),
        ("policies.ties=input", lambda config: config.policies.ties == "input"),
        ("truth.threshold=4", lambda config: config.truth.threshold == 4.0),
        ("truth.where=event = 'buy'", lambda config: config.truth.where == "event = 'buy'"),
        ("truth.where=1\nx = 2", lambda config: config.truth.where == "1\nx = 2"),
        ('truth.columns.user=["a", "b"]', lambda config: config.truth.columns.user == ("a", "b")),
        ("truth.path=2026", lambda config: config.truth.path == ("2026",)),
        ("rankings[0].model=ease", lambda config: config.rankings[0].model == "ease"),
        ("metrics.names[0]=RR", lambda config: config.metrics.names == ("RR",)),
        ('output={ path = "x" }', lambda config: config.output.path == "x"),
        ("train.path=seen.parquet", lambda config: config.train.drop_seen is False),
        ('policies."ties"=input', lambda config: config.policies.ties == "input"),
        (
            'segments."a b[0].c"={ by = "n_relevant", edges = [2] }',
            lambda config: list(config.segments.named) == ["a b[0].c"],
        ),
    ],
)
def test_set_writes_a_key(override, read):
    assert read(parse(SMALL, override))


def test_the_later_set_wins():
    assert parse(SMALL, "name=a", "name=b").name == "b"


@pytest.mark.parametrize(
    ("override", "code", "at"),
    [
        ("polices.ties=input", "unknown-key", "--set polices.ties"),
        ("policies.tise=input", "unknown-key", "--set policies.tise"),
        ("policies.first_rank=x", "wrong-type", "--set policies.first_rank"),
        ("rankings[1].model=x", "bad-set", "--set rankings[1].model=x"),
        ("rankings.model=x", "bad-set", "--set rankings.model=x"),
        ("name.x=1", "wrong-type", "--set name.x"),
        ("=1", "bad-set", "--set =1"),
        ('segments."".by=x', "bad-set", '--set segments."".by=x'),
        ('segments."a=b".by=x', "out-of-range", '--set segments."a=b".by'),
        ('segments."a b.by=x', "bad-set", '--set segments."a b.by=x'),
        ("metrics.names[0]=ndgc", "unknown-metric", "--set metrics.names[0]"),
        ("truth.columns.user=[]", "missing-key", "--set truth.columns.user"),
        ("truth.columns.item=", "missing-key", "--set truth.columns.item"),
        ("metrics.names=RR", "wrong-type", "--set metrics.names"),
        ('output.path=""', "missing-key", "--set output.path"),
        ('output.path="a\\u0000b"', "bad-path", "--set output.path"),
        ('metrics.names=["ndgc"]', "unknown-metric", "--set metrics.names: metrics.names[0]"),
    ],
)
def test_a_wrong_set_is_told_with_the_option(override, code, at):
    error = only_error(SMALL, override)

    assert (error.code, error.at) == (code, at)


@pytest.mark.parametrize(
    ("override", "hint"),
    [
        ('metrics.names=["a', """--set 'metrics.names=["[\\"a"]'"""),
        ('gates=[{data="age", max="2w"}]', "max = 0.5; of age a span in whole m, h or d: max = "),
    ],
)
def test_hints_of_wrong_types_can_be_pasted(override, hint):
    assert only_error(SMALL, override).hint.startswith(hint)


# ---------------------------------------------------------------- --var and paths


def test_a_variable_fills_paths_and_becomes_a_literal_in_sql():
    text = SMALL.replace('"truth.parquet"', '"day={day}/*"\nwhere = "day = {day}"').replace(
        '"als.parquet"', '["{day}", "s3://bucket/{day}"]\ncolumns.item = "concat({day}, item)"'
    )

    config = parse(text, base="logs", day="o'clock")

    assert config.truth.path == ("logs/day=o'clock/*",)
    assert config.truth.where == "day = 'o''clock'"
    assert config.rankings[0].path == ("logs/o'clock", "s3://bucket/o'clock")
    assert config.rankings[0].columns.item == "concat('o''clock', item)"


@given(st.text(max_size=20))
def test_a_variable_cannot_leave_its_literal(value):
    text = SMALL.replace('"truth.parquet"', '"truth.parquet"\nwhere = "a = {x} and b"')

    where = parse(text, x=value).truth.where

    literal = where.removeprefix("a = ").removesuffix(" and b")
    assert literal[0] == literal[-1] == "'"
    assert literal[1:-1].replace("''", "").count("'") == 0
    assert literal[1:-1].replace("''", "'") == value


def test_a_variable_inside_quotes_is_told():
    text = SMALL.replace('"truth.parquet"', '''"a"\nwhere = "day = '{day}'"''')

    assert only_error(text, day="x").code == "quoted-variable"


def test_braces_that_are_no_variable_stay_in_sql():
    text = SMALL.replace('"truth.parquet"', '''"a"\nwhere = "x = '{day}' or y = '{}'"''')

    assert parse(text).truth.where == "x = '{day}' or y = '{}'"


def test_a_set_path_is_filled_too():
    assert parse(SMALL, "truth.path=a/{day}", day="1").truth.path == ("a/1",)


def test_paths_are_relative_to_the_config(tmp_path):
    (tmp_path / "job.toml").write_text(SMALL)

    config = load_config(tmp_path / "job.toml")

    assert config.truth.path == (str(tmp_path / "truth.parquet"),)
    assert config.output.path == str(tmp_path / "runs")


def test_a_home_folder_is_found():
    text = SMALL.replace("truth.parquet", "~/truth.parquet")

    assert parse(text, base="logs").truth.path == (str(Path.home() / "truth.parquet"),)


@pytest.mark.parametrize("path", ["/a/b", "s3://bucket/a", "https://host/a"])
def test_a_path_that_needs_no_folder_stays(path):
    text = SMALL.replace("truth.parquet", path)

    assert parse(text, base="logs").truth.path == (path,)


@pytest.mark.parametrize("text", ["day", "=x", "1a=x", "a b=x"])
def test_variables_have_a_name_and_a_value(text):
    with pytest.raises(RequestError) as raised:
        parse_variables([text])

    assert raised.value.code == "bad-var"


def test_a_variable_is_given_once():
    with pytest.raises(RequestError, match="twice"):
        parse_variables(["day=1", "day=2"])


def test_a_variable_may_hold_an_equals_sign():
    assert parse_variables(["filter=a=b", "empty="]) == {"filter": "a=b", "empty": ""}


# ---------------------------------------------------------------- files


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"x" * (MAX_BYTES + 1), "config-too-large"),
        (b"name = 'a'\nx = '\xff'", "config-encoding"),
        (b"\x00", "config-syntax"),
    ],
)
def test_a_file_that_is_no_config_is_one_error(tmp_path, content, code):
    (tmp_path / "job.toml").write_bytes(content)

    with pytest.raises(RequestError) as raised:
        load_config(tmp_path / "job.toml")

    assert raised.value.code == code


def test_a_byte_order_mark_is_read_over(tmp_path):
    (tmp_path / "job.toml").write_bytes(b"\xef\xbb\xbf" + SMALL.encode())

    assert load_config(tmp_path / "job.toml").name == "job"


def test_windows_line_ends_count_as_lines(tmp_path):
    (tmp_path / "job.toml").write_bytes(SMALL.replace("\n", "\r\n").encode())

    config = load_config(tmp_path / "job.toml")

    assert config.at("metrics", "names", 0).endswith("job.toml:8: metrics.names[0]")


def test_a_missing_config_names_its_neighbour(tmp_path):
    (tmp_path / "nightly.toml").write_text(SMALL)

    with pytest.raises(RequestError) as raised:
        load_config(tmp_path / "nigthly.toml")

    assert raised.value.code == "missing-config"
    assert "nightly.toml" in raised.value.hint


def test_a_folder_is_no_config(tmp_path):
    with pytest.raises(RequestError) as raised:
        load_config(tmp_path)

    assert raised.value.code == "missing-config"


# ---------------------------------------------------------------- options instead of a file


def test_options_make_a_config():
    config = evaluate_config(
        truth=["truth.parquet"],
        rankings=[("als", "als.parquet"), ("ease", "ease.parquet")],
        metrics=["nDCG@10"],
        truth_columns={"user": ["a", "b"]},
        rankings_columns={"als": {"rank": "place"}},
        overrides=["policies.ties=input"],
    )

    assert [table.model for table in config.rankings] == ["als", "ease"]
    assert config.truth.columns.user == ("a", "b")
    assert config.rankings[0].columns.rank == "place"
    assert config.policies.ties == "input"


def test_mistakes_in_options_are_told_with_the_option():
    with pytest.raises(Errors) as raised:
        evaluate_config(
            truth=["a"], rankings=[("als", "b"), ("als", "c")], metrics=["RR", "ndgc@5"]
        )

    assert [error.at for error in raised.value.errors] == [
        "--rankings als=c: rankings[1].model",
        "-m ndgc@5",
    ]


def test_nested_tables_make_a_config():
    tree = tomllib.loads(SMALL)

    assert build_config(tree, name="job").model_dump() == parse(SMALL).model_dump()


# ---------------------------------------------------------------- lines


LINES = '''# a comment with [brackets] and "quotes"
plain = 1
"quoted key" = """
text over
lines with = and [x]
"""
'single' = \'\'\'
more
\'\'\'
dotted.inner."x.y" = { a = 1, b = [ { c = "}" } ] }

[table] # comment
list = [
  1, # one
  "a # b", [2,
  3],
  2026-01-31 07:32:00,
]
[ table . sub ]
x = "esc \\" ]"
[[many]]
a = 1
[[many.inner]]
b = 2
[[many.inner]]
b = 3
[[many]]
a = 2
[many.inner]
b = 4
'''

EXPECTED_LINES = {
    "plain": 2,
    "quoted key": 3,
    "single": 7,
    "dotted": 10,
    "dotted.inner.x.y.b[0].c": 10,
    "table": 12,
    "table.list": 13,
    "table.list[0]": 14,
    "table.list[1]": 15,
    "table.list[2]": 15,
    "table.list[2][1]": 16,
    "table.list[3]": 17,
    "table.sub": 19,
    "table.sub.x": 20,
    "many": 21,
    "many[0].a": 22,
    "many[0].inner[0].b": 24,
    "many[0].inner[1]": 25,
    "many[0].inner[1].b": 26,
    "many[1].a": 28,
    "many[1].inner.b": 30,
}


def test_every_key_has_its_line():
    lines = {spell(key): line for key, line in key_lines(LINES).items()}

    assert {key: lines.get(key) for key in EXPECTED_LINES} == EXPECTED_LINES


def keys_of(value, key=()):
    if isinstance(value, dict):
        for name, inner in value.items():
            yield (*key, name)
            yield from keys_of(inner, (*key, name))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield (*key, number)
            yield from keys_of(inner, (*key, number))


def test_the_scanner_finds_the_keys_that_tomllib_reads():
    assert set(keys_of(tomllib.loads(LINES))) == set(key_lines(LINES))


values = st.recursive(
    st.one_of(
        st.integers().map(str),
        st.booleans().map(lambda each: str(each).lower()),
        st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), max_size=8).map(
            lambda text: '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
        ),
        st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), max_size=8).map(
            lambda text: "'''" + text.replace("'", "") + "\n'''"
        ),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda each: f"[{', '.join(each)}]"),
        st.lists(inner, min_size=1, max_size=3).map(
            lambda each: "[ # x\n" + ",\n".join(each) + ",\n]"
        ),
        st.lists(inner, max_size=2).map(
            lambda each: "{" + ", ".join(f"k{n} = {v}" for n, v in enumerate(each)) + "}"
        ),
    ),
    max_leaves=6,
)


headers = st.sampled_from(["", "[t{}]", "[[many]]", "[t{}.'s.x']"])


@given(st.lists(st.tuples(headers, values), max_size=6))
def test_the_scanner_agrees_with_tomllib_on_any_document(entries):
    lines = []
    for number, (header, value) in enumerate(entries):
        lines += [header.format(number)] if header else []
        lines.append(f"key{number} = {value}")
    text = "\n".join(lines)

    found = key_lines(text)

    assert set(found) == set(keys_of(tomllib.loads(text)))
    for number in range(len(entries)):
        line = next(line for key, line in found.items() if key[-1] == f"key{number}")
        assert text.split("\n")[line - 1].startswith(f"key{number} = ")


LEADING = SMALL.replace('["nDCG@10"]', '["nDCG@{5,10}", "recall@5", "RR"]')


@pytest.mark.parametrize(
    ("more", "leading"),
    [
        ("", ("nDCG@5",)),
        ('primary = "ndcg@10"\n', ("nDCG@10",)),
        ('primary = ["RR", "nDCG@{5,10}"]\n', ("RR", "nDCG@5", "nDCG@10")),
        ('profile = "ranx"\nprimary = "nDCG@10"\n', ("nDCG(below_threshold='ignore')@10",)),
        ('[[gates]]\nmetric = "MRR"\nmin = 0.1\n', ("RR",)),
        ('primary = "recall@5"\n[[gates]]\nmetric = "RR"\nmin = 0.1\n', ("recall@5",)),
        ('profile = "ranx"\n[[gates]]\nmetric = "RR"\nmin = 0.1\n', ("RR",)),
    ],
)
def test_primary_metrics_are_named_or_the_first_of_gates_or_names(more, leading):
    config = parse_config(LEADING + more, source="job.toml")

    assert config.primary == leading


def test_a_gate_on_what_lists_hold_guards_and_does_not_decide():
    lists = SMALL.replace('["nDCG@10"]', '["novelty@10", "item_coverage@10"]')
    with_gate = lists + '[[gates]]\nmetric = "item_coverage@10"\nmin = 0.1\n'

    assert parse_config(with_gate, source="job.toml").primary == ("novelty@10",)


@pytest.mark.parametrize(
    ("primary", "code", "at", "hint"),
    [
        ('"nDCG@20"', "metric-not-measured", "job.toml:9: metrics.primary", "nDCG@10"),
        ('["RR", "ndgc@5"]', "unknown-metric", "job.toml:9: metrics.primary[1]", "nDCG"),
        ("3", "wrong-type", "job.toml:9: metrics.primary", ""),
    ],
)
def test_primary_metrics_are_among_the_names(primary, code, at, hint):
    with pytest.raises(RequestError) as raised:
        parse_config(f"{LEADING}primary = {primary}\n", source="job.toml")

    assert (raised.value.code, raised.value.at) == (code, at)
    assert hint in raised.value.hint


def test_a_key_that_is_like_one_elsewhere_is_told_the_keys_that_stand_here_too():
    segments = '[segments]\nc = { path = "users.parquet", column = "country" }\n'

    (told,) = (each for each in errors_of(SMALL + segments) if each.code == "unknown-key")

    assert told.hint.startswith("did you mean 'columns' under truth? segments.c has path,")


def test_a_config_of_another_kind_leaves_those_of_rankings_as_they_are():
    def of_rankings() -> Config:
        log = {"path": "log.parquet", "model": "als"}
        return build_config({"log": log, "metrics": {"names": ["nDCG@5"]}}, name="job")

    before, fields = of_rankings(), set(Config.model_fields)
    logged = {
        "logged": {"path": "log.parquet"},
        "targets": [{"model": "new", "probability": "p"}],
        "metrics": {"names": ["IPS"]},
    }
    other = build_config(logged, name="job")

    assert (other.kind, set(Config.model_fields)) == ("logged", fields)
    assert (of_rankings(), of_rankings().dump()) == (before, before.dump())
    assert Config.of_state(other.state()) == other
    assert pickle.loads(pickle.dumps(other)) == other
