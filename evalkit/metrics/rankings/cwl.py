# mypy: disable-error-code="no-untyped-def"
"""Measures of users who go on to the next rank by what they have met: one sum, many users.

A rank weighs what the chance of looking at it is, over the sum of these chances; the value is the
mean gain of a rank that is looked at.
"""

import math

from evalkit.metrics import choice, kernel, metric, number, of_kernels
from evalkit.metrics.rankings._gain import MAX_RELEVANCE

INSQ, INST, BPM, SDCG, NEARLY_INVERSE, NEARLY_PLAIN, NEARLY_RBP, NEARLY_INSQ = range(8)
GOAL = number(
    "T", 1.0, above=0.0, tried=2.0, doc="The gain that a user is after, in items of the top grade."
)
HORIZON = number(
    "horizon",
    1000.0,
    above=0.0,
    is_whole=True,
    tried=7.0,
    doc="Ranks that anybody looks at; lists are taken for as long, without gain past their end.",
)
FORMULA = "sum over ranks of W(i) * relevance / max_relevance, W(i) the share of looks at rank i; "
GOES_ON = "the chance to go on from rank i is "
LATEX = r"\sum_i W_i \, g_i, \quad W_i = \frac{\prod_{j < i} C_j}{\sum_m \prod_{j < m} C_j}, \quad "
rate_metric = of_kernels(
    metric, bounds=(0.0, 1.0), undefined="never; 0 for a user without relevant items", view="graded"
)


@kernel(allocates=False)
def chance_to_go_on(user_model, rank, cutoff, gain, gained, goal):
    """The chance to look at the next rank, after an item's gain; `gained` is that of all so far."""
    if user_model in (BPM, SDCG, NEARLY_INVERSE, NEARLY_PLAIN) and rank >= cutoff:
        return 0.0
    if user_model == BPM:
        return 1.0 if gained < goal else 0.0
    if user_model == SDCG:
        return math.log2(rank + 1.0) / math.log2(rank + 2.0)
    if user_model == NEARLY_INVERSE:
        return 1.0 - gain
    if user_model == NEARLY_PLAIN:
        return rank / (rank + 1.0) * (1.0 - gain)
    if user_model == NEARLY_RBP:
        return goal * (1.0 - gain)
    aim = goal + (goal - gained if user_model == INST else goal)
    share = (rank + aim - 1.0) / (rank + aim)
    return share * share * (1.0 - gain if user_model == NEARLY_INSQ else 1.0)


@kernel(allocates=False)
def fill_rates(hits, cutoffs, user_model, goal, most, horizon, out):
    """The rate of gain of each user: gains by the chance to be looked at, over these chances."""
    for user in range(out.shape[0]):
        for column in range(cutoffs.size):
            hit, end = hits.starts[user], hits.starts[user + 1]
            looks, chances, rate, gained = 1.0, 0.0, 0.0, 0.0
            for rank in range(1, int(horizon) + 1):
                gain = 0.0
                if rank <= cutoffs[column]:
                    while hit < end and hits.ranks[hit] <= rank:  # copies may share a rank
                        gain += min(max(hits.gains[hit], 0.0), most) / most
                        hit += 1
                gain = min(gain, 1.0)
                gained += gain
                chances += looks
                rate += looks * gain
                looks *= chance_to_go_on(user_model, rank, cutoffs[column], gain, gained, goal)
                if looks <= 0.0:
                    break
            out[user, column] = rate / chances


@rate_metric(
    name="INST",
    summary="Rate of gain of a user who goes on as long as what was sought is not found.",
    formula=FORMULA + GOES_ON + "((i + T + t - 1) / (i + T + t))^2, t = T less what was gained",
    latex=LATEX + r"C_i = \left(\frac{i + T + t_i - 1}{i + T + t_i}\right)^2",
    source="Moffat, Bailey, Scholer and Thomas 2015, INST: an adaptive metric for information "
    "retrieval evaluation, Proceedings of ADCS, article 5, pp. 5:1-5:4",
    parameters=(GOAL, MAX_RELEVANCE, HORIZON),
    monotone=False,
)
def inst(hits, relevant, lengths, cutoffs, goal, most, horizon, out):
    """Rates of gain that adapt to what was gained."""
    fill_rates(hits, cutoffs, INST, goal, most, horizon, out)


@rate_metric(
    name="INSQ",
    summary="Rate of gain of a user who grows more patient from rank to rank.",
    formula=FORMULA + GOES_ON + "((i + 2T - 1) / (i + 2T))^2",
    latex=LATEX + r"C_i = \left(\frac{i + 2T - 1}{i + 2T}\right)^2",
    source="Moffat, Scholer and Thomas 2012, Models and metrics: IR evaluation as a user process, "
    "Proceedings of ADCS, pp. 47-54",
    parameters=(GOAL, MAX_RELEVANCE, HORIZON),
)
def insq(hits, relevant, lengths, cutoffs, goal, most, horizon, out):
    """Rates of gain with weights that fall by the square."""
    fill_rates(hits, cutoffs, INSQ, goal, most, horizon, out)


@rate_metric(
    name="BPM",
    aliases=("bejeweled_player_model",),
    summary="Mean gain down to the rank where a user has gained enough, at most k ranks.",
    formula="mean of relevance / max_relevance at ranks 1 to min(k, first rank with a gain of T)",
    latex=LATEX + r"C_i = [i < k] \, [\sum_{j \le i} g_j < T]",
    source="Zhang et al. 2017, Evaluating web search with a bejeweled player model, "
    "Proceedings of SIGIR, pp. 425-434",
    parameters=(GOAL, MAX_RELEVANCE, HORIZON),
    monotone=False,
)
def bpm(hits, relevant, lengths, cutoffs, goal, most, horizon, out):
    """Mean gains down to the goal, or to the cutoff."""
    fill_rates(hits, cutoffs, BPM, goal, most, horizon, out)


@rate_metric(
    name="SDCG",
    aliases=("scaled_discounted_cumulative_gain",),
    summary="Discounted gain as a share of that of k items of the top grade.",
    formula="sum over ranks 1 to k of relevance / max_relevance / log2(1 + rank), over that of 1s",
    latex=r"\frac{\sum_{i=1}^{k} g_i / \log_2(1 + i)}{\sum_{i=1}^{k} 1 / \log_2(1 + i)}",
    source="Järvelin and Kekäläinen 2002, Cumulated Gain-Based Evaluation of IR Techniques, "
    "ACM Transactions on Information Systems 20(4), pp. 425-428",
    parameters=(MAX_RELEVANCE, HORIZON),
)
def sdcg(hits, relevant, lengths, cutoffs, most, horizon, out):
    """Discounted gains over those of a list of the top grade."""
    fill_rates(hits, cutoffs, SDCG, 1.0, most, horizon, out)


@rate_metric(
    name="nearly_ERR",
    aliases=(
        "NERR8(users='inverse')",
        "NERR9(users='plain')",
        "NERR10(users='rbp')",
        "NERR11(users='insq')",
    ),
    summary="Rate of gain of a user who stops at what satisfies: near ERR, and no ERR divided by "
    "an ideal, which is nERR.",
    formula=FORMULA + GOES_ON + "1 - relevance / max_relevance, times a share",
    latex=LATEX + r"C_i = (1 - g_i) \, s_i",
    source="Azzopardi, Mackenzie and Moffat 2021, ERR is not C/W/L: exploring the relationship "
    "between expected reciprocal rank and other metrics, Proceedings of ICTIR, pp. 231-237",
    parameters=(
        choice(
            "users",
            {
                "inverse": "1, and 0 from k on: NERR8",
                "plain": "i / (i + 1), and 0 from k on: NERR9",
                "rbp": "the patience, whatever k: NERR10",
                "insq": "that of INSQ, whatever k: NERR11",
            },
            doc="The share.",
        ),
        GOAL,
        number("patience", 0.9, above=0.0, below=1.0, tried=0.5, doc="Of the share 'rbp'."),
        MAX_RELEVANCE,
        HORIZON,
    ),
    monotone=False,
)
def nearly_err(hits, relevant, lengths, cutoffs, users, goal, patience, most, horizon, out):
    """Rates of gain of users whom gain stops."""
    model = NEARLY_INVERSE + users
    aim = patience if model == NEARLY_RBP else goal
    fill_rates(hits, cutoffs, model, aim, most, horizon, out)
