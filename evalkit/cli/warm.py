"""`evalkit warm`: fill the kernel cache, as in an image build."""

import time
from pathlib import Path

from evalkit.cli import console
from evalkit.cli.options import Threads, set_threads, takes


@takes("quiet log_format")
def warm(threads: Threads = None) -> None:
    """Compile every kernel and keep it, as in an image build.

    Later runs start in a fraction of the time; those of all users, where root fills the cache.
    Small invented logs go all ways that a log can take; the folder of the cache is printed.
    """
    import tempfile

    set_threads(threads)
    began = time.monotonic()
    from evalkit.kernels import cache_directory, share_cache

    share_cache()
    from evalkit.cli.warming import run_all  # loads what is compiled: the cache is shared first

    with tempfile.TemporaryDirectory(prefix="evalkit-warm-") as folder:
        run_all(Path(folder))
    directory = cache_directory()
    console.note(f"all kernels are ready after {time.monotonic() - began:.1f} s")
    console.say(str(directory) if directory else "kernels are not kept: see the warning above")
