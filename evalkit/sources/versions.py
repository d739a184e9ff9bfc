"""Delta and Iceberg tables: which version is read, and what identifies it."""

import glob
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import polars as pl

from evalkit.config.credentials import current_options, reader_options
from evalkit.errors import DataError, EvalkitError, RequestError, install_hint
from evalkit.sources.failures import describe, is_outage


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a table; `identity` is the same wherever the table lies."""

    number: str
    identity: str


def is_delta(folder: str) -> bool:
    """Whether a local folder is a Delta table."""
    return os.path.isdir(os.path.join(folder, "_delta_log"))


def is_iceberg(folder: str) -> bool:
    """Whether a local folder is an Iceberg table."""
    return bool(_metadata_files(folder))


def tables_around(path: str) -> Iterator[tuple[str, str]]:
    """Folders around a local path, or at it, that are tables of versions, and of which kind."""
    folder = os.path.abspath(path)
    while True:
        if os.path.isdir(folder):
            kinds = {
                "Delta": is_delta(folder),
                "Hudi": os.path.isdir(os.path.join(folder, ".hoodie")),
                "Iceberg": is_iceberg(folder),
            }
            yield from ((folder, kind) for kind, is_one in kinds.items() if is_one)
        if os.path.dirname(folder) == folder:
            return
        folder = os.path.dirname(folder)


def delta_version(path: str) -> Version:
    """The version that a Delta table has now.

    Raises:
        RequestError: the library is not there [missing-extra].
        DataError: it cannot be read [unreadable-file].
    """
    try:
        from deltalake import DeltaTable
    except ImportError as error:
        raise _missing("delta", "deltalake", path) from error
    try:
        options = {key: str(value) for key, value in _options(path).items()}
        table = DeltaTable(path, storage_options=options or None)
        number = table.version()
        return Version(str(number), f"delta {table.metadata().id} {number}")
    except Exception as error:  # the library's own errors have no common base
        raise _unreadable("Delta", path, error) from error


def iceberg_version(path: str) -> Version:
    """The snapshot that an Iceberg table has now; `path` is its folder or its metadata file.

    Raises:
        RequestError: the library is not there [missing-extra].
        DataError: it cannot be read, or holds no snapshot [unreadable-file].
    """
    try:
        from pyiceberg.table import StaticTable
    except ImportError as error:
        raise _missing("iceberg", "pyiceberg", path) from error
    try:
        if "://" in path:
            table = StaticTable.from_metadata(metadata_file(path), dict(_options(path)))
            snapshot, uuid = table.metadata.current_snapshot_id, str(table.metadata.table_uuid)
        else:
            with open(metadata_file(path), encoding="utf-8") as file:
                document = json.load(file)
            snapshot, uuid = document.get("current-snapshot-id"), str(document.get("table-uuid"))
    except EvalkitError:
        raise
    except Exception as error:
        raise _unreadable("Iceberg", path, error) from error
    if snapshot in (None, -1):
        raise DataError("the Iceberg table holds no snapshot", code="unreadable-file", at=path)
    return Version(str(snapshot), f"iceberg {uuid} {snapshot}")


def scan_version(path: str, format: str, number: str) -> pl.LazyFrame:
    """One version of a table, lazily."""
    options = _options(path) or None
    if format == "delta":
        return pl.scan_delta(path, version=int(number), storage_options=options)
    return pl.scan_iceberg(metadata_file(path), snapshot_id=int(number), storage_options=options)


def _options(path: str) -> dict[str, Any]:
    """Options of the store, in which every wait has an end; none for a local table."""
    return reader_options(path) if "://" in path else current_options() or {}


def metadata_file(path: str) -> str:
    """The metadata file of an Iceberg table; the newest one of a local folder.

    Raises:
        DataError: a store's folder does not tell which one is the newest [unreadable-file].
    """
    if path.endswith(".metadata.json"):
        return path
    if "://" in path:
        message = "which metadata file of a store's Iceberg table is the newest, its catalog knows"
        hint = f"name it: {path.rstrip('/')}/metadata/00001-....metadata.json"
        raise DataError(message, code="unreadable-file", at=path, hint=hint)
    return max(_metadata_files(path), key=_order)


def _metadata_files(folder: str) -> list[str]:
    if not os.path.isdir(os.path.join(folder, "metadata")):
        return []  # soon known of each of the folders around a log
    return glob.glob(os.path.join(glob.escape(folder), "metadata", "*.metadata.json"))


def _order(path: str) -> tuple[int, str]:
    found = re.match(r"v?(\d+)", os.path.basename(path))
    return int(found[1]) if found else -1, path


def _missing(extra: str, library: str, path: str) -> RequestError:
    message = f"the table is read through {library}, which is not installed"
    return RequestError(message, code="missing-extra", at=path, hint=install_hint(extra))


def _unreadable(name: str, path: str, error: BaseException) -> EvalkitError:
    if is_outage(error):
        return describe(error, path)
    reason = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
    message = f"the {name} table cannot be read: {reason}"
    hint = "is it whole, and may this user read it?"
    return DataError(message, code="unreadable-file", at=path, hint=hint)
