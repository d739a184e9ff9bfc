"""Directories of finished runs: published, found, compared and judged by gates.

In: a report; names of runs that were published before.
Out: a directory, whole or not at all; past reports, verdicts of gates.
Open first: `_publish.py`; to read `_manifest.py`.
"""

from evalkit.runs._files import file_record, machine_errors, sync_directory, write
from evalkit.runs._keys import digest, hash_name, new_run_id, run_key
from evalkit.runs._lock import RunLock, hold
from evalkit.runs._manifest import (
    LATEST,
    TAGS,
    directory_of,
    find_done,
    finished,
    is_whole,
    load_numbers,
    load_run,
    set_aside,
    verify,
)
from evalkit.runs._outages import store_errors
from evalkit.runs._private import abandon, private_folder, replacing
from evalkit.runs._publish import publish
from evalkit.runs._store import StoreFolder, is_store, open_store
