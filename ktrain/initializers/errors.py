"""
What can go wrong, each with the exit code of the program, so that a Job's `podFailurePolicy` can tell them apart.

    InitializerError        1
    ├── ConfigurationError  2  the environment or the URI; trying again is no use
    ├── AccessRefused       3  credentials
    ├── NothingThere        4  no such bucket, repository, revision or object; or all of it is ignored
    ├── TargetError         5  the volume: full, read-only, not ours
    └── Interrupted         1  the source did not answer or broke off: worth another try
        └── Damaged         6  what came is not what the source has; the file starts anew
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, ClassVar, Final

if TYPE_CHECKING:
    from pathlib import Path

_FULL: Final = (errno.ENOSPC, errno.EDQUOT)


class InitializerError(Exception):
    """Base of what the programs report in one sentence rather than as a traceback."""

    exit_code: ClassVar[int] = 1


class ConfigurationError(InitializerError):
    """The environment says something that cannot be."""

    exit_code = 2


class AccessRefused(InitializerError):
    """The source knows us not, or not for this."""

    exit_code = 3


class NothingThere(InitializerError):
    """There is nothing to fetch."""

    exit_code = 4


class TargetError(InitializerError):
    """The files cannot be written."""

    exit_code = 5

    @classmethod
    def of(cls, error: OSError, path: Path) -> TargetError:
        """Say what is wrong with *path* in the words of who can mend it."""
        if error.errno in _FULL:
            return cls(f"no space left for {path}; give the volume more room, what is there already is kept")
        what = error.strerror or str(error)
        return cls(f"cannot write {path}: {what}; the volume must be writable for this user (see fsGroup)")


class Interrupted(InitializerError):
    """The source did not answer, or not to the end."""

    def __init__(self, message: str, *, retry_after_s: float = 0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s
        """Seconds that the source wants us to wait; 0 if it said nothing."""


class Damaged(Interrupted):
    """The bytes are not those of the source."""

    exit_code = 6
