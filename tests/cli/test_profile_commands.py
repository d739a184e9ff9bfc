"""Profiles, explanations and audits at the command line."""

import json

import pytest


@pytest.mark.parametrize("form", ["table", "json", "markdown"])
def test_audit_measures_under_every_profile(evalkit, logs, form):
    some = [] if form == "json" else ["--profile", "rectools", "--profile", "recbole"]
    outcome = evalkit(
        "audit", "job.toml", "-m", "nDCG@2", "--model", "bad", "--format", form, *some
    )

    assert outcome.status == 0, outcome.err
    assert "rectools" in outcome.out
    assert "recbole" in outcome.out
    if form == "json":
        (audit,) = json.loads(outcome.out)
        assert audit["model"] == "bad"
        assert all(each["value"] is not None for each in audit["standings"])


def test_audit_refuses_what_it_does_not_know(evalkit, logs):
    assert evalkit("audit", "job.toml", "-m", "nDGC@2").codes == ["unknown-metric"]
    assert evalkit("audit", "job.toml", "-m", "nDCG@2", "--model", "als").codes == ["unknown-model"]
    outcome = evalkit("audit", "job.toml", "-m", "nDCG@2", "--profile", "rankx")
    assert (outcome.status, outcome.codes) == (2, ["unknown-profile"])


def test_a_run_follows_a_profile_and_the_hand(evalkit, logs):
    plain = evalkit("run", "job.toml", "--profile", "rectools", "--json", "--out", "runs")
    by_hand = evalkit(
        "run", "job.toml", "--profile", "rectools", "--set", "policies.duplicates=best", "--json"
    )

    labels = [each["metric"] for each in plain.document["metrics"] if each["model"] == "good"]
    assert labels == ["nDCG(gain='binary', idcg='full_k')@2", "recall@1"]
    assert plain.document["profile"] == "rectools"
    assert plain.document["metrics"][0]["policies"]["rel_size"] == "rows"
    codes = [each["code"] for each in by_hand.document["warnings"]]
    assert "profile-overridden" in codes


def test_a_profile_of_ones_own_is_found_from_here(evalkit, logs):
    (logs / "house.toml").write_text('name = "house"\n[metrics]\nnDCG = { gain = "exp2" }\n')

    outcome = evalkit("run", "job.toml", "--profile", "./house.toml", "--json")

    assert outcome.document["profile"] == "./house.toml" or "house" in outcome.document["profile"]
    assert outcome.document["metrics"][0]["metric"] == "nDCG(gain='exp2')@2"


def test_explain_tells_what_a_library_does(evalkit):
    text = evalkit("explain", "nDCG", "--profile", "rectools").out

    assert "rectools speaks for RecTools 0.19.0." in text
    assert "idcg='full_k' (default 'all')" in text
    assert "Errors seen in the library" in text
    assert "and with the policies of rectools" in text
    assert "latex" not in text


def test_explain_gives_latex_on_request_and_all_profiles_without_one(evalkit):
    text = evalkit("explain", "AP", "--latex").out

    assert r"\frac{1}{\min(k, |R|)}" in text
    assert "elliot        over='k', terms='every_rank'" in text
    (record,) = evalkit("explain", "RR", "--profile", "ir_measures", "--json").document
    assert record["profile"] == "ir_measures"
    assert record["profiles"]["ir_measures"]["ties"] == "item-text"


def test_an_unknown_profile_is_a_wrong_request(evalkit, logs):
    for command in (("run", "job.toml"), ("check", "job.toml"), ("explain", "nDCG")):
        outcome = evalkit(*command, "--profile", "rankx")
        assert (outcome.status, outcome.codes) == (2, ["unknown-profile"]), command
        assert "did you mean 'ranx'?" in outcome.err


def test_explain_reads_what_only_one_kind_of_table_has(evalkit):
    outcome = evalkit("explain", "precision(over='length')@5")

    assert outcome.status == 0, outcome.err
    assert outcome.out.startswith("precision: ")
