"""What is asked of an object store, and a store that answers: obstore's."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from evalkit.runs._manifest import MOST_MANIFEST_BYTES

if TYPE_CHECKING:
    from obstore.store import ObjectStore


class Objects(Protocol):
    """What is asked of a store; every call may fail."""

    def put(self, path: str, content: bytes | Path) -> None: ...
    def create(self, path: str, content: bytes) -> str | None:
        """The new object's version; None where there is one already."""

    def replace(self, path: str, content: bytes, version: str) -> str | None:
        """The new version; None where the object is not of that version any more."""

    def get(self, path: str, most_bytes: int = MOST_MANIFEST_BYTES) -> tuple[bytes, str] | None:
        """The content and its version; no content where it is larger than `most_bytes`."""

    def save(self, path: str, target: Path, most_bytes: int) -> None:
        """Write an object to a new file, if there is one; one byte too many of a larger one."""

    def names(self, prefix: str) -> list[str]: ...
    def folders(self, prefix: str) -> list[str]: ...
    def delete(self, path: str) -> None: ...


@dataclass(frozen=True, slots=True)
class StoreObjects:
    """A store of the obstore library."""

    store: "ObjectStore"

    def put(self, path: str, content: bytes | Path) -> None:
        self.store.put(path, content)

    def create(self, path: str, content: bytes) -> str | None:
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        try:
            return self.store.put(path, content, mode="create")["e_tag"] or ""
        except (AlreadyExistsError, PreconditionError):
            return None

    def replace(self, path: str, content: bytes, version: str) -> str | None:
        from obstore.exceptions import NotFoundError, PreconditionError

        try:
            found = self.store.put(path, content, mode={"e_tag": version})
        except (PreconditionError, NotFoundError):
            return None
        return found["e_tag"] or ""

    def get(self, path: str, most_bytes: int = MOST_MANIFEST_BYTES) -> tuple[bytes, str] | None:
        try:
            found = self.store.get(path)
        except FileNotFoundError:
            return None
        if found.meta["size"] > most_bytes:
            return b"", found.meta["e_tag"] or ""
        return bytes(found.bytes()), found.meta["e_tag"] or ""

    def save(self, path: str, target: Path, most_bytes: int) -> None:
        try:
            found = self.store.get(path)
        except FileNotFoundError:
            return
        left = most_bytes + 1
        target.parent.mkdir(exist_ok=True)
        with open(target, "wb") as file:
            for chunk in found.stream():
                left -= file.write(memoryview(chunk)[:left])
                if not left:
                    return

    def names(self, prefix: str) -> list[str]:
        return [each["path"] for batch in self.store.list(prefix) for each in batch]

    def folders(self, prefix: str) -> list[str]:
        found = self.store.list_with_delimiter(prefix or None)
        return [path.rstrip("/").rpartition("/")[2] for path in found["common_prefixes"]]

    def delete(self, path: str) -> None:
        self.store.delete(path)
