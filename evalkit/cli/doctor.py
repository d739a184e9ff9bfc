"""`evalkit doctor`: is all that a run needs here, and right?"""

from evalkit.cli import console
from evalkit.cli.options import Json, LogFormat, Quiet
from evalkit.errors import FINE, MACHINE_FAILED, clean


def doctor(json: Json = False, quiet: Quiet = False, log_format: LogFormat = "text") -> int:
    """Look at versions, machine and cache, and test a small run.

    Exit status 4 where something is wrong.
    """
    from dataclasses import asdict

    from evalkit.cli.doctored import examine

    signs = examine()
    if json:
        console.say_json([asdict(each) for each in signs])
    for sign in () if json else signs:
        console.say(clean(f"{sign.state:5} {sign.name:13} {sign.found}"))
        if sign.hint:
            console.say(clean(f"{'':19} {sign.hint}"))
    return MACHINE_FAILED if any(each.state == "wrong" for each in signs) else FINE
