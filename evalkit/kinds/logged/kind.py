"""What is done with logged feedback on the way from a config to a report."""

from evalkit.kinds.logged.conclude import KIND

__all__ = ["KIND"]
