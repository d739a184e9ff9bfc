"""`evalkit check`: everything that is wrong or odd with a config and its data."""

from dataclasses import replace

from evalkit.cli import console
from evalkit.cli.codes import all_codes
from evalkit.cli.isolation import Isolated
from evalkit.cli.options import (
    ConfigFile,
    Items,
    Json,
    LogFormat,
    Overrides,
    Profile,
    Quiet,
    Reference,
    Threads,
    Train,
    Users,
    Variables,
    set_threads,
    with_profile,
    with_tables,
)
from evalkit.errors import FINE


def check(
    config: ConfigFile,
    train: Train = None,
    items: Items = None,
    users: Users = None,
    reference: Reference = None,
    profile: Profile = None,
    overrides: Overrides = None,
    variables: Variables = None,
    json: Json = False,
    threads: Threads = None,
    quiet: Quiet = False,
    isolated: Isolated = False,
    log_format: LogFormat = "text",
) -> int:
    """Report what is wrong or odd with config and data.

    Everything at once; nothing is written. Exit status 2 or 3 where something is wrong.
    """
    from evalkit.config import is_split_alone, load_config, load_split, parse_variables

    said, filled = with_profile(overrides, profile), parse_variables(variables or ())
    said = with_tables(said, train=train, items=items, users=users, reference=reference)
    if is_split_alone(config):
        split = load_split(config, overrides=said, variables=filled)
        set_threads(threads)
        from evalkit.jobs.check import check_split

        found = check_split(split)
    else:
        request = load_config(config, overrides=said, variables=filled)
        set_threads(threads)
        from evalkit.jobs.check import check_config

        if request.selection is not None and request.selection.trials is not None:
            from evalkit.selection import as_rankings

            request = as_rankings(request)
        found = check_config(request, threads=threads)
    findings = [
        replace(each, hint=all_codes()[each.code].cure) if each.is_error and not each.hint else each
        for each in found
    ]
    statuses = [finding.exit_status for finding in findings if finding.is_error]
    if json:
        from dataclasses import asdict

        console.say_json([asdict(finding) for finding in findings])
    else:
        for finding in findings:
            console.say(str(finding))
        n_errors = len(statuses)
        n_odd = len(findings) - n_errors
        console.say(f"{config}: {n_errors} wrong, {n_odd} odd")
    return min(statuses, default=FINE)
