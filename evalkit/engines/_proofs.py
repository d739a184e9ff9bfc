"""What executors and the driver tell each other: what numbers rest on, and what is wrong."""

import hashlib
import json
import math
from collections.abc import Iterable, Mapping

import numpy as np

from evalkit.errors import Faults, MachineError
from evalkit.planning.counters import versions
from evalkit.planning.partials import codec_of


def proof() -> dict[str, str]:
    """What executors must have as the driver has it: numbers rest on it."""
    return {**versions(), "logarithms and powers": _digest_of_values()}


def check_proof(expected: Mapping[str, str]) -> None:
    """Refuse to work where evalkit or a library is another one than the driver's.

    Raises:
        MachineError: it is [spark-failed].
    """
    own = proof()
    for name in expected:
        if name != "python" and own.get(name) != expected[name]:
            raise MachineError(
                f"executors and driver do not agree: {name} is {own.get(name)} there and "
                f"{expected[name]} here",
                code="spark-failed",
                at="[engine]",
                hint="install the same versions of evalkit and its libraries on every node",
            )


def _digest_of_values() -> str:
    """Tells libraries of mathematics apart that round otherwise: metrics rest on them."""
    ranks = np.arange(1.0, 2000.0)
    found = [np.log2(ranks), np.log(ranks), np.exp(-ranks / 100), 0.8**ranks, np.sqrt(ranks)]
    found += [np.array([math.log2(x), 0.8 ** (x - 1), math.exp(x / 100)]) for x in ranks.tolist()]
    return hashlib.sha256(np.concatenate(found).tobytes()).hexdigest()[:16]


def pack_errors(faults: Faults) -> bytes:
    """Errors as they go to the driver; what reads them runs nothing."""
    return json.dumps(codec_of(Faults).encode(faults, [])).encode()


def open_errors(packed: Iterable[bytes]) -> Faults:
    """Errors of several executors together."""
    whole = Faults()
    for each in packed:
        whole.merge(codec_of(Faults).decode(json.loads(each), None))  # type: ignore[arg-type]
    return whole
