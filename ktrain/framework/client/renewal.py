"""
Credentials that are renewed while they are in use.

Whatever the source (a file, a plugin, an identity provider), the rules are the same. It is asked once for all who wait.
It is asked before the end, at a random moment so that replicas do not ask together, and meanwhile the old credentials
serve: no call fails or waits because of a renewal. After a 401 it is asked if what was refused is still what we have,
not if another call has brought something newer meanwhile. What it gives is kept until something better comes.

A renewal belongs to the credentials, not to the call that began it: a caller whose time is up must not end it for the
others, nor leave a plugin behind per call.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Final

import anyio.to_thread
import structlog

from ktrain.framework.env import Env, system_env
from ktrain.framework.errors import ConfigError

from .credentials import Credentials, bearer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from structlog.typing import FilteringBoundLogger

    from .credentials import PemPair

log: FilteringBoundLogger = structlog.get_logger("ktrain.framework.client")

TOKEN_AGE_S: Final = 60.0
"""The kubelet replaces a bound token at 80 % of its life of an hour: reading it once a minute is early enough."""
RETRY_S: Final = 5.0
"""Until a source that failed is asked again."""


@dataclass(frozen=True, slots=True)
class Grant:
    """
    What a source gave.

    Args:
        headers: For every request.
        client_cert: Certificate and key, if the source gave one.
        renew_after_s: When to ask again, while this is used on.
        lasts_s: After which this is worth nothing, and callers wait for the next.
    """

    headers: Mapping[str, str] = field(repr=False)
    client_cert: PemPair | None = field(default=None, repr=False)
    renew_after_s: float = float("inf")
    lasts_s: float = float("inf")

    def is_same(self, other: Grant) -> bool:
        """Whether the server would see no difference."""
        return self.headers == other.headers and self.client_cert == other.client_cert


class Renewed(Credentials, ABC):
    """
    Credentials from a source that has to be asked again.

    Args:
        env: Time, and randomness for jitter.
    """

    refused_every_s: ClassVar[float] = 0.0
    """A 401 this soon after the last renewal for a 401 starts no other: a storm of them must not become one of runs."""

    def __init__(self, env: Env | None = None) -> None:
        self._env = env or system_env()
        self._grant: Grant | None = None
        self._renew_at_s = float("-inf")
        self._useless_at_s = float("-inf")
        self._renewing: asyncio.Task[Grant] | None = None
        self._failure: Exception | None = None
        self._failed_at_s = float("-inf")
        self._refused_at_s = float("-inf")
        self._users = 0

    @property
    def can_refresh(self) -> bool:
        """True."""
        return True

    @property
    def client_cert(self) -> PemPair | None:
        """Certificate and key of the last grant."""
        return self._grant.client_cert if self._grant else None

    @abstractmethod
    async def obtain(self, last: Grant | None, *, refused: bool) -> Grant:
        """
        Ask the source, within a time of its own.

        Args:
            last: What it gave before.
            refused: The server does not accept `last`.

        Raises:
            ConfigError: It gives nothing that can be used.
        """

    def ready(self) -> Mapping[str, str] | None:
        """Return the headers of the newest grant if it can be used; starts its renewal when it is time to."""
        now_s = self._env.clock.monotonic()
        if self._grant is None or now_s >= self._useless_at_s:
            return None
        if now_s >= self._renew_at_s:
            self._start(refused=False)
        return self._grant.headers

    async def headers(self, *, refused: Mapping[str, str] | None = None) -> Mapping[str, str]:
        """
        Return the headers of the newest grant, waiting for it only if there is none that can be used.

        Raises:
            ConfigError: The source gives nothing, and the last grant is over or was refused.
        """
        ready = self.ready()
        if ready is None or (refused == ready and self._is_due()):
            return await self._next(refused=refused is not None)
        return ready

    def _is_due(self) -> bool:
        """Whether a 401 for what we have calls for a renewal, or for waiting for the one under way."""
        if self._is_renewing:
            return True
        now_s = self._env.clock.monotonic()
        if now_s - self._refused_at_s < self.refused_every_s:
            return False
        self._refused_at_s = now_s
        return True

    async def _next(self, *, refused: bool) -> Mapping[str, str]:
        if self._failure and self._env.clock.monotonic() - self._failed_at_s < RETRY_S and not self._is_renewing:
            raise ConfigError(str(self._failure)) from self._failure
        task = self._start(refused=refused)
        await asyncio.wait([task])
        if task.cancelled():
            raise ConfigError("the credentials were closed while they were being renewed")
        if error := task.exception():
            # Not the task's own: several callers raise it, each with a traceback.
            raise ConfigError(str(error)) from error
        return task.result().headers

    @property
    def _is_renewing(self) -> bool:
        return self._renewing is not None and not self._renewing.done()

    def _start(self, *, refused: bool) -> asyncio.Task[Grant]:
        if self._renewing is None or self._renewing.done():
            # The next try after a failure; a success sets it again.
            self._renew_at_s = self._env.clock.monotonic() + RETRY_S
            self._renewing = asyncio.create_task(self._renew(refused=refused), name="renew credentials")
            self._renewing.add_done_callback(self._note)
        return self._renewing

    async def _renew(self, *, refused: bool) -> Grant:
        last = self._grant
        grant = await self.obtain(last, refused=refused)
        now_s = self._env.clock.monotonic()
        # The same headers as before stay the same object: that is how the transport sees that nothing is new.
        self._grant = kept = last if last and grant.is_same(last) else grant
        self._renew_at_s, self._useless_at_s = now_s + grant.renew_after_s, now_s + grant.lasts_s
        return kept

    def _note(self, task: asyncio.Task[Grant]) -> None:
        self._failure = None if task.cancelled() else _expected(task.exception())
        if self._failure:
            self._failed_at_s = self._env.clock.monotonic()
            log.warning("client.credentials_not_renewed", error=str(self._failure))

    def hold(self) -> None:
        """Note one more transport: the calls and the election of an operator have one each, and one token."""
        self._users += 1

    async def release(self) -> None:
        """Give them back: a renewal under way ends with the last user, as others may wait for it."""
        self._users -= 1
        if self._users <= 0:
            await self.aclose()

    async def aclose(self) -> None:
        """End a renewal that is under way."""
        if self._renewing is not None and self._is_renewing:
            self._renewing.cancel()
            await asyncio.wait([self._renewing])


def _expected(error: BaseException | None) -> Exception | None:
    return error if isinstance(error, Exception) else None


class KubeconfigToken(Renewed):
    """
    A token that stands in a kubeconfig. Read again after a 401: a login may have replaced it meanwhile.

    Args:
        token: As it stands there now.
        read: Reads it again, in a thread; empty if it is not there any more.
        env: Time and randomness.
    """

    refused_every_s: ClassVar[float] = 5.0

    def __init__(self, token: str, read: Callable[[], str], env: Env | None = None) -> None:
        super().__init__(env)
        self._first = token
        self._read = read

    async def obtain(self, last: Grant | None, *, refused: bool) -> Grant:
        """Give the token, or the one that stands there by now."""
        if last is None:
            return Grant(bearer(self._first))
        token = await anyio.to_thread.run_sync(self._read, abandon_on_cancel=True)
        return Grant(bearer(token)) if token else last


class TokenFile(Renewed):
    """
    A token in a file that somebody else renews; read once a minute and after a 401. The last good one is used on.

    Args:
        path: The file.
        token: Serves until the file can be read.
        env: Time and randomness.
    """

    def __init__(self, path: Path, env: Env | None = None, *, token: str = "") -> None:
        super().__init__(env)
        self._path = path
        self._first = token

    async def obtain(self, last: Grant | None, *, refused: bool) -> Grant:
        """Read the file, in a thread: it may lie on a network."""
        try:
            token = (await anyio.to_thread.run_sync(self._path.read_text, abandon_on_cancel=True)).strip()
            return Grant(bearer(token), lasts_s=TOKEN_AGE_S)
        except (OSError, UnicodeDecodeError, ConfigError) as error:
            problem = f"the token file {self._path} cannot be used: {error}"
        if last is None and not self._first:
            raise ConfigError(problem)
        log.warning("client.token_file_unreadable", error=problem)
        return Grant(last.headers if last else bearer(self._first), lasts_s=TOKEN_AGE_S)
