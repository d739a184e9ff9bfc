"""Texts are read where Polars keeps them, as long as somebody asks, and given back once."""

import gc
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import polars as pl
import pytest

from evalkit.sources.exported import OwnArray, export_texts
from evalkit.sources.ids import filled_texts, hash_bytes, hash_texts, mix, texts_of

TEXTS = [*("é" * n + "ab"[n % 2] for n in range(30)), "", "", "long" * 5_000, "last one"]
FNV = 0xCBF29CE484222325, 0x100000001B3
ALL = (1 << 64) - 1


def hashes_of(texts):
    hashes = np.empty(texts.views.size // 2, dtype=np.uint64)
    hash_texts(texts, 1, hashes)
    return hashes.tolist()


def in_chunks(texts):
    return pl.concat([pl.Series([text], dtype=pl.String) for text in texts], rechunk=False)


@pytest.mark.parametrize("dtype", [pl.String, pl.Binary])
@pytest.mark.parametrize("begin", [0, 1, 33, 34])
def test_texts_of_any_pieces_are_the_same(dtype, begin):
    whole, pieces = pl.Series(TEXTS, dtype=pl.String), in_chunks(TEXTS)
    assert pieces.n_chunks() == len(TEXTS)
    expected = hashes_of(texts_of(whole))[begin:]
    with_null = pl.concat([pl.Series([None], dtype=pl.String), whole])
    assert texts_of(with_null) is None

    for series in (whole[begin:], pieces[begin:], with_null[begin + 1 :]):
        assert hashes_of(texts_of(series.cast(dtype))) == expected


@pytest.mark.parametrize("dtype", [pl.String, pl.Binary, pl.Categorical])
def test_hashes_of_bytes_are_those_of_their_source(dtype):
    texts = [*TEXTS[:32], None, "last one"]
    first = np.arange(len(texts), dtype=np.uint64)
    hashes = first.copy()
    hash_bytes(filled_texts(pl.Series(texts).cast(dtype)), hashes)

    for text, before, found in zip(texts, first, hashes.tolist(), strict=True):
        value = FNV[0] ^ int(mix.interpret(before + np.uint64(1)))
        for byte in (text or "").encode():
            value = (value ^ byte) * FNV[1] & ALL
        assert found == int(mix.interpret(np.uint64(value)))


def test_texts_live_as_long_as_their_views():
    def numbered(first):
        return pl.Series([f"a text that is long: {number}" for number in range(first, first + 999)])

    expected = hashes_of(texts_of(numbered(0)))
    texts = texts_of(numbered(0))
    views = texts.views[:]
    texts = texts._replace(views=views)
    gc.collect()
    others = [numbered(first) for first in range(1, 50)]

    assert hashes_of(texts) == expected
    assert len(others) == 49


def test_threads_read_texts_side_by_side():
    series = in_chunks(TEXTS)
    expected = hashes_of(texts_of(series))
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: hashes_of(texts_of(series)), range(100)))

    assert all(each == expected for each in found)


def test_an_array_is_given_back_once():
    given_back = []

    def release(array):
        given_back.append(array.contents.length)
        array.contents.release = type(array.contents.release)()

    array = OwnArray(length=3)
    array.release = type(array.release)(release)
    view = np.frombuffer(array, dtype=np.int64)
    del array
    gc.collect()
    assert not given_back
    del view
    gc.collect()

    assert given_back == [3]


def test_what_is_no_text_is_not_read_as_one():
    with pytest.raises(TypeError, match="not exported as views, but as b'l'"):
        export_texts(pl.Series([1, 2]))


def test_a_process_ends_while_texts_are_alive():
    code = (
        "import sys, polars as pl\n"
        "from evalkit.sources.ids import texts_of\n"
        "class Kept: pass\n"
        "kept = sys.kept = Kept()\n"
        "kept.texts, kept.itself = texts_of(pl.Series(['a' * 30])), kept\n"
        "views = kept.texts.views[1:]\n"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
