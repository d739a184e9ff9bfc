"""The `evalkit` command. Nothing heavy is imported before a command's body runs."""

import sys


def main() -> None:
    """Run the program with the arguments of the process, and end it with an exit status."""
    arguments = sys.argv[1:]
    if arguments == ["--version"]:
        from evalkit import __version__

        sys.stdout.write(f"evalkit {__version__}\n")
        return
    from evalkit.cli.outcome import end_with

    end_with(arguments)
