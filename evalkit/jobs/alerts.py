"""Messages where the state of a job changes: to a command, a webhook, or by mail."""

import json
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from email.message import EmailMessage
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalkit import runs
from evalkit.errors import EvalkitError, MachineError, clean
from evalkit.report import Report
from evalkit.report.verdict import FAIL, summarize

if TYPE_CHECKING:
    from evalkit.config import AlertsSection, Config

SECONDS = 10.0  # that each of them may take
SCHEMES = ("https",)
FINE = "fine"


@dataclass(frozen=True, slots=True)
class Message:
    """What is told of a job.

    Args:
        event: failed, cannot tell, recovered, or test.
        before: the state that was told last.
        lines: what happened, cleaned.
    """

    job: str
    event: str
    before: str
    lines: tuple[str, ...]

    @property
    def title(self) -> str:
        """One line, for a subject."""
        return f"evalkit: {clean(self.job)}: {self.event} (before: {self.before})"

    @property
    def text(self) -> str:
        return "\n".join([self.title, *self.lines]) + "\n"


@dataclass(frozen=True, slots=True)
class LastTold:
    """The state of a job that was told last, in a file beside its runs."""

    folder: "Path | runs.StoreFolder"
    job: str

    def read(self) -> str:
        """The state; fine where nothing was told."""
        name, found = self._name, None
        if isinstance(self.folder, Path):
            with suppress(FileNotFoundError):
                found = (self.folder / name).read_bytes()
        elif (kept := self.folder.objects.get(self.folder.at(name))) is not None:
            found = kept[0]
        with suppress(ValueError, AttributeError):
            return str(json.loads(found or b"").get("state", FINE))
        return FINE

    def write(self, state: str) -> None:
        content = json.dumps({"job": self.job, "state": state}).encode()
        if not isinstance(self.folder, Path):
            self.folder.objects.put(self.folder.at(self._name), content)
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        with runs.replacing(self.folder / self._name) as file:
            file.write(content)

    @property
    def _name(self) -> str:
        return f".alert-{runs.hash_name(self.job)}"


def tell_change(
    config: "Config",
    outcome: Report | EvalkitError,
    folder: "Path | runs.StoreFolder",
    path: str = "",
) -> list[EvalkitError]:
    """Tells what came of a run, if the state of its job is another one; who could not be told.

    What was told to nobody is told after the next run.

    Args:
        outcome: the report, or what the run ended with.
        folder: of the job's runs.
        path: of the run.
    """
    alerts = config.alerts
    if alerts is None:
        return []
    try:
        last = LastTold(folder, config.name)
        state, before = _state_of(outcome), last.read()
        if state == before:
            return []
        event = "recovered" if state == FINE else state
        failures: list[EvalkitError] = []
        if event in alerts.on:
            lines = tuple(_lines_of(outcome, path))
            failures = send(alerts, Message(config.name, event, before, lines))
        if len(failures) < len(_channels(alerts)):
            last.write(state)
        return failures
    except Exception as error:  # an alert never ends a run otherwise than it ended
        return [_failed("alerts", type(error).__name__)]


def send(alerts: "AlertsSection", message: Message) -> list[EvalkitError]:
    """Tells everybody; who could not be told [alert-failed]."""
    failures: list[EvalkitError] = []
    for channel in _channels(alerts):
        try:
            _SENDING[channel](alerts, message)
        except EvalkitError as error:
            failures.append(error)
        except subprocess.TimeoutExpired:
            failures.append(_failed(channel, f"no end within {SECONDS:.0f} s"))
        except OSError as error:
            reason = error.strerror or type(error).__name__
            told = f"{error.filename}: {reason}" if error.filename else reason
            failures.append(_failed(channel, told))
    return failures


def _channels(alerts: "AlertsSection") -> list[str]:
    return [name for name in _SENDING if getattr(alerts, name)]


def _state_of(outcome: Report | EvalkitError) -> str:
    if isinstance(outcome, EvalkitError):
        return "failed"
    failing = [gate.outcome for gate in outcome.gates if gate.fails]
    return "failed" if FAIL in failing else "cannot tell" if failing else FINE


def _lines_of(outcome: Report | EvalkitError, path: str) -> Iterator[str]:
    if isinstance(outcome, EvalkitError):
        yield clean(f"{outcome.code}: {outcome.message}")
        yield clean(outcome.at)
        return
    yield from summarize(outcome, path=path).split(" | ")


def _run(command: list[str], content: bytes, channel: str) -> None:
    silent = subprocess.DEVNULL
    done = subprocess.run(  # noqa: S603  # the config's own program, by no shell
        command, input=content, stdout=silent, stderr=silent, timeout=SECONDS, check=False
    )
    if done.returncode:
        raise _failed(channel, f"{os.path.basename(command[0])} ended with {done.returncode}")


def _tell_command(alerts: "AlertsSection", message: Message) -> None:
    _run(list(alerts.command), message.text.encode(), "command")


def _tell_mail(alerts: "AlertsSection", message: Message) -> None:
    mail = EmailMessage()
    mail["To"], mail["Subject"] = ", ".join(alerts.mail), message.title
    mail.set_content(message.text)
    _run([alerts.sendmail, "-t", "-i"], bytes(mail), "mail")


def _tell_webhook(alerts: "AlertsSection", message: Message) -> None:
    variable = alerts.webhook or ""
    url = os.environ.get(variable, "").strip()
    if url.partition("://")[0] not in SCHEMES:
        raise _failed("webhook", f"the variable {variable} holds no address: https://...")
    body: dict[str, Any] = {"text": _for_slack(message.text)}
    if alerts.form == "json":
        body = {"job": message.job, "event": message.event, "before": message.before}
        body |= {"text": message.text, "lines": message.lines}
    reasons = ["no answer within 10 s"]
    posting = threading.Thread(target=_post, args=(url, body, reasons), daemon=True)
    posting.start()
    posting.join(SECONDS)  # an answer that drips in would outlive any time of a socket
    if reasons:
        raise _failed("webhook", reasons[-1])


def _post(url: str, body: dict[str, Any], reasons: list[str]) -> None:
    """Empties `reasons` where the address took it; no reason names the address."""
    import urllib.error
    import urllib.request

    class Stay(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *_: object) -> None:
            return None

    try:
        content = json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        asked = urllib.request.Request(url, content, headers)  # noqa: S310  # SCHEMES alone
        with urllib.request.build_opener(Stay).open(asked, timeout=SECONDS):
            reasons.clear()
    except urllib.error.HTTPError as error:
        reasons.append(f"it answers {error.code}")
    except Exception as error:
        cause = getattr(error, "reason", error)
        reasons.append(type(cause if isinstance(cause, Exception) else error).__name__)


def _for_slack(text: str) -> str:
    """Text in which nothing calls a channel or makes a link."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _failed(channel: str, reason: str) -> MachineError:
    message = f"an alert was not sent: {reason}"
    hint = "evalkit alert CONFIG --test tries all"
    return MachineError(message, code="alert-failed", at=f"alerts.{channel}", hint=hint)


_SENDING = {"command": _tell_command, "webhook": _tell_webhook, "mail": _tell_mail}
