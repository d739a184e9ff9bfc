"""Folders and files that nobody else can have put there, checked on the handles that are used.

Code that is loaded from a folder is trusted as far as everybody who could write there. So each
part of the way is opened from the handle of the part before it, never through a link, and its
owner and mode are read from the handle that is used from then on: what is swapped later is not
seen. What root or this user owns and no other can write is trusted; and as parents root's sticky
folders such as /tmp, in which nobody can rename or remove what another one owns.
"""

import os
import stat

_WAY = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK  # nobody waits at the other end of a pipe
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_LARGEST = 64 << 20  # bytes of a file; a kernel has some 100 kB
PRIVATE = 0o700


class Distrust(Exception):
    """Others could have written there; says what to do about it."""


def open_folder(path: str, *, mode: int = PRIVATE) -> int:
    """A handle of the folder `path`.

    Args:
        mode: of the folders that are made, under any umask.
    Raises:
        Distrust: a part of the way is a link, or others own it or can write it.
        OSError: it can be neither opened nor made.
    """
    handle, walked = os.open("/", _WAY), "/"
    try:
        _check(os.fstat(handle), walked, is_parent=True)
        parts = _without_link_of_root(path)
        for place, part in enumerate(parts):
            walked = os.path.join(walked, part)
            inner = _enter(handle, part, walked, mode)
            os.close(handle)
            handle = inner
            _check(os.fstat(handle), walked, is_parent=place < len(parts) - 1)
    except BaseException:
        os.close(handle)
        raise
    return handle


def let_all_read(folder: int) -> None:
    """Let all users read the folder, its parent and its files."""
    for name in ("..", "."):
        os.chmod(name, 0o755, dir_fd=folder)  # noqa: S103
    listed = os.open(".", os.O_RDONLY, dir_fd=folder)
    try:
        for name in os.listdir(listed):
            os.chmod(name, 0o644, dir_fd=folder)
    finally:
        os.close(listed)


def read_file(folder: int, name: str) -> bytes | None:
    """The bytes of a file that only root or this user can have written; None where it is none.

    Raises:
        OSError: there is no such file, or it cannot be read.
    """
    handle = os.open(name, _FILE, dir_fd=folder)
    with open(handle, "rb", buffering=0) as file:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or _fault(status) or status.st_size > _LARGEST:
            return None
        return file.readall()


def write_file(folder: int, name: str, content: bytes, *, mode: int) -> None:
    """Write a file whole or not at all, with that mode under any umask.

    Raises:
        OSError: it cannot be written.
    """
    fresh = f".{name}.{os.urandom(8).hex()}"
    handle = os.open(fresh, _NEW, 0o600, dir_fd=folder)
    try:
        with open(handle, "wb") as file:
            os.fchmod(handle, mode)
            file.write(content)
        os.replace(fresh, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        os.unlink(fresh, dir_fd=folder)
        raise


def _without_link_of_root(path: str) -> list[str]:
    """The parts of the way; root's link below / itself, as /home or /tmp may be, is followed."""
    parts = [part for part in os.path.abspath(path).split("/") if part]
    if parts:
        with_ = f"/{parts[0]}"
        try:
            status = os.lstat(with_)
        except FileNotFoundError:
            return parts
        if stat.S_ISLNK(status.st_mode) and status.st_uid == 0:
            target = os.path.normpath(os.path.join("/", os.readlink(with_)))
            return [*(part for part in target.split("/") if part), *parts[1:]]
    return parts


def _enter(handle: int, part: str, path: str, mode: int) -> int:
    """A handle of a folder inside the one of `handle`, made where it lacks."""
    try:
        return _open(handle, part, path)
    except FileNotFoundError:
        pass
    try:
        os.mkdir(part, PRIVATE, dir_fd=handle)
    except FileExistsError:
        pass  # another process was faster
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None
    else:
        os.chmod(part, mode, dir_fd=handle)  # nobody else can have put another one there
    return _open(handle, part, path)


def _open(handle: int, part: str, path: str) -> int:
    try:
        return os.open(part, _WAY, dir_fd=handle)
    except OSError as error:
        if _is_link(handle, part):
            way_out = "set NUMBA_CACHE_DIR to the folder that it leads to"
            raise Distrust(f"{path} is a link; {way_out}") from None
        raise OSError(error.errno, error.strerror, path) from None  # of the kind of its number


def _is_link(handle: int, part: str) -> bool:
    try:
        return stat.S_ISLNK(os.lstat(part, dir_fd=handle).st_mode)
    except OSError:
        return False


def _check(status: os.stat_result, path: str, *, is_parent: bool) -> None:
    fault = _fault(status)
    if fault is None:
        return
    if is_parent and status.st_uid == 0 and status.st_mode & stat.S_ISVTX:
        return
    way_out = "set NUMBA_CACHE_DIR to a folder that is yours alone"
    if status.st_uid == os.geteuid():
        way_out = f"chmod go-w {path}"
    raise Distrust(f"{path} {fault}; {way_out}")


def _fault(status: os.stat_result) -> str | None:
    if status.st_uid not in (os.geteuid(), 0):
        return "belongs to another user"
    if status.st_mode & _OTHERS:
        return "can be written by others"
    return None
