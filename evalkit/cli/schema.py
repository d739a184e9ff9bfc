"""`evalkit schema`: the config's JSON Schema."""

from evalkit.cli import console


def schema() -> None:
    """Print the JSON Schema of the config.

    Editors complete and check configs with it."""
    from evalkit.config import config_schema

    console.say_json(config_schema())
