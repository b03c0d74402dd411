"""
The seam for admission: in-process plugins that change or refuse writes before they are committed.

Mutating plugins run first, in the order given, each on what the one before made of the object; then, on the final and
valid object, the validating ones. What they change is owned by no field manager. They run inside the request on the
event loop: quick, no I/O. Webhooks called by URL (`webhooks.py`) come after the plugins of their stage.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ktrain.api.meta import Json
    from ktrain.local.apiserver.registry import ServedResource
    from ktrain.local.apiserver.requests import User
    from ktrain.local.apiserver.webhooks import Webhooks

Operation = Literal["CREATE", "UPDATE", "DELETE"]


@dataclass(frozen=True, slots=True)
class AdmissionRequest:
    """
    One write, as a plugin sees it.

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
    options: Json = field(default_factory=dict)
    """CreateOptions, UpdateOptions or DeleteOptions as the caller gave them."""


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
    """The plugins of one server, and the webhooks that its users configure."""

    def __init__(self, plugins: Sequence[AdmissionPlugin], webhooks: Webhooks) -> None:
        self._webhooks = webhooks
        self._mutating = tuple(p for p in plugins if p.mutating)
        self._validating = tuple(p for p in plugins if not p.mutating)

    async def mutate(self, request: AdmissionRequest, warnings: list[str]) -> Json | None:
        """Run what mutates; return the object if something changed it, else None."""
        changed: Json | None = None
        for plugin in self._mutating:
            response = plugin.admit(request)
            if response is None:
                continue
            warnings.extend(response.warnings)
            if response.object is not None and request.object is not None:
                changed = response.object
                request = replace(request, object=changed)
        by_webhook = await self._webhooks.mutate(request, warnings) if request.operation != "DELETE" else None
        return changed if by_webhook is None else by_webhook

    async def validate(self, request: AdmissionRequest, warnings: list[str]) -> None:
        """Run what validates."""
        for plugin in self._validating:
            response = plugin.admit(request)
            if response is not None:
                warnings.extend(response.warnings)
        await self._webhooks.validate(request, warnings)
