"""Profiles: what they hold, how they meet policies set by hand, and bad input."""

from pathlib import Path

import polars as pl
import pytest

import evalkit
from evalkit.config import Policies, parse_config
from evalkit.errors import Errors, EvalkitError
from evalkit.metrics import registry
from evalkit.metrics.profiles import find_profile, profile_names, speaking_of

TRUTH = pl.DataFrame({"user": [1, 1, 2, 3], "item": [1, 2, 1, 9]})
RUN = pl.DataFrame(
    {"user": [1, 1, 1, 2, 2], "item": [5, 2, 1, 1, 4], "score": [0.9, 0.5, 0.5, 0.3, 0.3]}
)
SMALL = """
[truth]
path = "truth.parquet"
[[rankings]]
model = "als"
path = "als.parquet"
[metrics]
names = ["nDCG@10", "RR@10"]
"""
ALL = (
    "evalkit trec_eval trec_eval_10 ir_measures ranx rectools replay recommenders lenskit recbole "
    "elliot torchmetrics sklearn spark cornac recmetrics rs_metrics evidently "
    "fair_trec informfully jurity overlap recpack rexmex"
).split()
OF_LOGGED = ["obp", "vw"]
OF_LABELS = ["tfma"]
OF_JUDGES = "choix crowd-kit irrCAC krippendorff pingouin statsmodels".split()


def code_of(action):
    with pytest.raises(EvalkitError) as caught:
        action()
    error = caught.value
    return [each.code for each in (error.errors if isinstance(error, Errors) else (error,))]


def evaluate(*metrics, **options):
    return evalkit.evaluate(TRUTH, {"run": RUN}, metrics=list(metrics), **options)


def test_all_libraries_have_a_profile():
    assert sorted(speaking_of("rankings")) == sorted(ALL)
    assert sorted(set(profile_names()) - set(ALL)) == sorted([*OF_JUDGES, *OF_LABELS, *OF_LOGGED])


@pytest.mark.parametrize("name", ALL)
def test_a_profile_is_complete_and_its_policies_exist(name):
    profile = find_profile(name)

    Policies.model_validate(dict(profile.policies))
    assert profile.about.endswith(".")
    assert profile.version
    assert profile.metrics


@pytest.mark.parametrize("name", ALL)
def test_what_a_profile_says_of_lists_is_there(name, tmp_path):
    # evalkit's own files are believed, so that no run reads metrics of lists without need
    copy = tmp_path / f"{name}.toml"
    copy.write_bytes(Path(find_profile(name).file).read_bytes())

    assert find_profile(str(copy)).metrics == find_profile(name).metrics


def test_a_name_is_what_the_library_means_by_it():
    items = pl.DataFrame({"item": [1, 2, 4, 5, 6, 9]})
    asked = ["gini@2", "item_coverage@2", "SEntropy@2"]
    options = {"train": TRUTH, "items": items, "policies": {"truth_in_train": "count"}}
    report = evaluate(*asked, profile="elliot", **options)

    assert report.labels == (
        "evenness(items='train', over='m-1')@2",
        "item_coverage(catalogue='train_open', scale='count')@2",
        "list_surprisal@2",
    )
    assert report.value("gini@2") == report.value("evenness(items='train', over='m-1')@2")
    assert report.value("sentropy@2") == report.value("list_surprisal@2")
    assert "not-in-profile" not in [each.code for each in report.warnings]
    assert report.value("item_coverage@2") == 4.0
    aliases = evaluate("gini_index@2", profile="elliot", **options)
    assert aliases.labels == report.labels[:1]


@pytest.mark.parametrize("name", ALL)
def test_a_profile_says_which_way_it_is_read(name):
    # what hits alone say needs no list to be held: ranks given, or no copies to look for
    profile = find_profile(name)
    needs_lists = profile.policies.get("duplicates", "error") != "error"

    assert profile.path == ("whole lists" if needs_lists else "hits")


def test_the_own_profile_is_the_defaults():
    own = find_profile("evalkit")

    assert not own.policies
    for name, values in own.metrics.items():
        assert {**registry()[name].defaults, **values} == registry()[name].defaults
    ranking = {name for name, metric in registry().items() if metric.cutoff == "optional"}
    assert set(own.metrics) == ranking | {"first_hit_rank"} or set(own.metrics) <= set(registry())


def test_numbers_under_a_profile_are_found_by_their_plain_names():
    report = evaluate("nDCG@10", "RR@10", profile="ir_measures", per_user=True)

    assert report.labels == ("nDCG@10", "RR(score_type='float64', ties='item-text')@10")
    assert report.value("RR@10") == report.value(report.labels[1])
    assert report.value("mrr@10") == report.value(report.labels[1])
    assert report.per_user("RR@10").height == 3


def test_a_report_that_was_read_back_is_asked_in_the_same_way():
    report = evaluate("nDCG@10", profile="elliot")
    again = evalkit.Report.from_json(report.to_json()) if hasattr(evalkit, "Report") else report

    assert again.value("nDCG@10") == report.value("nDCG(gain='exp2_shifted')@10")


def test_every_number_carries_what_it_was_made_with():
    report = evaluate("RR@10", "nDCG@10", profile="ir_measures")
    by_name = {each.name: each for each in report.estimates}

    assert by_name["nDCG"].parameters["gain"] == "linear"
    assert by_name["nDCG"].policies["ties"] == "item-text-desc"
    assert by_name["RR"].policies["ties"] == "item-text"
    assert evaluate("RR").estimates[0].policies == {}


def test_a_parameter_that_is_written_wins_over_the_profile():
    report = evaluate("nDCG(gain='linear')@10", "nDCG@10", profile="elliot")

    assert report.labels == (
        "nDCG(below_threshold='ignore')@10",
        "nDCG(gain='exp2_shifted', below_threshold='ignore')@10",
    )


def test_a_policy_set_by_hand_wins_and_the_report_says_so():
    report = evaluate("RR@10", profile="ir_measures", policies={"ties": "input"})

    (warning,) = [each for each in report.warnings if each.code == "profile-overridden"]
    assert "ties = 'input' was set by hand" in warning.message
    assert "item-text-desc" in warning.message
    assert report.labels == ("RR(score_type='float64')@10",)
    assert report.estimates[0].policies["ties"] == "input"


def test_a_policy_by_hand_that_agrees_is_no_contradiction():
    report = evaluate("nDCG@10", profile="spark", policies={"ties": "input"})

    assert "profile-overridden" not in [each.code for each in report.warnings]


def test_a_metric_that_the_library_lacks_is_told():
    report = evaluate("RBP@10", profile="rectools")

    (warning,) = [each for each in report.warnings if each.code == "not-in-profile"]
    assert "rectools has no RBP@10" in warning.message


def test_a_metric_may_follow_a_policy_of_its_own():
    one = evaluate("RR", "RR(ties='item-desc')", "RR(missing_ranking='skip')")

    assert one.value("RR(ties='item-desc')") == evaluate(
        "RR", policies={"ties": "item-desc"}
    ).value("RR")
    assert one.value("RR(missing_ranking='skip')") == evaluate(
        "RR", policies={"missing_ranking": "skip"}
    ).value("RR")
    assert evaluate("RR(ties='item')", "RR").labels == ("RR",)


def test_a_users_own_file_is_a_profile(tmp_path):
    file = tmp_path / "house.toml"
    file.write_text(
        'name = "house"\nlike = "ranx"\n[policies]\nties = "input"\n'
        '[metrics]\nnDCG = { gain = "exp2" }\n'
    )

    report = evaluate("nDCG@10", profile=str(file))

    assert report.labels == ("nDCG(gain='exp2', below_threshold='ignore')@10",)
    assert report.estimates[0].policies["ties"] == "input"
    assert report.estimates[0].policies["no_relevant"] == "zero"


BAD = {
    "unknown key": ('tise = "x"', ["bad-profile"]),
    "unknown metric": ("[metrics]\nnDGC = {}", ["unknown-metric"]),
    "unknown parameter": ("[metrics]\nRR = { over = 'k' }", ["unknown-parameter"]),
    "bad value": ("[metrics]\nnDCG = { gain = 'cubic' }", ["bad-parameter-value"]),
    "bad policy value": ("[policies]\nties = 'itm'", ["bad-parameter-value"]),
    "unknown policy": ("[policies]\ntise = 'item'", ["unknown-key"]),
    "bad policy of the run": ("[policies]\nunknown_users = 'x'", ["bad-parameter-value"]),
    "no TOML": ("[metrics", ["bad-profile"]),
    "no table": ("metrics = 3", ["bad-profile"]),
    "two at once": (
        "[metrics]\nRR = { over = 'k' }\nAP = { over = 'x' }",
        ["unknown-parameter", "bad-parameter-value"],
    ),
    "like nobody": ('like = "rankx"', ["unknown-profile"]),
    "like itself": ('like = "./bad.toml"', ["bad-profile"]),
}


@pytest.mark.parametrize(("text", "codes"), BAD.values(), ids=BAD)
def test_what_is_wrong_with_a_profile_is_told(text, codes, tmp_path):
    file = tmp_path / "bad.toml"
    file.write_text(text)

    assert code_of(lambda: evaluate("RR", profile=str(file))) == codes


def test_unknown_profiles_parameters_and_values_are_refused():
    assert code_of(lambda: evaluate("RR", profile="rankx")) == ["unknown-profile"]
    assert code_of(lambda: evaluate("RR", profile="no/such.toml")) == ["missing-profile"]
    assert code_of(lambda: evaluate("RR(over='k')")) == ["unknown-parameter"]
    assert code_of(lambda: evaluate("RR(ties='itm')")) == ["bad-parameter-value"]
    assert code_of(lambda: evaluate("RR(round_users=2.5)")) == ["bad-parameter-value"]
    assert code_of(lambda: evaluate("RR", policies={"ties": "itm"})) == ["unknown-choice"]


def test_a_profile_stands_in_a_config_beside_the_hand():
    config = parse_config(
        SMALL + 'profile = "ir_measures"\n[policies]\nties = "input"\n', source="job.toml"
    )

    assert config.policies.ties == "input"
    assert config.policies.score_type == "float32"
    assert config.overridden == (("ties", "input", "item-text-desc"),)
    assert [each.label for each in config.requests] == ["nDCG@10", "RR(score_type='float64')@10"]


def test_gates_are_judged_by_the_label_that_the_profile_gives():
    config = parse_config(
        SMALL + 'profile = "elliot"\n[[gates]]\nmetric = "nDCG@10"\nmodel = "als"\nmin = 0.1\n',
        source="job.toml",
    )

    label = "nDCG(gain='exp2_shifted', below_threshold='ignore')@10"
    assert config.gates[0].metric == label


def test_unknown_users_can_count_as_users_without_relevant_items():
    run = pl.concat([RUN, pl.DataFrame({"user": [7], "item": [1], "score": [0.1]})])
    policies = {"unknown_users": "count", "no_relevant": "zero"}

    report = evalkit.evaluate(
        TRUTH, {"run": run}, metrics=["hit@3"], policies=policies, per_user=True
    )

    assert report.estimates[0].n_users == 4
    assert report.value("hit@3") == 2 / 4
    assert report.counts.truth.users == 3
    assert report.counts.models["run"].users_without_truth == 1
    assert report.per_user("hit@3").rows() == [(1, 1.0), (2, 1.0), (3, 0.0), (7, 0.0)]


def test_a_mean_that_a_policy_makes_undefined_is_undefined():
    report = evaluate("RR", "RR(missing_ranking='nan')", per_user=True)

    assert report.value("RR(missing_ranking='nan')") != report.value("RR(missing_ranking='nan')")
    values = report.per_user("RR(missing_ranking='nan')")["value"].to_list()
    assert values[:2] == report.per_user("RR")["value"].to_list()[:2]


@pytest.mark.parametrize("columns", [["rank"], ["score"], []])
def test_the_defaults_never_hold_whole_lists(columns, monkeypatch):
    def refuse(*_):
        raise AssertionError("the defaults took the slow way")

    monkeypatch.setattr("evalkit.ranks._probe.scan_whole_lists", refuse)
    monkeypatch.setattr("evalkit.aggregate.user_values.blocks.look", refuse)
    run = RUN.with_columns(rank=pl.int_range(1, pl.len() + 1).over("user"))

    report = evalkit.evaluate(
        TRUTH, {"run": run.select("user", "item", *columns)}, metrics=["nDCG@3", "AP", "F1@2"]
    )

    assert len(report.estimates) == 3
