"""SQL of one row: Polars is given what was checked, and nothing else can be said."""

import random
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import polars as pl
import pytest

import evalkit
from evalkit.config import TruthColumns, TruthTable
from evalkit.errors import DataError
from evalkit.sources import open_truth
from evalkit.sources.columns import Wanted, plan_columns, typed_plan
from evalkit.sources.sql import check_expression
from evalkit.sources.sql_parts import MOST_ADDED
from evalkit.sources.sql_words import FUNCTIONS, Refused

ROWS = pl.DataFrame(
    {"a": [1, 2, None], "s": ["x", "it's", None], "d": [0.5, 2.5, None], "b": [True, False, None]}
)

FINE = [
    "a + 1",
    "-a * 2 - +3 % 2 // 1",
    "a = 1 and b or not (a <> 2)",
    "s = 'it''s'",
    "s in ('x', 'y')",
    "a not in (1, -2)",
    "a between 1 and 2 and b",
    "a is not null and b is not false",
    "a is not distinct from 1",
    "s not like 'x%' or s ilike 'X' or s rlike '^x'",
    "s ~ 'x' or s !~* 'X'",
    "case when a = 1 then 'one' when b then s else 'more' end",
    "case a when 1 then 2 end",
    "cast(a as varchar(10)) || '-' || s",
    "try_cast(s as double precision) > 1.5e3",
    "a::bigint::text",
    "cast(a as decimal(10, 2))",
    "cast(a as int unsigned)",
    "extract(year from date '2024-01-31') = 2024",
    "substring(s from 1 for 1)",
    "substr(s, 1, 1)",
    "trim(both 'x' from s)",
    "position('x' in s)",
    "date '2024-01-31' + interval '1 day'",
    "strptime(concat('2024-01-0', cast(a as text)), '%Y-%m-%d')",
    "coalesce(a, 0) + least(a, 2) + round(d, 1)",
    "lpad(s, 10, '0')",
    "replace(\"s\", 'x', 'yy')",
    "`a` + 1",
    "if(b, 1, 2)",
]


@pytest.mark.parametrize("text", FINE)
def test_what_is_allowed_means_what_polars_makes_of_it(text):
    checked = check_expression(text, ROWS.columns)

    assert str(pl.sql_expr(checked.text)) == str(pl.sql_expr(text))


REFUSED = [
    # another table, a file, a request
    "a in (select 1)",
    "a = (select max(a) from read_csv('/etc/passwd'))",
    "a in (from read_parquet('http://127.0.0.1/x'))",
    "exists(select 1)",
    "a = any(select 1)",
    "read_csv('x')",
    "select 1",
    "a union select 1",
    # other rows
    "sum(a) > 1",
    "a > avg(a) over ()",
    "row_number() over (order by a) < 3",
    "lag(a) = 1",
    "unnest(l)",
    "columns('.*')",
    '"^.*$" = 1',
    "*",
    "count(*)",
    # what the parsers of SQL disagree on
    "a -- b",
    "a /* b */",
    "a --1",
    "s = 'x",
    "s = E'a\\'b'",
    "s = $$x$$",
    "s = N'x'",
    "s = X'41'",
    "a = 0x1F",
    "a = 1_000",
    "a = ?",
    "a; drop table x",
    "s = 'a' 'b'",
    "a b",
    "a as b",
    "a, b",
    "(a",
    "a)",
    "",
    "a = \u0663",
    "a\x00",
    # numbers with more digits than there are
    "cast(a as decimal(1000000, 3)) > 1",
    "cast(a as numeric(39)) > 1",
    "a::decimal(5, 9) > 1",
    "a::dec(0) > 1",
    # what an expression begins and does not end
    "a not 3",
    "a between 1 2",
    "s.3",
    "case a end",
    "cast(a as foo)",
    "cast(a as decimal(x))",
    "extract(foo from t)",
    "normalize(s, X)",
    "array_to_string(names, 3)",
    # another day, another answer
    "day = current_date",
    "now() > day",
]


@pytest.mark.parametrize("text", REFUSED)
def test_all_else_is_refused_with_a_hint(text):
    with pytest.raises(Refused) as caught:
        check_expression(text, ROWS.columns)

    assert caught.value.hint


@pytest.mark.parametrize("name", ["select", "over", "current_date", "end", "date", "case"])
def test_a_word_of_sql_is_a_column_where_there_is_one(name):
    assert check_expression(f"{name} = 1", [name]).names == (name,)


def test_words_of_sql_mean_sql_where_a_column_of_that_name_cannot_stand():
    text = "x = date '2024-01-31' and case when y is not null then true end"

    checked = check_expression(text, ["x", "y", "and", "date", "end", "null"])

    assert checked.names == ("x", "y")


@pytest.mark.parametrize("name", sorted({"max", "read_csv", "sleep", "concat_", "Sum", "unnest"}))
def test_a_function_of_other_rows_is_named(name):
    with pytest.raises(Refused, match=f"^{name.lower()}\\(\\) is no function of one row$"):
        check_expression(f"{name}(a)", ROWS.columns)


LARGE: list[Callable[[], str]] = [
    lambda: "lpad(s, 1000000000, 'x')",
    lambda: "rpad(s, a, 'x')",
    lambda: "lpad(s, 99999999999999999999999999, 'x')",
    lambda: f"replace(s, '', '{'x' * MOST_ADDED}')",
    lambda: f"replace(s, 'x', '{'x' * 200}')",
    lambda: "replace(" * 4 + "s" + ", 'x', 'xxxx')" * 4,
    lambda: "replace(s, 'x', s)",
    lambda: "replace(s, s, 'xxxx') || " * 30 + "s",
    lambda: f"concat({', '.join(['s'] * 101)})",
    lambda: f"concat_ws(s, {', '.join(['s'] * 60)})",
    lambda: f"array_to_string(s, '{'x' * 200}')",
    lambda: f"strftime(d, '{'%c' * 200}')",
    lambda: f"case when b then '{'x' * 5000}' else s end",
    lambda: "(" * 41 + "a" + ")" * 41,
    lambda: "not " * 41 + "b",
    lambda: "- " * 41 + "a",
    lambda: "abs(" * 41 + "a" + ")" * 41,
    lambda: " or ".join(["a = 1"] * 300),
    lambda: "a" + " + 1" * 300,
    lambda: "case " + "when a = 1 then 2 " * 300 + "end",
    lambda: "(" * 30 + "a" + " between 1 and 2)" * 30,
    lambda: "nullif(" * 20 + "a" + ", 1)" * 20,
    lambda: "case " * 20 + "a" + " when 1 then 2 when 2 then 3 end" * 20,
    lambda: f"a in ({', '.join(['a'] * 300)})",
    lambda: f"s = '{'x' * 100_000}'",
]


@pytest.mark.parametrize("make", LARGE)
def test_length_nesting_and_text_are_limited(make):
    with pytest.raises(Refused):
        check_expression(make(), ROWS.columns)


def test_a_long_list_of_ids_is_fine():
    text = f"a in ({', '.join(map(str, range(10_000)))})"

    assert check_expression(text, ROWS.columns).names == ("a",)


@pytest.mark.parametrize(
    "where",
    [
        "rating in (select rating from read_csv('{path}'))",
        "rating = (select max(column_0) from read_csv('{path}'))",
        "lpad(user, 4000000000, 'x') = 'x'",
    ],
)
def test_where_opens_no_file_and_says_so_in_one_error(tmp_path: Path, where):
    table = TruthTable(path=("memory",), columns=TruthColumns(), where=where.format(path=tmp_path))
    frame = pl.DataFrame({"user": ["a"], "item": [1], "rating": [1]})

    with pytest.raises(DataError) as caught:
        open_truth(table, frame)

    assert caught.value.code == "bad-sql"
    assert caught.value.at.endswith("truth.where")


PIECES = (
    """a s d b ( ) , . + - * / = < 'x' "a" `b` 1 2.5 and or not in between is null true case when
    then else end cast( as int varchar :: like || % select from over exists( lateral union columns(
    array[ [ ] { } -- /* */ $$ E' ' " ; ? @ # \\ interval date trim( both position( ~ !~ => ->
    filter( within group by order""".split()
    + ["read_csv('x')", "count(*)", "\u2028", "\u00a0", "é"]
    + [f"{name}(" for name in sorted(FUNCTIONS)]
)


def test_whatever_is_accepted_polars_reads_in_the_same_way():
    rng = random.Random(1)
    n_same = 0
    for _ in range(4000):
        text = " ".join(rng.choices(PIECES[:30], k=3) + rng.choices(PIECES, k=rng.randrange(3)))
        try:
            checked = check_expression(text, ROWS.columns)
            mine, theirs = pl.sql_expr(checked.text), pl.sql_expr(text)
        except (Refused, pl.exceptions.PolarsError):
            continue
        n_same += 1
        assert str(mine) == str(theirs), text
        assert set(mine.meta.root_names()) <= set(checked.names)

    assert n_same > 20


BITS = pl.DataFrame(
    {
        "a": [3, -2, None, 2**63 - 1, -(2**63)],
        "i8": pl.Series([100, -128, 3, 0, 127], dtype=pl.Int8),
        "u8": pl.Series([100, 255, 3, 0, 1], dtype=pl.UInt8),
        "i32": pl.Series([2**31 - 1, -(2**31), 3, 0, 1], dtype=pl.Int32),
        "u64": pl.Series([2**64 - 1, 0, 3, 7, 1], dtype=pl.UInt64),
        "f": [1.5, 2.5, 0.1, None, -1.0],
        "s": ["ab", "c", None, "", "abcdef"],
        "t": [datetime(2024, 5, 31, 3)] * 5,
        "nano": pl.Series([datetime(2262, 4, 11)] * 5, dtype=pl.Datetime("ns")),
        "span": pl.Series([timedelta(days=100_000)] * 5, dtype=pl.Duration("ns")),
        "flag": [True, False, None, True, False],
        "list": pl.Series([[100, 100], [3], [], [1], [-128]], dtype=pl.List(pl.Int8)),
        "long": [[2**62, 2**62], [3], [], [1], [2]],
    }
)


def computed(text: str) -> list[object]:
    plan = plan_columns("truth", [Wanted("relevance", "x", text)], None, BITS.columns, at="here")
    return typed_plan(plan, BITS.schema).apply(BITS.lazy()).collect()["x"].to_list()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("i8 + i8", [200, -256, 6, 0, 254]),
        ("u8 * u8", [10_000, 65_025, 9, 0, 1]),
        ("-i8 - 100", [-200, 28, -103, -100, -227]),
        ("abs(i8) * 2", [200, 256, 6, 0, 254]),
        ("case when i8 * 2 > 200 then i8 + i8 else 0 end", [0, 0, 0, 0, 254]),
        ("i32 * 3", [3 * (2**31 - 1), -3 * 2**31, 9, 0, 3]),
        ("u8 - 100", [0, 155, -97, -100, -99]),
        ("u64 - 8", [2**64 - 9, -8, -5, -1, -7]),
        ("u64 % 10", [5, 0, 3, 7, 1]),
        ("length(s) - 5", [-3, -4, None, -5, 1]),
        ("extract(month from t) * 100", [500] * 5),
        ("date_part('day', t) * 10", [310] * 5),
        ("100000 * 100000 + i8", [10**10 + each for each in (100, -128, 3, 0, 127)]),
        ("cast(i8 as tinyint) * 100", [10_000, -12_800, 300, 0, 12_700]),
        ("i8::smallint * 30000", [3_000_000, -3_840_000, 90_000, 0, 3_810_000]),
        ("(i8 > 0) - (u8 > 0)", [0, -1, 0, 0, 0]),
        ("coalesce(i8, 0) * 100", [10_000, -12_800, 300, 0, 12_700]),
        ("list[1] * 100", [10_000, 300, None, 100, -12_800]),
        ("pow(2, i8)", [2.0**100, 2.0**-128, 8.0, 1.0, 2.0**127]),
        ("pow(u8, 3) * 2", [2_000_000, 2 * 255**3, 54, 0, 2]),
        ("a // 1000 * 1000 / 2", [0.0, 0.0, None, 4611686018427387500.0, -4611686018427387500.0]),
        ("f * 2", [3.0, 5.0, 0.2, None, -2.0]),
    ],
)
def test_no_integer_goes_around(text, expected):
    assert computed(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cast(nano as timestamp) + interval '1 day'", datetime(2262, 4, 12)),
        ("nano - timestamp '2262-04-10'", timedelta(days=1)),
        ("extract(year from nano) - extract(year from t)", 2262 - 2024),
        ("span / span", 1.0),
    ],
)
def test_times_in_nanoseconds_do_not_go_around(text, expected):
    assert computed(text)[0] == expected


@pytest.mark.parametrize("text", ["a + 1", "-a", "abs(a)", "a - 2", "a * a", "pow(a, 2)"])
def test_an_integer_of_more_than_64_bits_is_an_error(text):
    with pytest.raises(pl.exceptions.InvalidOperationError, match=r"i128.*i64"):
        computed(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a * a * a", "more than 38 digits"),
        ("pow(a, 2) * u64", "more than 38 digits"),
        ("array_sum(long)", "may go around"),
        ("(t - t) * 3", "is multiplied"),
        ("interval '1 day' * 1000", "is multiplied"),
        ("t + interval '101 years'", "more than 100 years"),
        ("t + interval '99 years 400 days'", "more than 100 years"),
        ("t - interval '4000000000 seconds'", "more than 100 years"),
        ("t + interval '60 years' + interval '60 years'", "more than 100 years"),
        ("nano + interval '1 day'", "the year 2262"),
        ("interval '1 day' + coalesce(nano, t)", "the year 2262"),
        ("case when flag then nano else nano end + span", "the year 2262"),
        ("nano - nano", "the year 2262"),
        ("span + span", "the year 2262"),
        ("regexp_like(s, s)", "no text in quotes"),
        ("s ~ s", "no text in quotes"),
        ("s not rlike lower(s)", "no text in quotes"),
        (f"regexp_like(s, '{'a' * 1001}')", "more than 1,000 characters"),
    ],
)
def test_what_could_go_around_or_take_too_long_is_refused(text, why):
    with pytest.raises(DataError, match=why) as caught:
        computed(text)

    assert caught.value.code == "bad-sql"
    assert caught.value.hint


def test_any_arithmetic_is_that_of_python_or_an_error():
    rng = random.Random(5)
    rows = BITS.select("i8", "u8", "i32", "u64", "a").drop_nulls().to_dicts()

    def expression(depth: int) -> str:
        if depth == 0 or rng.random() < 0.2:
            return rng.choice(["i8", "u8", "i32", "u64", "a", "2", "7", "100"])
        one, other = expression(depth - 1), expression(depth - 1)
        return rng.choice(
            [
                *(f"({one} {sign} {other})" for sign in "+-*"),
                f"(-{one})",
                f"abs({one})",
                f"pow({one}, 2)",
                f"coalesce({one}, {other})",
            ]
        )

    n_same = 0
    for _ in range(400):
        text = expression(3)
        try:
            found = computed(text)
        except (DataError, pl.exceptions.PolarsError):
            continue
        known = {"abs": abs, "pow": pow, "coalesce": lambda one, other: one}
        expected = [eval(text, {**known, **row}) for row in rows]
        if len(found) == 1:  # of numbers alone
            continue
        found = [each for each, a in zip(found, BITS["a"], strict=True) if a is not None]
        if isinstance(found[0], float):
            assert found == pytest.approx(expected, rel=1e-12), text
        else:
            assert found == expected, text
        n_same += 1

    assert n_same > 100


def test_integers_that_nothing_is_computed_of_keep_their_type():
    text = "a = 1 and b in (2, 3) and c between 1 and 2"
    names = ["a", "b", "c"]

    typed = check_expression(text, names, dict.fromkeys(names, 128)).text

    assert typed == check_expression(text, names).text


def test_a_relevance_is_computed_without_going_around():
    truth = pl.DataFrame(
        {"user": [1, 1], "item": [1, 2], "grade": [100, 120]}, schema_overrides={"grade": pl.Int8}
    )
    shown = pl.DataFrame({"user": [1], "item": [1], "rank": [1]})

    report = evalkit.evaluate(
        truth, shown, metrics=["CG@1"], columns={"relevance": "grade + grade"}, threshold=150
    )

    assert report.value("CG@1") == 200.0
