"""Commands of hints, which a user pastes into a shell: any name of a file is one word there."""

import os
import re
import shlex


def quoted(path: str) -> str:
    """The path as one word that no command takes for an option."""
    return shlex.quote(os.path.join(".", path) if path.startswith("-") else path)


def writing(command: str, path: str, ending: str) -> str:
    """The command for `FILE`, which writes beside the file, or folder, under a longer name."""
    path = path.rstrip("/") or path
    made = os.path.join(os.path.dirname(path), os.path.basename(path) + ending)
    return f"{command.replace('FILE', quoted(path))} > {quoted(made)}"


def argument(text: str) -> str:
    """Text as one word; SQL with its own quotes as it is read."""
    is_plain = "'" in text and not re.search(r'["$`\\!]', text)
    return f'"{text}"' if is_plain else shlex.quote(text)
