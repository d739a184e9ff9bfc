"""`evalkit check`: everything that is wrong or odd with a config and its data."""

from dataclasses import asdict, replace

from evalkit.cli import console
from evalkit.cli.codes import all_codes
from evalkit.cli.options import ConfigFile, RunOptions, set_threads, takes
from evalkit.errors import FINE


@takes(
    "train items users reference metric_file profile overrides variables json threads "
    "quiet isolated log_format"
)
def check(config: ConfigFile, options: RunOptions) -> int:
    """Report what is wrong or odd with config and data.

    Everything at once; nothing is written. Exit status 2 or 3 where something is wrong.
    """
    from evalkit.config import is_split_alone, load_split

    if is_split_alone(config):
        split = load_split(config, overrides=options.settings(), variables=options.filled)
        set_threads(options.threads)
        from evalkit.jobs.check import check_split

        found = check_split(split)
    else:
        request = options.load(config)
        from evalkit.jobs.check import check_config

        if request.selection is not None and request.selection.trials is not None:
            from evalkit.jobs.selection import as_rankings

            request = as_rankings(request)
        found = check_config(request, threads=options.threads)
    findings = [
        replace(each, hint=all_codes()[each.code].cure) if each.is_error and not each.hint else each
        for each in found
    ]
    statuses = [finding.exit_status for finding in findings if finding.is_error]
    if options.json:
        console.say_json([asdict(finding) for finding in findings])
    else:
        console.say(*map(str, findings))
        n_errors = len(statuses)
        n_odd = len(findings) - n_errors
        console.say(f"{config}: {n_errors} wrong, {n_odd} odd")
    return min(statuses, default=FINE)
