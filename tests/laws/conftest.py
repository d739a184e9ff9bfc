"""Limits in tests are of what rows take: kernels may be compiled on the way, or be kept."""

import pytest

from evalkit.kernels import memory as machine


@pytest.fixture(autouse=True)
def without_room_to_compile(monkeypatch):
    monkeypatch.setattr(machine, "COMPILING", 0)
