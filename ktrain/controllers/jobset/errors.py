"""
What can stop a pass over a JobSet.

    TerminalError (framework)
    └── Undecidable        the world is such that no decision is safe; a retry cannot help
    FrameworkError (framework)
    └── ChildRefused       a Service, claim or Job could not be created, or a Job resumed; tried again with back-off
"""

from __future__ import annotations

from ktrain.framework.errors import FrameworkError, TerminalError


class Undecidable(TerminalError):
    """An observed object contradicts the rules, and work would make it worse. Repairing the object wakes the JobSet."""


class ChildRefused(FrameworkError):
    """
    Children are missing, or sleep, and the API server refused them. Carries the event that tells the user.

    `str()` is the event's message: one line for each child that failed.
    """

    def __init__(self, reason: str, message: str) -> None:
        self.reason = reason
        super().__init__(message)
