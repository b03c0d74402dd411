"""
Admission: what may change or refuse a write before it is committed.

    mutating     plugins of this process, in the order given; then webhooks, in the order of their configurations' names
    validating   plugins; policies; webhooks, all at once

Each mutating step sees what the one before made of the object; validating ones see the final and valid object. What
they change is owned by no field manager. Plugins run inside the request on the event loop: quick, no I/O. What a kind
itself demands (quotas, limits, classes) is with its `Strategy`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal

from ktrain.local.apiserver.admission.matching import Matcher
from ktrain.local.apiserver.admission.webhooks import Webhooks
from ktrain.local.apiserver.errors import StatusError
from ktrain.local.apiserver.policies import Policies

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ktrain.api.meta import Json
    from ktrain.framework.env import Env
    from ktrain.local.apiserver.admission.authorizer import Decide
    from ktrain.local.apiserver.admission.callouts import Callouts
    from ktrain.local.apiserver.conversion import Conversions
    from ktrain.local.apiserver.registry import Registry, ServedResource
    from ktrain.local.apiserver.requests import User
    from ktrain.local.apiserver.storage.store import Store

Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]
REQUEST_LIMIT_S: Final = 60.0
"""How long one request may take in all, unless it says less."""


@dataclass(frozen=True, slots=True)
class AdmissionRequest:
    """
    One write, or connect, as a plugin sees it.

    `object` is None on DELETE, `old_object` on CREATE. Neither may be changed in place. `name` is empty while a
    generated name is not chosen yet.
    """

    operation: Operation
    resource: ServedResource
    subresource: str
    namespace: str
    name: str
    object: Json | None
    old_object: Json | None
    user: User
    dry_run: bool = False
    options: Json | None = field(default_factory=dict)
    """CreateOptions, UpdateOptions or DeleteOptions as the caller gave them; a connect has its own as `object`."""
    view: tuple[str, str] | None = None
    """apiVersion and kind of the objects if they are not of the resource's (a Scale, a Binding)."""
    limit_s: float = REQUEST_LIMIT_S
    """How long the caller waits."""


@dataclass(frozen=True, slots=True)
class AdmissionResponse:
    """A plugin's answer: another object, if it changed it, and warnings for the client."""

    object: Json | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AdmissionPlugin:
    """
    A callable that sees writes. It returns None to let a write pass as it is.

    `admit` raises `StatusError` to refuse; anything else it raises is a bug and answers 500.
    """

    name: str
    admit: Callable[[AdmissionRequest], AdmissionResponse | None]
    mutating: bool = False


class Chain:
    """The plugins of one server, and the webhooks and policies that its users configure."""

    def __init__(
        self,
        plugins: Sequence[AdmissionPlugin],
        store: Store,
        registry: Registry,
        env: Env,
        callouts: Callouts,
        conversions: Conversions,
        decide: Decide,
    ) -> None:
        matcher = Matcher(store, registry, decide)
        self._webhooks = Webhooks(matcher, env, callouts, conversions)
        self._policies = Policies(matcher, store, registry, conversions)
        self._mutating = tuple(p for p in plugins if p.mutating)
        self._validating = tuple(p for p in plugins if not p.mutating)

    async def mutate(self, request: AdmissionRequest, warnings: list[str]) -> Json | None:
        """
        Run what mutates; return the object if something changed it, else None.

        Raises:
            StatusError: Refused.
        """
        changed: Json | None = None
        for plugin in self._mutating:
            response = plugin.admit(request)
            if response is None:
                continue
            warnings.extend(response.warnings)
            if response.object is not None and request.object is not None:
                changed = response.object
                request = replace(request, object=changed)
        if request.operation == "DELETE":
            return None
        by_webhook = await self._webhooks.mutate(request, warnings)
        return changed if by_webhook is None else by_webhook

    async def validate(self, request: AdmissionRequest, warnings: list[str]) -> None:
        """
        Run what validates; before a deletion the mutating webhooks, too, which are asked and may change nothing.

        Raises:
            StatusError: Refused.
        """
        if request.operation == "DELETE":
            await self._webhooks.mutate(request, warnings)
        for plugin in self._validating:
            try:
                response = plugin.admit(request)
            except StatusError as refusal:
                warnings.extend(refusal.warnings)
                raise
            if response is not None:
                warnings.extend(response.warnings)
        await self._policies.validate(request, warnings)
        await self._webhooks.validate(request, warnings)
