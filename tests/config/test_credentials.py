"""Options of stores as Polars' readers take them, and how long a failing store holds up a job."""

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import polars as pl
import pytest
from program import Outcome, run_program

from evalkit.config.credentials import current_options, reader_options, storing
from evalkit.errors import RequestError


def test_readers_take_numbers_of_retries_as_numbers(monkeypatch):
    monkeypatch.setenv("TIMES", "2")
    given = {
        "max_retries": "${TIMES}",
        "retry_base_multiplier": "1.5",
        "aws_region": "1",
        "timeout": "9s",
    }

    with storing(given):
        read, as_given = reader_options("s3://lake/a.parquet"), current_options()

    assert read == {**given, "max_retries": 2, "retry_base_multiplier": 1.5}
    assert as_given == {**given, "max_retries": "2"}


@pytest.mark.parametrize("number", ["few", "-1", "1e30", "nan"])
@pytest.mark.parametrize("key", ["max_retries", "retry_base_multiplier", "file_cache_ttl"])
def test_retries_that_are_no_number_are_told(key, number):
    with storing({key: number}), pytest.raises(RequestError) as caught:
        reader_options("s3://lake/a.parquet")

    assert (caught.value.code, caught.value.at) == ("bad-value", "[storage]")


@pytest.mark.parametrize(
    ("given", "waits"),
    [
        ({}, {"timeout": "300s"}),
        # Polars looks for keys in profiles only where it knows every option; it knows timeout.
        ({"aws_profile": "research"}, {"timeout": "300s"}),
        ({"token": "t"}, {"timeout": "300s"}),
        ({"AWS_SECRET_ACCESS_KEY": "s"}, {"read_timeout": "15s"}),
        ({"account_key": "s"}, {"read_timeout": "15s"}),
        ({"account_key": "s", "timeout": "2s"}, {"timeout": "2s"}),
    ],
)
def test_every_wait_for_a_store_has_an_end(given, waits):
    with storing(given):
        assert reader_options("s3://lake/a.parquet") == {**given, **waits}
        assert reader_options("hf://datasets/a/b.parquet") == given  # it takes none of them


@contextmanager
def store(content: bytes, fault: str) -> Iterator[str]:
    """A store that has `content` under every name, and shows it in part, late, or not at all."""
    end = threading.Event()

    class Answer(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            if fault.isdigit():
                self.send_response(int(fault))
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            asked = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", "bytes=0-"))
            assert asked is not None
            first = int(asked[1]) if asked[1] else len(content) - int(asked[2])
            last = int(asked[2]) + 1 if asked[1] and asked[2] else len(content)
            part = content[first:last]
            self.send_response(206)
            self.send_header("Content-Length", str(len(part)))
            self.send_header("Content-Range", f"bytes {first}-{last - 1}/{len(content)}")
            self.send_header("ETag", '"1"')
            self.send_header("Last-Modified", "Mon, 01 Jan 2024 00:00:00 GMT")
            self.end_headers()
            self.wfile.write(part[: len(part) // 2])
            self.wfile.flush()
            if fault == "silent":
                end.wait(120)
            self.close_connection = True

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            end.set()
            server.shutdown()
            thread.join()


def evaluate(tmp_path, fault: str, **options: str) -> Outcome:
    """A job of a truth and three models in a store with that fault."""
    path = tmp_path / "rows.parquet"
    pl.DataFrame({"user": [1, 2], "item": [1, 2], "rank": [1, 1]}).write_parquet(path)
    with store(path.read_bytes(), fault) as url:
        storage = {
            "aws_endpoint_url": url, "aws_allow_http": "true", "aws_region": "us-east-1",
            "aws_access_key_id": "a", "aws_secret_access_key": "${KEY}", **options,
        }  # fmt: skip
        lines = ["[storage]", *(f'{key} = "{value}"' for key, value in storage.items())]
        lines += ["[truth]", 'path = "s3://lake/truth.parquet"']
        for model in "abc":
            lines += ["[[rankings]]", f'model = "{model}"', f'path = "s3://lake/{model}/*.parquet"']
        (tmp_path / "job.toml").write_text("\n".join([*lines, "[metrics]", 'names = ["RR"]']))
        return run_program(["run", "job.toml"], tmp_path, {"KEY": "not-to-be-seen-4711"})


@pytest.mark.parametrize("fault", ["cut", "silent", "503"])
def test_store_that_fails_for_good_ends_the_job_soon(tmp_path, fault):
    began = time.monotonic()

    done = evaluate(tmp_path, fault, retry_timeout_ms="2000", read_timeout="2s")

    assert done.status == 75, done.err
    assert done.err.count("error[store-unreachable]") == 1  # nor is it asked for the models
    assert time.monotonic() - began < 60
    assert "Traceback" not in done.err
    assert not list(tmp_path.glob("runs/2*"))


@pytest.mark.parametrize(
    ("fault", "code", "hint"),
    [
        ("401", "unreadable-file", "credentials"),
        ("403", "unreadable-file", "credentials"),
        ("301", "unreadable-file", "aws_region"),
        ("400", "unreadable-file", "options of the store"),
        ("404", "path-not-found", "misspellings"),
    ],
)
def test_store_that_refuses_is_a_fault_of_the_request(tmp_path, fault, code, hint):
    done = evaluate(tmp_path, fault)

    assert done.status == 3, done.err
    assert done.err.count(f"error[{code}]") == 4
    assert done.err.count("  hint: ") == 4
    assert all(hint in each for each in done.err.splitlines() if each.startswith("  hint"))
    assert "not-to-be-seen-4711" not in done.err
