"""Options of object stores hold no secret: a config is kept in every run's manifest."""

from collections.abc import Mapping

from evalkit.config._places import table_in
from evalkit.config._problems import Problems
from evalkit.config.credentials import is_reference
from evalkit.errors import names_secret


def check_storage(tree: Mapping[str, object], problems: Problems) -> None:
    """Secrets are references to the environment."""
    for key, value in table_in(tree, "storage").items():
        if isinstance(value, str) and names_secret(key) and not is_reference(value):
            message = f"{key} is a secret, and the config would keep it"
            hint = f'{key} = "${{{key.upper()}}}" takes it from the environment'
            problems.add(("storage", key), "secret-in-config", message, hint=hint)
