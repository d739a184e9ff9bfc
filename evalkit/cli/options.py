"""Options that several commands share, and how their texts are read."""

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option

from evalkit.errors import RequestError
from evalkit.formats import TextForm
from evalkit.planning.machine import default_limit, let_polars_give_back

ConfigFile = Annotated[Path, Argument(metavar="CONFIG", help="TOML file.")]
Overrides = Annotated[
    list[str] | None,
    Option("--set", metavar="KEY=VALUE", help="Set any key of the config, as policies.ties=input."),
]
Variables = Annotated[
    list[str] | None,
    Option("--var", metavar="NAME=VALUE", help="Fill {NAME} in paths and SQL of the config."),
]
Threads = Annotated[
    int | None, Option("--threads", min=1, metavar="N", help="Default: usable cores.")
]
MemoryLimit = Annotated[
    str | None,
    Option("--memory-limit", metavar="SIZE", help="Such as 8GiB. Default: 80 % of the machine's."),
]
Profile = Annotated[
    str | None,
    Option("--profile", metavar="NAME", help="Follow a library, as ranx, or a file of your own."),
]
Engine = Annotated[
    str | None,
    Option("--engine", metavar="KIND", help="Where it is measured: local, or spark."),
]
Primary = Annotated[
    list[str] | None,
    Option("--primary", metavar="METRIC", help="The one that decides; default: the first."),
]
Combined = Annotated[
    list[str] | None,
    Option("--combined", metavar="NAME=OF", help="A number of several, as t=hmean(A@5, B@5)."),
]
Train = Annotated[
    list[str] | None, Option("--train", metavar="PATH", help="What the models had seen.")
]
Items = Annotated[
    list[str] | None, Option("--items", metavar="PATH", help="All items, for metrics of lists.")
]
Users = Annotated[
    list[str] | None, Option("--users", metavar="PATH", help="Who should have got a list.")
]
Reference = Annotated[
    str | None,
    Option("--reference", metavar="NAME|PATH", help="Lists that others are held against."),
]
Out = Annotated[
    str | None,
    Option("--out", "-o", metavar="DIR", help="Folder of runs, or s3://...; wins over the config."),
]
Sample = Annotated[
    float | None, Option("--sample", metavar="SHARE", help="Measure a share of the users.")
]
Format = Annotated[
    TextForm | None,
    Option("--format", help="What stdout shows. Default: one screen."),
]
Full = Annotated[bool, Option("--full", help="All numbers, not one screen.")]
Json = Annotated[bool, Option("--json", help="One JSON document on stdout.")]
Quiet = Annotated[bool, Option("--quiet", "-q", help="No progress, no notes, no warnings.")]
LogFormat = Annotated[
    Literal["text", "json"], Option("--log-format", help="Form of the lines on stderr.")
]
PerUserPath = Annotated[
    Path | None,
    Option("--per-user", metavar="PATH", help="Write every user's values to a Parquet file."),
]
RunsFolder = Annotated[Path, Option("--out", "-o", metavar="DIR", help="Folder of runs.")]
Wait = Annotated[
    float,
    Option("--wait", min=0, metavar="SECONDS", help="Wait for another writer of that name."),
]
Again = Annotated[bool, Option("--again", help="Look at a test part, however often that was done.")]
IfNew = Annotated[
    bool, Option("--if-new", help="Do nothing where a run of the same work is there.")
]
Summary = Annotated[bool, Option("--summary", help="One line on stdout, for a chat.")]
Prometheus = Annotated[
    Path | None,
    Option("--prometheus", metavar="FILE", help="Write a file for node_exporter's collector."),
]


def with_profile(
    overrides: Sequence[str] | None,
    profile: str | None,
    primary: Sequence[str] | None = None,
    combined: Sequence[str] | None = None,
) -> list[str]:
    """The overrides, with profile, primary metrics and combinations among them.

    A file of a profile is meant from here, not from the config.
    """
    found = list(overrides or ())
    if profile is not None:
        is_file = profile.endswith(".toml") or "/" in profile
        found.append(f"metrics.profile={os.path.abspath(profile) if is_file else profile}")
    if primary:
        found.append(f"metrics.primary={json.dumps(list(primary), ensure_ascii=False)}")
    found += [f"--combined {each}" for each in combined or ()]
    return found


def with_engine(overrides: Sequence[str], engine: str | None) -> list[str]:
    """The overrides, with where the work is done among them."""
    return [*overrides, *([] if engine is None else [f"engine.kind={engine}"])]


def with_tables(
    overrides: Sequence[str] | None,
    *,
    reference: str | None,
    **tables: Sequence[str] | None,
) -> list[str]:
    """The overrides behind those that give tables of these sections, as paths from here."""
    found = []
    for section, paths in tables.items():
        if paths:
            absolute = [path if _URL.match(path) else os.path.abspath(path) for path in paths]
            found.append(f"--{section}={json.dumps(absolute, ensure_ascii=False)}")
    if reference is not None:
        is_here = re.search(r"[/.]", reference) and os.path.exists(reference)
        found.append(f"--reference={os.path.abspath(reference) if is_here else reference}")
    return [*found, *(overrides or ())]


_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


def choose_format(
    format: str | None, is_json: bool, known: str = "table", *, full: bool = False
) -> str:
    """The format asked for by `--format`, `--json` or `--full`."""
    if is_json and format not in (None, "json"):
        raise RequestError(
            f"--json and --format {format} exclude each other", code="bad-option", at="--json"
        )
    if full and (is_json or format not in (None, "table")):
        raise RequestError(
            f"--full and --format {format or 'json'} exclude each other",
            code="bad-option",
            at="--full",
        )
    return "json" if is_json else format or ("table" if full else known)


def parse_size(text: str | None, *, at: str) -> int | None:
    """Bytes that a text such as `8GiB`, `500MB` or `1.5g` names."""
    if text is None:
        return None
    from evalkit.config import bytes_of

    size = bytes_of(text)
    if size is not None:
        return size
    raise RequestError(
        f"{text!r} is no size", code="bad-option", at=at, hint=f"{at} 8GiB, or 500MB"
    )


def memory_limit_of(text: str | None) -> int:
    """Bytes that a run may use: those of `--memory-limit`, or a share of what there is."""
    asked = parse_size(text, at="--memory-limit")
    if asked is None:
        return default_limit()
    let_polars_give_back()
    return asked


def parse_count(text: str, *, at: str) -> int:
    """A whole number that may be written `1e6` or `1_000_000`."""
    try:
        number = float(text)
        if number == int(number):
            return int(text) if re.fullmatch(r"[+-]?[\d_]+", text) else int(number)
    except (ValueError, OverflowError):
        pass
    raise RequestError(f"{text!r} is no whole number", code="bad-option", at=at)


def check_sample(share: float | None) -> float | None:
    """The share of users to measure; above 0 and at most 1."""
    if share is not None and not 0 < share <= 1:
        raise RequestError(
            f"{share!r} is not above 0 and at most 1",
            code="bad-option",
            at="--sample",
            hint="--sample 0.01 measures one user in a hundred",
        )
    return share


def set_threads(threads: int | None) -> None:
    """Tell Polars how many threads to use; it looks only when it is first imported."""
    if threads is None and "POLARS_MAX_THREADS" in os.environ:
        return
    from evalkit.kernels.threads import usable_cores

    cores = usable_cores()
    os.environ["POLARS_MAX_THREADS"] = str(min(threads or cores, cores))
