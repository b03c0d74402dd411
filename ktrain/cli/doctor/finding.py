"""What a check found about one object of the cluster."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Status(Enum):
    """How a finding is to be taken."""

    OK = "ok"
    WARNING = "warning"
    """It works, or will work, with a restriction that the message names."""
    ERROR = "error"
    """TrainJobs cannot run as they should until this is mended."""
    SKIPPED = "skipped"
    """It could not be checked, and the message says why."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report. `subject` is the object or kind; `fix` what to do, empty where nothing is to be done."""

    check: str
    status: Status
    subject: str
    message: str
    fix: str = ""


@dataclass(frozen=True, slots=True)
class Reporter:
    """Makes the findings of one check."""

    check: str

    def ok(self, subject: str, message: str) -> Finding:
        """Return a finding that needs no action."""
        return Finding(self.check, Status.OK, subject, message)

    def warning(self, subject: str, message: str, fix: str) -> Finding:
        """Return a finding that restricts what works."""
        return Finding(self.check, Status.WARNING, subject, message, fix)

    def error(self, subject: str, message: str, fix: str) -> Finding:
        """Return a finding that keeps TrainJobs from running."""
        return Finding(self.check, Status.ERROR, subject, message, fix)

    def skipped(self, subject: str, message: str, fix: str = "") -> Finding:
        """Return what could not be checked."""
        return Finding(self.check, Status.SKIPPED, subject, message, fix)
