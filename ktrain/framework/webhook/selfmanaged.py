"""
Certificates without cert-manager: all replicas share one Secret, whichever finds something to do does it.

The Secret is created, or adopted if another replica was faster, and changed only by whoever knows its resource version:
replicas that start together, or rotate together, agree on one. `rotation.py` says what changes when. Every minute each
replica reads the Secret, serves what it says and injects the CA bundle where it is missing.

A Secret that was deleted by hand comes back with the pair being served and a new one announced, so nothing fails. To
have the old CA distrusted at once, restart the replicas after deleting it: those that start anew remember nothing.

The client must not be fenced by a leader election, for every replica serves. It needs, and no more:

    rules:
    - {apiGroups: [""], resources: [secrets], verbs: [create]}                             # in its own namespace
    - {apiGroups: [""], resources: [secrets], resourceNames: [SECRET], verbs: [get, update]}
    - {apiGroups: [admissionregistration.k8s.io], resources: [validatingwebhookconfigurations], resourceNames: [NAME],
       verbs: [get, patch]}                                                                # the same for mutating...
    - {apiGroups: [apiextensions.k8s.io], resources: [customresourcedefinitions], resourceNames: [NAME],
       verbs: [get, patch]}                                                                # with conversions only

An empty Secret that exists already is adopted too; then `create` is not needed.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

import anyio
import structlog

from ktrain.api.core import SECRETS, untyped
from ktrain.framework.backoff import Backoff
from ktrain.framework.errors import (
    AlreadyExists,
    ApiError,
    ConfigError,
    Conflict,
    FrameworkError,
    NotFound,
    TooManyRequests,
)
from ktrain.framework.metrics import Metrics
from ktrain.framework.metrics.webhook import RotationMetrics

from . import authority
from .injection import NO_REGISTRATIONS, Injector, Registrations, WebhookAddress
from .rotation import Rotation, State, data_of, state_of

if TYPE_CHECKING:
    from anyio.abc import TaskStatus
    from structlog.typing import FilteringBoundLogger

    from ktrain.api.meta import Json, Key
    from ktrain.framework.client.client import Client
    from ktrain.framework.env import Env

    from .certificates import KeyPair, Use

log: FilteringBoundLogger = structlog.get_logger("ktrain.framework.webhook")

LIFETIME: Final = timedelta(days=90)
OVERLAP: Final = timedelta(hours=1)
CHECK_S: Final = 60.0
OWNER_LABEL: Final = "ktrain.framework/webhook-certificate"
_SECRETS: Final = untyped(SECRETS)
_CERT_CONTROLLERS: Final = {"ca.crt", "ca.key", "tls.crt", "tls.key"}
_ROUNDS: Final = 5
"""Others may win this often before it counts as a failure."""


class SelfManagedCertificates:
    """
    A certificate source that makes, shares, rotates and announces its certificates itself.

    Args:
        client: Without a guard; see the module for its rights.
        env: Time and randomness.
        secret: Where the pair is kept. A Secret of that name with other content is left alone (ConfigError).
        adopt: Take over what cert-controller of Open Policy Agent keeps in it (a pair, and a CA with its key). Its CA
            stays trusted, the CA's key is forgotten.
        address: How the API server reaches the webhooks.
        registrations: Where the CA bundle goes; none, and somebody else has to see to it (`bundle`).
        lifetime: Of a certificate; it is renewed when two thirds are over.
        overlap: How long a new CA is trusted at the least before its certificate is served.
        check_s: Between looks at the Secret and the registrations.
        metrics: For steps, injections and the expiry.
    """

    def __init__(
        self,
        client: Client,
        env: Env,
        *,
        secret: Key,
        address: WebhookAddress,
        registrations: Registrations = NO_REGISTRATIONS,
        adopt: bool = False,
        lifetime: timedelta = LIFETIME,
        overlap: timedelta = OVERLAP,
        check_s: float = CHECK_S,
        metrics: Metrics | None = None,
    ) -> None:
        if overlap * 6 > lifetime:
            raise ValueError(f"an overlap of {overlap} is too long for certificates that live {lifetime}")
        self._client = client
        self._env = env
        self._secret = secret
        self._adopts = adopt
        self._check_s = check_s
        self._rotation = Rotation(address.names, lifetime, overlap)
        self._metrics = RotationMetrics.of(metrics or Metrics())
        self._injector = Injector(client, address, registrations, self._metrics)
        self._state: State | None = None
        self._carried: tuple[bytes, float] | None = None

    @property
    def bundle(self) -> bytes:
        """The CAs to trust, PEM; empty before the start."""
        return self._state.bundle if self._state else b""

    def check(self) -> str | None:
        """Say which registrations lead elsewhere, so that they get no CA, for readiness; None if all is well."""
        return self._injector.check()

    async def run(self, use: Use, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """
        Keep certificates until cancelled. `started` is reported when one is served and was announced once.

        Raises:
            ApiError: At the start only: the Secret may not be read or written; later that is logged.
            ConfigError: At the start only: the Secret is another's.
        """
        backoff = Backoff(self._env)
        served: KeyPair | None = None
        while True:
            announced = False
            try:
                state = self._state = await self._agree()
                if state.pair != served:
                    await use(state.pair)
                    ends = authority.validity(state.pair.certificate).ends
                    self._metrics.expires(ends.timestamp())
                    log.info("webhook.certificate_served", secret=str(self._secret), ends=ends.isoformat())
                    served = state.pair
                announced = await self._announce(state.bundle)
            except (FrameworkError, OSError) as error:
                if served is None and _is_final(error):
                    raise
                log.warning("webhook.certificate_unavailable", secret=str(self._secret), error=str(error))
            if served is not None:
                task_status.started()
                task_status = anyio.TASK_STATUS_IGNORED
            if announced:
                backoff.reset()
                await self._env.clock.sleep(self._check_s * self._env.random.uniform(0.9, 1.1))
            else:
                await backoff.sleep()

    async def _announce(self, bundle: bytes) -> bool:
        """Inject the bundle and note since when all registrations have carried it."""
        if not await self._injector.inject(bundle):
            self._carried = None
            return False
        if self._carried is None or self._carried[0] != bundle:
            self._carried = bundle, self._env.clock.monotonic()
        return True

    async def _agree(self) -> State:
        """Read the Secret and take the step that is due, unless another replica takes it; returns what holds."""
        for _ in range(_ROUNDS):
            try:
                found: Json | None = await self._client.get(_SECRETS, self._secret.name, self._secret.namespace)
            except NotFound:
                found = None
            state = self._read(found)
            taken = self._due(state)
            if taken is None and state is not None:
                return state
            step, wanted = taken or ("created", self._rotation.create(self._env.clock.now()))
            try:
                await self._write(found, wanted)
            except (AlreadyExists, Conflict):
                continue
            except NotFound:
                if found is None:
                    raise  # the namespace
                continue
            self._metrics.steps(step)
            log.info("webhook.certificate_rotated", secret=str(self._secret), step=step)
            return wanted
        raise FrameworkError(f"Secret {self._secret} changed {_ROUNDS} times while it was being written")

    def _due(self, state: State | None) -> tuple[str, State] | None:
        now = self._env.clock.now()
        if state is not None:
            return self._rotation.step(state, now, carried=self._is_carried(state.bundle))
        if self._state is not None and self._rotation.is_usable(self._state, now):
            return "announced", self._rotation.announce(self._state, now)
        return None

    def _is_carried(self, bundle: bytes) -> bool:
        if self._carried is None or self._carried[0] != bundle:
            return False
        return self._env.clock.monotonic() - self._carried[1] >= self._check_s / 2

    def _read(self, secret: Json | None) -> State | None:
        if secret is None or not secret.get("data"):
            return None
        labels = secret["metadata"].get("labels") or {}
        if OWNER_LABEL not in labels and not (self._adopts and set(secret["data"]) == _CERT_CONTROLLERS):
            raise ConfigError(
                f"Secret {self._secret} holds something else: name another one, or label it {OWNER_LABEL} to have its "
                "content replaced"
            )
        if (state := state_of(secret["data"])) is None:
            log.warning(
                "webhook.secret_unusable",
                secret=str(self._secret),
                problem="it lacks tls.crt, tls.key or ca.crt, one is not in PEM form, or they do not fit together",
                effect="a new certificate takes its place",
            )
        return state

    async def _write(self, found: Json | None, state: State) -> None:
        metadata: Json = {"name": self._secret.name, "namespace": self._secret.namespace}
        # A type cannot be changed. The chart makes the Secret empty, hence Opaque; so is one that is made anew.
        body: Json = found or {"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": metadata}
        labels = {**(body["metadata"].get("labels") or {}), OWNER_LABEL: "self-managed"}
        body = {**body, "metadata": {**body["metadata"], "labels": labels}, "data": data_of(state)}
        await (self._client.create if found is None else self._client.update)(_SECRETS, body)


def _is_final(error: FrameworkError | OSError) -> bool:
    """Whether waiting is in vain."""
    if isinstance(error, ApiError):
        return 400 <= error.code < 500 and not isinstance(error, Conflict | TooManyRequests)
    return isinstance(error, ConfigError | OSError)
