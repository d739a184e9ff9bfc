"""`evalkit warm`: fill the kernel cache, as in an image build."""

import tempfile
import time
from pathlib import Path

from evalkit.cli import console
from evalkit.cli.options import LogFormat, Quiet, Threads, set_threads


def warm(
    threads: Threads = None,
    quiet: Quiet = False,
    log_format: LogFormat = "text",
) -> None:
    """Compile every kernel and keep it, as in an image build.

    Later runs start in a fraction of the time. Small invented logs go all ways that a log can
    take; the folder of the cache is printed.
    """
    set_threads(threads)
    began = time.monotonic()
    from evalkit.metrics import cache_directory

    with tempfile.TemporaryDirectory(prefix="evalkit-warm-") as folder:
        _run_all(Path(folder))
    directory = cache_directory()
    console.note(f"all kernels are ready after {time.monotonic() - began:.1f} s")
    console.say(str(directory) if directory else "kernels are not kept: see the warning above")


def _run_all(folder: Path) -> None:
    from evalkit import street
    from evalkit.config import load_config
    from evalkit.metrics import registry
    from evalkit.synth import Form, Ids, Order, generate

    names = ", ".join(f'"{name}"' for name in registry())
    all_ids: tuple[Ids, ...] = ("int", "string")
    forms: tuple[tuple[Form, Order], ...] = (
        ("rank", "grouped"),
        ("score", "grouped"),
        ("score", "scattered"),
        ("list", "grouped"),
    )
    for ids in all_ids:
        for form, order in forms:
            out = folder / f"{ids}-{form}-{order}"
            paths = generate(out, users=40, depth=5, items=100, ids=ids, form=form, order=order)
            config = load_config(paths["config"], overrides=[f"metrics.names=[{names}]"])
            street.run_config(
                config, threads=None, memory_limit=None, sample=None, per_user=False, progress=None
            )
