"""What every choice of a parameter of lists makes of its metric, in plain Python over sets.

They stand beside those of `list_sets`, under the text that asks for them.
"""

import itertools
import math
from collections import Counter
from copy import copy

from list_sets import (
    NAN,
    OF_USERS,
    cosine,
    counts_of,
    entropy_of,
    gains_of,
    gini_of,
    ideal_of,
    ild,
    js,
    keeping,
    mean,
    mean_difference,
    spread_of,
    w,
)

CHOICES_OF_USERS, CHOICES_OF_ALL = {}, {}
of_users, of_all = keeping(CHOICES_OF_USERS), keeping(CHOICES_OF_ALL)
LN2 = math.log(2)
PATIENCE = 0.85
GAINS = {"linear": float, "exp2_shifted": lambda grade: 2.0 ** (grade - 1) - 1}  # from grade 2 on
WEIGHTS = {"flat": lambda rank: 1.0, "geometric": lambda rank: PATIENCE ** (rank - 1)}


def shown_by(log, users, k):
    """How many lists show each item, whether the table has it or not."""
    return Counter(item for user in users for item in set(log.items(user, k)))


# Attention


@of_users(
    *((f"EFD(attention='{a}')", a, "EFD") for a in WEIGHTS),
    *((f"expected_popularity_complement(attention='{a}')", a, "EPC") for a in WEIGHTS),
    ("EFD(cold='least')", "log2", "least"),
    *((f"EFD(gain='{g}')", "log2", "EFD", g) for g in GAINS),
    *((f"expected_popularity_complement(gain='{g}')", "log2", "EPC", g) for g in GAINS),
)
def hits_by_attention(log, user, k, attention, what, gain="binary"):
    weight, wanted = WEIGHTS.get(attention, w), log.wanted(user)
    least = min(log.popularity.values()) if what == "least" else 1
    items = list(enumerate(log.items(user, k), 1))

    def worth(item):
        n = log.popularity[item]
        if what == "EPC":
            return 1 - n / len(log.seen)
        return -math.log2((n or least) / log.popularity.total())

    def credit(item):
        grade = log.relevance[user][item] if item in wanted else 0
        return (GAINS[gain](grade) if gain in GAINS else 1.0) * worth(item) if grade else 0.0

    above = sum(weight(rank) * credit(item) for rank, item in items)
    return above / sum(weight(rank) for rank, _ in items) if wanted else NAN


@of_users(
    *((f"awrf(attention='{a}')", WEIGHTS[a], 1.0) for a in WEIGHTS), ("awrf(log_base='e')", w, LN2)
)
def awrf_by(log, user, k, weight, unit):
    shown, goal = Counter(), Counter(p for p in log.provider.values() if p)
    for rank, item in enumerate(log.items(user, k), 1):
        if log.provider.get(item):
            shown[log.provider[item]] += weight(rank)
    if not shown:
        return NAN
    parts = ({g: x / c.total() for g, x in c.items()} for c in (shown, goal))
    return 1 - js(*parts) * unit


@of_users(*((f"eild(attention='{a}')", WEIGHTS[a]) for a in WEIGHTS))
def eild_by(log, user, k, weight):
    items, wanted, total = log.items(user, k), log.wanted(user), 0.0
    known = [place for place, i in enumerate(items) if log.vector.get(i) is not None]
    if not wanted or len(known) < 2:
        return NAN
    hits = [place for place in known if items[place] in wanted]
    for i in hits:
        others = [(weight(max(1, j - i)), j) for j in hits if j != i]
        far = [x * (1 - cosine(log.vector[items[i]], log.vector[items[j]])) for x, j in others]
        below = sum(x for x, _ in others)
        total += weight(i + 1) * sum(far) / below if below else 0.0
    return total / sum(weight(rank) for rank in range(1, len(items) + 1))


@of_users(
    *(
        (f"{name}({given})", what, weight, stop)
        for name, what in (
            ("ee_d", lambda e, t: e * e),
            ("ee_r", lambda e, t: e * t),
            ("ee_l", lambda e, t: (e - t) ** 2),
        )
        for given, weight, stop in (
            *((f"attention='{a}'", WEIGHTS[a], 0.0) for a in WEIGHTS),
            ("stop=0.5", w, 0.5),
        )
    )
)
def exposure_by(log, user, k, what, weight, stop):
    """Behind each relevant item fewer look further."""
    wanted, e, still = log.wanted(user), Counter(), 1.0
    if not wanted:
        return NAN
    for rank, item in enumerate(log.items(user, k), 1):
        e[item] += weight(rank) * still
        still *= 1 - stop if item in wanted else 1
    m, others, still = len(wanted), len(e.keys() - wanted), 1.0
    of_wanted = of_others = 0.0
    for rank in range(1, m + others + 1):
        if rank <= m:
            of_wanted += weight(rank) * still / m
            still *= 1 - stop
        else:
            of_others += weight(rank) * still / others
    goals = {item: of_wanted if item in wanted else of_others for item in {*e, *wanted}}
    return sum(what(e[item], goal) for item, goal in goals.items())


def exposure_with(log, users, k, weight):
    e = Counter()
    for user in users:
        for rank, item in enumerate(log.items(user, k), 1):
            e[item] += weight(rank)
    return e


@of_all(
    *((f"exposure_parity(attention='{a}')", WEIGHTS[a], False) for a in WEIGHTS),
    *((f"exposure_equity(attention='{a}')", WEIGHTS[a], True) for a in WEIGHTS),
)
def exposure_of_groups(log, users, k, weight, by_merit):
    own = [user for user in users if log.wanted(user)] if by_merit else users
    e, found = exposure_with(log, own, k, weight), []
    for provider in "xyz":
        group = log.members(provider)
        below = sum(len(log.wanted(u) & group) for u in own) if by_merit else len(group)
        found.append(sum(e[item] for item in group) / below if below else NAN)
    is_known = not any(map(math.isnan, found)) and max(found) > 0
    return min(found) / max(found) if is_known else NAN


# Popularity


def with_cold(numbers, cold):
    """The mean of numbers of items, and 0 or nothing for those that train lacks."""
    kept = [number for number, is_cold in numbers if not (is_cold and cold == "left_out")]
    return mean(kept)


@of_users(
    ("avg_popularity(scale='interactions')", "all"),
    ("avg_popularity(scale='most')", "most"),
    ("avg_popularity(cold='left_out')", "left_out"),
)
def popularity_by(log, user, k, how):
    c = log.popularity
    below = {"all": c.total(), "most": max(c.values())}.get(how, 1)
    return with_cold([(c[i] / below, not c[i]) for i in log.items(user, k)], how)


def information_by(log, item, how):
    """By users, by interactions, by logarithms to the base of the users; of items without any."""
    n, users = log.popularity[item], len(log.seen)
    if how == "tiny":
        return -math.log2((n + 1e-10) / users)
    if how == "zero" and not n:
        return 0.0
    whole = log.popularity.total() if how == "interactions" else users
    found = -math.log2(max(n, 1) / whole)
    return found / math.log2(users) if how == "scaled" else found


HOWS = {"pop_of": ("interactions", "scaled"), "cold": ("left_out", "zero", "tiny")}
INFORMATION = [(f"({name}='{how}')", how) for name, hows in HOWS.items() for how in hows]


@of_users(*((f"novelty{given}", how) for given, how in INFORMATION), ("novelty(den='k')", "k"))
def novelty_by(log, user, k, how):
    items = log.items(user, k)
    rows = [(information_by(log, i, how), not log.popularity[i]) for i in items]
    found = with_cold(rows, how)
    return found * len(items) / k if how == "k" else found


@of_all(*((f"novelty_of_rows{given}", how) for given, how in INFORMATION))
def novelty_of_rows_by(log, users, k, how):
    rows = [item for user in users for item in log.items(user, k)]
    return with_cold([(information_by(log, i, how), not log.popularity[i]) for i in rows], how)


def tail_of(log, head, ratio):
    """Items of the tail; those that train lacks are none of it."""
    c, order = log.popularity, {}
    for place, (_, item) in enumerate(log.train):
        order.setdefault(item, place)
    if head == "count":
        return {item for item, n in c.items() if n <= ratio}
    if head == "items":
        return set(sorted(c, key=lambda item: (c[item], item))[: int(ratio * len(c))])
    own, total = set(), 0
    for item in sorted(c, key=lambda item: (-c[item], order[item])):
        own.add(item)
        total += c[item]
        if total >= ratio * c.total():
            break
    return c.keys() - own


HEADS = {"first": 0.8, "items": 0.8, "count": 2.0}
RATIOS = [(f"(head='{head}', ratio={ratio})", head, ratio) for head, ratio in HEADS.items()]


@of_users(
    *((f"tail_share{given}", head, ratio, False) for given, head, ratio in RATIOS),
    *((f"tail_count{given}", head, ratio, True) for given, head, ratio in RATIOS),
)
def tail_by(log, user, k, head, ratio, is_count):
    tail = tail_of(log, head, ratio)
    is_tail = [item in tail for item in log.items(user, k)]
    return sum(is_tail) if is_count else mean(is_tail)


@of_all(
    *((f"pop_rsp{given}", head, ratio, False, False) for given, head, ratio in RATIOS),
    *((f"pop_reo{given}", head, ratio, True, False) for given, head, ratio in RATIOS),
    ("pop_rsp(items='train')", "interactions", 0.8, False, True),
    ("pop_reo(items='train')", "interactions", 0.8, True, True),
)
def spread_by(log, users, k, head, ratio, of_relevant, of_train):
    own = set(log.popularity) if of_train else log.known
    tail = own - log.head() if head == "interactions" else tail_of(log, head, ratio) & own
    return spread_of(log, users, k, [own - tail, tail], of_relevant=of_relevant)


# Coverage and concentration

ITEMS = {  # items that are shown or not: whose lists are counted, and how many there are
    "catalogue_and_one": lambda log, c: (c, len(log.known) + 1),
    "train": lambda log, c: (c, len(log.popularity)),
    "shown": lambda log, c: (c, len(c)),
}


def counts_by(log, users, k, items, counts=None):
    """The numbers of all items, zeros too."""
    shown = shown_by(log, users, k) if counts is None else counts
    own, n = ITEMS[items](log, shown)
    return [*own.values(), *[0] * (n - len(own))]


@of_all(
    *(
        (f"{name}(items='{items}')", items, turned)
        for name, turned in (("gini", lambda x: x), ("evenness", lambda x: 1 - x))
        for items in ITEMS
    )
)
def gini_by(log, users, k, items, turned):
    shown = shown_by(log, users, k)
    numbers, (_, n) = counts_by(log, users, k, items), ITEMS[items](log, shown)
    if n < len(shown):  # more are shown than there are: no share of them
        numbers = sorted(numbers)
        above = sum((2 * j - n - 1) * c for j, c in enumerate(numbers, n - len(shown) + 1))
        return turned(above / (n * sum(numbers)))
    return turned(gini_of(numbers, lambda m: m))


@of_all(
    *((f"gini_exposure(items='{items}')", items, w, lambda m: m) for items in ITEMS),
    *((f"gini_exposure(attention='{a}')", None, WEIGHTS[a], lambda m: m) for a in WEIGHTS),
    ("gini_exposure(over='m-1')", None, w, lambda m: m - 1),
    ("evenness(over='m-1')", None, None, lambda m: m - 1),
)
def gini_exposure_by(log, users, k, items, weight, below):
    if weight is None:
        return 1 - gini_of(counts_of(log, users, k).values(), below)
    e = exposure_with(log, users, k, weight)
    if items is None:
        return gini_of([e[item] for item in log.known], below)
    n, numbers = ITEMS[items](log, e)[1], sorted(e.values())
    above = sum((2 * j - n - 1) * c for j, c in enumerate(numbers, n - len(e) + 1))
    return above / (n * sum(numbers))


@of_all(
    *((f"entropy(items='{items}')", items, lambda h, n, s: h) for items in ITEMS),
    ("entropy(log_base='e')", None, lambda h, n, s: h * LN2),
    ("entropy(scale='per_item')", None, lambda h, n, s: h / s),
    *((f"hhi(items='{items}')", items, None) for items in ITEMS),
    *((f"effective_items(items='{items}')", items, 1) for items in ITEMS),
)
def concentration_by(log, users, k, items, what):
    counts = counts_of(log, users, k) if items is None else shown_by(log, users, k)
    own = [n for n in counts.values() if n]
    p = [n / sum(own) for n in own]
    if not p:
        return NAN
    if callable(what):
        return what(entropy_of(p), len(log.known), len(p))
    found = sum(x * x for x in p)
    return 1 / found if what else found


CATALOGUES = {
    "items_open": lambda log, shown: (len(shown), len(log.known)),
    "items_and_one": lambda log, shown: (len(shown), len(log.known) + 1),
    "items_known": None,  # lists close up
    "train": lambda log, shown: (len(shown & log.popularity.keys()), len(log.popularity)),
    "train_open": lambda log, shown: (len(shown), len(log.popularity)),
}


@of_all(
    *(
        (f"{name}(catalogue='{each}')", each, 1)
        for name in ("item_coverage", "prediction_coverage")
        for each in CATALOGUES
    ),
    ("item_coverage(scale='percent')", None, 100),
    ("prediction_coverage(scale='percent')", None, 100),
    ("prediction_coverage(scale='count')", None, 0),
)
def coverage_by(log, users, k, catalogue, unit):
    shown = shown_by(log, users, k).keys()
    own, n = len(shown & log.known), len(log.known)
    if catalogue == "items_known":
        kept = [[item for item in log.run[user] if item in log.known][:k] for user in users]
        own, n = len(set().union(*kept)), len(log.known) + 1
    elif catalogue is not None:
        own, n = CATALOGUES[catalogue](log, shown)
    return own / n * unit if unit else own


@of_all("personalization(over='k')")
def personalization_over_k(log, users, k):
    shown = [set(log.items(user, k)) for user in users]
    n = len(shown)
    pairs = sum(len(a & b) / k for a, b in itertools.combinations(shown, 2))
    short = sum(1 - len(a) / k for a in shown)  # a list is counted as like itself
    return 1 - (2 * pairs - short) / (n * (n - 1))


@of_all("personalization(over='lengths_and_empty')")
def personalization_of_empty_lists(log, users, k):
    shown = [set(log.items(user, k)) for user in users]
    pairs = [(a, b) for a, b in itertools.combinations(shown, 2) if a and b]
    alike = sum(len(a & b) / math.sqrt(len(a) * len(b)) for a, b in pairs)
    n = len(shown)
    return 1 - (2 * alike - sum(not a for a in shown)) / (n * (n - 1))


@of_all("user_count(full='k')")
def users_with_k(log, users, k):
    return sum(len(log.items(user, k)) >= k for user in users)


# Diversity, genres


def sets_of(log, user, k):
    return [log.genres[item] for item in log.items(user, k) if item in log.genres]


def apart(known, far):
    return mean(far(a, b) for a, b in itertools.combinations(known, 2))


def cosine_of_sets(a, b):
    return len(a & b) / math.sqrt(len(a) * len(b)) if a and b else 0.0


@of_users(
    *(
        (f"{name}(distance='{distance}')", distance, turned)
        for name, turned in (("ild", lambda x: x), ("ils", lambda x: 1 - x))
        for distance in ("cosine_genres", "hamming_genres", "columns", "columns_genres")
    )
)
def distance_by(log, user, k, distance, turned):
    known = sets_of(log, user, k)
    if distance == "columns":
        known = [v for i in log.items(user, k) if (v := log.vector.get(i)) is not None]
        return turned(apart(known, lambda a, b: sum(x != y for x, y in zip(a, b, strict=True))))
    if distance == "cosine_genres":
        return turned(apart(known, lambda a, b: 1 - cosine_of_sets(a, b)))
    below = len(log.all_genres) if distance == "hamming_genres" else 1
    return turned(apart(known, lambda a, b: len(a ^ b) / below))


@of_users(
    *(("ils" + given, what, True) for given, what in (
        ("(distance='jaccard')", "jaccard"), ("(distance='hamming')", "hamming"),
    ))
)  # fmt: skip
def ils_by(log, user, k, distance, is_turned):
    return ild(log, user, k, distance, is_turned)


@of_users(
    *(
        (f"{name}({given})", given, turned)
        for name, turned in (("ild", lambda x: x), ("ils", lambda x: 1 - x))
        for given in (
            "unknown='no_rank'", "unknown='unlike'", "single='zero'", "single='empty'",
            "single='short'",
            "zero_vector='nan'",
        )
    ),
    ("ild(pairs_den='n')", "n", lambda x: x),
)  # fmt: skip
def ild_by(log, user, k, given, turned):
    items = log.run[user] if given == "unknown='no_rank'" else log.items(user, k)
    known = [log.vector.get(item) for item in items]
    if given != "unknown='unlike'":
        known = [v for v in known if v is not None][:k]
    if len(known) < 2:
        is_zero = {
            "single='empty'": True,
            "single='zero'": bool(known),
            "single='short'": len(items) < 2,
        }.get(given, False)
        return turned(0.0) if is_zero else NAN
    if given == "zero_vector='nan'" and not all(map(any, known)):
        return NAN

    def far(a, b):
        return 1.0 if a is None or b is None else 1 - cosine(a, b)

    found = apart(known, far)
    return found * (len(known) - 1) / 2 if given == "n" else turned(found)


@of_users(
    ("genre_entropy(weighting='log2')", w, 1.0, 0.0),
    ("genre_entropy(weighting='geometric')", WEIGHTS["geometric"], 1.0, 0.0),
    ("genre_entropy(log_base='e')", WEIGHTS["flat"], LN2, 0.0),
    ("genre_entropy(smoothing=0.5)", WEIGHTS["flat"], 1.0, 0.5),
)
def genre_entropy_by(log, user, k, weight, unit, more):
    masses, items = Counter(), log.items(user, k)
    for rank, item in enumerate(items, 1):
        for genre in log.genres.get(item, ()):
            masses[genre] += weight(rank) / len(log.genres[item])
    if not masses and not (more and any(item in log.genres for item in items)):
        return NAN
    whole = [masses[genre] + more for genre in log.all_genres]
    return entropy_of([x / sum(whole) for x in whole]) * unit if sum(whole) else NAN


@of_users(
    ("category_count(scale='share')", "k"), ("category_count(unknown='category')", "category")
)
def category_count_by(log, user, k, how):
    n, items = len(log.genres_of(log.items(user, k))), log.items(user, k)
    own = any(not log.genres.get(item) for item in items)
    return n / k if how == "k" else n + own


@of_users("subtopic_recall(aspects='train')")
def of_genres_in_train(log, user, k):
    hit = log.genres_of(set(log.items(user, k)) & log.wanted(user))
    asked = log.genres_of(log.popularity)
    return len(hit) / len(asked) if asked and log.wanted(user) else NAN


@of_users("list_fill(of='items')")
def fill_of_items(log, user, k):
    return len(log.items(user, k)) / k


@of_users("unexpectedness(den='k')")
def unexpectedness_over_k(log, user, k):
    return 1 - sum(item in log.expected(user, k) for item in log.items(user, k)) / k


@of_users("unseen_share(empty='one')")
def unseen(log, user, k):
    return mean(item not in log.had(user) for item in log.items(user, k))


@of_users("serendipity(of='content', features='genres')")
def serendipity_of_genres(log, user, k):
    had = [log.genres[item] for item in log.had(user) if item in log.genres]
    wanted, total = log.wanted(user), 0.0
    for item in log.items(user, k):
        if item in wanted and item in log.genres and had:
            total += 1 - mean(cosine_of_sets(log.genres[item], each) for each in had)
    return total / len(log.items(user, k)) if had and wanted else NAN


# Gains of genres


@of_users(
    *((f"alpha_ndcg(ideal='{ideal}')", ideal) for ideal in ("own", "ones", "every", "none")),
    ("alpha_ndcg(ideal='every_later')", "every", True),
    ("err_ia(norm='every')", "err"),
    ("err_ia(norm='every_later')", "err", True),
    ("alpha_ndcg(unknown='removed')", "removed"),
    ("alpha_ndcg(penalty='shown')", "shown"),
    ("alpha_ndcg(aspects='history')", "history"),
)
def gains_by(log, user, k, how, is_later=False):
    wanted = log.had(user) if how == "history" else log.wanted(user)
    items, asked = log.items(user, k), log.genres_of(wanted)
    if how == "removed":
        items = [item for item in items if item in log.known]
    if not items or not (wanted if how == "ones" else asked):
        return NAN
    gains, shown = gains_of(log, items, wanted), Counter()
    if how in ("shown", "history"):  # every earlier item of a genre counts; or all shown ones gain
        gains = []
        for item in items:
            own = log.genres.get(item, set()) & asked
            is_hit = how == "history" or item in wanted
            gains.append(sum(0.5 ** shown[genre] for genre in own) if is_hit else 0.0)
            shown.update(log.genres.get(item, ()))
    discount = (lambda rank: 1 / rank) if how == "err" else w
    total = sum(discount(rank) * gain for rank, gain in enumerate(gains, 1))
    best = gains_of(log, ideal_of(log, wanted, k), wanted)
    if how == "own":
        best = sorted(gains, reverse=True)
    elif how == "ones":
        turns, rest = divmod(len(items), len(log.all_genres))
        best = [1.0] * (turns * len(log.all_genres)) + [0.5**turns] * rest
    elif how in ("every", "err"):
        best = [len(asked) * 0.5 ** (rank - 1) for rank in range(1, k + 1)]
    if how == "none" or (is_later and k == 1):
        return total
    below = sum(discount(rank) * gain for rank, gain in enumerate(best, 1))
    return total / below if below else 0.0


@of_users(
    ("calibration(divergence='root_js')", "root"),
    ("calibration(weighting='harmonic')", "harmonic"),
    ("calibration(smoothed='both')", "both"),
)
def calibration_by(log, user, k, how):
    items = log.items(user, k)
    own = [item for item in items if log.genres.get(item)]
    weights = [1 / rank for rank in range(1, k + 1)] if how == "harmonic" else None
    p, q = log.shares(log.had(user)), log.shares(own, weights)
    if not p or not q:
        return NAN
    if how == "root":
        return math.sqrt(max(js(p, q), 0.0))
    found = 0.0
    for genre in {*p, *q}:
        x, y = p.get(genre, 0.0), q.get(genre, 0.0)
        x, y = (0.99 * x + 0.01 * y if how == "both" else x), 0.99 * y + 0.01 * x
        found += x * math.log2(x / y) if x else 0.0
    return found


# Fairness, two lists


@of_all(("item_mad(gain='linear')", False), ("item_mad(gain='exp2_shifted')", True))
def item_mad_by(log, users, k, is_shifted):
    rows, gains = Counter(), Counter()
    for user in users:
        if log.wanted(user):
            for item in log.items(user, k):
                rows[item] += 1
                if item in log.wanted(user):
                    grade = log.relevance[user][item]
                    gains[item] += 2 ** (grade - 2 + 1) - 1 if is_shifted else grade
    means = [mean(gains[i] / rows[i] for i in log.members(p) if rows[i]) for p in "xyz"]
    return mean_difference(means)


@of_all(
    ("bias_disparity(group='x', part='list')", True),
    ("bias_disparity(group='x', part='train')", False),
)
def bias_by(log, users, k, of_list):
    own, with_group = log.members("x"), {i for i, p in log.provider.items() if p}
    both = [user for user in users if log.had(user)]
    rows = [i for u in both for i in (log.items(u, k) if of_list else log.had(u))]
    rows = [item for item in rows if item in with_group]
    return mean(item in own for item in rows) / (len(own) / len(with_group)) if rows else NAN


@of_users(
    ("overlap(den='n')", None), ("overlap(ref_k=3)", 3), ("overlap(lacking='zero')", None, True)
)
def overlap_by(log, user, k, ref_k, is_zero=False):
    a, b = log.items(user, k), log.reference.get(user, [])[: ref_k or k]
    if not b and not is_zero:
        return NAN
    return len(set(a) & set(b)) / (k if ref_k or is_zero else len(a))


@of_users(*((f"rbo(tail='{tail}')", tail) for tail in ("prefix", "normalized", "average")))
def rbo_by(log, user, k, tail, p=0.9):
    if user not in log.reference:
        return NAN
    a, b = log.run[user][:k], log.reference[user][:k]

    def agreement(depth):
        return len(set(a[:depth]) & set(b[:depth])) / depth

    if tail == "normalized":
        weights = [p ** (depth - 1) for depth in range(1, k + 1)]
        return sum(x * agreement(d) for d, x in enumerate(weights, 1)) / sum(weights)
    depths = range(1, min(len(a), len(b)) + 1)
    if tail == "average":
        return mean(agreement(depth) for depth in depths)
    return (1 - p) * sum(p ** (depth - 1) * agreement(depth) for depth in depths)


BY_PROVIDER = {
    "alpha_ndcg(by='provider')": "alpha_ndcg",
    "nerr_ia(by='provider')": "nerr_ia",
    "err_ia(by='provider')": "err_ia",
    "NRBP(by='provider')": "NRBP",
    "AP_IA(by='provider')": "AP_IA",
    "P_IA(by='provider')": "P_IA",
    "calibration(by='provider')": "calibration",
    "category_count(by='provider')": "category_count",
    "genre_entropy(by='provider')": "genre_entropy",
    "subtopic_recall(by='provider')": "subtopic_recall",
}


def by_provider(log):
    """The same log, where an item's provider is its only genre."""
    other = copy(log)
    other.genres = {item: {own} if own else set() for item, own in log.provider.items()}
    other.all_genres = set("xyz")
    return other


for text, plain in BY_PROVIDER.items():
    CHOICES_OF_USERS[text] = lambda log, user, k, f=OF_USERS[plain]: f(by_provider(log), user, k)
