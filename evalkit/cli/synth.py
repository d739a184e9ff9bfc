"""`evalkit synth`: logs of any size."""

from pathlib import Path
from typing import Annotated, Literal

from typer import Option

from evalkit.cli import console
from evalkit.cli.options import parse_count, takes


@takes("quiet log_format")
def synth(
    out: Annotated[Path, Option("--out", "-o", metavar="DIR", help="New or empty folder.")],
    users: Annotated[str, Option(metavar="N", help="Users, as 1000 or 1e6.")],
    depth: Annotated[int, Option(metavar="N", help="Items in every ranking.")] = 50,
    items: Annotated[str, Option(metavar="N", help="Size of the catalogue.")] = "100000",
    relevant: Annotated[
        float, Option(metavar="MEAN", help="Mean number of relevant items of a user.")
    ] = 7.6,
    models: Annotated[int, Option(metavar="N", help="Models, the best first.")] = 1,
    ids: Annotated[Literal["int", "string"], Option(help="Type of the ids.")] = "int",
    order: Annotated[
        Literal["grouped", "scattered"], Option(help="Rows of a user side by side, or anywhere.")
    ] = "grouped",
    files: Annotated[int, Option(metavar="N", help="Files of each table.")] = 1,
    form: Annotated[
        Literal["rank", "score", "both", "list"], Option(help="Columns that say the order.")
    ] = "both",
    experiment: Annotated[
        bool, Option("--experiment", help="Exposures and events of so many units instead.")
    ] = False,
    seed: Annotated[int, Option(metavar="N", help="The same seed gives the same logs.")] = 1,
) -> None:
    """Write invented logs of any size, and a config for them."""
    n_users = parse_count(users, at="--users")
    n_items = parse_count(items, at="--items")
    from evalkit.runs import machine_errors
    from evalkit.sources.shell import quoted

    if experiment:
        from evalkit.kinds.experiments.synth import generate_experiment

        with machine_errors(out):
            made = generate_experiment(out, units=n_users, ids=ids, seed=seed)
        console.say("\n".join(map(str, made.values())))
        console.note(f"evalkit run {quoted(str(made['config']))}")
        return
    from evalkit.cli.synth_logs import generate

    with machine_errors(out):
        paths = generate(
            out,
            users=n_users,
            depth=depth,
            items=n_items,
            relevant=relevant,
            models=models,
            ids=ids,
            order=order,
            files=files,
            form=form,
            seed=seed,
        )
    console.say(*map(str, paths.values()))
    if "config" in paths:
        console.note(f"evalkit run {quoted(str(paths['config']))}")
