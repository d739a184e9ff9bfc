"""Choices at edges: what is done with ties, copies, users without lists, and so on."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field
from pydantic_core import core_schema

from evalkit.config._tables import Record, key, of_experiments
from evalkit.metrics import EXACT, POLICIES


@dataclass(frozen=True, slots=True)
class OneOf:
    """A policy that single metrics may have too: its values and meanings stand there."""

    name: str

    @property
    def annotation(self) -> object:
        return Literal[POLICIES[self.name].choices]

    def __get_pydantic_core_schema__(self, source: object, handler: object) -> Any:
        return core_schema.literal_schema(list(POLICIES[self.name].choices))

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> dict[str, object]:
        return {**handler(schema), "description": POLICIES[self.name].doc}


def default_of(name: str) -> str:
    """The value that a policy has where nobody says."""
    return str(POLICIES[name].default)


def _of_some(name: str) -> Any:
    """The same of a policy of single metrics."""
    return Field(exclude_if=lambda value: value == default_of(name))


class Policies(Record):
    """What to do at each edge of the data."""

    missing_ranking: Annotated[str, OneOf("missing_ranking")] = default_of("missing_ranking")
    empty_ranking: Annotated[str, OneOf("empty_ranking")] = default_of("empty_ranking")
    no_relevant: Annotated[str, OneOf("no_relevant")] = default_of("no_relevant")
    zeros: Annotated[str, OneOf("zeros")] = default_of("zeros")
    list_users: Annotated[str, OneOf("list_users"), _of_some("list_users")] = default_of(
        "list_users"
    )
    propensity: Annotated[str, OneOf("propensity"), _of_some("propensity")] = default_of(
        "propensity"
    )
    unknown_users: Literal["skip", "count", "error"] = key(
        "skip",
        "A ranked user that the truth lacks; always counted in the report. count: as "
        "a user without relevant items.",
    )
    unjudged: Annotated[str, OneOf("unjudged"), _of_some("unjudged")] = default_of("unjudged")
    pooled: Annotated[str, OneOf("pooled"), _of_some("pooled")] = default_of("pooled")
    seen: Annotated[str, OneOf("seen")] = default_of("seen")
    duplicates: Annotated[str, OneOf("duplicates")] = default_of("duplicates")
    rel_size: Annotated[str, OneOf("rel_size")] = default_of("rel_size")
    truth_duplicates: Literal["max", "error", "sum", "last"] = key(
        "max", "An item twice in a user's truth."
    )
    train_rows: Literal["pairs", "rows"] = key(
        "pairs",
        "An item twice in a user's train counts once in its popularity; rows: each time.",
        exclude_if=lambda value: value == "pairs",
    )
    ties: Annotated[str, OneOf("ties")] = default_of("ties")
    tie_share: Annotated[float, Field(ge=0, allow_inf_nan=False)] = key(
        0.01,
        "Ties that can move a number by more than this share of it are warned of, "
        "where ties is expected, best or worst.",
    )
    score_type: Annotated[str, OneOf("score_type")] = default_of("score_type")
    nonpositive_scores: Annotated[str, OneOf("nonpositive_scores")] = default_of(
        "nonpositive_scores"
    )
    bad_scores: Literal["error", "last", "drop"] = key(
        "error", "NaN or null scores; infinities order as numbers."
    )
    unpredicted: Literal["skip", "error"] = key(
        "skip", "A true rating without a prediction; always counted."
    )
    unrated: Literal["skip", "error"] = key(
        "skip", "A prediction without a true rating; always counted."
    )
    bad_labels: Literal["error", "drop"] = key("error", "Labels other than 0 and 1, and nulls.")
    crossed_units: Literal["drop", "first", "error"] = of_experiments(
        "drop", "Units in two variants; first: the variant of the first exposure counts."
    )
    unknown_variants: Literal["error", "drop"] = of_experiments(
        "error", "Exposures to a variant that is not declared, or to none."
    )
    bad_values: Literal["error", "drop"] = of_experiments(
        "error", "Values of events, or of ready-made rows, that are null, NaN or infinite."
    )
    open_windows: Literal["skip", "keep"] = of_experiments(
        "skip", "Units whose window is not over."
    )
    unexposed_events: Literal["drop", "error"] = of_experiments(
        "drop", "Events of units that were never exposed; always counted."
    )
    equal_events: Literal["count", "once"] = of_experiments(
        "count", "Rows of events that equal another one; once needs columns.event."
    )
    units: Literal["users", "rounds"] = of_experiments(
        "users", "What varies by itself in logged feedback; rounds: as if no user had two."
    )
    ratio_errors: Literal["delta", "fixed", "normal"] = of_experiments(
        "delta",
        "Of logged feedback; fixed: the sum of weights is held fixed; normal: limits by the normal "
        "law, both as libraries have them.",
    )
    null_ids: Literal["error", "drop"] = key("error", "Null users or items.")
    bad_ranks: Literal["error", "keep", "compress"] = key(
        "error", "Ranks below first_rank, gaps and repeats."
    )
    first_rank: int = key(
        1, "The number that the best rank has in the logs.", ge=-(2**31), le=2**31 - 1
    )
    negative_relevance: Literal["ignore", "error", "subtract"] = key(
        "ignore", "Relevance below 0; ignore: not relevant, no gain."
    )
    fractional_relevance: Literal["keep", "binary"] = key(
        "keep",
        "Relevance that is no whole number; binary: all of the truth is 1 from the "
        "threshold on, else 0.",
    )
    threshold_rule: Literal["as-given", "floor"] = key(
        "as-given", "The threshold; floor: rounded down to a whole number."
    )
    round_users: int = key(EXACT, POLICIES["round_users"].doc, ge=0, le=EXACT)
    round_mean: int = key(EXACT, POLICIES["round_mean"].doc, ge=0, le=EXACT)
    beyond_depth: Literal["warn", "error"] = key("warn", "A cutoff deeper than any ranking.")
    no_common_user: Literal["error", "warn"] = key("error", "Truth and rankings share no user.")
    no_common_item: Literal["error", "warn"] = key(
        "error",
        "No ranked item is in the truth, train or [items], where that can be no chance.",
        exclude_if=lambda value: value == "error",
    )
    no_judged: Literal["error", "warn"] = key(
        "error",
        "No item of the truth is judged and not relevant, where metrics look at such items.",
        exclude_if=lambda value: value == "error",
    )
    empty_input: Literal["error", "warn"] = key("error", "A table without rows.")
    truth_in_train: Literal["warn", "error", "count"] = key(
        "warn",
        "Pairs of the truth that stand in train; warn: told from 1 %, refused from "
        "95 %, error: refused from 1 %, count: only counted.",
    )
    mixed_splits: Literal["error", "keep"] = key(
        "error", "A table with rows of train, valid and test, told by a column such as split."
    )
