"""Limits in tests are of what rows take: kernels may be compiled on the way, or be kept."""

import pytest

from evalkit.kernels import memory as machine
from evalkit.kinds.labels.conclude import LabelResults


@pytest.fixture(autouse=True)
def without_room_to_compile(monkeypatch):
    monkeypatch.setattr(machine, "COMPILING", 0)


@pytest.fixture
def without_graphs(monkeypatch):
    """No curves, which take a third of what many small logs take."""
    monkeypatch.setattr(LabelResults, "graphs", lambda self, *, level: [])
