"""`{share}` in paths: logs laid out by user, of which each share reads its own."""

import pytest

from evalkit.config import is_laid_out, of_share, parse_config
from evalkit.errors import EvalkitError, RequestError
from evalkit.pipeline import measure_partial, run_config

CONFIG = """
[truth]
path = "truth/bucket={share0}/*.parquet"
[[rankings]]
model = "als"
path = ["als/{share}-of-4.parquet", "more/{share}.parquet"]
[train]
path = "train/{share}"
[metrics]
names = ["nDCG@5"]
[segments]
age = { path = "users.parquet", by = "age" }
kind = { path = "kinds/{share}.parquet", by = "kind" }
[statistics]
weight = { path = "weights/{share0}.parquet", by = "weight" }
"""


def parsed(text, **given):
    return parse_config(text, source="nightly.toml", **given)


def test_each_share_has_paths_of_its_own():
    config = of_share(parsed(CONFIG), 3)

    assert config.truth.path == ("truth/bucket=2/*.parquet",)
    assert config.rankings[0].path == ("als/3-of-4.parquet", "more/3.parquet")
    assert config.train.path == ("train/3",)
    assert config.segments.named["age"].path == ("users.parquet",)
    assert config.segments.named["kind"].path == ("kinds/3.parquet",)
    assert config.statistics.weight.path == ("weights/2.parquet",)
    assert not is_laid_out(config)
    assert config.at("truth", "path") == "nightly.toml:3: truth.path"


def test_a_share_leaves_the_config_alone():
    config = parsed(CONFIG)
    before = config.dump()

    of_share(config, 3)

    assert config.dump() == before
    assert is_laid_out(config)


def test_a_variable_of_that_name_is_a_variable():
    config = parsed(CONFIG, variables={"share": "a", "share0": "b"})

    assert config.truth.path == ("truth/bucket=b/*.parquet",)
    assert not is_laid_out(config)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (CONFIG.replace("truth/bucket={share0}/*", "truth"), "nightly.toml:3: truth.path"),
        (CONFIG.replace("more/{share}", "more"), "nightly.toml:6: rankings[0].path"),
        (CONFIG.replace("train/{share}", "train"), "nightly.toml:8: train.path"),
    ],
)
def test_logs_are_laid_out_alike(text, place):
    with pytest.raises(RequestError) as caught:
        parsed(text)

    assert (caught.value.code, caught.value.at) == ("share-places", place)


@pytest.mark.parametrize(
    "text",
    [
        CONFIG.replace('names = ["nDCG@5"]', 'names = ["nDCG@5"]\nfiles = ["{share}.py"]'),
        CONFIG + '[output]\npath = "runs-{share}"',
        CONFIG.replace("train/{share}", "train/{shares}"),
    ],
)
def test_other_places_need_a_value(text):
    with pytest.raises(EvalkitError) as caught:
        parsed(text)

    assert caught.value.code == "unknown-variable"


def test_a_run_says_what_to_do():
    with pytest.raises(RequestError) as caught:
        run_config(parsed(CONFIG))

    assert caught.value.code == "share-places"
    assert "evalkit partial CONFIG --share I/N" in caught.value.hint


def test_what_needs_the_train_of_all_users_is_refused():
    config = parsed(CONFIG.replace('"nDCG@5"', '"nDCG@5", "novelty@5"'))

    with pytest.raises(RequestError) as caught:
        measure_partial(config, (1, 4))

    assert caught.value.code == "share-places"
    assert caught.value.message.startswith("novelty@5 is made of all of train")
