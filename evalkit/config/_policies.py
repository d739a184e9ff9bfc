"""Choices at edges: what is done with ties, copies, users without lists, and so on."""

from typing import Annotated, Literal

from pydantic import Field

from evalkit.config._tables import Record


class Policies(Record):
    """What to do at each edge of the data."""

    missing_ranking: Literal["zero", "skip", "nan"] = Field(
        default="zero", description="A truth user without a ranking; nan: the mean is undefined."
    )
    empty_ranking: Literal["zero", "skip", "nan"] = Field(
        default="zero", description="A truth user whose ranking has no row."
    )
    no_relevant: Literal["skip", "zero", "one", "nan"] = Field(
        default="skip", description="A truth user without relevant items."
    )
    zeros: Literal["count", "skip", "survivors", "nan"] = Field(
        default="count", description="A user whose value is 0."
    )
    unknown_users: Literal["skip", "count", "error"] = Field(
        default="skip",
        description="A ranked user that the truth lacks; always counted in the report. count: as "
        "a user without relevant items.",
    )
    seen: Literal["all", "shown"] = Field(
        default="all",
        description="Relevant items that the whole list lacks; all: missed, shown: not there.",
    )
    duplicates: Literal["error", "best", "first", "last", "once", "count", "multiply"] = Field(
        default="error", description="An item twice in a ranking."
    )
    rel_size: Literal["items", "rows"] = Field(
        default="items",
        description="How often a relevant item counts among the relevant ones; rows: as often as "
        "the list shows it.",
    )
    truth_duplicates: Literal["max", "error", "sum", "last"] = Field(
        default="max", description="An item twice in a user's truth."
    )
    ties: Literal[
        "item",
        "item-desc",
        "item-text",
        "item-text-desc",
        "input",
        "numba",
        "numba-reversed",
        "expected",
        "mean-rank",
        "last-rank",
        "best",
        "worst",
    ] = Field(
        default="item",
        description="Order of equal scores; item: smaller item id first, expected: the mean over "
        "all orders.",
    )
    tie_share: Annotated[float, Field(ge=0, allow_inf_nan=False)] = Field(
        default=0.01,
        description="Ties that can move a number by more than this share of it are warned of, "
        "where ties is expected, best or worst.",
    )
    score_type: Literal["float64", "float32"] = Field(
        default="float64", description="The type in which scores are compared."
    )
    nonpositive_scores: Literal["hit", "miss"] = Field(
        default="hit", description="A relevant item whose score is 0 or below."
    )
    bad_scores: Literal["error", "last", "drop"] = Field(
        default="error", description="NaN or null scores; infinities order as numbers."
    )
    unpredicted: Literal["skip", "error"] = Field(
        default="skip", description="A true rating without a prediction; always counted."
    )
    unrated: Literal["skip", "error"] = Field(
        default="skip", description="A prediction without a true rating; always counted."
    )
    bad_labels: Literal["error", "drop"] = Field(
        default="error", description="Labels other than 0 and 1, and nulls."
    )
    null_ids: Literal["error", "drop"] = Field(default="error", description="Null users or items.")
    bad_ranks: Literal["error", "keep", "compress"] = Field(
        default="error", description="Ranks below first_rank, gaps and repeats."
    )
    first_rank: int = Field(
        default=1,
        ge=-(2**31),
        le=2**31 - 1,
        description="The number that the best rank has in the logs.",
    )
    negative_relevance: Literal["ignore", "error", "subtract"] = Field(
        default="ignore", description="Relevance below 0; ignore: not relevant, no gain."
    )
    fractional_relevance: Literal["keep", "binary"] = Field(
        default="keep",
        description="Relevance that is no whole number; binary: all of the truth is 1 from the "
        "threshold on, else 0.",
    )
    threshold_rule: Literal["as-given", "floor"] = Field(
        default="as-given", description="The threshold; floor: rounded down to a whole number."
    )
    round_users: int = Field(
        default=17, ge=0, le=17, description="Decimals of a user's value; 17 rounds nothing."
    )
    round_mean: int = Field(
        default=17, ge=0, le=17, description="Decimals of a mean; 17 rounds nothing."
    )
    beyond_depth: Literal["warn", "error"] = Field(
        default="warn", description="A cutoff deeper than any ranking."
    )
    no_common_user: Literal["error", "warn"] = Field(
        default="error", description="Truth and rankings share no user."
    )
    empty_input: Literal["error", "warn"] = Field(
        default="error", description="A table without rows."
    )
    truth_in_train: Literal["warn", "error", "count"] = Field(
        default="warn",
        description="Pairs of the truth that stand in train; warn: told from 1 %, refused from "
        "95 %, error: refused from 1 %, count: only counted.",
    )
    mixed_splits: Literal["error", "keep"] = Field(
        default="error",
        description="A table with rows of train, valid and test, told by a column such as split.",
    )
