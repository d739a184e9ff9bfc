"""`[alerts]`: who is told when the state of a job changes."""

import re
from collections.abc import Mapping
from typing import Literal

from evalkit.config._problems import Problems
from evalkit.config._tables import Listed, Record, key

Event = Literal["failed", "cannot tell", "recovered"]
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ADDRESS = re.compile(r"[A-Za-z0-9_][^\s\x00-\x1f\x7f<>,;:\"\\()]*@[A-Za-z0-9.-]+")


class AlertsSection(Record):
    """One message whenever the state of the job changes; none of it is kept in runs."""

    on: Listed[Event] = key(("failed", "cannot tell", "recovered"), "What is told.")
    command: Listed[str] = key(
        (), "A program and its arguments; the text comes on its stdin. No shell reads it."
    )
    webhook: str | None = key(
        None,
        "The variable of the environment that holds an address, which is a secret: https://...",
    )
    form: Literal["slack", "json"] = key("slack", "What the webhook takes.")
    mail: Listed[str] = key((), "Addresses.")
    sendmail: str = key("/usr/sbin/sendmail", "The program that takes mail.")


def check_alerts(tree: Mapping[str, object], problems: Problems) -> None:
    """Refuse secrets in a config, and what is no address; a secret is not shown."""
    section = tree.get("alerts")
    if not isinstance(section, dict):
        return
    webhook = section.get("webhook")
    if isinstance(webhook, str) and not _VARIABLE.fullmatch(webhook):
        problems.add(
            ("alerts", "webhook"),
            "webhook-in-config",
            "webhook is no name of a variable of the environment",
            hint='export ALERTS_URL=https://..., and write webhook = "ALERTS_URL"',
        )
    mail = section.get("mail")
    for number, address in enumerate(mail if isinstance(mail, list) else []):
        if isinstance(address, str) and not _ADDRESS.fullmatch(address):
            place = ("alerts", "mail", number)
            problems.add(place, "bad-value", f"{address!r} is no address", hint="name@example.org")
    for name in ("command", "sendmail"):
        program = section.get(name)
        words = program if isinstance(program, list) else [program]
        if "" in words[:1] or any(isinstance(word, str) and "\0" in word for word in words):
            message = f"{name} names no program"
            hint = 'command = ["notify"]' if name == "command" else "leave it out"
            problems.add(("alerts", name), "bad-value", message, hint=hint)
    if not any(section.get(name) for name in ("command", "webhook", "mail")):
        hint = 'command = ["notify"], webhook = "ALERTS_URL" or mail = ["name@example.org"]'
        problems.add(("alerts",), "missing-key", "nobody is told", hint=hint)
