"""Ids of rankings that are not those of the truth are told, with what would make them meet."""

import json
import unicodedata

import polars as pl
import pytest

import evalkit
from evalkit.config import build_config
from evalkit.errors import DataError
from evalkit.pipeline import conclude_partials, measure_partial
from evalkit.planning.partials import open_partials
from evalkit.planning.repairs import find_repair
from tests.passes import in_passes, outcome_of

N = 60


def table(spell, n=N, **more):
    return pl.DataFrame({"user": range(n), "item": [spell(i) for i in range(n)], **more})


def evaluate(truth, rankings, **options):
    return evalkit.evaluate(truth, rankings, metrics=["recall@1"], **options)


def refused(truth, rankings, **options):
    with pytest.raises(DataError) as caught:
        evaluate(truth, rankings, **options)
    return caught.value


def sku(number):
    return f"sku_{number}"


def warned(report):
    return [each.code for each in report.warnings if each.code != "few-users"]


def test_lists_that_numpy_printed_are_padded_with_blanks():
    truth = table(lambda i: str(7**i % 9973))
    lists = [f"[ {i + 90000}     {7**i % 9973:>5}]" for i in range(N)]
    rankings = pl.DataFrame({"user": range(N), "items": lists})

    error = refused(truth, rankings)
    sql = json.loads(error.hint.partition('"item": ')[2].partition("}")[0])

    report = evalkit.evaluate(truth, rankings, metrics=["RR"], columns={"rankings": {"item": sql}})
    assert report.value("RR") == 0.5


SPELLINGS = {
    "upper case": str.upper,
    "a space before": lambda text: f" {text}",
    "a space behind": lambda text: f"{text} ",
    "no prefix": lambda text: text[4:],
    "a prefix": lambda text: f"shop:{text}",
    "a prefix of the same word": lambda text: f"zz{text}",
    "a suffix": lambda text: f"{text}.jpg",
    "both": lambda text: f"<{text}>.jpg",
    "brackets": lambda text: f"['{text}']",
    "quotes": lambda text: f'"{text}"',
    "case and spaces": lambda text: f" {text.upper()}",
}


def follow(error, truth, rankings):
    """What comes of it where the columns of a hint are written."""
    columns = json.loads(error.hint.split("columns=")[1].split("; where")[0])
    return evaluate(truth, rankings, columns=columns)


@pytest.mark.parametrize("spell", SPELLINGS.values(), ids=SPELLINGS)
@pytest.mark.parametrize("side", ["truth", "rankings"])
def test_items_that_never_match_are_refused_and_the_repair_leads_to_an_answer(spell, side):
    one, other = table(lambda number: spell(sku(number))), table(sku)
    truth, rankings = (one, other) if side == "truth" else (other, one)

    error = refused(truth, rankings)

    assert error.code == "no-common-item"
    assert follow(error, truth, rankings).value("recall@1") == 1.0


FORMS = {
    "Unicode": (lambda n: f"\u00e9{n}", lambda n: unicodedata.normalize("NFD", f"\u00e9{n}")),
    "floats": (str, lambda number: f"{number}.0"),
    "zeros": (str, lambda number: f"{number:05}"),
    "lists": (sku, lambda number: f"['sku_{number}', 'sku_{number + 99}']"),
    "json": (sku, lambda number: f'["sku_{number}","sku_{number + 99}"]'),
    "words": (sku, lambda number: f"sku_{number} sku_{number + 99}"),
    "bars": (sku, lambda number: f"sku_{number}|sku_{number + 99}"),
}


@pytest.mark.parametrize(("plain", "odd"), FORMS.values(), ids=FORMS)
def test_other_forms_of_an_item_are_refused_and_mended(plain, odd):
    truth, rankings = table(plain), table(odd)

    error = refused(truth, rankings)

    assert error.code == "no-common-item"
    assert follow(error, truth, rankings).value("recall@1") == 1.0


def test_lists_as_text_in_the_truth_are_told():
    error = refused(table(lambda number: f"['sku_{number}', 'b']"), table(sku))

    assert "one item a row" in error.hint


def test_dicts_are_looked_at_too():
    truth = {number: [sku(number)] for number in range(9)}

    assert refused(truth, {n: {sku(n).upper(): 1.0} for n in truth}).code == "no-common-item"


def test_small_logs_of_other_items_are_only_warned_of():
    report = evaluate(table(lambda n: n), table(lambda n: n + N))

    assert report.value("recall@1") == 0.0
    assert warned(report) == ["no-common-item"]


def test_a_thousand_ids_of_both_sides_that_never_meet_are_refused_and_may_be_meant():
    truth, rankings = table(lambda n: n, 1000), table(lambda n: n + 1000, 1000)

    assert refused(truth, rankings).code == "no-common-item"
    assert warned(evaluate(truth, rankings, policies={"no_common_item": "warn"})) == [
        "no-common-item"
    ]


def test_items_that_others_had_are_no_fault():
    truth = table(sku)
    rankings = table(lambda number: sku(number + 1 - N * (number == N - 1)))

    assert warned(evaluate(truth, rankings)) == []


def test_one_model_of_several_is_refused_by_name():
    good, bad = (
        table(spell).with_columns(model=pl.lit(model))
        for spell, model in ((sku, "good"), (lambda number: sku(number).upper(), "bad"))
    )

    error = refused(table(sku), pl.concat([good, bad]), columns={"model": "model"})

    assert "'bad'" in str(error)
    assert "'good'" not in str(error)


@pytest.mark.parametrize("column", ["user", "item"])
def test_a_repair_that_raises_the_share_of_ids_is_told(column):
    truth = table(sku).with_columns(user=pl.format("u{}", "user"))
    odd = pl.when(pl.int_range(pl.len()) % 3 == 0).then(pl.col(column).str.to_uppercase())
    rankings = truth.with_columns(odd.otherwise(column).alias(column))

    report = evaluate(truth, rankings)

    assert "id-spelling" in warned(report)
    (told,) = [each.message for each in report.warnings if each.code == "id-spelling"]
    assert f"lower({column})" in told
    assert "66.7% are in the truth as they are, 100.0%" in told


@pytest.mark.parametrize("column", ["user", "item"])
def test_hashes_of_64_bits_with_a_sign_and_without_are_told(column):
    numbers = pl.Series(range(N)).hash(seed=1)
    truth = pl.DataFrame({"user": range(N), "item": range(N)}).with_columns(numbers.alias(column))
    rankings = truth.with_columns(pl.col(column).reinterpret(signed=True))

    (told,) = [w.message for w in evaluate(truth, rankings).warnings if w.code == "id-spelling"]
    error = refused(truth, rankings.filter(pl.col(column) < 0))
    mended = truth.with_columns(pl.col(column).reinterpret(signed=True))

    assert "100.0% as 64-bit numbers with a sign" in told
    assert "as 64-bit numbers with a sign some are" in str(error)
    assert "reinterpret(signed=True)" in error.hint
    assert evaluate(mended, rankings).estimates[0].value == 1.0


def test_numbers_with_a_sign_beside_those_without_are_not_told_where_all_meet():
    truth = pl.DataFrame(
        {"user": range(N), "item": range(N)}, schema={"user": pl.UInt64, "item": pl.Int64}
    )

    assert not warned(evaluate(truth, truth.cast(pl.Int64)))


def test_users_that_never_match_are_refused_with_the_repair():
    truth = table(sku).with_columns(user=pl.format("u{}", "user"))
    rankings = truth.with_columns(user=pl.format("U{}", pl.col("user").str.slice(1)))

    error = refused(truth, rankings)

    assert error.code == "no-common-user"
    assert error.hint == 'pass columns={"rankings": {"user": "lower(user)"}}'


def test_a_training_log_of_other_spelling_is_refused():
    error = refused(table(sku), table(sku), train=table(lambda n: sku(n + 5).upper()))

    assert error.code == "no-common-item"
    assert "the training log" in error.message
    assert evaluate(table(sku), table(sku), train=table(lambda n: f"new_{n}")).value("recall@1")


def test_a_catalogue_of_other_spelling_is_refused():
    items = table(lambda n: sku(n).upper()).select("item")

    with pytest.raises(DataError) as caught:
        evalkit.evaluate(table(sku), table(sku), metrics=["item_coverage"], items=items)
    assert caught.value.code == "no-common-item"


def in_shares(truth, rankings, tmp_path, n_shares=3, **policies):
    """The same of partials that are written, read and merged."""
    truth.write_csv(tmp_path / "truth.csv")
    rankings.write_csv(tmp_path / "rankings.csv")
    tree = {
        "truth": {"path": str(tmp_path / "truth.csv")},
        "rankings": [{"path": str(tmp_path / "rankings.csv"), "model": "model"}],
        "metrics": {"names": ["recall@1"]},
        "policies": policies,
    }
    config = build_config(tree, name="shares")
    files = [tmp_path / f"{number}.partial" for number in range(n_shares)]
    for number, file in enumerate(files):
        measure_partial(config, (number + 1, n_shares), threads=1).write(file)
    return conclude_partials(open_partials(files), threads=1)


def test_shares_without_a_hit_of_their_own_are_judged_together(tmp_path):
    one_hit = table(lambda number: sku(number) if number == 7 else f"other_{number}")

    assert "no-common-item" not in warned(in_shares(table(sku), one_hit, tmp_path))


def test_partials_that_never_meet_are_refused_when_they_are_merged(tmp_path):
    with pytest.raises(DataError) as caught:
        in_shares(table(sku), table(lambda number: sku(number).upper()), tmp_path)

    assert caught.value.code == "no-common-item"
    assert 'item = "lower(item)"' in caught.value.hint


@pytest.mark.some_cases(2)
@pytest.mark.parametrize("column", ["user", "item"])
@pytest.mark.parametrize("n", [5, 1500])
def test_logs_in_parts_name_the_ids_that_whole_logs_name(tmp_path, column, n):
    """Of few users, some parts have none of the truth or no list."""
    truth = table(lambda number: number, n)
    odd = truth.with_columns(pl.col(column) + 9000)
    for name, frame in (("truth", truth), ("m", odd)):
        for number in range(8):
            path = tmp_path / f"{name}-{number + 1}.parquet"
            frame.filter(pl.col("user") % 8 == number).write_parquet(path)
    config = build_config(
        {
            "truth": {"path": str(tmp_path / "truth-{share}.parquet")},
            "rankings": [{"path": str(tmp_path / "m-{share}.parquet"), "model": "model"}],
            "metrics": {"names": ["recall@1"]},
        },
        name="parts",
    )

    def in_parts():
        files = [tmp_path / f"{number}.partial" for number in range(8)]
        for number, file in enumerate(files):
            measure_partial(config, (number + 1, 8), threads=1).write(file)
        return conclude_partials(open_partials(files), threads=1)

    whole, parts = outcome_of(lambda: evaluate(truth, odd)), outcome_of(in_parts)

    assert whole.status == parts.status == (0 if n == 5 and column == "item" else 3)
    if whole.status:
        assert parts.said.partition(" at ")[0] == whole.said.partition(" at ")[0]


def test_partials_and_passes_say_what_one_run_says(tmp_path):
    odd = table(lambda number: sku(number).upper() if number % 3 else sku(number))
    whole = evaluate(table(sku), odd)
    share = in_shares(table(sku), odd, tmp_path)
    passes = in_passes(3, lambda: evaluate(table(sku), odd))

    (told,) = [each.message for each in whole.warnings if each.code == "id-spelling"]
    assert told in [each.message for each in share.warnings]
    assert passes == outcome_of(lambda: evaluate(table(sku), odd))


def test_headers_and_values_with_spaces_are_treated_alike(tmp_path):
    truth, rankings = tmp_path / "truth.csv", tmp_path / "rankings.csv"
    truth.write_text('user, item, "when"\n1, a, "x"\n2, b,y\n3, ,z\n')
    rankings.write_text("user,item\n1,a\n2,b\n")

    report = evaluate(str(truth), str(rankings), policies={"null_ids": "drop"})

    assert report.value("recall@1") == 1.0
    assert report.counts.truth.rows_dropped["null_id"] == 1


def test_spaces_before_values_alone_are_refused(tmp_path):
    truth, rankings = tmp_path / "truth.csv", tmp_path / "rankings.csv"
    truth.write_text("user,item\n1, a\n2, b\n")
    rankings.write_text("user,item\n1,a\n2,b\n")

    assert refused(str(truth), str(rankings)).code == "no-common-item"


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        (["10", "11", "12"], ["0", "1", "2"]),
        (["b1", "b2"], ["a1", "a2"]),
        (["film"], ["book"]),
        (["1", "2"], []),
        ([], ["1"]),
    ],
)
def test_other_ids_are_not_taken_for_another_spelling(mine, theirs):
    assert find_repair(mine, theirs) is None


def test_train_that_holds_items_of_the_truth_of_others_is_not_told_in_passes():
    truth = pl.DataFrame({"user": range(N), "item": range(N)})
    train = pl.DataFrame({"user": [*range(N)], "item": [*range(1000, 999 + N), 0]})
    ranked = pl.DataFrame({"user": range(N), "item": [1, *range(501, 500 + N)], "rank": 1})

    def run():
        return evaluate(truth, ranked, train=train)

    assert in_passes(5, run) == outcome_of(run)
    assert "training log" not in outcome_of(run).said


@pytest.mark.parametrize("column", ["user", "item"])
def test_ids_that_programs_write_for_a_null_are_told_and_where_leaves_them_out(column):
    truth = table(sku).with_columns(user=pl.format("u{}", "user"))
    odd = pl.when(pl.int_range(pl.len()) == 7).then(pl.lit("nan")).otherwise(column)
    odd = truth.with_columns(odd.alias(column))

    (told,) = [w.message for w in evaluate(odd, truth).warnings if w.code == "null-words"]
    left_out = evaluate(odd, truth, where={"truth": f"{column} not in ('nan')"})

    assert told == f"truth has {column}s called 'nan', as programs write a null: they count"
    assert not [w for w in left_out.warnings if w.code == "null-words"]
    assert not [w for w in evaluate(truth, truth).warnings if w.code == "null-words"]


@pytest.mark.parametrize(("column", "n_told"), [("user", 1), ("item", 0)])
def test_a_user_called_as_the_sum_below_a_table_is_told(column, n_told):
    truth = table(sku).with_columns(user=pl.format("u{}", "user"))
    last = pl.int_range(pl.len()) == pl.len() - 1
    odd = truth.with_columns(pl.when(last).then(pl.lit("Total")).otherwise(column).alias(column))

    told = [w.message for w in evaluate(odd, truth).warnings if w.code == "null-words"]

    assert told == ["truth has users called 'Total', as programs write a sum: they count"] * n_told
