"""Files of partials: whole or not there, checked before they are believed."""

import hashlib
import json
import os
import random
import struct
import subprocess
import sys
import tracemalloc
import zlib
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl
import pytest
from campaigns import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evalkit.config import parse_config
from evalkit.errors import DataError, Errors, EvalkitError, MachineError, RequestError
from evalkit.jobs.merge import open_for_merge
from evalkit.planning.counters import versions
from evalkit.planning.partials import (
    Header,
    Partial,
    definitions_of,
    missing_warning,
    open_partials,
)
from evalkit.planning.partials import _container as container
from evalkit.report import Input
from evalkit.statistics.exact import ExactSums

CONFIG = """
[truth]
path = "truth.parquet"
[[rankings]]
model = "als"
path = "als.parquet"
[metrics]
names = ["nDCG@{5,10}", "recall@10"]
"""


@dataclass
class Sums:
    """What a share of an invented kind leaves behind."""

    total: ExactSums = field(default_factory=lambda: ExactSums(2))
    counts: dict[str, int] = field(default_factory=dict)
    codes: npt.NDArray[np.int32] = field(default_factory=lambda: np.arange(3, dtype=np.int32))
    kept: pl.DataFrame = field(default_factory=pl.DataFrame)

    def merge(self, other):
        self.total.merge(other.total)
        for name, number in other.counts.items():
            self.counts[name] = self.counts.get(name, 0) + number


def header_of(*shares, n_shares=3, text=CONFIG, print_="ab", sample=None):
    config = parse_config(text, source="nightly.toml")
    inputs = (
        Input("truth", None, ("truth.parquet",), 10, print_, {"user": ("user",)}),
        Input("rankings", "als", ("als.parquet",), 20, "cd"),
    )
    return Header(
        config,
        definitions_of(config.requests),
        versions(),
        {"user": ("Int64",), "item": ("String",)},
        sample,
        n_shares,
        dict.fromkeys(shares, inputs),
    )


def sums_of(seed):
    sums = Sums(counts={"rows": seed})
    sums.total.add(np.random.default_rng(seed).random((10, 2)))
    return sums


@pytest.fixture
def files(tmp_path):
    """Three shares of one work."""
    paths = []
    for share in (1, 2, 3):
        path = tmp_path / f"part-{share}"
        Partial(header_of(share), sums_of(share)).write(path)
        paths.append(path)
    return paths


def codes_of(error):
    return [each.code for each in (error.errors if isinstance(error, Errors) else (error,))]


def refused(paths, **given):
    with pytest.raises(EvalkitError) as caught:
        open_partials(paths, **given).merged(Sums)
    return caught.value


def test_partials_merge_from_files_in_any_order(files):
    wanted = sums_of(1)
    wanted.merge(sums_of(2))
    wanted.merge(sums_of(3))

    for paths in (files, files[::-1], [files[1], files[0], files[2]]):
        found = open_partials(paths).merged(Sums)
        assert found.header.shares == [1, 2, 3]
        assert found.body.counts == {"rows": 6}
        assert found.body.total.sum_of(1) == wanted.total.sum_of(1)
        assert list(found.body.counts) == ["rows"]


def test_a_merged_partial_is_a_partial_with_the_same_bytes_for_any_tree(files, tmp_path):
    one = open_partials(files[:2], allow_missing=True).merged(Sums)
    one.write(tmp_path / "one")
    other = open_partials(files[1::-1], allow_missing=True).merged(Sums)
    other.write(tmp_path / "other")

    whole = open_partials([tmp_path / "one", files[2]]).merged(Sums)

    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()
    assert whole.body.counts == {"rows": 6}


def test_a_partial_of_many_segments_is_small(tmp_path):
    """Ten models, ten metrics, three hundred segments: some MiB."""

    @dataclass
    class Many:
        sums: dict[tuple[str, str], ExactSums]

        def merge(self, other):
            pass

    drawn = np.random.default_rng(1)
    sums = {}
    for segment in range(300):
        for model in range(10):
            each = sums[str(segment), str(model)] = ExactSums(10)
            each.add(drawn.random((30, 10)))
    Partial(header_of(1, n_shares=1), Many(sums)).write(tmp_path / "many")

    assert (tmp_path / "many").stat().st_size < 8 << 20


# ---------------------------------------------------------------- damage


def test_a_file_that_is_cut_anywhere_is_refused(files):
    content = files[0].read_bytes()
    for length in range(len(content)):
        files[0].write_bytes(content[:length])
        error = refused(files[:1])
        wanted = "not-a-partial" if length < len(container.MARK) else "damaged-partial"
        assert (error.code, error.at, error.exit_status) == (wanted, str(files[0]), 3)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(300))
@given(data=st.data())
def test_a_file_with_another_byte_is_refused(files, data):
    content = bytearray(files[1].read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    damaged = bytearray(content)
    damaged[place] ^= data.draw(st.integers(1, 255))
    path = files[1].with_name("damaged")
    path.write_bytes(damaged)

    error = refused([files[0], path, files[2]])

    assert error.code in ("damaged-partial", "not-a-partial", "partial-version")
    assert error.exit_status == 3


def test_bytes_behind_the_end_are_refused(files):
    files[0].write_bytes(files[0].read_bytes() + b"\0")

    assert refused(files).code == "damaged-partial"


def sealed(content):
    """Bytes with the checksum that makes them pass as written."""
    return content + hashlib.sha256(content).digest()


def parts_of(content):
    """Where the parts of a file begin."""
    place, found = len(container.MARK) + 4, []
    for _ in range(3):
        (left,) = struct.unpack_from("<Q", content, place)
        found.append(place)
        place += 8
        while left > 0:
            (length,) = struct.unpack_from("<I", content, place)
            piece = content[place + 4 : place + 4 + (length & ~container.PACKED)]
            left -= len(zlib.decompress(piece)) if length & container.PACKED else len(piece)
            place += 4 + len(piece)
    return [*found, place]


def test_swapped_parts_are_refused(files):
    content = files[0].read_bytes()
    one, two, three, end = parts_of(content)
    head, *parts = content[:one], content[one:two], content[two:three], content[three:end]
    for order in ((1, 0, 2), (0, 2, 1), (2, 1, 0), (0, 1), (0, 1, 2, 2)):
        files[0].write_bytes(sealed(head + b"".join(parts[each] for each in order)))
        assert refused(files).code == "damaged-partial"


@pytest.mark.parametrize("part", range(3))
@pytest.mark.parametrize("claim", [0, 1, 2**20, 2**40, 2**63, 2**64 - 1])
def test_claims_of_length_are_checked_before_memory_is_taken(files, part, claim):
    content = bytearray(files[0].read_bytes()[: -container.N_DIGEST])
    struct.pack_into("<Q", content, parts_of(files[0].read_bytes())[part], claim)
    files[0].write_bytes(sealed(bytes(content)))

    assert refused(files).code == "damaged-partial"


@pytest.mark.parametrize("claim", [0, 1, container.PIECE, container.PACKED | 5, 2**32 - 1])
def test_claims_of_pieces_are_checked(files, claim):
    content = bytearray(files[0].read_bytes()[: -container.N_DIGEST])
    struct.pack_into("<I", content, parts_of(files[0].read_bytes())[1] + 8, claim)
    files[0].write_bytes(sealed(bytes(content)))

    assert refused(files).code == "damaged-partial"


def test_a_packed_piece_takes_no_more_memory_than_it_may(tmp_path):
    bomb = zlib.compress(bytes(1 << 28), 9)
    content = container.MARK + struct.pack(
        "<IQI", container.FORMAT, 1 << 20, len(bomb) | container.PACKED
    )
    (tmp_path / "bomb").write_bytes(sealed(content + bomb))

    assert refused([tmp_path / "bomb"]).code == "damaged-partial"


@pytest.mark.parametrize("part", range(3))
def test_packed_bytes_that_nothing_asks_for_are_not_unpacked(files, part):
    """Zeros as arrays, spaces as JSON: a hundredth of a percent of what they claim."""
    content = files[0].read_bytes()[: -container.N_DIGEST]
    starts = parts_of(files[0].read_bytes())
    n_pieces = 600
    piece = zlib.compress((b" " if part < 2 else b"\0") * container.PIECE, 9)
    packed = struct.pack("<I", len(piece) | container.PACKED) + piece
    bomb = struct.pack("<Q", n_pieces * container.PIECE) + n_pieces * packed
    forged = content[: starts[part]] + bomb + content[starts[part + 1] :]
    files[0].write_bytes(sealed(forged))

    tracemalloc.start()
    error = refused(files)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert error.code == "damaged-partial"
    assert peak < 100 << 20


@pytest.mark.parametrize("name", ["nonsense", "", "__class__", None])
def test_a_policy_that_only_a_forged_header_has_is_a_damaged_partial(files, name):
    """As its profile says of one metric."""
    content = files[0].read_bytes()
    one, two, *_, end = parts_of(content)
    with container._opened(files[0]) as file:
        header = json.loads(file.take_tree())
    conventions = header["config"]["profile"]["metrics"]
    policies = [policies for metric, policies in conventions if metric in ("nDCG", "recall")]
    assert policies
    policies[0][:1] = [[name, [0, "any"]]]
    tree = json.dumps(header).encode()
    head = b"".join(container._part([memoryview(tree)]))
    files[0].write_bytes(sealed(content[:one] + head + content[two:end]))

    with pytest.raises(EvalkitError) as caught:
        open_for_merge(files[:1], allow_missing=True)

    assert codes_of(caught.value) == ["damaged-partial"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(200))
@given(data=st.data())
def test_another_tree_behind_a_right_checksum_is_refused_or_is_no_crash(files, data):
    """Bytes of the JSON are changed, and the checksum is made to fit."""
    content = files[0].read_bytes()
    one, two, three, end = parts_of(content)
    part = data.draw(st.sampled_from([(one, two), (two, three), (three, end)]))
    (n_bytes, length) = struct.unpack_from("<QI", content, part[0])
    inner = content[part[0] + 12 : part[1]]
    inner = bytearray(zlib.decompress(inner) if length & container.PACKED else inner)
    for _ in range(data.draw(st.integers(1, 3))):
        inner[data.draw(st.integers(0, len(inner) - 1))] = data.draw(st.integers(0, 255))
    changed = struct.pack("<QI", n_bytes, len(inner)) + inner
    path = files[0].with_name("changed")
    path.write_bytes(sealed(content[: part[0]] + changed + content[part[1] : end]))

    with suppress(DataError, Errors):
        open_partials([path, files[1], files[2]]).merged(Sums)


@pytest.mark.parametrize("n_shares", [0, -1, 2, 10**12])
def test_shares_that_cannot_be_are_refused(files, n_shares):
    content = files[2].read_bytes()
    one, two, *_, end = parts_of(content)
    tree = zlib.decompress(content[one + 12 : two])
    changed = tree.replace(b'"n_shares":3', b'"n_shares":%d' % n_shares)
    part = struct.pack("<QI", len(changed), len(changed)) + changed
    files[2].write_bytes(sealed(content[:one] + part + content[two:end]))

    assert refused(files[2:], allow_missing=True).code == "damaged-partial"


def test_another_format_is_refused_by_version(files):
    content = bytearray(files[0].read_bytes()[: -container.N_DIGEST])
    struct.pack_into("<I", content, len(container.MARK), container.FORMAT + 1)
    files[0].write_bytes(sealed(bytes(content)))

    assert refused(files).code == "partial-version"


def test_a_file_that_changes_after_its_header_was_read_is_refused(files):
    opened = open_partials(files)
    Partial(header_of(1), sums_of(9)).write(files[0])

    with pytest.raises(DataError) as caught:
        opened.merged(Sums)
    assert caught.value.code == "damaged-partial"
    assert "changed" in caught.value.message


def test_what_is_no_partial_is_refused(files, tmp_path):
    table = tmp_path / "table.parquet"
    pl.DataFrame({"user": [1]}).write_parquet(table)
    (tmp_path / "empty").touch()
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    hostile = tmp_path / "a\nb\x1b[31m"

    error = refused(
        [table, *files, *(tmp_path / name for name in ("empty", "folder", "pipe")), hostile]
    )

    assert codes_of(error) == ["not-a-partial"] * 4 + ["path-not-found"]
    assert "\x1b" not in str(error)
    assert error.exit_status == 3


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_may_not_be_read_is_refused(files):
    files[0].chmod(0)

    assert refused(files).code == "unreadable-file"


def test_nothing_to_merge_is_refused():
    error = refused([])

    assert isinstance(error, RequestError)
    assert error.code == "nothing-to-merge"


# ---------------------------------------------------------------- headers


def test_repeated_and_missing_shares_are_refused_by_name(files, tmp_path):
    again = tmp_path / "again"
    again.write_bytes(files[0].read_bytes())

    assert refused([*files, again]).at == str(again)
    assert refused([*files, files[0]]).code == "repeated-share"
    missing = refused(files[:1])
    assert missing.code == "missing-shares"
    assert missing.message == "shares 2-3 of 3 are missing"
    assert "--share 2/3" in missing.hint


def test_missing_shares_may_be_allowed_and_are_told(files):
    found = open_partials(files[::2], allow_missing=True).merged(Sums)

    assert found.header.missing == [2]
    assert missing_warning(found.header).message == (
        "share 2 of 3 is missing: about 33.33% of the users are not measured"
    )
    assert missing_warning(open_partials(files).header) is None


FOREIGN = {
    "policies.ties is 'input', and 'item' in": {"text": CONFIG + '[policies]\nties = "input"\n'},
    "metrics.names is": {"text": CONFIG.replace("recall@10", "recall@20")},
    "the content of truth truth.parquet is 'xx', and 'ab' in": {"print_": "xx"},
    "the sample is 0.5, and None in": {"sample": 0.5},
    "the number of shares is 4, and 3 in": {"n_shares": 4},
}


@pytest.mark.parametrize("told", FOREIGN)
def test_partials_of_other_work_are_refused_with_what_differs(files, told):
    Partial(header_of(2, **FOREIGN[told]), sums_of(2)).write(files[1])

    error = refused(files)

    assert codes_of(error) == ["foreign-partial"]
    assert error.at == str(files[1])
    assert told in error.message
    assert error.exit_status == 3


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"versions": {**versions(), "evalkit": "0.0.9"}}, "the version of evalkit is '0.0.9'"),
        ({"ids": {"user": ("String",), "item": ("String",)}}, "the type of user ids is 'String'"),
        ({"definitions": ()}, "the definition of nDCG@5 is not there, and another one in"),
        ({"keeps_users": True}, "whether values of users are kept is True"),
    ],
)
def test_partials_made_in_another_way_are_refused_with_what_differs(files, change, told):
    Partial(replace(header_of(2), **change), sums_of(2)).write(files[1])

    assert told in refused(files).message


def test_the_name_of_the_job_and_of_its_folder_may_differ(files):
    text = 'name = "other"\n' + CONFIG + '[output]\npath = "elsewhere"\n'
    Partial(header_of(2, text=text), sums_of(2)).write(files[1])

    assert open_partials(files).header.config.name == "nightly"


def test_everything_wrong_is_told_at_once(files, tmp_path):
    (tmp_path / "empty").touch()
    Partial(header_of(3, sample=0.5), sums_of(3)).write(tmp_path / "foreign")

    error = refused([tmp_path / "empty", *files[:2], files[0], tmp_path / "foreign"])

    assert codes_of(error) == ["not-a-partial", "foreign-partial", "repeated-share"]


def test_partials_in_memory_are_checked_as_files_are():
    one = Partial(header_of(1), sums_of(1))
    one.merge(Partial(header_of(3), sums_of(3)))

    assert one.header.shares == [1, 3]
    with pytest.raises(DataError) as caught:
        one.merge(Partial(header_of(3), sums_of(3)))
    assert caught.value.code == "repeated-share"


# ---------------------------------------------------------------- writing


def test_an_earlier_file_stays_until_the_new_one_is_whole(files, monkeypatch):
    before = files[0].read_bytes()

    def fail(piece):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(container, "_packed", fail)
    with pytest.raises(MachineError) as caught:
        Partial(header_of(1), sums_of(5)).write(files[0])

    assert caught.value.code == "disk-full"
    assert files[0].read_bytes() == before
    assert sorted(path.name for path in files[0].parent.iterdir()) == ["part-1", "part-2", "part-3"]


def test_a_killed_writer_leaves_nothing_that_looks_whole(tmp_path):
    program = f"""
import os, sys
sys.path[:0] = [{str(Path(__file__).parent)!r}, {str(Path(__file__).parents[2])!r}]
from pathlib import Path
from evalkit.planning.partials import _container as container, Partial
from test_files import header_of, sums_of
packed, pieces = container._packed, []
def dying(piece):
    pieces.append(piece)
    if len(pieces) == 2:
        os.kill(os.getpid(), 9)
    return packed(piece)
container._packed = dying
Partial(header_of(1), sums_of(1)).write(Path({str(tmp_path / "part")!r}))
"""
    done = subprocess.run([sys.executable, "-c", program], check=False)

    assert done.returncode == -9
    assert not (tmp_path / "part").exists()
    Partial(header_of(1), sums_of(1)).write(tmp_path / "part")
    assert [path.name for path in tmp_path.iterdir()] == ["part"]  # what was left is swept


def test_names_of_files_may_be_hostile(tmp_path):
    random.seed(1)
    for name in ("-rf", "a b", "\N{SNOWMAN}", "new\nline", "x" * 200, "*", "%s{share}"):
        path = tmp_path / name
        Partial(header_of(1, n_shares=1), sums_of(1)).write(path)
        assert open_partials([path]).merged(Sums).body.counts == {"rows": 1}
