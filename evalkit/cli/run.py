"""`evalkit run`: the whole job."""

from evalkit.cli import result
from evalkit.cli.options import ConfigFile, RunOptions, takes


@takes(
    "metric_file profile overrides variables out format json full summary if_new wait prometheus "
    "per_user sample again threads memory_limit engine quiet isolated log_format"
)
def run(config: ConfigFile, options: RunOptions) -> int:
    """Evaluate what a config asks for, and write its report.

    Exit status 1 where a gate failed; the report is complete then, too."""
    options.check()
    request = options.load(config)
    is_default_elsewhere = request.engine.kind != "local" and options.memory_limit is None
    return result.run_and_show(
        request,
        options,
        folder=options.out or request.output.path,
        memory_limit=None if is_default_elsewhere else options.limit,
    )
