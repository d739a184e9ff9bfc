"""Which of two was preferred: win rates and Bradley-Terry strengths, judges as clusters.

Axes: `first`, `second` are int64[n_rows], numbers of models; `outcomes` is float64[n_rows], 1 where
the first was preferred, 0 where the second was, 0.5 for a tie; `judges` is int64[n_rows].

Source:
    Bradley and Terry 1952, Rank Analysis of Incomplete Block Designs, Biometrika 39, 324-345;
    Hunter 2004, MM Algorithms for Generalized Bradley-Terry Models, Annals of Statistics 32,
    384-406 (when the maximum exists); Cameron, Gelbach and Miller 2008, Review of Economics and
    Statistics 90, 414-427, and Bell and McCaffrey 2002, Survey Methodology 28, 169-181 (the
    jackknife over clusters); Davidson 1970, On Extending the Bradley-Terry Model to Accommodate
    Ties, Journal of the American Statistical Association 65, 317-328.
"""

from dataclasses import dataclass

import numpy as np

from evalkit.kernels.arrays import Flags, Floats, Ints

MOST_STEPS = 200


@dataclass(frozen=True, slots=True)
class Rates:
    """Shares of comparisons won, ties as half.

    Args:
        values: float64[n_models], NaN for a model that nobody compared.
        covariance: float64[n_models, n_models], by leaving out one judge after the other; NaN
            below two judges, or where one judge alone compared a model.
    """

    values: Floats
    covariance: Floats


@dataclass(frozen=True, slots=True)
class Strengths:
    """Bradley-Terry strengths, logits centred at 0.

    Args:
        values: float64[n_models]; NaN where there is no maximum.
        covariance: float64[n_models, n_models], clustered by judge.
        model_covariance: float64[n_models, n_models], of the information matrix alone.
    """

    values: Floats
    covariance: Floats
    model_covariance: Floats


def jackknife_error(parts: Floats, wholes: Floats) -> tuple[float, float]:
    """A ratio of sums over clusters, and its error by leaving out one cluster after the other.

    Args:
        parts, wholes: float64[n_clusters]; a cluster without rows counts for nothing.
    Example:
        >>> value, error = jackknife_error(np.array([1.0, 2.0, 0.0]), np.array([2.0, 2.0, 2.0]))
        >>> value, round(error, 4)
        (0.5, 0.2887)
    """
    values, covariance = jackknife_ratios(parts[:, None], wholes[:, None])
    return float(values[0]), float(np.sqrt(covariance[0, 0]))


def jackknife_ratios(parts: Floats, wholes: Floats) -> tuple[Floats, Floats]:
    """Ratios of sums over clusters, float64[n], and their covariance, float64[n, n].

    Args:
        parts, wholes: float64[n_clusters, n].
    Example:
        >>> parts, wholes = np.array([[1.0], [2.0], [0.0]]), np.full((3, 1), 2.0)
        >>> values, covariance = jackknife_ratios(parts, wholes)
        >>> values.tolist(), covariance.round(4).tolist()
        ([0.5], [[0.0833]])
    """
    n = len(wholes)
    with np.errstate(divide="ignore", invalid="ignore"):
        values = parts.sum(axis=0) / wholes.sum(axis=0)
        without = (parts.sum(axis=0) - parts) / (wholes.sum(axis=0) - wholes)
    moved = without - values
    if n < 2:
        return values, np.full((values.size, values.size), np.nan)
    return values, (n - 1) / n * _products(moved)


def _products(moves: Floats) -> Floats:
    """Sums over clusters of the products of two columns, the same in any order of clusters."""
    ordered = moves[np.lexsort(moves.T)]
    return np.asarray(ordered.T @ ordered)


def effective_number(sizes: Ints) -> float:
    """Clusters of one size that would weigh as these do: the square of the sum by that of squares.

    Args:
        sizes: int64[n_clusters], rows of each.
    Example:
        >>> effective_number(np.array([30, 30, 30])), effective_number(np.array([300, 10, 10]))
        (3.0, 1.1352549889135255)
    """
    return float(sizes.sum()) ** 2 / max(1.0, float((sizes**2).sum()))


def win_rates(first: Ints, second: Ints, outcomes: Floats, judges: Ints, *, n_models: int) -> Rates:
    """The share of its comparisons that each model won.

    Example:
        >>> first, second = np.array([0, 0, 1]), np.array([1, 1, 0])
        >>> outcomes = np.array([1.0, 0.5, 1.0])
        >>> win_rates(first, second, outcomes, np.arange(3), n_models=2).values.tolist()
        [0.5, 0.5]
    """
    _, clusters = np.unique(judges, return_inverse=True)
    shape = (int(clusters.max()) + 1, n_models)
    wholes, parts = np.zeros(shape), np.zeros(shape)
    np.add.at(wholes, (clusters, first), 1.0)
    np.add.at(wholes, (clusters, second), 1.0)
    np.add.at(parts, (clusters, first), outcomes)
    np.add.at(parts, (clusters, second), 1 - outcomes)
    return Rates(*jackknife_ratios(parts, wholes))


def groups_that_met(first: Ints, second: Ints, *, n_models: int) -> list[list[int]]:
    """Models that are linked by comparisons, each list ascending.

    Example:
        >>> groups_that_met(np.array([0, 2]), np.array([1, 3]), n_models=4)
        [[0, 1], [2, 3]]
    """
    met = np.eye(n_models, dtype=np.bool_)
    met[first, second] = met[second, first] = True
    return _classes(_closure(met))


def ladders(first: Ints, second: Ints, outcomes: Floats, *, n_models: int) -> list[list[int]]:
    """Models that beat one another round about; strengths exist where this is one list.

    A model alone in its list, among those that met, has won or lost everything against the rest.
    Example:
        >>> ladders(np.array([0, 1]), np.array([1, 0]), np.array([1.0, 1.0]), n_models=2)
        [[0, 1]]
    """
    won = np.eye(n_models, dtype=np.bool_)
    won[first[outcomes > 0], second[outcomes > 0]] = True
    won[second[outcomes < 1], first[outcomes < 1]] = True
    reached = _closure(won)
    return _classes(reached & reached.T)


def is_one_way(first: Ints, second: Ints, outcomes: Floats, *, n_models: int) -> bool:
    """Whether wins alone could be had without end, so that Davidson's model has no maximum.

    It is so where models can be placed with a winner one or more above the loser, and tied ones no
    further apart: ever larger gaps, and ties that grow as likely, then explain all ever better.
    Example:
        >>> first, second = np.zeros(3, np.int64), np.ones(3, np.int64)
        >>> is_one_way(first, second, np.array([1.0, 1.0, 0.5]), n_models=2)
        True
    """
    least = np.full((n_models, n_models), -np.inf)  # of the row's place less the column's
    is_first, is_second = outcomes == 1.0, outcomes == 0.0
    is_tie = ~(is_first | is_second)
    least[first[is_tie], second[is_tie]] = least[second[is_tie], first[is_tie]] = -1.0
    least[first[is_first], second[is_first]] = 1.0
    least[second[is_second], first[is_second]] = 1.0
    np.fill_diagonal(least, 0.0)
    for through in range(n_models):
        least = np.maximum(least, least[:, through, None] + least[None, through, :])
    return not (np.diag(least) > 0.0).any()


def _closure(reached: Flags) -> Flags:
    for through in range(len(reached)):
        reached = reached | (reached[:, through, None] & reached[None, through, :])
    return reached


def _classes(same: Flags) -> list[list[int]]:
    lists = {tuple(np.flatnonzero(row).tolist()) for row in same}
    return sorted(list(models) for models in lists)


def bradley_terry(
    first: Ints,
    second: Ints,
    outcomes: Floats,
    judges: Ints,
    *,
    n_models: int,
    ties: str = "half",
) -> Strengths:
    """Strengths of largest likelihood by Newton's steps.

    All NaN where the models do not make one ladder; under Davidson's model, where all is tied or
    wins go one way.

    Args:
        ties: "half": half a win for each; "davidson": an outcome of its own, nu times as likely as
            the geometric mean of the two wins. Without a tie the two are the same.
    Example:
        >>> first, second = np.array([0, 0, 1]), np.array([1, 1, 0])
        >>> outcomes = np.array([1.0, 0.5, 1.0])
        >>> found = bradley_terry(first, second, outcomes, np.arange(3), n_models=2)
        >>> found.values.round(6).tolist()
        [0.0, 0.0]
    """
    nothing = np.full((n_models, n_models), np.nan)
    codes, clusters = np.unique(judges, return_inverse=True)
    is_tie = outcomes == 0.5
    own = int(ties == "davidson" and is_tie.any())
    is_endless = own and is_one_way(first, second, outcomes, n_models=n_models)
    if is_endless or len(ladders(first, second, outcomes, n_models=n_models)) != 1:
        return Strengths(nothing[0], nothing, nothing)
    n, size = len(codes), n_models + own  # the last one is log nu
    values, average = np.zeros(size), np.zeros((size, size))
    average[:n_models, :n_models] = 1 / n_models

    def scores(rows: Ints, n_rows: int) -> Floats:
        """The likelihood's slopes, float64[n_rows, size], of sets of comparisons."""
        found = np.zeros((n_rows, size))
        np.add.at(found, (rows, first), outcomes - chances)
        np.add.at(found, (rows, second), chances - outcomes)
        if own:
            found[:, -1] = np.bincount(rows, is_tie - tying, n_rows)
        return found

    for _ in range(MOST_STEPS):
        apart = values[first] - values[second]
        weight = np.exp(values[-1]) if own else 0.0
        whole = np.exp(apart / 2) + np.exp(-apart / 2) + weight
        tying = weight / whole
        chances = np.exp(apart / 2) / whole + tying / 2  # a tie is half a win in what is expected
        spread = chances * (1 - chances) - tying / 4
        information = np.zeros((size, size))
        np.add.at(information, (first, first), spread)
        np.add.at(information, (second, second), spread)
        np.add.at(information, (first, second), -spread)
        np.add.at(information, (second, first), -spread)
        if own:
            lean = tying * (0.5 - chances)
            beside = np.bincount(first, lean, n_models) - np.bincount(second, lean, n_models)
            information[-1, :-1] = information[:-1, -1] = beside
            information[-1, -1] = (tying * (1 - tying)).sum()
        # rows add up to 0: the average makes it regular without moving what is centred
        step = np.linalg.solve(information + average, scores(np.zeros_like(first), 1)[0])
        step *= min(1.0, 2.0 / max(float(np.abs(step).max()), 1e-300))
        values = values + step
        values[:n_models] -= values[:n_models].mean()
        if np.abs(step).max() < 1e-12:
            break
    inverse = np.linalg.inv(information + average) - average
    meat = _products(scores(clusters, n)) * (n / (n - 1) if n > 1 else np.nan)
    kept = slice(n_models)
    covariance = (inverse @ meat @ inverse)[kept, kept]
    return Strengths(values[kept], covariance, inverse[kept, kept])
