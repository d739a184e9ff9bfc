"""Values of metrics of lists, each worked out in its row."""

import math

import polars as pl
import pytest
from list_worlds import build, measure

import evalkit
from evalkit.config import build_config
from evalkit.pipeline import run_config

LOG3 = 1 / math.log2(3)  # attention of rank 2
OF_2 = LOG3 / (1 + LOG3)  # its share of the attention of two
# four items; 1 has 3 of 4 train users, 2 has 2, 3 has 1, 4 none; 9 is in no table
WORLD = {
    "items": [
        {"item": 1, "genres": ["a"], "provider": "x", "published": 90, "vector": [1, 0]},
        {"item": 2, "genres": ["a", "b"], "provider": "x", "published": 50, "vector": [0, 2]},
        {"item": 3, "genres": ["b"], "provider": "y", "vector": [3, 0]},
        {"item": 4, "genres": [], "provider": "y", "published": 100, "vector": [0, 0]},
    ],
    "train": [
        {"user": "u", "items": [1, 1]},
        {"user": "v", "items": [1, 2]},
        {"user": "w", "items": [1, 2]},
        {"user": "z", "items": [3]},
    ],
    "qrels": [{"user": "u", "items": [3, 2]}, {"user": "v", "items": [4]}],
    "run": [{"user": "u", "items": [2, 3, 9]}, {"user": "v", "items": [1]}],
    "run_b": [{"user": "u", "items": [3, 2, 4]}],
    "run_before": [{"user": "u", "items": [2]}],
    "users": [{"user": "u"}, {"user": "v"}, {"user": "q"}],
    "now": 100,
}
NAN = math.nan


def js(one, other):
    """Jensen-Shannon divergence in bits."""
    pairs = [(p, (p + q) / 2) for p, q in zip(one, other, strict=True)]
    pairs += [(q, (p + q) / 2) for p, q in zip(one, other, strict=True)]
    return sum(share * math.log2(share / mean) / 2 for share, mean in pairs if share)


def kl(p, q, a=0.01):
    """Kullback-Leibler divergence in bits, with some of p mixed into q."""
    pairs = zip(p, q, strict=True)
    return sum(x * math.log2(x / ((1 - a) * y + a * x)) for x, y in pairs if x)


OF_V = kl((0.75, 0.25), (1, 0))
GOLDENS = [
    # metric, parameters, k, of u, of v, by hand
    ("novelty", {}, 2, (1 + 2) / 2, math.log2(4 / 3)),
    ("novelty", {}, 3, (1 + 2 + 2) / 3, math.log2(4 / 3)),  # 9 counts as of one user
    ("novelty", {"cold": "left_out"}, 3, (1 + 2) / 2, math.log2(4 / 3)),
    ("avg_popularity", {}, 3, (2 + 1 + 0) / 3, 3.0),
    ("popularity_quantile", {}, 2, (2 / 3 + 1 / 3) / 2, 1.0),
    ("tail_share", {}, 3, 2 / 3, 0.0),  # 5 of 6 interactions are of 1 and 2
    ("tail_count", {}, 3, 2.0, 0.0),
    ("expected_popularity_complement", {}, 1, 1 - 2 / 4, 0.0),
    ("EFD", {}, 1, -math.log2(2 / 6), 0.0),
    ("ild", {}, 2, 1.0, NAN),
    ("ild", {"distance": "jaccard"}, 2, 1 / 2, NAN),
    ("ild", {"distance": "hamming"}, 2, 1.0, NAN),
    ("ils", {}, 2, 0.0, NAN),
    ("eild", {}, 2, 1.0, NAN),
    ("genre_entropy", {}, 2, -(0.25 * math.log2(0.25) + 0.75 * math.log2(0.75)), 0.0),
    ("subtopic_recall", {}, 1, 1.0, NAN),  # 4 has no genre
    ("alpha_ndcg", {}, 2, 1.0, NAN),
    ("alpha_ndcg", {"ideal": "ones"}, 2, (2 + 0.5 * LOG3) / (1 + LOG3), 0.0),  # 4 has no genre
    ("err_ia", {}, 1, 1.0, NAN),
    ("nerr_ia", {}, 2, 1.0, NAN),
    ("NRBP", {}, 2, 0.75 / 2 * (2 + 0.5 * 0.5), NAN),  # 2 has a and b, 3 has b, again
    ("NRBP", {"norm": "ideal"}, 1, 1.0, NAN),
    ("AP_IA", {}, 2, (1 + 1) / 2, NAN),  # a: 2 at rank 1; b: 2 and 3 at ranks 1 and 2
    ("AP_IA", {}, 1, (1 + 1 / 2) / 2, NAN),
    ("P_IA", {}, 2, (1 + 2) / 2 / 2, NAN),
    ("P_IA", {}, 4, (1 + 2) / 2 / 4, NAN),
    ("EFD", {"gain": "linear"}, 1, -math.log2(2 / 6), 0.0),
    # of 4 items 1, 2 and 3 have ranks 1, 2 and 3: the second rank of 3 is 3 / 4 - 2 / 4
    ("popularity_serendipity", {}, 2, (1 - 3 / 4 + 1 / 4) / 2, 0.0),
    ("least_item_promoted", {}, 1, 1.0, NAN),  # 2 was at rank 2
    ("least_item_promoted", {"ranks": "zero"}, 1, 0.0, NAN),
    ("least_item_promoted", {}, 2, 0.0, NAN),
    ("calibration", {"divergence": "js"}, 1, js((1, 0), (0.5, 0.5)), js((0.75, 0.25), (1, 0))),
    ("calibration", {"weighting": "harmonic"}, 2, kl((1, 0), (1 / 3, 2 / 3)), OF_V),
    # one decimal, items of one genre first: q of u 0 0.5, then 0.25 0.75; p of v turned around
    ("calibration", {"decimals": 1}, 2, kl((1, 0), (0.2, 0.8)), kl((0.8, 0.2), (1, 0))),
    ("unexpectedness", {}, 2, 0.0, 1.0),  # most popular unseen by u: 2, 3; v has 1
    ("serendipity", {}, 1, 0.0, 0.0),
    ("awrf", {}, 2, 1 - js((1 - OF_2, OF_2), (0.5, 0.5)), 1 - js((1, 0), (0.5, 0.5))),
    ("overlap", {}, 3, 2 / 3, NAN),
    ("jaccard", {}, 3, 2 / 4, NAN),
    ("kendall_tau", {}, 3, -1.0, NAN),
    ("temporal_diversity", {}, 1, 0.0, NAN),
    ("temporal_novelty", {}, 2, 1 / 2, NAN),
    ("age", {}, 3, 50.0, 10.0),
    ("fresh_share", {}, 3, 0.0, 1.0),
    ("re_recommended", {}, 3, 0.0, 1.0),
    ("unseen_share", {}, 3, 1.0, 0.0),
    ("list_length", {}, 2, 2.0, 1.0),
    ("list_fill", {}, 2, 1.0, 0.0),
    ("list_fill", {"of": "items"}, 2, 1.0, 1 / 2),
    ("unrepeated", {}, 3, 1.0, 1.0),
    ("category_count", {}, 3, 2.0, 1.0),
    ("user_coverage", {"full": "k"}, 2, 1.0, 0.0),
    ("item_coverage", {}, 3, 3 / 4, None),
    ("prediction_coverage", {}, None, 3 / 4, None),
    ("item_coverage", {"catalogue": "items_open"}, 3, 4 / 4, None),
    ("item_coverage", {"catalogue": "items_known"}, 3, 3 / 5, None),
    ("item_coverage", {"at_users": 1.0}, 3, (2 + 1) / 2 / 4, None),
    ("gini", {}, 3, 1 / 4, None),  # 0 1 1 1: (-3 * 0 - 1 + 1 + 3) / (4 * 3)
    ("evenness", {}, 3, 3 / 4, None),
    ("gini_exposure", {"attention": "flat"}, 3, 1 / 4, None),
    ("entropy", {}, 3, math.log2(3), None),
    ("hhi", {}, 3, 1 / 3, None),
    ("effective_items", {}, 3, 3.0, None),
    ("personalization", {}, 3, 1.0, None),
    ("novelty_of_rows", {}, 3, (5 + math.log2(4 / 3)) / 4, None),
    ("user_count", {}, 3, 2.0, None),
    ("popularity_lift", {}, 2, (1.5 + 3) / (3 + 2.5) - 1, None),
    ("exposure_parity", {}, 2, (LOG3 / 2) / 1.0, None),  # x: 1 + 1 of 2 items, y: rank 2 of u
    ("item_mad", {}, 2, 1.0 - (1.0 + 0.0) / 2, None),  # y: 3 is a hit; x: 2 is one, 1 of v is none
    ("exposure_equity", {}, 2, (LOG3 / 2) / 2.0, None),  # merit of x: 2; of y: 3 and 4
    ("rsp", {}, 2, (2 / 1 - 1 / 4) / 2 / ((2 / 1 + 1 / 4) / 2), None),  # x 2 of 1, y 1 of 4
    ("bias_disparity", {"group": "x"}, 2, (2 / 3) / 1.0 - 1, None),
]  # fmt: skip


@pytest.fixture(scope="module")
def world():
    return build(WORLD)


@pytest.mark.parametrize(("name", "values", "cutoff", "of_u", "of_v"), GOLDENS)
def test_by_hand(world, name, values, cutoff, of_u, of_v):
    found = measure(name, world, [cutoff], **values)

    if of_v is None:
        assert found[0] == pytest.approx(of_u, abs=1e-12, nan_ok=True)
    else:
        assert found[0, 0] == pytest.approx(of_u, abs=1e-12, nan_ok=True)
        assert found[1, 0] == pytest.approx(of_v, abs=1e-12, nan_ok=True)


def test_shares_are_rounded_as_their_own_digits_say():
    """0.06245 is a little below what it says, though ten thousand times it is 624.5."""
    from evalkit.metrics.lists.calibration import rounded

    shares = [0.06245, *((2 * n + 1) / 20_000 for n in range(10_000)), 0.0312 + 0.03125]

    assert [rounded(each, 4.0) for each in shares] == [round(each, 4) for each in shares]


def test_mad_by_hand():
    from evalkit.metrics import registry_of

    number, slopes = registry_of("lists")["mad"].function([0.1, 0.4, 0.2], {})

    assert number == pytest.approx((0.3 + 0.1 + 0.2) / 3)
    assert slopes.tolist() == pytest.approx([-2 / 3, 2 / 3, 0.0])


def test_mad_of_elliot_leaves_out_whom_train_lacks(tmp_path):
    """Users 1 and 3 hit, 2 and 4 do not; train lacks 1: of group a only 2 counts."""

    def path(name, **columns):
        pl.DataFrame(columns).write_parquet(tmp_path / f"{name}.parquet")
        return str(tmp_path / f"{name}.parquet")

    users, items = [1, 2, 3, 4], [10, 20, 10, 20]
    tree = {
        "truth": {"path": path("truth", user=users, item=[10, 10, 10, 10]), "threshold": 1},
        "train": {"path": path("train", user=[2, 3, 4], item=[30, 30, 30])},
        "rankings": [{"path": path("run", user=users, item=items, rank=[1] * 4), "model": "m"}],
        "metrics": {"names": ["user_mad_ranking@1", "nDCG@1"], "profile": "elliot"},
        "segments": {"group": {"path": path("groups", user=users, group=[*"aabb"]), "by": "group"}},
    }

    report = run_config(build_config(tree, name="mad"), threads=1)

    found = {(each.metric, each.segment): each.value for each in report.estimates}
    mad, ndcg = (each.label for each in build_config(tree, name="mad").requests)
    assert found[mad, None] == abs(0.0 - 1 / 2)
    assert found[ndcg, "a"] == 1 / 2


def test_entropy_of_one_item_has_no_sign():
    """0.0 and -0.0 are equal, and read otherwise."""
    lists = pl.DataFrame({"user": [1, 2], "item": [7, 7], "rank": [1, 1]})

    items = lists.select("item").unique()
    found = evalkit.evaluate(None, {"m": lists}, metrics=["entropy@1"], items=items)

    assert repr(found.value("entropy@1")) == "0.0"
