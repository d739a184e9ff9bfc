"""Options that several commands share, and how their texts are read."""

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar, get_type_hints

from typer import Argument, Option

from evalkit.cli.isolation import Isolated
from evalkit.config.form_names import TextForm
from evalkit.errors import RequestError, check_file, warn
from evalkit.kernels.memory import default_limit, let_polars_give_back

if TYPE_CHECKING:
    from evalkit.config import Config

Result = TypeVar("Result")

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
    str | None, Option("--engine", metavar="KIND", help="Where it is measured: local, or spark.")
]
Primary = Annotated[
    list[str] | None,
    Option("--primary", metavar="METRIC", help="The one that decides; default: the first."),
]
Combined = Annotated[
    list[str] | None,
    Option("--combined", metavar="NAME=OF", help="A number of several, as t=hmean(A@5, B@5)."),
]
MetricFile = Annotated[
    list[str] | None,
    Option("--metric-file", metavar="FILE", help="Python file with metrics of your own."),
]
Truth = Annotated[
    list[str] | None, Option("--truth", metavar="PATH", help="Held-out interactions.")
]
UserColumns = Annotated[
    list[str] | None, Option("--user", metavar="COLUMN", help="Repeat for several together.")
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
    TextForm | None, Option("--format", help="What stdout shows. Default: one screen.")
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
RunsWritten = Annotated[
    Path | None, Option("--out", "-o", metavar="DIR", help="Folder of runs to write to.")
]
RunsFolder = Annotated[Path, Option("--out", "-o", metavar="DIR", help="Folder of runs.")]
Wait = Annotated[
    float, Option("--wait", min=0, metavar="SECONDS", help="Wait for another writer of that name.")
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


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What commands are asked in the same words; `takes` says which options a command has."""

    train: Train = None
    items: Items = None
    users: Users = None
    reference: Reference = None
    primary: Primary = None
    combined: Combined = None
    metric_file: MetricFile = None
    profile: Profile = None
    overrides: Overrides = None
    variables: Variables = None
    out: Out = None
    format: Format = None
    json: Json = False
    full: Full = False
    summary: Summary = False
    if_new: IfNew = False
    wait: Wait = 0.0
    prometheus: Prometheus = None
    per_user: PerUserPath = None
    sample: Sample = None
    again: Again = False
    threads: Threads = None
    memory_limit: MemoryLimit = None
    engine: Engine = None
    quiet: Quiet = False
    isolated: Isolated = False
    log_format: LogFormat = "text"

    @property
    def shown(self) -> str:
        """The form of the report on stdout."""
        return choose_format(self.format, self.json, "screen", full=self.full)

    @property
    def limit(self) -> int:
        """Bytes that the run may use."""
        return memory_limit_of(self.memory_limit)

    @property
    def share(self) -> float | None:
        """The share of the users to measure."""
        return check_sample(self.sample)

    @property
    def filled(self) -> Mapping[str, str]:
        """What `{NAME}` stands for in paths and SQL."""
        from evalkit.config import parse_variables

        return parse_variables(self.variables or ())

    def check(self) -> None:
        """Refuse, before anything is read, what no run can follow.

        Raises:
            RequestError: a text is none that its option takes, or a file cannot be written
                [bad-option].
        """
        _ = self.shown, self.limit, self.share
        check_file_option(self.per_user, "--per-user")
        check_file_option(self.prometheus, "--prometheus")

    def load(self, config: Path) -> "Config":
        """The config with the overrides and variables, and Polars told of the threads."""
        from evalkit.config import load_config

        found = load_config(config, overrides=self.settings(), variables=self.filled)
        set_threads(self.threads)
        asked = found.engine.model_dump(exclude={"kind"}, exclude_defaults=True)
        if asked and found.engine.kind == "local":
            names = ", ".join(f"engine.{name}" for name in asked)
            told = f"{names}: of Spark, and the work is done in this process"
            warn("not-followed", told, hint='--engine spark, or kind = "spark" under [engine]')
        return found

    def settings(self) -> list[str]:
        """The overrides, with tables, profile, primary metrics, combinations and engine.

        Files of tables and of a profile are meant from here, not from the config.
        """
        found = []
        for section in ("train", "items", "users"):
            if paths := getattr(self, section):
                absolute = [path if _URL.match(path) else os.path.abspath(path) for path in paths]
                found.append(f"--{section}={json.dumps(absolute, ensure_ascii=False)}")
        if self.reference is not None:
            is_here = re.search(r"[/.]", self.reference) and os.path.exists(self.reference)
            named = os.path.abspath(self.reference) if is_here else self.reference
            found.append(f"--reference={named}")
        found += self.overrides or ()
        found += file_settings(self.metric_file)
        if self.profile is not None:
            is_file = self.profile.endswith(".toml") or "/" in self.profile
            named = os.path.abspath(self.profile) if is_file else self.profile
            found.append(f"--profile={named}")
        if self.primary:
            found.append(f"--primary={json.dumps(list(self.primary), ensure_ascii=False)}")
        found += [f"--combined {combination}" for combination in self.combined or ()]
        return [*found, *([] if self.engine is None else [f"--engine={self.engine}"])]


def file_settings(paths: list[str] | None) -> list[str]:
    """The overrides that name files of own metrics, which are meant from here."""
    return [f"--metric-file={os.path.abspath(path)}" for path in paths or ()]


def takes(names: str) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """Gives a command options of `RunOptions`, in this order; it may ask for them as `options`.

    A name that the command has a parameter for stands for that one, at this place.
    """

    def decorate(command: Callable[..., Result]) -> Callable[..., Result]:
        own = dict(signature(command).parameters)
        has_options = own.pop("options", None) is not None
        shared = get_type_hints(RunOptions, include_extras=True)
        defaults = RunOptions()
        parameters = [each for name, each in own.items() if name not in names.split()]
        parameters += [
            own.get(name)
            or Parameter(
                name,
                Parameter.POSITIONAL_OR_KEYWORD,
                default=getattr(defaults, name),
                annotation=shared[name],
            )
            for name in names.split()
        ]

        @wraps(command)
        def run(*first: object, **given: object) -> Result:
            mine = {name: given.pop(name) for name in own if name in given}
            if has_options:
                mine["options"] = RunOptions(**given)  # type: ignore[arg-type]
            return command(*first, **mine)

        run.__signature__ = signature(command).replace(parameters=parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in parameters}
        return run

    return decorate


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
        message = f"--full and --format {format or 'json'} exclude each other"
        raise RequestError(message, code="bad-option", at="--full")
    return "json" if is_json else format or ("table" if full else known)


def parse_size(text: str | None) -> int | None:
    """Bytes that `--memory-limit` names, such as `8GiB`, `500MB` or `1.5g`."""
    if text is None:
        return None
    from evalkit.config import bytes_of

    size = bytes_of(text)
    if size is not None:
        return size
    hint = "--memory-limit 8GiB, or 500MB"
    raise RequestError(f"{text!r} is no size", code="bad-option", at="--memory-limit", hint=hint)


def memory_limit_of(text: str | None) -> int:
    """Bytes that a run may use: those of `--memory-limit`, or a share of what there is."""
    asked = parse_size(text)
    let_polars_give_back(soon=asked is not None)
    return default_limit() if asked is None else asked


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
        message = f"{share!r} is not above 0 and at most 1"
        hint = "--sample 0.01 measures one user in a hundred"
        raise RequestError(message, code="bad-option", at="--sample", hint=hint)
    return share


def set_threads(threads: int | None) -> None:
    """Tell Polars how many threads to use; it looks only when it is first imported."""
    if threads is None and "POLARS_MAX_THREADS" in os.environ:
        return
    from evalkit.kernels.threads import usable_cores

    cores = usable_cores()
    os.environ["POLARS_MAX_THREADS"] = str(min(threads or cores, cores))


def check_columns(**named: str | list[str] | None) -> None:
    """Refuses, before any work, an option of a column that names none."""
    for name, column in named.items():
        if column is not None and "" in ([column] if isinstance(column, str) else column):
            hint = "leave it out: columns are guessed then"
            message = f"--{name} names no column"
            raise RequestError(message, code="bad-option", at=f"--{name}", hint=hint)


def refuse_idle(options: Mapping[str, object], what: str) -> None:
    """Raise where an option is given that changes nothing of `what`."""
    for option in (option for option, value in options.items() if value not in (None, False)):
        message = f"{option} changes nothing of {what}"
        raise RequestError(message, code="bad-option", at=option, hint="leave it out")


def check_apart(path: Path | None, option: str, inputs: Iterable[str]) -> None:
    """Refuses, before any work, to write over a file that is read."""
    if path is None or not path.is_file():
        return
    from glob import glob

    target = os.path.realpath(path)
    for each in filter(None, inputs):
        for found in map(os.path.realpath, [each, *glob(each, recursive=True)]):
            if target == found or target.startswith(os.path.join(found, "")):
                hint = "name another file"
                message = "this file is read, and would be written over"
                raise RequestError(message, code="bad-option", at=f"{option} {path}", hint=hint)


def runs_in(*folders: str | Path) -> Iterator[str]:
    """What is read of folders of runs: their runs and index; other paths are themselves."""
    from glob import escape

    for folder in map(str, folders):
        if os.path.isdir(folder) and not os.path.exists(os.path.join(folder, "manifest.json")):
            yield os.path.join(escape(folder), "*", "")
            yield os.path.join(folder, "history.sqlite")
        else:
            yield folder


def check_file_option(path: Path | None, option: str, inputs: Iterable[str] = ()) -> None:
    """Refuses, before any work, a file that cannot be written, or that is read."""
    if path is None:
        return
    check_file(path, f"{option} {path}")
    check_apart(path, option, inputs)
