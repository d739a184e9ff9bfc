"""What native code writes to stderr: passed on, but for the panics of Rust.

Rust writes its panics to the process's stderr, also those that evalkit turns into errors. So the
program's own messages go to a copy of stderr, and what native code writes passes a filter.
"""

import os
import re
import select
import sys
import threading
from collections.abc import Callable
from contextlib import suppress

from evalkit.errors import PARENT

QUIET_SECONDS = 0.1  # after which a panic has been written
LAST_WORDS_SECONDS = 0.5
_PANIC = re.compile(rb"thread '.*' (\(\d+\) )?panicked at |note: .*RUST_BACKTRACE")
_READS = re.compile(rb"evalkit reads ('.*'|\".*\")\n")
_MEMORY = re.compile(rb"memory allocation of (\d+) bytes failed")

_restore: Callable[[], None] | None = None


class Filter:
    """Passes on what native code writes, but for panics."""

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self.n_bytes_refused = 0  # of memory, as an aborted process has said last
        self.reads = ""  # what a child has told last
        self._write = write
        self._line = b""
        self._is_panic = False

    def pump(self, source: int, is_over: Callable[[], bool] = lambda: False) -> None:
        """Read until nobody can write any more."""
        while True:
            if not select.select([source], [], [], QUIET_SECONDS)[0]:
                self._end_line()
                self._is_panic = False
                if is_over():
                    return
                continue
            chunk = os.read(source, 1 << 16)
            if not chunk:
                self._end_line()
                return
            *lines, self._line = (self._line + chunk).split(b"\n")
            for line in lines:
                self._pass(line + b"\n")

    def _end_line(self) -> None:
        line, self._line = self._line, b""
        if line:
            self._pass(line)

    def _pass(self, line: bytes) -> None:
        refused = _MEMORY.search(line)
        if refused is not None:
            self.n_bytes_refused = int(refused[1])
        if found := _READS.fullmatch(line):
            import ast  # rarely needed, and long to load

            self.reads = ast.literal_eval(found[1].decode())
            return
        self._is_panic = self._is_panic or _PANIC.match(line) is not None
        if not self._is_panic and line.strip():
            self._write(line)


def filter_native_stderr() -> None:
    """From here on `sys.stderr` is a copy of stderr, and panics of native code go nowhere."""
    global _restore
    handed = os.environ.get(PARENT)  # the descriptor that it reads
    os.environ["RUST_BACKTRACE"] = "0"  # nobody sees one, and the filter could not tell its end
    try:
        own = os.dup(2)
    except OSError:
        return  # there is no stderr
    encoding = getattr(sys.stderr, "encoding", None)
    sys.stderr = open(own, "w", encoding=encoding, errors="replace", buffering=1)
    if handed is not None:
        os.dup2(int(handed), 2)
        return
    source, sink = os.pipe()
    os.dup2(sink, 2)
    os.close(sink)
    passing = Filter(lambda line: os.write(own, line))
    thread = threading.Thread(target=passing.pump, args=(source,), name="stderr", daemon=True)
    thread.start()

    def restore() -> None:
        os.dup2(own, 2)
        thread.join(LAST_WORDS_SECONDS)

    _restore = restore


def flush_native_stderr() -> None:
    """Wait until what native code wrote has been passed on."""
    if _restore is not None:
        with suppress(OSError):
            _restore()
