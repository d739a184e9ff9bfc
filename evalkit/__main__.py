"""`python -m evalkit` is the same program as `evalkit`."""

from evalkit.cli import main

if __name__ == "__main__":
    main()
