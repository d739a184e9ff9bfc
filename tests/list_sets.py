"""Every metric of lists in plain Python over sets, read off its definition and not off our code.

`OF_USERS` and `OF_ALL` name them as they are asked for, without a cutoff; a number of all lists is
taken over some users, who are all or a segment.
"""

import itertools
import math
from collections import Counter

import numpy as np

NAN = math.nan
DAYS, NOW = 30, 100
OF_USERS, OF_ALL = {}, {}


class Log:
    """A random log, and what sets say of it.

    Lists are short and show items twice, which `repeats` says; users lack train, truth, a list, or
    a row in the table; train repeats rows; the table of items lacks items, genres, vectors, dates
    and providers.
    """

    def __init__(self, seed, *, repeats):
        rng = np.random.default_rng(seed)
        n = self.n = int(rng.integers(8, 30))
        known = [item for item in range(n) if rng.random() < 0.85]

        def some(make, odds):
            return {item: make() if rng.random() < odds else None for item in known}

        self.genres = {i: {f"g{g}" for g in range(4) if rng.random() < 0.4} for i in known}
        self.vector = some(lambda: rng.integers(-1, 2, 3).astype(float).tolist(), 0.85)
        self.published = some(lambda: int(rng.integers(40, NOW + 1)), 0.85)
        self.provider = some(lambda: "xyz"[rng.integers(3)], 0.85)
        self.provider |= dict(zip(known[:3], "xyz", strict=True))

        def lists(share, *, repeats):
            return {
                user: rng.choice(n, rng.integers(1, min(8, n)), replace=repeats).tolist()
                for user in range(30)
                if rng.random() < share
            }

        self.run = lists(0.9, repeats=repeats)
        self.reference, self.last, self.first = (lists(0.8, repeats=repeats) for _ in range(3))
        self.relevance = {
            user: {item: int(rng.integers(1, 4)) for item in own}
            for user, own in lists(0.7, repeats=False).items()
        }
        self.truth = {
            user: {item for item, grade in own.items() if grade >= 2}
            for user, own in self.relevance.items()
        }
        self.train = [
            (user, int(item)) for user in range(5, 40) for item in rng.choice(n, rng.integers(7))
        ]
        self.targets = {user for user in range(33) if rng.random() < 0.8}
        self.group = {user: "ab"[user % 2] for user in range(40)}

        self.known = set(known)
        self.seen = {}
        for user, item in self.train:
            self.seen.setdefault(user, set()).add(item)
        self.popularity = Counter(item for own in self.seen.values() for item in own)
        self.rows = Counter(item for _, item in self.train)
        self.all_genres = set().union(*self.genres.values())

    def items(self, user, k):
        return self.run[user][:k]

    def had(self, user):
        return self.seen.get(user, set())

    def wanted(self, user):
        return self.truth.get(user, set())

    def genres_of(self, items):
        return set().union(*(self.genres.get(item, set()) for item in items))

    def head(self):
        """The most popular items that make up 80 % of train, and those that tie with the last."""
        total, least = 0, 0
        for least in sorted(self.popularity.values(), reverse=True):
            total += least
            if total >= 0.8 * self.popularity.total():
                break
        return {item for item, n in self.popularity.items() if n >= least}

    def expected(self, user, k):
        """The most popular items that a user has not seen."""
        unseen = self.popularity.keys() - self.had(user)
        return set(sorted(unseen, key=lambda item: (-self.popularity[item], item))[:k])

    def shares(self, items, weights=None):
        """The share of each genre, an item split evenly over its own."""
        masses = Counter()
        for place, item in enumerate(items):
            for genre in self.genres.get(item, ()):
                weight = 1 if weights is None else weights[place]
                masses[genre] += weight / len(self.genres[item])
        return {genre: mass / masses.total() for genre, mass in masses.items()}

    def members(self, provider):
        return {item for item, own in self.provider.items() if own == provider}


def w(rank):
    return 1 / math.log2(1 + rank)


def mean(numbers):
    numbers = list(numbers)
    return sum(numbers) / len(numbers) if numbers else NAN


def entropy_of(shares):
    return -sum(p * math.log2(p) for p in shares if p)


def js(one, other):
    mixed = [(one.get(each, 0) + other.get(each, 0)) / 2 for each in {*one, *other}]
    return entropy_of(mixed) - (entropy_of(one.values()) + entropy_of(other.values())) / 2


def cosine(one, other):
    norms = math.hypot(*one) * math.hypot(*other)
    return sum(x * y for x, y in zip(one, other, strict=True)) / norms if norms else 0.0


def jaccard_of(one, other):
    return len(one & other) / len(one | other) if one | other else 1.0


DISTANCES = {  # each with what an item must have
    "cosine": (lambda log, i: log.vector.get(i), lambda a, b: 1 - cosine(a, b)),
    "jaccard": (lambda log, i: log.genres.get(i), lambda a, b: 1 - jaccard_of(a, b)),
    "hamming": (
        lambda log, i: log.vector.get(i),
        lambda a, b: mean(x != y for x, y in zip(a, b, strict=True)),
    ),
}


def keeping(found):
    """Keeps functions of a log, of a user or users, and of k, under the texts that ask for them.

    Further arguments stand beside the texts.
    """

    def texts_of(*texts):
        def keep(function):
            for text in texts:
                text, *arguments = (text,) if isinstance(text, str) else text
                found[text] = lambda log, who, k, a=arguments: function(log, who, k, *a)
            return function

        return keep

    return texts_of


of_users, of_all = keeping(OF_USERS), keeping(OF_ALL)

# Popularity and novelty


def information(log, item):
    return -math.log2(max(log.popularity[item], 1) / len(log.seen))


@of_users("novelty")
def novelty(log, user, k):
    return mean(information(log, item) for item in log.items(user, k))


@of_users("avg_popularity", ("avg_popularity(scale='share')", True))
def avg_popularity(log, user, k, of_all=False):
    below = len(log.seen) if of_all else 1
    return mean(log.popularity[item] / below for item in log.items(user, k))


@of_users("popularity_quantile")
def popularity_quantile(log, user, k):
    counts = list(log.popularity.values())

    def rank(n):
        return sum(c < n for c in counts) + (sum(c == n for c in counts) + 1) / 2 if n else 0

    return mean(rank(log.popularity[item]) / len(counts) for item in log.items(user, k))


@of_users("tail_share", ("tail_count", True))
def tail_share(log, user, k, is_count=False):
    is_tail = [item not in log.head() for item in log.items(user, k)]
    return sum(is_tail) if is_count else mean(is_tail)


@of_users(
    ("expected_popularity_complement", lambda log, n: 1 - n / len(log.seen)),
    ("EFD", lambda log, n: -math.log2(max(n, 1) / log.popularity.total())),
)
def share_of_attention(log, user, k, worth):
    items = list(enumerate(log.items(user, k), 1))
    wanted = log.wanted(user)
    if not wanted:
        return NAN
    above = sum(w(rank) * worth(log, log.popularity[i]) for rank, i in items if i in wanted)
    return above / sum(w(rank) for rank, _ in items)


@of_all("popularity_lift")
def popularity_lift(log, users, k):
    both = [user for user in users if log.had(user)]
    shown = mean(avg_popularity(log, user, k) for user in both)
    had = mean(mean(log.popularity[item] for item in log.had(user)) for user in both)
    return (shown - had) / had


@of_all("novelty_of_rows")
def novelty_of_rows(log, users, k):
    return mean(information(log, item) for user in users for item in log.items(user, k))


# Coverage and concentration


def counts_of(log, users, k):
    """How many lists show each item of the table."""
    c = Counter(item for user in users for item in set(log.items(user, k)))
    return {item: c[item] for item in log.known}


@of_all("item_coverage", "prediction_coverage", ("item_coverage(scale='count')", True))
def item_coverage(log, users, k, is_count=False):
    c = counts_of(log, users, k)
    return sum(n > 0 for n in c.values()) / (1 if is_count else len(c))


@of_all("item_coverage(at_users=3)")
def item_coverage_at(log, users, k):
    c, n = counts_of(log, users, k), len(users)
    found = [1 - math.comb(n - each, 3) / math.comb(n, 3) for each in c.values()]
    return mean(found) if n >= 3 else NAN


@of_users("user_coverage", ("user_coverage(full='k')", True))
def user_coverage(log, user, k, is_full=False):
    n = len(log.run.get(user, [])[:k])
    return NAN if user not in log.targets else float(n >= k if is_full else n > 0)


@of_all("user_count")
def user_count(log, users, k):
    return len(users)


def gini_of(numbers, below):
    numbers, m = sorted(numbers), len(numbers)
    above = sum((2 * j - m - 1) * each for j, each in enumerate(numbers, 1))
    return above / (below(m) * sum(numbers)) if sum(numbers) else NAN


@of_all(
    ("gini", lambda m: m, lambda x: x),
    ("gini(over='m-1')", lambda m: m - 1, lambda x: x),
    ("evenness", lambda m: m, lambda x: 1 - x),
)
def gini(log, users, k, below, turned):
    return turned(gini_of(counts_of(log, users, k).values(), below))


def exposure_of(log, users, k):
    e = Counter()
    for user in users:
        for rank, item in enumerate(log.items(user, k), 1):
            e[item] += w(rank)
    return e


@of_all("gini_exposure")
def gini_exposure(log, users, k):
    e = exposure_of(log, users, k)
    return gini_of([e[item] for item in log.known], lambda m: m)


def item_shares(log, users, k):
    c = counts_of(log, users, k)
    return [n / sum(c.values()) for n in c.values() if n]


@of_all("entropy", ("entropy(scale='share')", True))
def entropy(log, users, k, is_share=False):
    found = item_shares(log, users, k)
    return entropy_of(found) / (math.log2(len(log.known)) if is_share else 1) if found else NAN


@of_all("hhi", ("effective_items", True))
def hhi(log, users, k, is_turned=False):
    found = sum(p * p for p in item_shares(log, users, k))
    return (1 / found if is_turned else found) if found else NAN


@of_all("personalization")
def personalization(log, users, k):
    shown = [set(log.items(user, k)) for user in users]
    alike = [len(a & b) / math.sqrt(len(a) * len(b)) for a, b in itertools.combinations(shown, 2)]
    return 1 - mean(alike)


@of_all("list_surprisal")
def list_surprisal(log, users, k):
    c = Counter(item for user in users for item in set(log.items(user, k)))
    return mean(mean(-math.log2(c[i] / c.total()) for i in set(log.items(u, k))) for u in users)


# Diversity, genres, serendipity, calibration


@of_users(
    "ild",
    *((f"ild(distance='{each}')", each) for each in ("jaccard", "hamming")),
    ("ils", "cosine", True),
)
def ild(log, user, k, distance="cosine", is_turned=False):
    of_item, far = DISTANCES[distance]
    known = [of_item(log, i) for i in log.items(user, k) if of_item(log, i) is not None]
    found = mean(far(a, b) for a, b in itertools.combinations(known, 2))
    return 1 - found if is_turned else found


@of_users("eild", ("eild(distance='jaccard')", "jaccard"))
def eild(log, user, k, distance="cosine"):
    of_item, far = DISTANCES[distance]
    items, wanted, total = log.items(user, k), log.wanted(user), 0.0
    known = {place for place, i in enumerate(items) if of_item(log, i) is not None}
    if not wanted or len(known) < 2:
        return NAN
    hits = [place for place in sorted(known) if items[place] in wanted]
    for i in hits:
        others = [(w(max(1, j - i)), j) for j in hits if j != i]
        above = sum(x * far(of_item(log, items[i]), of_item(log, items[j])) for x, j in others)
        below = sum(x for x, _ in others)
        total += w(i + 1) * above / below if below else 0.0
    return total / sum(w(rank) for rank in range(1, len(items) + 1))


@of_users("genre_entropy")
def genre_entropy(log, user, k):
    q = log.shares(log.items(user, k))
    return entropy_of(q.values()) if q else NAN


@of_users("category_count")
def category_count(log, user, k):
    return len(log.genres_of(log.items(user, k)))


@of_users("subtopic_recall")
def subtopic_recall(log, user, k):
    wanted = log.wanted(user)
    asked = log.genres_of(wanted)
    hit = log.genres_of(set(log.items(user, k)) & wanted)
    return len(hit) / len(asked) if asked else NAN


@of_users("subtopic_recall(aspects='any')")
def genres_shown(log, user, k):
    return len(log.genres_of(log.items(user, k))) / len(log.all_genres) if log.all_genres else NAN


def gains_of(log, items, wanted):
    """What each item gains: genres count half as much with every earlier hit."""
    hits, gains = Counter(), []
    for item in items:
        own = log.genres.get(item, set()) if item in wanted else set()
        gains.append(sum(0.5 ** hits[genre] for genre in own))
        hits.update(own)
    return gains


def ideal_of(log, wanted, k):
    """The greedy order; of equal gains the id that is last as text."""
    chosen, left = [], set(wanted)
    while left and len(chosen) < k:
        gain = {item: gains_of(log, [*chosen, item], wanted)[-1] for item in left}
        best = max(left, key=lambda item: (gain[item], str(item)))
        chosen.append(best)
        left.remove(best)
    return chosen


@of_users(
    ("alpha_ndcg", w, True),
    ("nerr_ia", lambda rank: 1 / rank, True),
    ("err_ia", lambda rank: 1 / rank, False),
    ("NRBP", lambda rank: 0.75 * 0.5 ** (rank - 1), False),
    ("NRBP(norm='ideal')", lambda rank: 0.5 ** (rank - 1), True),
)
def alpha_ndcg(log, user, k, discount, by_ideal):
    wanted = log.wanted(user)

    def total(items):
        return sum(discount(r) * g for r, g in enumerate(gains_of(log, items, wanted), 1))

    asked = log.genres_of(wanted)
    if not asked:
        return NAN
    below = total(ideal_of(log, wanted, k)) if by_ideal else len(asked)
    return total(log.items(user, k)) / below


@of_users(("AP_IA", True), ("P_IA", False))
def intent_aware(log, user, k, is_ap):
    wanted, items = log.wanted(user), log.items(user, k)
    values = []
    for genre in log.genres_of(wanted):
        own = {item for item in wanted if genre in log.genres.get(item, ())}
        hits = [item in own for item in items]
        precisions = [sum(hits[:n]) / n for n, hit in enumerate(hits, 1) if hit]
        values.append(sum(precisions) / len(own) if is_ap else sum(hits) / (k or len(items) or 1))
    return mean(values) if values else NAN


@of_users("popularity_serendipity")
def popularity_serendipity(log, user, k):
    items, wanted, m = log.items(user, k), log.wanted(user), len(log.known)
    counts = sorted(set(log.popularity.values()), reverse=True)

    def worth(rank, item):
        n = log.popularity[item]
        return (m + 1 - rank) / m - ((m - counts.index(n)) / m if n else 0.0)

    if not items:
        return NAN
    return mean(max(0.0, worth(r, i)) if i in wanted else 0.0 for r, i in enumerate(items, 1))


@of_users(("least_item_promoted", 0), ("least_item_promoted(ranks='zero')", 1))
def least_item_promoted(log, user, k, first):
    before, items = log.reference.get(user, []), log.items(user, k)
    if not before:
        return NAN
    worst = max((before.index(item) + 1 for item in items if item in before), default=0)
    return max(0, worst - first - (k or len(items)))


@of_users(
    ("calibration", "kl", False),
    ("calibration(divergence='js')", "js", False),
    ("calibration(weighting='rank')", "kl", True),
    ("calibration(weighting='rank', history='weighted')", "kl", True, True),
)
def calibration(log, user, k, divergence, by_rank, by_first_row=False):
    items, had = log.items(user, k), [*dict.fromkeys(i for u, i in log.train if u == user)]
    weights = [w(rank) for rank in range(1, 100)]
    p = log.shares(had, weights if by_first_row else None)
    q = log.shares(items, weights if by_rank else None)
    if not p or not q:
        return NAN
    if divergence == "js":
        return js(p, q)
    return sum(x * math.log2(x / (0.99 * q.get(g, 0) + 0.01 * x)) for g, x in p.items())


def expected_of(log, user, k, by):
    """What a user might expect, None where nobody says."""
    if by == "model":
        return set(log.reference[user][:k]) if user in log.reference else None
    return log.expected(user, k)


@of_users(("unexpectedness", "popular"), ("unexpectedness(reference='model')", "model"))
def unexpectedness(log, user, k, by):
    known = expected_of(log, user, k, by)
    return NAN if known is None else mean(item not in known for item in log.items(user, k))


@of_users(("serendipity", "popular"), ("serendipity(reference='model')", "model"))
def serendipity(log, user, k, by):
    known, wanted = expected_of(log, user, k, by), log.wanted(user)
    if known is None or not wanted:
        return NAN
    return mean(item in wanted and item not in known for item in log.items(user, k))


@of_users(("serendipity(of='content')", False), ("serendipity(of='content_all')", True))
def content_serendipity(log, user, k, is_all):
    had = [log.vector[i] for i in log.had(user) if log.vector.get(i) is not None]
    wanted, total = log.items(user, k) if is_all else log.wanted(user), 0.0
    for item in log.items(user, k):
        own = log.vector.get(item)
        if item in wanted and own is not None and had:
            total += 1 - mean(cosine(own, each) for each in had)
    return total / len(log.items(user, k)) if had and wanted else NAN


# Fairness


def least_of_most(numbers):
    return min(numbers) / max(numbers) if max(numbers) else NAN


@of_all("exposure_parity")
def exposure_parity(log, users, k):
    e = exposure_of(log, users, k)
    own = [log.members(provider) for provider in "xyz"]
    return least_of_most([sum(e[item] for item in group) / len(group) for group in own])


@of_all("exposure_equity")
def exposure_equity(log, users, k):
    own = [user for user in users if log.wanted(user)]
    e = exposure_of(log, own, k)
    found = []
    for provider in "xyz":
        group = log.members(provider)
        merit = sum(len(log.wanted(user) & group) for user in own)
        found.append(sum(e[item] for item in group) / merit if merit else NAN)
    return NAN if any(map(math.isnan, found)) else least_of_most(found)


def spread_of(log, users, k, groups, *, of_relevant):
    own = [user for user in users if log.had(user) and (log.wanted(user) or not of_relevant)]
    odds = []
    for group in groups:
        shown = possible = 0
        for user in own:
            asked = group & log.wanted(user) if of_relevant else group
            shown += sum(item in asked for item in log.items(user, k))
            possible += len(asked - log.had(user))
        odds.append(shown / possible if possible else NAN)
    middle = mean(odds)
    return math.sqrt(mean((each - middle) ** 2 for each in odds)) / middle if middle else NAN


@of_all(("rsp", False), ("reo", True))
def rsp(log, users, k, of_relevant):
    groups = [log.members(provider) for provider in "xyz"]
    return spread_of(log, users, k, groups, of_relevant=of_relevant)


@of_all(("pop_rsp", False), ("pop_reo", True))
def pop_rsp(log, users, k, of_relevant):
    groups = [log.known & log.head(), log.known - log.head()]
    return spread_of(log, users, k, groups, of_relevant=of_relevant)


def exposures(log, user, k, several):
    """The attention of a user's items, and the target of each."""
    lists = [log.run[user][:k]]
    if several:
        lists += [each[user][:k] for each in (log.last, log.first) if user in each]
    wanted, e = log.wanted(user), Counter()
    for items in lists:
        for rank, item in enumerate(items, 1):
            e[item] += w(rank) / len(lists)
    others, m = e.keys() - wanted, len(wanted)
    of_wanted = mean(w(rank) for rank in range(1, m + 1))
    of_others = mean(w(rank) for rank in range(m + 1, m + len(others) + 1))
    target = dict.fromkeys(wanted, of_wanted) | dict.fromkeys(others, of_others)
    return [(e[item], goal) for item, goal in target.items()]


@of_users(
    ("ee_d", lambda e, t: e * e, False),
    ("ee_d(samples='earlier')", lambda e, t: e * e, True),
    ("ee_r", lambda e, t: e * t, False),
    ("ee_r(samples='earlier')", lambda e, t: e * t, True),
    ("ee_l", lambda e, t: (e - t) ** 2, False),
    ("ee_l(samples='earlier')", lambda e, t: (e - t) ** 2, True),
)
def expected_exposure(log, user, k, worth, several):
    if not log.wanted(user):
        return NAN
    return sum(worth(e, t) for e, t in exposures(log, user, k, several))


@of_users(("awrf", False), ("awrf(target='relevant')", True))
def awrf(log, user, k, of_relevant):
    shown, goal = Counter(), Counter()
    for rank, item in enumerate(log.items(user, k), 1):
        if log.provider.get(item):
            shown[log.provider[item]] += w(rank)
    for item in log.wanted(user) if of_relevant else log.known:
        if log.provider.get(item):
            goal[log.provider[item]] += 1
    if not shown or not goal:
        return NAN
    parts = ({g: x / c.total() for g, x in c.items()} for c in (shown, goal))
    return 1 - js(*parts)


def mean_difference(numbers):
    return mean(abs(a - b) for a, b in itertools.combinations(numbers, 2))


@of_all("mad(by='group', of='novelty')")
def mad(log, users, k):
    groups = [[user for user in users if log.group[user] == each] for each in "ab"]
    return mean_difference([mean(novelty(log, user, k) for user in own) for own in groups])


@of_all("item_mad")
def item_mad(log, users, k):
    rows, hits = Counter(), Counter()
    for user in users:
        if log.wanted(user):
            rows.update(log.items(user, k))
            hits.update(item for item in log.items(user, k) if item in log.wanted(user))
    means = [mean(hits[i] / rows[i] for i in log.members(p) if rows[i]) for p in "xyz"]
    return mean_difference(means)


@of_all("bias_disparity(group='x')")
def bias_disparity(log, users, k):
    own, with_group = log.members("x"), {i for i, p in log.provider.items() if p}
    both = [user for user in users if log.had(user)]

    def bias(rows):
        rows = [item for item in rows if item in with_group]
        if not rows:
            return NAN
        return mean(item in own for item in rows) / (len(own) / len(with_group))

    of_list = bias(item for user in both for item in log.items(user, k))
    of_train = bias(item for user in both for item in log.had(user))
    return (of_list - of_train) / of_train if of_train else NAN


# Two lists, time


def both_of(log, user, k):
    return set(log.items(user, k)), set(log.reference.get(user, [])[:k])


@of_users("overlap")
def overlap(log, user, k):
    a, b = both_of(log, user, k)
    return len(a & b) / k if b else NAN


@of_users("jaccard")
def jaccard(log, user, k):
    a, b = both_of(log, user, k)
    return len(a & b) / len(a | b) if b else NAN


@of_users("rbo")
def rbo(log, user, k, p=0.9):
    """Equation 32 of Webber 2010: s and l are the lengths, X the items that prefixes share."""
    if user not in log.reference:
        return NAN
    short, long = sorted([log.items(user, k), log.reference[user][:k]], key=len)
    s, l = len(short), len(long)  # noqa: E741

    def x(depth):
        return len(set(short[:depth]) & set(long[:depth]))

    shown = sum(x(d) / d * p**d for d in range(1, l + 1))
    behind = sum(x(s) * (d - s) / (s * d) * p**d for d in range(s + 1, l + 1))
    return (1 - p) / p * (shown + behind) + ((x(l) - x(s)) / l + x(s) / s) * p**l


@of_users("kendall_tau")
def kendall_tau(log, user, k):
    """By the first place of each item."""
    a, b = log.items(user, k), log.reference.get(user, [])[:k]
    common = sorted(set(a) & set(b))
    pairs = [
        1 if (a.index(i) < a.index(j)) == (b.index(i) < b.index(j)) else -1
        for i, j in itertools.combinations(common, 2)
    ]
    return mean(pairs)


@of_users(("temporal_diversity", False), ("temporal_novelty", True))
def temporal(log, user, k, of_all):
    before = [log.last, log.first] if of_all else [log.last]
    shown = [item for each in before for item in each.get(user, [])[:k]]
    return mean(item not in shown for item in log.items(user, k)) if shown else NAN


@of_users("age")
def age(log, user, k):
    dates = [log.published.get(item) for item in log.items(user, k)]
    return mean(NOW - date for date in dates if date is not None)


@of_users("fresh_share")
def fresh_share(log, user, k):
    dates = [log.published.get(item) for item in log.items(user, k)]
    return mean(NOW - date <= DAYS for date in dates if date is not None)


@of_users("re_recommended")
def re_recommended(log, user, k):
    return mean(item in log.had(user) for item in log.items(user, k))


@of_users("unseen_share")
def unseen_share(log, user, k):
    return 1 - re_recommended(log, user, k)


# Small ones


@of_users("list_length")
def list_length(log, user, k):
    return len(log.items(user, k))


@of_users("list_fill")
def list_fill(log, user, k):
    return float(len(log.items(user, k)) >= k)


@of_users("unrepeated")
def unrepeated(log, user, k):
    return len(set(log.items(user, k))) / len(log.items(user, k))
