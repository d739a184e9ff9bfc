"""evalkit: exact, fast, offline evaluation of recommender systems."""

__version__ = "0.1.0"
