"""From numbers to places: axes with round ticks, and numbers with the digits they deserve."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from evalkit.report.text import MOST_DECIMALS


@dataclass(frozen=True, slots=True)
class Scale:
    """A linear axis from `low` at `start` to `high` at `end`, in pixels."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return self.start + min(max(share, -0.02), 1.02) * (self.end - self.start)

    def ticks(self, count: int = 4) -> list[float]:
        """Round numbers inside the axis, about `count`, and two or more where it has them."""
        span = self.high - self.low
        rough = span / max(count, 1)
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(power * each for each in (1, 2, 2.5, 5, 10) if power * each >= rough * 0.999)
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        if first >= last and count < 16:  # one number alone says nothing of the scale
            return self.ticks(2 * count)
        return [number * step for number in range(first, last + 1)]


def spanning(values: Sequence[float], start: float, end: float) -> Scale:
    """An axis over all finite values with a little room."""
    known = [value for value in values if math.isfinite(value)] or [0.0]
    low, high = min(known), max(known)
    if high == low:
        high, low = high + (abs(high) * 0.1 or 1.0), low - (abs(low) * 0.1 or 1.0)
    room = (high - low) * 0.06
    return Scale(low - room, high + room, start, end)


def tick_texts(ticks: Sequence[float]) -> list[str]:
    """The ticks with as many decimals as it takes to tell them apart."""
    if any(abs(tick) >= 1e6 for tick in ticks):
        return [f"{tick:.3g}" for tick in ticks]
    for decimals in range(MOST_DECIMALS + 1):
        shown = [f"{tick + 0.0:.{decimals}f}" for tick in ticks]
        if all(
            abs(float(each) - tick) <= 1e-9 + 1e-6 * abs(tick)
            for each, tick in zip(shown, ticks, strict=True)
        ):
            return [each.replace("-0", "0", 1) if float(each) == 0 else each for each in shown]
    return [f"{tick:.3g}" for tick in ticks]


def show(value: float | None, decimals: int, *, signed: bool = False) -> str:
    """A number with that many decimals; a dash where there is none."""
    if value is None or not math.isfinite(value):
        return "–"
    if abs(value) >= 1e7:
        return f"{value:.4g}"
    shown = f"{value + 0.0:{'+' if signed else ''}.{decimals}f}"
    return shown.replace("-", "−")
