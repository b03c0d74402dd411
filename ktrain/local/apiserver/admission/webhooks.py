"""
Admission webhooks: whom to ask about a write, in which order, and what their answers mean.

Configurations take effect with the request after the one that stored them. Mutating webhooks are asked one after the
other, validating ones all at once. Source of the rules: `admissionregistration.k8s.io/v1`.
"""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from ktrain.api.patch import equal
from ktrain.local.apiserver.admission import webhook_patches
from ktrain.local.apiserver.admission.conditions import ConditionFailed, conditions_hold, variables_of
from ktrain.local.apiserver.admission.matching import MUTATING, VALIDATING
from ktrain.local.apiserver.admission.reviews import Failed, Response, call_webhook, review_body
from ktrain.local.apiserver.errors import StatusError, bad_request, forbidden, internal
from ktrain.local.apiserver.versions import in_version

if TYPE_CHECKING:
    from ktrain.api.meta import Json
    from ktrain.framework.env import Env
    from ktrain.local.apiserver.admission.callouts import Callouts
    from ktrain.local.apiserver.admission.chain import AdmissionRequest
    from ktrain.local.apiserver.admission.matching import Matcher
    from ktrain.local.apiserver.conversion import Conversions
    from ktrain.local.apiserver.registry import ServedResource

_HARMLESS: Final = ("None", "NoneOnDryRun")


@dataclass(frozen=True, slots=True)
class _Match:
    """A webhook that wants to see a request, the version of the resource it wants to see, and what it is sent."""

    entry: Json
    resource: ServedResource
    body: Json


class Webhooks:
    """Calls the webhooks that the stored configurations name."""

    def __init__(self, matcher: Matcher, env: Env, callouts: Callouts, conversions: Conversions) -> None:
        self._matcher = matcher
        self._env = env
        self._callouts = callouts
        self._conversions = conversions

    async def mutate(self, request: AdmissionRequest, warnings: list[str]) -> Json | None:
        """
        Call the mutating webhooks one after the other; return the object if one of them changed it, else None.

        Which of them match is looked at again for each, since the ones before may have changed the labels.

        Raises:
            StatusError: Refused, or a webhook failed whose policy is Fail.
        """
        before = request.object
        asked: list[tuple[Json, Json | None]] = []
        for entry in self._entries(MUTATING):
            match = await self._match(entry, request)
            if match is not None:
                request = await self._apply(match, request, warnings)
                asked.append((entry, request.object))
        for entry, seen in asked:
            if entry.get("reinvocationPolicy") != "IfNeeded" or request.object is seen:
                continue
            match = await self._match(entry, request)
            if match is not None:
                request = await self._apply(match, request, warnings)
        return None if request.object is before else request.object

    async def validate(self, request: AdmissionRequest, warnings: list[str]) -> None:
        """
        Call the validating webhooks, all at once, and wait for all.

        Raises:
            StatusError: Refused, or a webhook failed whose policy is Fail; of several, the first configured.
        """
        found = [await self._match(entry, request) for entry in self._entries(VALIDATING)]
        matches = [match for match in found if match is not None]
        refusals: dict[int, StatusError] = {}

        async def ask(index: int, match: _Match) -> None:
            try:
                await self._ask(match, request, warnings, validating=True)
            except StatusError as error:
                refusals[index] = error

        if len(matches) == 1:
            await ask(0, matches[0])
        elif matches:
            async with asyncio.TaskGroup() as tasks:
                for index, match in enumerate(matches):
                    tasks.create_task(ask(index, match), name=f"apiserver.webhook.{match.entry['name']}")
        if refusals:
            raise refusals[min(refusals)]

    def _entries(self, plural: str) -> list[Json]:
        return [entry for stored in self._matcher.stored(plural) for entry in stored.get("webhooks") or ()]

    async def _match(self, entry: Json, request: AdmissionRequest) -> _Match | None:
        """
        Return how a webhook wants to see a request; None if it does not.

        Raises:
            StatusError: One of its conditions failed, and its policy is Fail.
        """
        rules = entry.get("rules") or ()
        resource = self._matcher.find(rules, entry.get("matchPolicy", "Equivalent"), request)
        if resource is None or not self._matcher.selects(entry, request):
            return None
        body = await review_body(self._conversions, request, resource)
        conditions = entry.get("matchConditions")
        if conditions:
            try:
                if not conditions_hold(conditions, variables_of(request, body, self._matcher.decide)):
                    return None
            except ConditionFailed as error:
                if entry.get("failurePolicy", "Fail") == "Ignore":
                    return None
                raise forbidden(request.resource, request.name, str(error)) from error
        return _Match(entry, resource, body)

    async def _apply(self, match: _Match, request: AdmissionRequest, warnings: list[str]) -> AdmissionRequest:
        """Ask a mutating webhook; return the request with the object as it wants it."""
        name = match.entry["name"]
        seen = match.body["object"]
        response = await self._ask(match, request, warnings)
        if not response.patch:
            return request
        try:
            operations = webhook_patches.read(response.patch)
        except ValueError as error:
            if match.entry.get("failurePolicy", "Fail") == "Ignore":
                return request
            text = f'failed calling webhook "{name}": received undecodable patch in webhook response: {error}'
            raise internal(text) from error
        if not operations:
            return request
        if seen is None:
            raise internal(
                f'admission webhook "{name}" attempted to modify the object, which is not supported for this operation'
            )
        patched = webhook_patches.apply(seen, operations, match.resource, request.view)
        if equal(patched, seen):
            return request
        if match.resource is not request.resource and request.view is None:
            patched = await in_version(self._conversions, request.resource, match.resource, patched)
        return replace(request, object=patched)

    async def _ask(
        self, match: _Match, request: AdmissionRequest, warnings: list[str], *, validating: bool = False
    ) -> Response:
        """Call one webhook; return its response, or a permission if it failed and that does not matter."""
        entry, name = match.entry, match.entry["name"]
        if request.dry_run and entry.get("sideEffects") not in _HARMLESS:
            raise bad_request(f'admission webhook "{name}" does not support dry run')
        uid = str(uuid.UUID(int=self._env.random.getrandbits(128), version=4))
        body = {"uid": uid, **match.body}
        try:
            response = await call_webhook(self._callouts, entry, body, request.limit_s, validating=validating)
        except Failed as failed:
            if entry.get("failurePolicy", "Fail") == "Ignore":
                return Response(uid, allowed=True)
            raise internal(f'failed calling webhook "{name}": {failed}') from failed
        warnings.extend(text for text in response.warnings or () if text and text.isprintable())
        if not response.allowed:
            raise _denied(name, response.status or {})
        return response


def _denied(name: str, status: Json) -> StatusError:
    code = status.get("code")
    why = status.get("message") or status.get("reason")
    text = f'admission webhook "{name}" denied the request' + (f": {why}" if why else " without explanation")
    refused = code if isinstance(code, int) and 400 <= code <= 999 else 400
    return StatusError(refused, status.get("reason", ""), text, details=status.get("details"))
