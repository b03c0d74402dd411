"""All policies against one request: which match, what their bindings make of what they find."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.local.apiserver.admission.conditions import variables_of
from ktrain.local.apiserver.admission.matching import BINDINGS, POLICIES
from ktrain.local.apiserver.admission.reviews import review_body
from ktrain.local.apiserver.errors import StatusError, forbidden
from ktrain.local.apiserver.policies.params import Misconfigured, Parameters
from ktrain.local.apiserver.policies.policy import Refusal, validate

if TYPE_CHECKING:
    from ktrain.api.meta import Json
    from ktrain.local.apiserver.admission.chain import AdmissionRequest
    from ktrain.local.apiserver.admission.matching import Matcher
    from ktrain.local.apiserver.conversion import Conversions
    from ktrain.local.apiserver.registry import Registry, ServedResource
    from ktrain.local.apiserver.storage.store import Store

_CODES: Final = {"Forbidden": 403, "RequestEntityTooLarge": 413}


class Policies:
    """The ValidatingAdmissionPolicies of one server."""

    def __init__(self, matcher: Matcher, store: Store, registry: Registry, conversions: Conversions) -> None:
        self._matcher = matcher
        self._conversions = conversions
        self._parameters = Parameters(store, registry, conversions)

    async def validate(self, request: AdmissionRequest, warnings: list[str]) -> None:
        """
        Ask every policy that is bound to what the request is about; a policy without a binding does nothing.

        Raises:
            StatusError: Denied: in the words of the first refusal.
        """
        bindings: dict[str, list[Json]] = {}
        for stored in self._matcher.stored(BINDINGS):
            bindings.setdefault(stored["spec"]["policyName"], []).append(stored)
        denials: list[str] = []
        first: Refusal | None = None
        for policy in self._matcher.stored(POLICIES) if bindings else ():
            for binding, refusal in await self._ask(policy, bindings.get(policy["metadata"]["name"], []), request):
                said = f"ValidatingAdmissionPolicy '{policy['metadata']['name']}'"
                if binding is not None:
                    said += f" with binding '{binding['metadata']['name']}'"
                actions = ["Deny"] if refusal.always or binding is None else binding["spec"]["validationActions"]
                if "Warn" in actions:
                    warnings.append(f"Validation failed for {said}: {refusal.message}")
                if "Deny" in actions:
                    first = first or refusal
                    denials.append(f"{said} denied request: {refusal.message}")
        if first is not None:
            raise _denied(request, first, denials[0])

    async def _ask(
        self, policy: Json, bindings: list[Json], request: AdmissionRequest
    ) -> list[tuple[Json | None, Refusal]]:
        """Return what a policy has against a request, and under which binding; under none if it cannot work."""
        spec = policy["spec"]
        resource = self._matches(spec["matchConstraints"], request) if bindings else None
        if resource is None:
            return []
        strict = spec.get("failurePolicy", "Fail") == "Fail"
        try:
            kind = self._parameters.resource(spec.get("paramKind"))
        except Misconfigured as error:
            return [(None, Refusal(f"failed to configure policy: {error}", always=True))] if strict else []
        found: list[tuple[Json | None, Refusal]] = []
        for binding in bindings:
            if not self._is_bound(binding["spec"].get("matchResources"), request):
                continue
            try:
                params = await self._parameters.collect(kind, binding["spec"].get("paramRef"), self._namespace(request))
            except Misconfigured as error:
                if strict:
                    found.append((binding, Refusal(f"failed to configure binding: {error}", always=True)))
                continue
            if params:
                variables = await self._variables(request, resource)
                found += [(binding, one) for param in params for one in validate(spec, {**variables, "params": param})]
        return found

    def _matches(self, constraints: Json, request: AdmissionRequest) -> ServedResource | None:
        """Return the version in which match constraints cover a request; None if they do not."""
        policy = constraints.get("matchPolicy", "Equivalent")
        excluded = constraints.get("excludeResourceRules") or ()
        if not self._matcher.selects(constraints, request) or self._matcher.find(excluded, policy, request):
            return None
        return self._matcher.find(constraints.get("resourceRules") or (), policy, request)

    def _is_bound(self, constraints: Json | None, request: AdmissionRequest) -> bool:
        if constraints is None:
            return True
        if constraints.get("resourceRules"):
            return self._matches(constraints, request) is not None
        excluded = constraints.get("excludeResourceRules") or ()
        policy = constraints.get("matchPolicy", "Equivalent")
        return self._matcher.selects(constraints, request) and not self._matcher.find(excluded, policy, request)

    async def _variables(self, request: AdmissionRequest, resource: ServedResource) -> Json:
        body = await review_body(self._conversions, request, resource)
        namespace = self._matcher.namespace(request.namespace) if request.resource.namespaced else None
        return {**variables_of(request, body, self._matcher.decide), "namespaceObject": namespace}

    @staticmethod
    def _namespace(request: AdmissionRequest) -> str:
        if request.resource.collection == "namespaces":
            return request.name
        return request.namespace if request.resource.namespaced else ""


def _denied(request: AdmissionRequest, refusal: Refusal, message: str) -> StatusError:
    name = request.name or (request.object or {}).get("metadata", {}).get("generateName", "")
    reason = refusal.reason or "Invalid"
    error = forbidden(request.resource, name, message, [{"message": message}])
    error.reason, error.code = reason, _CODES.get(reason, 422)
    return error
