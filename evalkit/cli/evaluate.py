"""`evalkit evaluate`: a run without a config."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from evalkit.cli import result
from evalkit.cli.guess import name_rankings, unnamed_models
from evalkit.cli.isolation import Isolated
from evalkit.cli.options import (
    Again,
    Combined,
    Format,
    Full,
    Items,
    Json,
    LogFormat,
    MemoryLimit,
    Overrides,
    PerUserPath,
    Primary,
    Profile,
    Quiet,
    Reference,
    Sample,
    Threads,
    Train,
    Users,
    Variables,
    check_sample,
    choose_format,
    memory_limit_of,
    set_threads,
    with_profile,
    with_tables,
)


def evaluate(
    rankings: Annotated[
        list[str], Option("--rankings", metavar="[NAME=]PATH", help="Rankings of one model.")
    ],
    metric: Annotated[
        list[str], Option("--metric", "-m", metavar="METRIC", help="As nDCG@10 or recall@{5,20}.")
    ],
    truth: Annotated[
        list[str] | None, Option("--truth", metavar="PATH", help="Held-out interactions.")
    ] = None,
    more_rankings: Annotated[
        list[str] | None, Argument(metavar="[[NAME=]PATH]...", help="More models.")
    ] = None,
    user: Annotated[
        list[str] | None, Option("--user", metavar="COLUMN", help="Repeat for several together.")
    ] = None,
    item: Annotated[str | None, Option("--item", metavar="COLUMN", help="Item column.")] = None,
    rank: Annotated[str | None, Option("--rank", metavar="COLUMN", help="Rank column.")] = None,
    score: Annotated[str | None, Option("--score", metavar="COLUMN", help="Score column.")] = None,
    relevance: Annotated[
        str | None, Option("--relevance", metavar="COLUMN", help="Relevance column of the truth.")
    ] = None,
    train: Train = None,
    items: Items = None,
    users: Users = None,
    reference: Reference = None,
    primary: Primary = None,
    combined: Combined = None,
    profile: Profile = None,
    overrides: Overrides = None,
    variables: Variables = None,
    out: Annotated[
        Path | None, Option("--out", "-o", metavar="DIR", help="Folder of runs to write to.")
    ] = None,
    format: Format = None,
    json: Json = False,
    full: Full = False,
    per_user: PerUserPath = None,
    sample: Sample = None,
    again: Again = False,
    threads: Threads = None,
    memory_limit: MemoryLimit = None,
    quiet: Quiet = False,
    isolated: Isolated = False,
    log_format: LogFormat = "text",
) -> None:
    """Evaluate rankings without a config.

    Columns that are not named are guessed and told. Nothing is written without --out.
    Every key of a config can be set: --set truth.threshold=4.
    """
    from evalkit.config import evaluate_config, parse_variables

    shown = choose_format(format, json, "screen", full=full)
    limit = memory_limit_of(memory_limit)
    share = check_sample(sample)
    result.check_file_option(per_user, "--per-user")
    texts = [*rankings, *(more_rankings or ())]
    models = name_rankings(texts)
    ids: dict[str, str | list[str]] = {}
    if user:
        ids["user"] = user
    if item:
        ids["item"] = item
    order = {name: column for name, column in (("rank", rank), ("score", score)) if column}
    of_rankings = {**ids, **order}
    said = with_profile(overrides, profile, primary, combined)
    tables = with_tables(said, train=train, items=items, users=users, reference=reference)
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
        variables=parse_variables(variables or ()),
        unnamed=unnamed_models(texts),
    )
    set_threads(threads)
    from evalkit.planning.tables import Given

    result.run_and_show(
        request,
        folder=out,
        format=shown,
        per_user=per_user,
        sample=share,
        again=again,
        threads=threads,
        memory_limit=limit,
        given=Given(unnamed=unnamed_models(texts)),
    )
