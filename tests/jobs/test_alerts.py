"""Who is told when the state of a job changes, what they are told, and what they are not."""

import email
import http.server
import json
import stat
import sys
import threading
from pathlib import Path
from typing import ClassVar

import polars as pl
import pytest

from evalkit.config import parse_config
from evalkit.errors import EvalkitError, RequestError
from evalkit.jobs import alerts
from evalkit.jobs.alerts import LastTold, Message, send, tell_change
from evalkit.jobs.job import Job
from evalkit.report.verdict import render_prometheus

KEEP = "import sys, pathlib; p = pathlib.Path(sys.argv[1])\n"
KEEP += "p.write_text((p.read_text() if p.exists() else '') + sys.stdin.read() + '---\\n')"
SECRET = "hooks.example.org/services/T0/B0/not-to-be-seen"


def config_of(folder: Path, section: str, *, bound: float = 0.5, name: str = "nightly"):
    truth = pl.DataFrame({"user": range(40), "item": range(40)})
    truth.write_parquet(folder / "truth.parquet")
    ranked = truth.with_columns(item=pl.col("item") % 20, rank=1)
    ranked.write_parquet(folder / "als.parquet")
    text = (
        f'name = {json.dumps(name)}\ntruth.path = "truth.parquet"\nmetrics.names = ["hit@1"]\n'
        '[[rankings]]\nmodel = "als"\npath = "als.parquet"\n'
        f'[[gates]]\nmetric = "hit@1"\nmin = {bound}\n[alerts]\n{section}\n'
    )
    return parse_config(text, source="nightly.toml", base=folder)


def command(folder: Path) -> str:
    return f"command = {json.dumps([sys.executable, '-c', KEEP, str(folder / 'told')])}"


def told(folder: Path) -> list[str]:
    file = folder / "told"
    return file.read_text().split("---\n")[:-1] if file.exists() else []


def night(folder: Path, bound: float, section: str | None = None):
    """A run whose gate wants so much of hit@1, which is 0.5 with wide limits, and its alert."""
    config = config_of(folder, section or command(folder), bound=bound)
    report = Job(config, folder / "runs").run().report
    return tell_change(config, report, folder / "runs", f"runs/{report.run_id}")


FAILS, UNCLEAR, PASSES = 1.1, 0.5, -0.1


def test_one_message_a_change_of_state(tmp_path):
    for bound in (PASSES, FAILS, FAILS, UNCLEAR, PASSES, PASSES):
        assert night(tmp_path, bound) == []

    firsts = [text.splitlines()[0] for text in told(tmp_path)]
    assert firsts == [
        "evalkit: nightly: failed (before: fine)",
        "evalkit: nightly: cannot tell (before: failed)",
        "evalkit: nightly: recovered (before: cannot tell)",
    ]
    assert "hit@1 of als is 0.5" in told(tmp_path)[0]
    assert "runs/2" in told(tmp_path)[0]


def test_what_nobody_asked_for_is_not_told_and_yet_known(tmp_path):
    section = command(tmp_path) + '\non = ["recovered"]'

    for bound in (FAILS, PASSES):
        night(tmp_path, bound, section)

    assert [text.splitlines()[0] for text in told(tmp_path)] == [
        "evalkit: nightly: recovered (before: failed)"
    ]


def test_a_run_that_ends_with_an_error_failed(tmp_path):
    config = config_of(tmp_path, command(tmp_path))
    error = RequestError("no truth\nhere <!channel>", code="path-not-found", at="truth.parquet")

    tell_change(config, error, tmp_path / "runs")

    (text,) = told(tmp_path)
    assert text.splitlines()[1] == "path-not-found: no truth\ufffdhere <!channel>"


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (["no-such-program-anywhere"], "no-such-program-anywhere: No such file or directory"),
        ([sys.executable, "-c", "raise SystemExit(3)"], "ended with 3"),
        ([sys.executable, "-c", "import time; time.sleep(9)"], "no end within 0 s"),
    ],
)
def test_who_is_not_told_is_said_and_told_the_next_night(tmp_path, monkeypatch, program, reason):
    if "sleep" in program[-1]:
        monkeypatch.setattr(alerts, "SECONDS", 0.2)
    (failure,) = night(tmp_path, FAILS, f"command = {json.dumps(program)}")
    assert (failure.code, failure.at) == ("alert-failed", "alerts.command")
    assert reason in failure.message

    monkeypatch.undo()
    assert night(tmp_path, FAILS) == []
    assert len(told(tmp_path)) == 1


def test_no_shell_reads_the_command(tmp_path):
    program = json.dumps([sys.executable, "-c", KEEP, str(tmp_path / "a;b $(c)")])
    config = config_of(tmp_path, f"command = {program}")

    assert send(config.alerts, Message("x", "test", "test", ())) == []
    assert (tmp_path / "a;b $(c)").exists()


def test_mail_has_no_header_that_a_name_could_add(tmp_path):
    program = tmp_path / "sendmail"
    program.write_text(
        f"#!{sys.executable}\nimport sys\nopen({str(tmp_path / 'mail')!r}, 'wb')"
        ".write(sys.stdin.buffer.read() + repr(sys.argv[1:]).encode())\n"
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    section = f'mail = ["a@example.org", "b@example.org"]\nsendmail = "{program}"'
    config, name = config_of(tmp_path, section), "nightly\nBcc: c@example.org"

    assert send(config.alerts, Message(name, "failed", "fine", ("caf\u00e9",))) == []

    mail = email.message_from_bytes((tmp_path / "mail").read_bytes())
    assert mail["To"] == "a@example.org, b@example.org"
    assert mail["Bcc"] is None
    assert "Bcc: c@example.org" in str(
        email.header.make_header(email.header.decode_header(mail["Subject"]))
    )
    assert (tmp_path / "mail").read_bytes().endswith(b"['-t', '-i']")


class Hook(http.server.BaseHTTPRequestHandler):
    bodies: ClassVar[list[dict[str, object]]] = []
    status = 200

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        Hook.bodies.append(json.loads(self.rfile.read(length)))
        self.send_response(Hook.status, SECRET)
        if Hook.status == 302:
            self.send_header("Location", "/elsewhere")
        self.end_headers()

    do_GET = do_POST

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def hook(monkeypatch):
    """The address of a webhook here, without TLS, in the variable HOOK."""
    monkeypatch.setattr(Hook, "bodies", [])
    monkeypatch.setattr(Hook, "status", 200)
    monkeypatch.setattr(alerts, "SCHEMES", ("https", "http"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hook) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("HOOK", f"http://127.0.0.1:{server.server_port}/{SECRET}")
        yield server
        server.shutdown()


def test_slack_is_told_in_its_form_and_calls_nobody(tmp_path, hook):
    config = config_of(tmp_path, 'webhook = "HOOK"', name="<!channel> & co")

    assert send(config.alerts, Message(config.name, "failed", "fine", ("<@U1>",))) == []

    (body,) = Hook.bodies
    assert list(body) == ["text"]
    assert body["text"] == (
        "evalkit: &lt;!channel&gt; &amp; co: failed (before: fine)\n&lt;@U1&gt;\n"
    )


def test_plain_json_is_told_as_it_is(tmp_path, hook):
    config = config_of(tmp_path, 'webhook = "HOOK"\nform = "json"')

    send(config.alerts, Message("nightly", "failed", "fine", ("a <b>",)))

    (body,) = Hook.bodies
    assert (body["job"], body["event"], body["lines"]) == ("nightly", "failed", ["a <b>"])


@pytest.mark.parametrize(("status", "reason"), [(302, "it answers 302"), (500, "it answers 500")])
def test_an_address_that_leads_elsewhere_or_fails_is_not_followed_nor_shown(
    tmp_path, hook, monkeypatch, status, reason
):
    monkeypatch.setattr(Hook, "status", status)
    config = config_of(tmp_path, 'webhook = "HOOK"')

    (failure,) = send(config.alerts, Message("nightly", "failed", "fine", ()))

    assert len(Hook.bodies) == 1
    assert reason in failure.message
    assert SECRET not in str(failure)


@pytest.mark.parametrize(
    "address",
    ["", f"http://{SECRET}", f"file:///{SECRET}", f"https://no-such-host.invalid/{SECRET}"],
)
def test_only_https_is_asked_and_no_address_is_shown(tmp_path, monkeypatch, address):
    monkeypatch.setenv("HOOK", address)
    config = config_of(tmp_path, 'webhook = "HOOK"')

    (failure,) = send(config.alerts, Message("nightly", "failed", "fine", ()))

    assert failure.code == "alert-failed"
    assert "not-to-be-seen" not in str(failure)
    assert "hooks.example" not in str(failure)


@pytest.mark.parametrize(
    ("section", "code"),
    [
        (f'webhook = "https://{SECRET}"', "webhook-in-config"),
        ('mail = ["a@example.org\\nBcc: b@example.org"]', "bad-value"),
        ('mail = ["-oQ/tmp@example.org"]', "bad-value"),
        ('mail = ["a\\u0000@example.org"]', "bad-value"),
        ('command = "notify --all"', "wrong-type"),
        ('command = [""]', "bad-value"),
        ('command = ["notify", "a\\u0000b"]', "bad-value"),
        ('sendmail = ""\nmail = ["a@example.org"]', "bad-value"),
        ('on = ["failed"]', "missing-key"),
        ('on = ["broken"]\nmail = ["a@example.org"]', "unknown-choice"),
    ],
)
def test_what_is_wrong_is_refused_and_no_secret_shown(tmp_path, section, code):
    with pytest.raises(EvalkitError) as caught:
        config_of(tmp_path, section)

    assert caught.value.code == code
    assert "not-to-be-seen" not in str(caught.value)


def test_a_program_that_is_one_text_is_told_as_a_list(tmp_path):
    with pytest.raises(EvalkitError) as caught:
        config_of(tmp_path, 'command = "notify --all"')

    assert caught.value.hint == 'command = ["notify", "--all"]'


def test_runs_keep_nothing_of_it(tmp_path):
    with_alerts = config_of(tmp_path, 'webhook = "HOOK"')

    assert "alerts" not in with_alerts.dump()
    assert "alerts" not in with_alerts.model_dump()


def test_what_was_told_last_is_kept_by_job(tmp_path):
    LastTold(tmp_path / "runs", "a").write("failed")

    assert LastTold(tmp_path / "runs", "a").read() == "failed"
    assert LastTold(tmp_path / "runs", "b").read() == "fine"
    next((tmp_path / "runs").glob(".alert-*")).write_text("[]")
    assert LastTold(tmp_path / "runs", "a").read() == "fine"


def test_prometheus_has_each_gates_distance_to_its_bound(tmp_path):
    config = config_of(tmp_path, 'webhook = "HOOK"', bound=0.2)
    report = Job(config, None).run().report

    (line,) = [
        each
        for each in render_prometheus(report).splitlines()
        if each.startswith("evalkit_gate_distance{")
    ]
    assert line.endswith(" 0.3")
