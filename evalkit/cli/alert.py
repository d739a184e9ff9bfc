"""`evalkit alert`: tell those whom a config names."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from evalkit.cli import console
from evalkit.cli.options import ConfigFile, RunOptions, takes
from evalkit.errors import FINE, MACHINE_FAILED, RequestError

if TYPE_CHECKING:
    from evalkit.config import AlertsSection, Config


def named_alerts(asked: "Config", config: Path) -> "AlertsSection":
    """Whom a config names.

    Raises:
        RequestError: nobody [no-alerts].
    """
    if asked.alerts is None:
        hint = 'write [alerts] and webhook = "ALERTS_URL", command = [...] or mail = [...]'
        raise RequestError("nobody is to be told", code="no-alerts", at=str(config), hint=hint)
    return asked.alerts


@takes("overrides variables out quiet log_format")
def alert(
    config: ConfigFile,
    options: RunOptions,
    test: Annotated[bool, Option("--test", help="Send a message that says it is a test.")] = False,
) -> int:
    """Tell if the state of a job changed, or send a test message.

    evalkit run does it by itself, and evalkit merge --alerts CONFIG. Exit status 4 where somebody
    could not be told."""
    asked = options.load(config)
    named = named_alerts(asked, config)
    from evalkit import runs
    from evalkit.jobs.alerts import Message, send, tell_change
    from evalkit.runs.history import load_named

    if test:
        lines = ("Nothing happened: somebody tries whether alerts arrive.",)
        failures = send(named, Message(asked.name, "test", "test", lines))
    else:
        where = options.out or asked.output.path
        if runs.is_store(where):
            message = "the last run is looked for in a local folder"
            hint = "evalkit run tells by itself, also of runs in a store"
            raise RequestError(message, code="bad-store", at=where, hint=hint)
        report = load_named(Path(where), "last", name=asked.name)
        failures = tell_change(asked, report, Path(where), f"{where}/{report.run_id}")
    for failure in failures:
        failure.hint = "" if test else failure.hint
        console.tell(failure)
    if test and not failures:
        console.say("sent")
    return MACHINE_FAILED if failures else FINE
