"""What is on its way has no name that anybody guesses, follows no link and does not stay."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from evalkit.runs import hold, private_folder, replacing

KILLS = int(os.environ.get("EVALKIT_TEST_KILLS", "6"))
WORK = """
import os, sys, time
from pathlib import Path
from evalkit.runs import private_folder, replacing
target = Path(sys.argv[1])
with private_folder(target) as folder, replacing(target.with_name("all.parquet")) as file:
    (folder / "inner").mkdir()
    (folder / "inner" / "part").write_bytes(b"x" * 1000)
    file.write(b"half")
    print("ready", flush=True)
    time.sleep(60)
"""


def ours(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir() if each.name.startswith(".evalkit-"))


def test_new_file_takes_the_place_of_the_old_one_when_it_is_whole(tmp_path):
    (tmp_path / "a").write_text("old")

    with replacing(tmp_path / "a") as file:
        file.write(b"new")
        assert (tmp_path / "a").read_text() == "old"
        assert len(ours(tmp_path)) == 1

    assert (tmp_path / "a").read_text() == "new"
    assert ours(tmp_path) == []


def test_failure_leaves_the_old_file_and_nothing_else(tmp_path):
    (tmp_path / "a").write_text("old")

    with pytest.raises(ValueError, match="closed"), replacing(tmp_path / "a") as file:
        file.close()

    assert (tmp_path / "a").read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["a"]


def test_link_is_replaced_and_not_followed(tmp_path):
    (tmp_path / "theirs").write_text("theirs")
    (tmp_path / "a").symlink_to(tmp_path / "theirs")
    (tmp_path / "b").symlink_to(tmp_path / "nowhere")

    for name in "ab":
        with replacing(tmp_path / name) as file:
            file.write(b"ours")

    assert (tmp_path / "theirs").read_text() == "theirs"
    assert not (tmp_path / "nowhere").exists()
    assert [(tmp_path / name).read_text() for name in "ab"] == ["ours", "ours"]


def test_pipe_and_device_are_written_to():
    with replacing(Path("/dev/null")) as file:
        file.write(b"gone")

    assert Path("/dev/null").is_char_device()


def test_error_names_the_file_that_was_asked_for(tmp_path, monkeypatch):
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space") as caught, replacing(tmp_path / "a") as file:
        file.write(b"new")

    assert caught.value.filename == str(tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def test_what_killed_jobs_left_is_removed_and_live_ones_stay(tmp_path):
    target = tmp_path / "runs"

    def start() -> subprocess.Popen:
        job = subprocess.Popen(
            [sys.executable, "-c", WORK, str(target)],
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[2],
        )
        assert job.stdout.readline() == b"ready\n"
        return job

    live = start()
    try:
        kept = ours(tmp_path)
        assert len(kept) == 2
        for _ in range(KILLS // 3):
            killed = start()
            killed.kill()
            killed.wait()
            killed.stdout.close()
        assert len(ours(tmp_path)) > 2
        with private_folder(target):
            assert len(ours(tmp_path)) == 3
        assert ours(tmp_path) == kept
        with hold(target, "nightly"):
            assert ours(tmp_path) == kept
    finally:
        live.kill()
        live.wait()
        live.stdout.close()
    with hold(target, "nightly"):
        assert ours(tmp_path) == []


def test_nothing_of_other_names_or_behind_links_is_swept(tmp_path):
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "file").write_text("theirs")
    (tmp_path / f".evalkit-{'0' * 16}").symlink_to(tmp_path / "theirs")
    (tmp_path / ".evalkit-mine").mkdir()
    os.mkfifo(tmp_path / f".evalkit-{'1' * 16}")

    with private_folder(tmp_path / "runs"):
        pass

    assert (tmp_path / "theirs" / "file").read_text() == "theirs"
    assert ".evalkit-mine" in ours(tmp_path)
