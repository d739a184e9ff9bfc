"""Directories of finished runs: published whole or not at all, and verified when read."""

from evalkit.runs._files import machine_errors
from evalkit.runs._keys import new_run_id, run_key
from evalkit.runs._lock import Job, abandon, hold, private_folder
from evalkit.runs._manifest import Manifest, find_done, finished, load_numbers, load_run, verify
from evalkit.runs._publish import FORMATS, LATEST, publish
from evalkit.runs._store import StoreFolder, is_store, open_store

__all__ = [
    "FORMATS",
    "LATEST",
    "Job",
    "Manifest",
    "StoreFolder",
    "abandon",
    "find_done",
    "finished",
    "hold",
    "is_store",
    "load_numbers",
    "load_run",
    "machine_errors",
    "new_run_id",
    "open_store",
    "private_folder",
    "publish",
    "run_key",
    "verify",
]
