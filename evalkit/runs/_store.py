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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from shlex import quote

from evalkit import errors
from evalkit.config.credentials import store_options
from evalkit.runs import _manifest
from evalkit.runs._keys import hash_name
from evalkit.runs._objects import Objects, StoreObjects
from evalkit.runs._outages import first_line, store_errors

LEASE_SECONDS = 120.0
POLL_SECONDS = 1.0
MOST_LISTED = 400  # manifests that a look for an earlier run reads, the latest first

_URL = re.compile(r"(?P<scheme>s3|gs|az)://(?P<bucket>[^/]+)(?:/(?P<prefix>.*))?")


def is_store(folder: str) -> bool:
    """Whether a folder of runs is one of an object store."""
    return bool(_URL.fullmatch(folder))


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
    _known: dict[str, _manifest.Manifest] = field(default_factory=dict)
    _contents: dict[str, bytes] = field(default_factory=dict)
    _written: str = ""

    @contextmanager
    def hold(self, name: str, *, wait_seconds: float = 0.0) -> Iterator[None]:
        """The lock of the job `name`.

        Raises:
            BusyError: another process holds it [run-locked], or took it over [lock-lost].
        """
        path = self.at(f".lock-{hash_name(name)}")
        with store_errors(self.url):
            lease = _take(self.objects, path, name, wait_seconds, self.url)
        renewing = threading.Thread(target=lease.keep, name="lease", daemon=True)
        renewing.start()
        self._written = ""
        try:
            with store_errors(self.url):
                self._sweep_own(name)
            yield
            if lease.is_lost and not self._written:
                raise errors.BusyError(
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
        run_id, url = run.name, f"{self.url}/{run.name}"
        manifest = (run / _manifest.MANIFEST).read_bytes()
        mark = self.at(self._marks(_manifest.parse_manifest(manifest).name), run_id)
        put = [mark]
        is_tried = False
        try:
            with store_errors(self.url):
                if self.objects.get(self.at(run_id, _manifest.MANIFEST)) is not None:
                    raise self._exists(run_id)
                self.objects.put(mark, b"")
                for path in sorted(path for path in run.rglob("*") if path.is_file()):
                    name = path.relative_to(run).as_posix()
                    if name != _manifest.MANIFEST:
                        put.insert(0, self.at(run_id, name))
                        self.objects.put(put[0], path)
                is_tried = True
                if self.objects.create(self.at(run_id, _manifest.MANIFEST), manifest) is None:
                    raise self._exists(run_id)
        except BaseException as error:
            is_there = self._is_there(run_id, manifest) if is_tried else False
            if is_there is False:  # never when nobody knows: the manifest may stand
                self._delete(put)
            if is_there is None and isinstance(error, errors.BusyError | errors.MachineError):
                raise errors.BusyError(
                    f"nobody knows whether the run is written: {error.message}",
                    code="store-unreachable",
                    at=url,
                    hint=f"evalkit verify {quote(url)} says it when the store answers again",
                ) from error
            if not is_there:
                raise
        self._check_mark(mark, run_id)
        self._written = url
        try:
            if _manifest.is_last(run_id, (each.run_id for each in self.manifests())):
                with store_errors(self.url):
                    self.objects.put(self.at(_manifest.LATEST), f"{run_id}\n".encode())
        except errors.EvalkitError as error:
            raise errors.MachineError(
                f"the run is written, but {_manifest.LATEST!r} does not name it: {error.message}",
                code="latest-not-moved",
                at=url,
                hint="the run is complete under this name",
            ) from error
        self._delete([mark])
        return url

    def _marks(self, name: str) -> str:
        """Where a job marks the runs that it is putting there."""
        return f".tmp-{hash_name(name)}"

    def _delete(self, paths: Sequence[str]) -> None:
        for path in paths:
            with suppress(Exception):  # a later run of the job does it
                self.objects.delete(path)

    def _check_mark(self, mark: str, run_id: str) -> None:
        """Withdraw a run whose files another job, which took the lock, may have swept.

        Raises:
            BusyError: it was swept [lock-lost].
        """
        try:
            is_marked = self.objects.get(mark) is not None
        except Exception:  # the lock is held, as far as anybody knows
            return
        if not is_marked:
            self._delete([self.at(run_id, _manifest.MANIFEST)])
            message = "another process took the lock and removed what this one had written"
            hint = "try again"
            raise errors.BusyError(message, code="lock-lost", at=f"{self.url}/{run_id}", hint=hint)

    def _sweep_own(self, name: str) -> None:
        """Remove what killed jobs of this name were putting there: no live one can be.

        The mark goes first: a job that lost its lock and goes on sees that it is gone.
        """
        for mark in self.objects.names(self.at(self._marks(name))):
            run_id = mark.rpartition("/")[2]
            self.objects.delete(mark)
            if self.objects.get(self.at(run_id, _manifest.MANIFEST)) is None:
                for path in self.objects.names(self.at(run_id)):
                    self.objects.delete(path)

    def _is_there(self, run_id: str, manifest: bytes) -> bool | None:
        """Whether a put whose answer was lost has come to pass; None when nobody knows."""
        try:
            found = self.objects.get(self.at(run_id, _manifest.MANIFEST))
        except Exception:
            return None
        return found is not None and found[0] == manifest

    def _exists(self, run_id: str) -> errors.RequestError:
        message = f"run {run_id!r} is written already, and runs are written once"
        hint = "evaluate again for a new run"
        return errors.RequestError(message, code="run-exists", at=f"{self.url}/{run_id}", hint=hint)

    def mirror(self, folder: Path, *, name: str | None = None, files: Sequence[str] = ()) -> None:
        """Put the manifests of the last runs into a local folder, to look for one.

        Args:
            name: of their job; of all jobs by default.
            files: what else of them is put there.
        """
        for manifest in self.manifests():
            if name in (None, manifest.name):
                self.fetch(manifest.run_id, folder, files=files)

    def sweep(self) -> None:
        """Remove what unfinished publications left: prefixes without a manifest.

        Runs of other names may be on their way here, so only what is older than a day goes.
        """
        with store_errors(self.url):
            for run_id in self._run_ids():
                if run_id[:8] >= time.strftime("%Y%m%d", time.gmtime(time.time() - 86_400)):
                    continue
                if self.objects.get(self.at(run_id, _manifest.MANIFEST)) is None:
                    for path in self.objects.names(self.at(run_id)):
                        self.objects.delete(path)

    def manifests(self) -> Iterator[_manifest.Manifest]:
        """Of every run, the latest first; what looks like a run and is none is set aside."""
        for run_id in self._run_ids()[:MOST_LISTED]:
            manifest = self.manifest(run_id)
            if manifest is not None:
                yield manifest

    def manifest(self, run_id: str) -> _manifest.Manifest | None:
        """What a run holds; None where there is no run of that id."""
        try:
            return self._look(run_id)
        except ValueError as error:
            _manifest.set_aside(f"{self.url}/{run_id}", str(error))
            return None

    def _look(self, run_id: str) -> _manifest.Manifest | None:
        """As `manifest`.

        Raises:
            ValueError: what stands there is none.
        """
        if run_id not in self._known and _manifest.RUN_ID.fullmatch(run_id):
            with store_errors(self.url):
                found = self.objects.get(self.at(run_id, _manifest.MANIFEST))
            if found is not None:
                manifest = _manifest.parse_manifest(found[0])
                _manifest.check_place(manifest, run_id)
                self._known[run_id], self._contents[run_id] = manifest, found[0]
        return self._known.get(run_id)

    def fetch(self, run_id: str, into: Path, *, files: Sequence[str] | None = None) -> Path:
        """A local copy of a run's directory, to verify or to read; of these files, or of all.

        Raises:
            DataError: there is no such run [no-such-run], or its manifest is damaged
                [run-damaged].
        """
        at = f"{self.url}/{run_id}"
        try:
            manifest = self._look(run_id)
        except ValueError as error:
            message = f"this is no whole run: {_manifest.MANIFEST}: {error}"
            raise errors.DataError(message, code="run-damaged", at=at) from error
        if manifest is None:
            raise errors.DataError("there is no such run", code="no-such-run", at=at)
        target = into / run_id
        target.mkdir(exist_ok=True)
        for name in manifest.files if files is None else set(files) & set(manifest.files):
            most = manifest.files[name].bytes
            if not name.startswith("per_user"):
                most = min(most, _manifest.MOST_REPORT_BYTES)
            with store_errors(self.url):
                self.objects.save(self.at(run_id, name), target / name, most)
        (target / _manifest.MANIFEST).write_bytes(self._contents[run_id])
        return target

    def latest(self) -> str | None:
        """The id of the last run, as `manifests` orders them."""
        with store_errors(self.url):
            found = self.objects.get(self.at(_manifest.LATEST))
        run_id = "" if found is None else found[0][:200].decode("ascii", "replace").strip()
        return run_id if _manifest.RUN_ID.fullmatch(run_id) else None

    def _run_ids(self) -> list[str]:
        with store_errors(self.url):
            names = self.objects.folders(self.prefix)
        return sorted((name for name in names if _manifest.RUN_ID.fullmatch(name)), reverse=True)

    def at(self, *parts: str) -> str:
        """Where an object of this folder lies in the store."""
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
            raise errors.BusyError(
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
        raise errors.RequestError(f"{url!r} is no store", code="bad-store", hint="s3://bucket/runs")
    try:
        from obstore.exceptions import BaseError
        from obstore.store import from_url
    except ImportError as error:
        message = "runs go to a store through obstore, which is not installed"
        hint = errors.install_hint("s3")
        raise errors.RequestError(message, code="missing-extra", at=url, hint=hint) from error
    given, retries, for_ms = store_options(options)
    of_environment = os.environ.get("AWS_ALLOW_HTTP", "false")
    allow_http = given.pop("aws_allow_http", of_environment).lower() == "true"
    try:
        store = from_url(
            f"{found['scheme']}://{found['bucket']}",
            config=given or None,
            client_options={"allow_http": allow_http},
            retry_config={"max_retries": retries, "retry_timeout": timedelta(milliseconds=for_ms)},
        )
    except BaseException as error:
        is_panic = type(error).__name__ == "PanicException"  # of options that are none of a store
        if not (is_panic or isinstance(error, (BaseError, ValueError, TypeError))):
            raise
        message = f"the store cannot be opened: {first_line(error)}"
        hint = "[storage] takes options such as aws_region and aws_endpoint_url"
        raise errors.RequestError(message, code="bad-store", at=url, hint=hint) from error
    return StoreFolder(url.rstrip("/"), StoreObjects(store), (found["prefix"] or "").strip("/"))
