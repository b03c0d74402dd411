from datetime import UTC, datetime

import pytest


class ManualClock:
    """Time that passes only where somebody sleeps, at once; another implementation of `ktrain.framework.env.Clock`."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self.seconds

    def now(self) -> datetime:
        return datetime.fromtimestamp(1_800_000_000 + self.seconds, UTC)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.seconds += seconds


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()
