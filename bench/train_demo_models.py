"""The demo's data, made again: splits the ratings in time, trains four models, ranks every user.

    python bench/train_demo_models.py                  # from the ratings in evalkit/demo
    python bench/train_demo_models.py --ratings DIR    # from GroupLens' ratings.csv, movies.csv
    python bench/train_demo_models.py --check          # writes nothing; exit 1 if a table differs

The files come out byte-equal wherever the versions of Polars and NumPy are the same: sums are
double precision, scores are rounded far above its error, and equal scores fall to the smaller id.
"""

import argparse
import sys
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

DEMO = Path(__file__).parent.parent / "evalkit" / "demo"
DEPTH = 50
TEST_SHARE = 5  # one rating in five, the last of each user
LEAST_RATINGS = 5  # what rarer movies are liked by cannot be learnt; nobody is shown them

Matrix: TypeAlias = npt.NDArray[np.float64]
Integers: TypeAlias = npt.NDArray[np.int64]


def read_official(folder: Path) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Ratings and items from ratings.csv and movies.csv of ml-latest-small (October 2016)."""
    ratings = pl.read_csv(folder / "ratings.csv").select(
        pl.col("userId").cast(pl.Int32).alias("user"),
        pl.col("movieId").cast(pl.Int32).alias("item"),
        pl.col("rating").cast(pl.Float32),
        pl.from_epoch("timestamp", time_unit="s").cast(pl.Datetime("ms")),
    )
    items = pl.read_csv(folder / "movies.csv").select(
        pl.col("movieId").cast(pl.Int32).alias("item"),
        "title",
        pl.col("genres").replace("(no genres listed)", "").str.split("|"),
    )
    kept = pl.col("genres").list.eval(pl.element().filter(pl.element() != ""))
    return ratings, items.with_columns(kept).sort("item")


def read_demo() -> tuple[pl.DataFrame, pl.DataFrame]:
    """Ratings and items that the package itself carries."""
    return pl.concat([read_table("train"), read_table("test")]), read_table("items")


def split_in_time(ratings: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Train and test: the last fifth of every user's ratings, at least one, is test."""
    ordered = ratings.sort("user", "timestamp", "item")
    n_ratings = pl.len().over("user")
    place = pl.int_range(pl.len()).over("user")
    n_test = pl.max_horizontal(n_ratings // TEST_SHARE, pl.lit(1))
    is_test = ordered.select(place >= n_ratings - n_test).to_series()
    return ordered.filter(~is_test), ordered.filter(is_test)


def rank_by_popularity(seen: Matrix) -> Matrix:
    """How many users rated each item, the same for everybody."""
    return np.tile(seen.sum(axis=0), (seen.shape[0], 1))


def rank_by_item_knn(seen: Matrix, *, n_neighbours: int = 20) -> Matrix:
    """Summed cosine with the user's items, each item counting among its nearest 20 only.

    Source:
        Deshpande and Karypis 2004, Item-based top-N recommendation algorithms, ACM TOIS 22.
    """
    together = seen.T @ seen
    norms = np.sqrt(np.diag(together))
    cosine: Matrix = together / np.outer(norms, norms)
    np.fill_diagonal(cosine, 0.0)
    nearest = np.argsort(-cosine, axis=0, kind="stable")[:n_neighbours]
    kept: Matrix = np.zeros_like(cosine)
    np.put_along_axis(kept, nearest, np.take_along_axis(cosine, nearest, axis=0), axis=0)
    return seen @ kept


def rank_by_ease(seen: Matrix, *, l2: float = 300.0) -> Matrix:
    """The closed-form linear autoencoder without self-similarity.

    Source:
        Steck 2019, Embarrassingly shallow autoencoders for sparse data, WWW.
    """
    inverse = np.linalg.inv(seen.T @ seen + l2 * np.eye(seen.shape[1]))
    weights: Matrix = -inverse / np.diag(inverse)
    np.fill_diagonal(weights, 0.0)
    return seen @ weights


def rank_by_als(
    seen: Matrix, *, n_factors: int = 24, confidence: float = 4.0, l2: float = 30.0, rounds: int = 8
) -> Matrix:
    """Inner products of factors found by alternating least squares for implicit feedback.

    Source:
        Hu, Koren and Volinsky 2008, Collaborative filtering for implicit feedback datasets, ICDM.
    """
    random = np.random.default_rng(1)
    items = 0.1 * (random.random((seen.shape[1], n_factors)) - 0.5)
    users = np.zeros((seen.shape[0], n_factors))
    for _ in range(rounds):
        users = solve_factors(seen, items, confidence, l2)
        items = solve_factors(seen.T, users, confidence, l2)
    return users @ items.T


def solve_factors(seen: Matrix, fixed: Matrix, confidence: float, l2: float) -> Matrix:
    """The factors of every row of `seen` that fit best, those of the columns being `fixed`."""
    shared = fixed.T @ fixed + l2 * np.eye(fixed.shape[1])
    found = np.zeros((seen.shape[0], fixed.shape[1]))
    for row in range(seen.shape[0]):
        mine = fixed[seen[row] > 0]
        found[row] = np.linalg.solve(
            shared + confidence * mine.T @ mine, (1.0 + confidence) * mine.sum(axis=0)
        )
    return found


MODELS = {
    "popularity": rank_by_popularity,
    "item-knn": rank_by_item_knn,
    "als": rank_by_als,
    "ease": rank_by_ease,
}


def top(scores: Matrix, seen: Matrix, users: Integers, items: Integers) -> pl.DataFrame:
    """Every user's best 50 unseen items; scores fall strictly from each rank to the next."""
    rounded = np.where(seen > 0, -np.inf, np.round(scores / np.abs(scores).max(), 5))
    order = np.argsort(-rounded, axis=1, kind="stable")[:, :DEPTH]
    best = np.take_along_axis(rounded, order, axis=1).astype(np.float32)
    for position in range(1, DEPTH):
        below = np.nextafter(best[:, position - 1], np.float32(-np.inf))
        best[:, position] = np.minimum(best[:, position], below)
    return pl.DataFrame(
        {
            "user": np.repeat(users, DEPTH).astype(np.int32),
            "item": items[order.reshape(-1)].astype(np.int32),
            "rank": np.tile(np.arange(1, DEPTH + 1, dtype=np.int32), users.size),
            "score": best.reshape(-1),
        }
    )


def make(ratings: pl.DataFrame, items: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """Every file of the demo by its name."""
    train, test = split_in_time(ratings)
    known = train.group_by("item").len().filter(pl.col("len") >= LEAST_RATINGS)["item"].sort()
    users = train["user"].unique().sort().to_numpy().astype(np.int64)
    catalogue = known.to_numpy().astype(np.int64)
    rated = train.filter(pl.col("item").is_in(known.implode()))
    seen = np.zeros((users.size, catalogue.size))
    rows = np.searchsorted(users, rated["user"].to_numpy())
    seen[rows, np.searchsorted(catalogue, rated["item"].to_numpy())] = 1.0
    made = {"train": train, "test": test, "items": items}
    made["users"] = (
        train.group_by("user")
        .agg(pl.len().cast(pl.Int32).alias("n_train"), pl.col("timestamp").min().alias("joined"))
        .sort("user")
    )
    for name, rank in MODELS.items():
        made[f"rankings/{name}"] = top(rank(seen), seen, users, catalogue)
    return made


def write(made: dict[str, pl.DataFrame], folder: Path) -> list[Path]:
    """One Parquet file each."""
    paths = [folder / f"{name}.parquet" for name in made]
    for path, frame in zip(paths, made.values(), strict=True):
        path.parent.mkdir(parents=True, exist_ok=True)
        frame.write_parquet(path, compression="zstd", compression_level=19)
    return paths


def main() -> int:
    """Exit status: 0, or 1 when --check finds a difference."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ratings", type=Path, help="Folder with ratings.csv and movies.csv.")
    parser.add_argument("--check", action="store_true", help="Compare, write nothing.")
    given = parser.parse_args()
    made = make(*(read_official(given.ratings) if given.ratings else read_demo()))
    if not given.check:
        for path in write(made, DEMO):
            print(f"{path.relative_to(DEMO)}  {path.stat().st_size:,} bytes")
        return 0
    changed = [name for name in made if not made[name].equals(read_table(name))]
    for name in changed:
        print(f"{name} differs")
    return 1 if changed else 0


def read_table(name: str) -> pl.DataFrame:
    """What the package carries under this name; nothing when there is no such file."""
    path = DEMO / f"{name}.parquet"
    return pl.read_parquet(path) if path.is_file() else pl.DataFrame()


if __name__ == "__main__":
    sys.exit(main())
