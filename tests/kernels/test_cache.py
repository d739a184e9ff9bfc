"""The cache of machine code runs nobody else's: planted, writable, linked and swapped folders."""

import io
import os
import pickle
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from hashlib import blake2b
from pathlib import Path

import pytest

from evalkit.kernels import cache
from evalkit.kernels.cache import Cache

NOBODY, STRANGER = 65534, 12345
NAME, CODE = "total_1", b"q\ncode"
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be other users")


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of root in /tmp that everybody can enter; no cache is named by the environment."""
    monkeypatch.setattr("evalkit.kernels.cache._key", lambda: "0123abcd")
    for name in ("HOME", "XDG_CACHE_HOME", "NUMBA_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    path = Path(tempfile.mkdtemp(prefix="evalkit-cache-"))
    path.chmod(0o755)
    (path / "temporary").mkdir()
    (path / "temporary").chmod(0o1777)
    monkeypatch.setenv("TMPDIR", str(path / "temporary"))
    yield path
    shutil.rmtree(path)


def home(folder: Path, uid: int, mode: int = 0o700) -> Path:
    path = folder / f"home-{uid}"
    path.mkdir(exist_ok=True)
    path.chmod(mode)
    os.chown(path, uid, uid)
    return path


def keep_or_load(cache: Cache) -> bool:
    """As a kernel does: load the code, or compile and keep it. Whether it was kept."""
    kept = cache.load(NAME)
    if kept is None:
        cache.keep(NAME, CODE)
    return kept is not None


def run(
    uid: int | None = None,
    act: Callable[[Cache], object] = keep_or_load,
    *,
    umask: int = 0o022,
    cwd: Path | str = "/",
    **paths: object,
) -> tuple[object, str]:
    """What `act` gives in a process of that user, and what it says on stderr."""
    read, write = os.pipe()
    process = os.fork()
    if process == 0:
        try:
            os.chdir(cwd)
            os.environ.update({name: str(path) for name, path in paths.items()})
            if uid is not None:
                os.setgroups([])
                os.setresgid(uid, uid, uid)
                os.setresuid(uid, uid, uid)
            os.umask(umask)
            sys.stderr = io.StringIO()
            found = act(Cache())
            os.write(write, pickle.dumps((found, sys.stderr.getvalue())))
        finally:
            os._exit(0)
    os.close(write)
    with open(read, "rb") as stream:
        written = stream.read()
    os.waitpid(process, 0)
    return pickle.loads(written)


def kept_file(base: Path) -> Path:
    return base / "evalkit" / "0123abcd" / NAME


def plant(file: Path) -> None:
    """Another file of the right form; its code is loaded where the file is trusted."""
    content = b"q\nof a stranger"
    file.write_bytes(blake2b(content, digest_size=32).digest() + content)


def is_refused(said: str, why: str) -> bool:
    return said.startswith("warning[no-kernel-cache]: ") and said.count("\n") == 1 and why in said


def test_rooms_that_are_not_looked_through_hold_no_kernel():
    package = Path(cache.__file__).parents[1]
    files = [file for room in cache.WITHOUT_KERNELS for file in package.rglob(f"{room}/**/*.py")]

    assert len(files) > 100
    assert not [file for file in files if cache.MARK.search(file.read_bytes())]


# ---------------------------------------------------------------- what is trusted


@needs_root
@pytest.mark.parametrize("uid", [0, NOBODY, STRANGER])
def test_a_user_s_own_cache_serves(folder, uid):
    own = home(folder, uid)

    assert run(uid, HOME=own) == (False, "")
    assert run(uid, HOME=own) == (True, "")


@needs_root
@pytest.mark.parametrize("umask", [0o000, 0o002, 0o022, 0o077])
def test_nothing_that_others_can_write_is_made_under_any_umask(folder, umask):
    own = home(folder, NOBODY)
    run(NOBODY, HOME=own, umask=umask)
    found = [own / ".cache", *(own / ".cache").rglob("*")]

    assert [each for each in found if each.stat().st_mode & 0o077] == []
    assert run(NOBODY, HOME=own, umask=umask) == (True, "")


@needs_root
@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_a_cache_of_root_serves_others_who_cannot_write_it(folder, umask):
    base = folder / "image"
    run(NUMBA_CACHE_DIR=base, HOME="/", umask=umask)

    for uid in (NOBODY, STRANGER):
        assert run(uid, NUMBA_CACHE_DIR=base, HOME="/nonexistent") == (True, "")
    assert [each for each in base.rglob("*") if each.stat().st_mode & 0o022] == []


@needs_root
def test_a_kernel_that_the_cache_of_root_lacks_is_compiled_and_the_others_still_load(folder):
    base = folder / "image"
    run(NUMBA_CACHE_DIR=base)

    def act(cache: Cache) -> bool:
        cache.keep("other_1", b"")
        return keep_or_load(cache)

    is_kept, said = run(NOBODY, act, NUMBA_CACHE_DIR=base)

    assert is_kept
    assert is_refused(said, "Permission denied")


@needs_root
def test_warming_lets_others_read_what_root_kept_for_itself(folder):
    base = folder / "cache"
    base.mkdir()
    run(XDG_CACHE_HOME=base, umask=0o077)
    before = run(NOBODY, XDG_CACHE_HOME=base)
    run(None, Cache.share, XDG_CACHE_HOME=base)

    assert not before[0]
    assert run(NOBODY, XDG_CACHE_HOME=base) == (True, "")


@needs_root
def test_a_sticky_folder_of_root_is_trusted_as_a_parent(folder):
    shared = folder / "shared"
    shared.mkdir()
    shared.chmod(0o1777)

    assert run(NOBODY, NUMBA_CACHE_DIR=shared) == (False, "")
    assert run(NOBODY, NUMBA_CACHE_DIR=shared) == (True, "")
    assert is_refused(run(STRANGER, NUMBA_CACHE_DIR=shared)[1], "belongs to another user")


# ---------------------------------------------------------------- what is not


@needs_root
@pytest.mark.parametrize("depth", range(4))
@pytest.mark.parametrize(
    ("mode", "uid", "why"),
    [
        (0o777, NOBODY, "can be written by others; chmod go-w "),
        (0o775, NOBODY, "can be written by others; chmod go-w "),
        (0o775, 0, "can be written by others; set NUMBA_CACHE_DIR"),
        (0o1777, NOBODY, "can be written by others"),
        (0o755, STRANGER, "belongs to another user; set NUMBA_CACHE_DIR"),
    ],
)
def test_no_part_of_the_way_may_be_another_s(folder, depth, mode, uid, why):
    own = home(folder, NOBODY)
    run(NOBODY, HOME=own)
    file = kept_file(own / ".cache")
    way = [own, own / ".cache", own / ".cache" / "evalkit", file.parent]
    for each in way:
        each.chmod(0o755)
    plant(file)
    way[depth].chmod(mode)
    os.chown(way[depth], uid, uid)

    is_kept, said = run(NOBODY, HOME=own)

    assert not is_kept
    assert is_refused(said, f"{way[depth]} {why}")


@needs_root
def test_a_sticky_folder_that_everybody_can_write_is_no_cache(folder):
    run(XDG_CACHE_HOME=folder / "cache")
    file = kept_file(folder / "cache")
    file.parent.chmod(0o1777)

    assert is_refused(run(XDG_CACHE_HOME=folder / "cache")[1], "can be written by others")


@needs_root
@pytest.mark.parametrize(
    ("mode", "uid"), [(0o666, NOBODY), (0o660, NOBODY), (0o644, STRANGER), (0o664, 0)]
)
def test_a_file_of_others_is_compiled_anew_and_replaced(folder, mode, uid):
    own = home(folder, NOBODY)
    run(NOBODY, HOME=own)
    file = kept_file(own / ".cache")
    plant(file)
    file.chmod(mode)
    os.chown(file, uid, uid)

    assert run(NOBODY, HOME=own) == (False, "")
    assert run(NOBODY, HOME=own) == (True, "")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize("depth", range(3))
def test_no_part_of_the_way_may_be_a_link(folder, depth):
    run(XDG_CACHE_HOME=folder / "cache")
    file = kept_file(folder / "cache")
    part = [folder / "cache", folder / "cache" / "evalkit", file.parent][depth]
    part.rename(folder / "elsewhere")
    part.symlink_to(folder / "elsewhere")

    is_kept, said = run(XDG_CACHE_HOME=folder / "cache")

    assert not is_kept
    assert is_refused(said, f"{part} is a link; set NUMBA_CACHE_DIR")


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_what_is_no_file_is_not_read(folder, kind):
    run(XDG_CACHE_HOME=folder / "cache")
    file = kept_file(folder / "cache")
    if kind == "link":
        file.rename(folder / "elsewhere")
        file.symlink_to(folder / "elsewhere")
    else:
        file.unlink()
        os.mkfifo(file) if kind == "pipe" else file.mkdir()

    is_kept, said = run(XDG_CACHE_HOME=folder / "cache")

    assert not is_kept
    assert (said == "") == (kind != "folder")


@needs_root
def test_a_folder_that_is_swapped_after_its_check_is_not_looked_at(folder):
    own = home(folder, NOBODY)
    run(NOBODY, HOME=own)
    file = kept_file(own / ".cache")
    bad = folder / "bad"
    bad.mkdir()
    plant(bad / NAME)
    os.chown(bad, NOBODY, NOBODY)
    os.chown(bad / NAME, NOBODY, NOBODY)

    def act(cache: Cache) -> bytes | None:
        assert cache.path == file.parent
        file.parent.rename(file.parent.with_name("away"))
        file.parent.symlink_to(bad)
        return cache.load(NAME)

    assert run(NOBODY, act, HOME=own) == (CODE, "")


# ---------------------------------------------------------------- users without a home


@needs_root
@pytest.mark.parametrize("home", ["/", "/nonexistent", ""])
def test_a_user_without_a_home_keeps_kernels_for_himself_and_is_told_once(folder, home):
    is_kept, said = run(STRANGER, HOME=home)
    again = run(STRANGER, HOME=home)

    assert not is_kept
    assert is_refused(said, "set NUMBA_CACHE_DIR to a folder that this user can write")
    assert "evalkit warm" in said
    assert again == (True, "")
    (own,) = (folder / "temporary").iterdir()
    assert (own.stat().st_uid, own.stat().st_mode & 0o777) == (STRANGER, 0o700)


@needs_root
def test_a_home_that_can_be_read_alone_still_serves(folder):
    own = home(folder, NOBODY)
    run(NOBODY, HOME=own)
    inside = kept_file(own / ".cache").parent
    inside.chmod(0o500)

    def act(cache: Cache) -> bool:
        is_kept = cache.load("other_1") is not None
        cache.keep("other_1", b"code")
        return is_kept and keep_or_load(cache)

    first, again = run(NOBODY, act, HOME=own), run(NOBODY, act, HOME=own)

    assert not first[0]
    assert is_refused(first[1], "evalkit warm")
    assert again[1] == ""
    assert run(NOBODY, HOME=own) == (True, "")


@needs_root
@pytest.mark.parametrize("kind", ["of another", "open to all", "a link"])
def test_a_temporary_folder_that_is_not_safe_keeps_nothing(folder, kind):
    own = folder / "temporary" / f"evalkit-{STRANGER}"
    if kind == "a link":
        own.symlink_to(home(folder, STRANGER))
    else:
        own.mkdir()
        os.chown(own, *[NOBODY if kind == "of another" else STRANGER] * 2)
        own.chmod(0o777 if kind == "open to all" else 0o755)

    for _ in range(2):
        is_kept, said = run(STRANGER, HOME="/nonexistent")
        assert not is_kept
        assert is_refused(said, "kernels are compiled anew")


@needs_root
def test_a_user_without_home_and_passwd_entry_compiles(folder):
    is_kept, said = run(STRANGER)

    assert not is_kept
    assert is_refused(said, "set NUMBA_CACHE_DIR")


@needs_root
def test_a_relative_folder_is_checked_from_the_root_on(folder):
    there = home(folder, STRANGER, 0o777)
    (there / "mine").mkdir()
    os.chown(there / "mine", NOBODY, NOBODY)

    said = run(NOBODY, NUMBA_CACHE_DIR="mine", cwd=there)[1]

    assert is_refused(said, f"{there} belongs to another user")


def test_a_relative_folder_of_xdg_is_not_looked_at(folder):
    (folder / "home").mkdir()

    run(XDG_CACHE_HOME="cache", HOME=folder / "home", cwd=folder)

    assert not (folder / "cache").exists()
    assert kept_file(folder / "home" / ".cache").exists()
