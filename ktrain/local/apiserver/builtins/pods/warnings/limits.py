"""How much a pod is told about itself."""

from __future__ import annotations

from typing import Final

MOST_WARNINGS: Final = 1000
"""Beyond these nobody reads, and of things that are all in each other's way there are as many as their square."""
