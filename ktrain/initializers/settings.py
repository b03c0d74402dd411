"""
The environment of an initializer. Names are those of Kubeflow's images, so either image runs in a runtime.

An empty variable counts as unset: that is what an optional key of a Secret becomes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from .errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_CONCURRENCY: Final = 64
_ENDPOINTS: Final = ("ENDPOINT", "ENDPOINT_URL")
"""The name in Kubeflow's images, and the name in KEP-2170."""
_CREDENTIALS: Final = ("ACCESS_TOKEN", "HF_TOKEN", "ACCESS_KEY_ID", "SECRET_ACCESS_KEY")
"""Those who make a Secret of a file, or of `echo`, have a line break at the end."""


@dataclass(frozen=True, slots=True)
class Settings:
    """One download as it was asked for."""

    storage_uri: str
    """`STORAGE_URI`."""
    target: Path
    """`TARGET_DIR`: where the files go. Kubeflow's images know only their default."""
    ignore: tuple[str, ...] | None = None
    """`IGNORE_PATTERNS`, split at commas. None: unset, the step decides. Empty (a lone comma): nothing is ignored."""
    concurrency: int = 8
    """`CONCURRENCY`: files at once."""
    access_token: str | None = field(default=None, repr=False)
    """`ACCESS_TOKEN`, of the Hub."""
    endpoint: str | None = None
    """`ENDPOINT` or `ENDPOINT_URL`: the URL of an S3 server that is not Amazon's. A host alone means `https://`."""
    region: str | None = None
    """`REGION`."""
    access_key_id: str | None = field(default=None, repr=False)
    """`ACCESS_KEY_ID`."""
    secret_access_key: str | None = field(default=None, repr=False)
    """`SECRET_ACCESS_KEY`."""
    role_arn: str | None = None
    """`ROLE_ARN`: a role to assume."""

    @classmethod
    def of(cls, environ: Mapping[str, str], target: Path) -> Settings:
        """
        Read *environ*; *target* is the step's default.

        Raises:
            ConfigurationError: There is no URI, or a value makes no sense.
        """
        stripped = {name: value.strip() if name in _CREDENTIALS else value for name, value in environ.items()}
        given = {name: value for name, value in stripped.items() if value}
        if "STORAGE_URI" not in given:
            raise ConfigurationError("STORAGE_URI environment variable must be set")
        if ("ACCESS_KEY_ID" in given) != ("SECRET_ACCESS_KEY" in given):
            raise ConfigurationError("ACCESS_KEY_ID and SECRET_ACCESS_KEY must be set together")
        _check_credentials(given)
        patterns = given.get("IGNORE_PATTERNS")
        return cls(
            given["STORAGE_URI"],
            Path(given.get("TARGET_DIR", target)),
            None if patterns is None else tuple(filter(None, map(str.strip, patterns.split(",")))),
            _concurrency(given.get("CONCURRENCY", "8")),
            given.get("ACCESS_TOKEN"),
            _endpoint(given),
            given.get("REGION"),
            given.get("ACCESS_KEY_ID"),
            given.get("SECRET_ACCESS_KEY"),
            given.get("ROLE_ARN"),
        )


def _check_credentials(given: Mapping[str, str]) -> None:
    """
    Refuse what cannot be sent: libraries that find out complain of the value, which then stands in the log.

    Raises:
        ConfigurationError: It names the variable, and not its value.
    """
    for name in _CREDENTIALS:
        if not all("!" <= character <= "~" for character in given.get(name, "")):
            raise ConfigurationError(f"{name} holds a space, a line break or a character that is not ASCII")
    for name in _ENDPOINTS:
        if "@" in given.get(name, "").rpartition("://")[2].partition("/")[0]:
            raise ConfigurationError(f"{name} must not hold credentials: set ACCESS_KEY_ID and SECRET_ACCESS_KEY")


def _endpoint(given: Mapping[str, str]) -> str | None:
    """
    Return the S3 server's URL.

    Raises:
        ConfigurationError: The two names for it disagree.
    """
    urls = [given[name] if "://" in given[name] else f"https://{given[name]}" for name in _ENDPOINTS if name in given]
    if len(set(urls)) > 1:
        raise ConfigurationError("ENDPOINT and ENDPOINT_URL are set and differ: set one of them")
    return urls[0] if urls else None


def _concurrency(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= MAX_CONCURRENCY):
        raise ConfigurationError(f"CONCURRENCY is {text!r}: expected a number from 1 to {MAX_CONCURRENCY}")
    return int(text)
