"""`evalkit evaluate`: a run without a config."""

from typing import Annotated

from typer import Argument, Option

from evalkit.cli import result
from evalkit.cli.guess import name_rankings, unnamed_models
from evalkit.cli.options import (
    RunOptions,
    RunsWritten,
    Truth,
    UserColumns,
    check_columns,
    set_threads,
    takes,
)


@takes(
    "train items users reference primary combined metric_file profile overrides variables out "
    "format json full per_user sample again threads memory_limit quiet isolated log_format"
)
def evaluate(
    rankings: Annotated[
        list[str], Option("--rankings", metavar="[NAME=]PATH", help="Rankings of one model.")
    ],
    metric: Annotated[
        list[str], Option("--metric", "-m", metavar="METRIC", help="As nDCG@10 or recall@{5,20}.")
    ],
    options: RunOptions,
    truth: Truth = None,
    more_rankings: Annotated[
        list[str] | None, Argument(metavar="[[NAME=]PATH]...", help="More models.")
    ] = None,
    user: UserColumns = None,
    item: Annotated[str | None, Option("--item", metavar="COLUMN", help="Item column.")] = None,
    rank: Annotated[str | None, Option("--rank", metavar="COLUMN", help="Rank column.")] = None,
    score: Annotated[str | None, Option("--score", metavar="COLUMN", help="Score column.")] = None,
    relevance: Annotated[
        str | None, Option("--relevance", metavar="COLUMN", help="Relevance column of the truth.")
    ] = None,
    out: RunsWritten = None,
) -> None:
    """Evaluate rankings without a config.

    Columns that are not named are guessed and told. Nothing is written without --out.
    Every key of a config can be set: --set truth.threshold=4.
    """
    from evalkit.config import evaluate_config

    options.check()
    check_columns(user=user, item=item, rank=rank, score=score, relevance=relevance)
    texts = [*rankings, *(more_rankings or ())]
    models = name_rankings(texts)
    ids: dict[str, str | list[str]] = {}
    if user:
        ids["user"] = user
    if item:
        ids["item"] = item
    order = {name: column for name, column in (("rank", rank), ("score", score)) if column}
    of_rankings = {**ids, **order}
    tables = options.settings()
    for section, column in (("items", item), ("users", user), ("train", item), ("train", user)):
        if column and any(each.startswith(f"--{section}=") for each in tables):
            name = "item" if column is item else "user"
            tables.insert(0, f"{section}.columns.{name}={column}")
    request = evaluate_config(
        truth=truth or (),
        rankings=models,
        metrics=metric,
        truth_columns={**ids, "relevance": relevance} if relevance else ids,
        rankings_columns={model: of_rankings for model, _ in models},
        overrides=tables,
        variables=options.filled,
        unnamed=unnamed_models(texts),
    )
    set_threads(options.threads)
    from evalkit.planning.tables import Given

    result.run_and_show(
        request,
        options,
        folder=out,
        memory_limit=options.limit,
        given=Given(unnamed=unnamed_models(texts)),
    )
