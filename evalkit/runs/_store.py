"""Runs in an object store: files first, the manifest last, a conditional put as the lock.

A prefix without a manifest is no run, whatever lies there. The lock is an object that is made only
where there is none; it names its owner and the time when it ends by itself, and its owner
renews it while it works.
"""

import json
import os
import re
import secrets
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from evalkit.errors import BusyError, DataError, EvalkitError, MachineError, RequestError
from evalkit.runs._keys import hash_name
from evalkit.runs._manifest import FILE, MANIFEST, RUN_ID, Manifest, parse_manifest
from evalkit.storage import expand

if TYPE_CHECKING:
    from obstore.store import ObjectStore

LATEST = "latest"
LEASE_SECONDS = 120.0
POLL_SECONDS = 1.0
MOST_LISTED = 400  # manifests that a look for an earlier run reads, the latest first

_URL = re.compile(r"(?P<scheme>s3|gs|az)://(?P<bucket>[^/]+)(?:/(?P<prefix>.*))?")


def is_store(folder: str) -> bool:
    """Whether a folder of runs is one of an object store."""
    return bool(_URL.fullmatch(folder))


class Objects(Protocol):
    """What is asked of a store; every call may fail."""

    def put(self, path: str, content: bytes | Path) -> None: ...
    def create(self, path: str, content: bytes) -> str | None:
        """The new object's version; None where there is one already."""

    def replace(self, path: str, content: bytes, version: str) -> str | None:
        """The new version; None where the object is not of that version any more."""

    def get(self, path: str) -> tuple[bytes, str] | None: ...
    def names(self, prefix: str) -> list[str]: ...
    def folders(self, prefix: str) -> list[str]: ...
    def delete(self, path: str) -> None: ...


@dataclass(frozen=True, slots=True)
class StoreObjects:
    """A store of the obstore library."""

    store: "ObjectStore"

    def put(self, path: str, content: bytes | Path) -> None:
        import obstore

        obstore.put(self.store, path, content)

    def create(self, path: str, content: bytes) -> str | None:
        import obstore
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        try:
            return obstore.put(self.store, path, content, mode="create")["e_tag"] or ""
        except (AlreadyExistsError, PreconditionError):
            return None

    def replace(self, path: str, content: bytes, version: str) -> str | None:
        import obstore
        from obstore.exceptions import NotFoundError, PreconditionError

        try:
            found = obstore.put(self.store, path, content, mode={"e_tag": version})
        except (PreconditionError, NotFoundError):
            return None
        return found["e_tag"] or ""

    def get(self, path: str) -> tuple[bytes, str] | None:
        import obstore

        try:
            found = obstore.get(self.store, path)
            return bytes(found.bytes()), found.meta["e_tag"] or ""
        except FileNotFoundError:
            return None

    def names(self, prefix: str) -> list[str]:
        import obstore

        return [each["path"] for batch in obstore.list(self.store, prefix) for each in batch]

    def folders(self, prefix: str) -> list[str]:
        import obstore

        found = obstore.list_with_delimiter(self.store, prefix or None)
        return [path.rstrip("/").rpartition("/")[2] for path in found["common_prefixes"]]

    def delete(self, path: str) -> None:
        import obstore

        obstore.delete(self.store, path)


@dataclass(slots=True)
class StoreFolder:
    """A folder of runs in a store.

    Args:
        url: as `s3://bucket/runs`, for people.
        objects: the bucket.
        prefix: inside the bucket, without slashes at its ends.
    """

    url: str
    objects: Objects
    prefix: str = ""
    _known: dict[str, Manifest] = field(default_factory=dict)
    _contents: dict[str, bytes] = field(default_factory=dict)

    @contextmanager
    def hold(self, name: str, *, wait_seconds: float = 0.0) -> Iterator[None]:
        """The lock of the job `name`.

        Raises:
            BusyError: another process holds it [run-locked], or took it over [lock-lost].
        """
        path = self._at(f".lock-{hash_name(name)}")
        with _store_errors(self.url):
            lease = _take(self.objects, path, name, wait_seconds, self.url)
        renewing = threading.Thread(target=lease.keep, name="lease", daemon=True)
        renewing.start()
        try:
            yield
            if lease.is_lost:
                raise BusyError(
                    "another process took the lock while this one could not renew it",
                    code="lock-lost",
                    at=f"{self.url}/.lock-{hash_name(name)}",
                    hint="try again",
                )
        finally:
            lease.release()

    def publish(self, run: Path) -> str:
        """The URL of a finished local run's copy; its manifest is put last, and only once.

        Raises:
            RequestError: the run is there already [run-exists].
            MachineError, BusyError: the store refuses or does not answer [store-failed,
                store-unreachable]; what was put is removed as far as the store allows.
        """
        run_id = run.name
        names = [
            path.relative_to(run).as_posix() for path in sorted(run.rglob("*")) if path.is_file()
        ]
        put: list[str] = []
        is_tried = False
        manifest = (run / MANIFEST).read_bytes()
        try:
            with _store_errors(self.url):
                if self.objects.get(self._at(run_id, MANIFEST)) is not None:
                    raise self._exists(run_id)
                for name in names:
                    if name != MANIFEST:
                        put.append(self._at(run_id, name))
                        self.objects.put(put[-1], run / name)
                is_tried = True
                if self.objects.create(self._at(run_id, MANIFEST), manifest) is None:
                    raise self._exists(run_id)
        except BaseException:
            is_there = self._is_there(run_id, manifest) if is_tried else False
            if is_there is False:  # never when nobody knows: the manifest may stand
                for path in put:
                    with suppress(Exception):
                        self.objects.delete(path)
            if not is_there:
                raise
        with _store_errors(self.url):
            self.objects.put(self._at(LATEST), f"{run_id}\n".encode())
        return f"{self.url}/{run_id}"

    def _is_there(self, run_id: str, manifest: bytes) -> bool | None:
        """Whether a put whose answer was lost has come to pass; None when nobody knows."""
        try:
            found = self.objects.get(self._at(run_id, MANIFEST))
        except Exception:
            return None
        return found is not None and found[0] == manifest

    def _exists(self, run_id: str) -> RequestError:
        return RequestError(
            f"run {run_id!r} is written already, and runs are written once",
            code="run-exists",
            at=f"{self.url}/{run_id}",
            hint="evaluate again for a new run",
        )

    def mirror(self, folder: Path, *, name: str) -> None:
        """Put the manifests of the last runs of a job into a local folder, to look for one."""
        for manifest in self.manifests():
            if manifest.name == name:
                (folder / manifest.run_id).mkdir(exist_ok=True)
                content = self._contents[manifest.run_id]
                (folder / manifest.run_id / MANIFEST).write_bytes(content)

    def sweep(self) -> None:
        """Remove what unfinished publications left: prefixes without a manifest.

        Runs of other names may be on their way here, so only what is older than a day goes.
        """
        with _store_errors(self.url):
            for run_id in self._run_ids():
                if run_id[:8] >= time.strftime("%Y%m%d", time.gmtime(time.time() - 86_400)):
                    continue
                if self.manifest(run_id) is None:
                    for path in self.objects.names(self._at(run_id)):
                        self.objects.delete(path)

    def manifests(self) -> Iterator[Manifest]:
        """Of every run, the latest first."""
        for run_id in self._run_ids()[:MOST_LISTED]:
            manifest = self.manifest(run_id)
            if manifest is not None and manifest.run_id == run_id:
                yield manifest

    def manifest(self, run_id: str) -> Manifest | None:
        """What a run holds; None where there is no run of that id."""
        if run_id not in self._known:
            with _store_errors(self.url):
                found = self.objects.get(self._at(run_id, MANIFEST))
            if found is None:
                return None
            with suppress(ValueError, RecursionError):
                self._known[run_id] = parse_manifest(found[0])
                self._contents[run_id] = found[0]
        return self._known.get(run_id)

    def fetch(self, run_id: str, into: Path) -> Path:
        """A local copy of a run's directory, to verify or to read.

        Raises:
            DataError: there is no such run [no-such-run], or a file of it is gone
                [run-damaged].
        """
        with _store_errors(self.url):
            found = self.objects.get(self._at(run_id, MANIFEST))
        manifest = self.manifest(run_id)
        if found is None or manifest is None:
            raise DataError("there is no such run", code="no-such-run", at=f"{self.url}/{run_id}")
        target = into / run_id
        target.mkdir(exist_ok=True)
        for name in manifest.files:
            if not FILE.fullmatch(name):
                raise DataError(
                    f"{name!r} is no name of a run's file",
                    code="run-damaged",
                    at=f"{self.url}/{run_id}",
                )
            with _store_errors(self.url):
                content = self.objects.get(self._at(run_id, name))
            if content is not None:
                (target / name).parent.mkdir(exist_ok=True)
                (target / name).write_bytes(content[0])
        (target / MANIFEST).write_bytes(found[0])
        return target

    def latest(self) -> str | None:
        """The id of the run that was published last."""
        with _store_errors(self.url):
            found = self.objects.get(self._at(LATEST))
        return None if found is None else found[0].decode("ascii", "replace").strip()

    def _run_ids(self) -> list[str]:
        with _store_errors(self.url):
            names = self.objects.folders(self.prefix)
        return sorted((name for name in names if RUN_ID.fullmatch(name)), reverse=True)

    def _at(self, *parts: str) -> str:
        return "/".join(part for part in (self.prefix, *parts) if part)


@dataclass(slots=True)
class _Lease:
    """A lock that was taken, and is renewed until it is released."""

    objects: Objects
    path: str
    owner: str
    version: str
    is_lost: bool = False
    _end: threading.Event = field(default_factory=threading.Event)

    def keep(self) -> None:
        while not self._end.wait(LEASE_SECONDS / 4):
            with suppress(Exception):  # a store that does not answer may do so next time
                version = self.objects.replace(self.path, _content(self.owner), self.version)
                if version is None:
                    self.is_lost = True
                    return
                self.version = version

    def release(self) -> None:
        self._end.set()
        with suppress(Exception):  # it ends by itself
            found = self.objects.get(self.path)
            if found is not None and json.loads(found[0]).get("owner") == self.owner:
                self.objects.delete(self.path)


def _content(owner: str) -> bytes:
    return json.dumps({"owner": owner, "ends": time.time() + LEASE_SECONDS}).encode()


def _take(objects: Objects, path: str, name: str, wait_seconds: float, url: str) -> _Lease:
    owner = secrets.token_hex(16)
    end = time.monotonic() + wait_seconds
    while True:
        version = objects.create(path, _content(owner))
        if version is None:
            found = objects.get(path)
            if found is not None and _owner_of(found[0]) == owner:
                version = found[1]  # an answer was lost, and the put was repeated
            elif found is not None and _has_ended(found[0]):
                version = objects.replace(path, _content(owner), found[1])
        if version is not None:
            return _Lease(objects, path, owner, version)
        if time.monotonic() >= end:
            raise BusyError(
                f"another process writes a run of {name!r}",
                code="run-locked",
                at=f"{url}/{path.rpartition('/')[2]}",
                hint="evalkit run --wait 600 waits; a lock whose job was killed ends within "
                f"{LEASE_SECONDS:.0f} seconds",
            )
        time.sleep(min(POLL_SECONDS, max(end - time.monotonic(), 0.0)))


def _owner_of(content: bytes) -> object:
    with suppress(ValueError, AttributeError):
        return json.loads(content).get("owner")
    return None


def _has_ended(content: bytes) -> bool:
    with suppress(ValueError, AttributeError, TypeError):
        return float(json.loads(content).get("ends")) < time.time()
    return True


def open_store(url: str, options: Mapping[str, str]) -> StoreFolder:
    """The folder of runs at a URL.

    Args:
        options: as under `[storage]`, with references to the environment.
    Raises:
        RequestError: the library is not there [missing-extra], the URL or an option is none of
            its [bad-store].
    """
    found = _URL.fullmatch(url.rstrip("/"))
    if found is None:
        raise RequestError(f"{url!r} is no store", code="bad-store", hint="s3://bucket/runs")
    try:
        from obstore.exceptions import BaseError
        from obstore.store import from_url
    except ImportError as error:
        raise RequestError(
            "runs go to a store through obstore, which is not installed",
            code="missing-extra",
            at=url,
            hint='pip install "evalkit[s3]"',
        ) from error
    given = expand(options)
    of_environment = os.environ.get("AWS_ALLOW_HTTP", "false")
    allow_http = given.pop("aws_allow_http", of_environment).lower() == "true"
    try:
        retries = int(given.pop("max_retries", "3"))
        store = from_url(
            f"{found['scheme']}://{found['bucket']}",
            config=given or None,
            client_options={"allow_http": allow_http},
            retry_config={"max_retries": retries, "retry_timeout": timedelta(seconds=30)},
        )
    except (BaseError, ValueError, TypeError) as error:
        raise RequestError(
            f"the store cannot be opened: {_first_line(error)}",
            code="bad-store",
            at=url,
            hint="[storage] takes options such as aws_region and aws_endpoint_url",
        ) from error
    return StoreFolder(url.rstrip("/"), StoreObjects(store), (found["prefix"] or "").strip("/"))


@contextmanager
def _store_errors(url: str) -> Iterator[None]:
    try:
        yield
    except EvalkitError:
        raise
    except (ConnectionError, TimeoutError) as error:
        raise _unreachable(url, error) from error
    except Exception as error:
        if not isinstance(error, OSError) and type(error).__module__.partition(".")[0] not in (
            "obstore",
            "builtins",
        ):
            raise
        kind = type(error).__name__
        if kind in ("PermissionDeniedError", "UnauthenticatedError", "PermissionError"):
            raise MachineError(
                f"the store refuses: {_first_line(error)}",
                code="store-refused",
                at=url,
                hint="the credentials may not write there",
            ) from error
        if kind == "GenericError":
            raise _unreachable(url, error) from error
        raise MachineError(
            f"the store failed: {_first_line(error)}",
            code="store-failed",
            at=url,
            hint="no run was written; try again",
        ) from error


def _unreachable(url: str, error: BaseException) -> BusyError:
    return BusyError(
        f"the store does not answer: {_first_line(error)}",
        code="store-unreachable",
        at=url,
        hint="try again later",
    )


def _first_line(error: BaseException) -> str:
    text = (str(error).strip() or type(error).__name__).splitlines()[0]
    # What follows may repeat the request, signature and all.
    return re.split(r"[?&]X-Amz|, response|\{", text)[0][:200]
