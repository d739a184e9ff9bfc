"""`evalkit demo`: real data in one command."""

from pathlib import Path
from shlex import quote

from evalkit.cli import console, result
from evalkit.cli.options import RunOptions, RunsFolder, takes


@takes("out overrides format json full threads quiet log_format")
def demo(
    options: RunOptions,
    out: RunsFolder = Path("runs"),
) -> int:
    """Compare four models on real ratings, and judge one of them."""
    options.check()
    from evalkit.cli.demo_files import demo_config

    path = demo_config()
    config = options.load(path)
    console.note(f"evalkit run {quote(str(path))}")
    status = result.run_and_show(config, options, folder=out, memory_limit=options.limit)
    where = "" if out == Path("runs") else f" --out {quote(str(out))}"
    for command in (
        f"evalkit report last{where} --format latex",
        f"evalkit compare --config {quote(str(path))} als ease",
        "evalkit init --truth YOUR_TRUTH --rankings NAME=YOUR_RANKINGS",
    ):
        console.note(f"next: {command}")
    return status
