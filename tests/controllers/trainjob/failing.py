"""A plugin that fails at one of its points when it is told to."""

from __future__ import annotations


class Failing:
    """Has nothing to say but, while it `fails`, an error at the point of this name."""

    name = "Failing"
    before = ("JobSet",)

    def __init__(self, point: str, error: Exception | None = None) -> None:
        self.fails = False
        self._error = error or RuntimeError("boom")
        setattr(self, point, self._called)
        self._nothing = () if point in ("build", "removals") else None

    def _called(self, *_given):
        if self.fails:
            raise self._error
        return self._nothing
