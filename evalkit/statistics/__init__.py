"""Statistics: pure functions of exact sums and of paired values; no config, truth or report.

In: sums, counts and values of users.
Out: intervals, p-values, powers; exact sums that merge.
Open first: `means.py`; of exact sums `exact/_sums.py`.

- `distributions`, `studentised_range`: tails and quantiles, by hand because of start-up.
- `intervals`: confidence limits of means, shares, differences and relative differences.
- `skewness`: what it does to t, to limits and to p-values alike.
- `ratios`: ratios of sums over clusters, or with weights.
- `means`: those of a mean of users, from its exact sum.
- `paired`: t, non-inferiority, equivalence, effect size.
- `proportions`: two shares of the same users, where few of them differ.
- `corrections`: p-values of a family, adjusted.
- `tukey`: all pairs at once; letters for models that cannot be told apart.
- `power`: what a comparison of so many users can see.
- `bootstrap`, `permutation`: resampling in the pass over the users; states that merge.
- `tails`: p-values of draws, and of what lies beyond them.
- `search`: where a candidate loses and gains; `change`: why a mean moved between two runs.
- `friedman`: models over several data sets, by mean ranks.
- `selection`: the best of many trials, what it will be worth, who may leave a race.
- `agreement`: of judges, as functions of sums over units; `votes`: one rating of several.
- `preferences`: win rates and Bradley-Terry strengths, judges as clusters.
- `moments`, `independent`: means and ratios of units with covariates; two groups of them compared.
- `sample_ratio`, `spending`, `quantiles`: of experiments.
- `wilcoxon`: signed ranks, and counts of wins, ties and losses.

Importing any of these loads no numba; tests and intervals of plain sums load no numpy either.
"""
