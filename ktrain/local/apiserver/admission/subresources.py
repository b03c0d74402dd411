"""
Admission of requests that store no object of their own.

A connect (`pods/exec`) is shown as the options that its query spells, and may be given others. A Binding, an Eviction
or a TokenRequest that is posted to a subresource is a CREATE of that object, under the name in the URL.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ktrain.local.apiserver.admission.chain import AdmissionRequest
from ktrain.local.apiserver.errors import bad_request
from ktrain.local.apiserver.requests import write_options
from ktrain.local.apiserver.verbs import writing

if TYPE_CHECKING:
    from ktrain.api.meta import Json
    from ktrain.local.apiserver.backend import Backend, Call


async def admit_connect(backend: Backend, call: Call, options: Json) -> Json:
    """
    Show admission the options of a connect; return those that it leaves. Before anything is looked up.

    Raises:
        StatusError: Refused; 400: what is connected cannot be tried only.
    """
    if call.parameters.text("dryRun"):
        raise bad_request("dryRun is not supported")
    request = AdmissionRequest(
        operation="CONNECT",
        resource=call.resource,
        subresource=call.subresource,
        namespace=call.namespace,
        name=call.name,
        object=options,
        old_object=None,
        user=call.request.user,
        limit_s=writing.limit_s(call),
        options=None,
        view=(options["apiVersion"], options["kind"]),
    )
    options = await backend.admission.mutate(request, call.warnings) or options
    await backend.admission.validate(replace(request, object=options), call.warnings)
    return options


async def mutate_posted(backend: Backend, call: Call, obj: Json) -> Json:
    """
    Show an object that was posted to whatever mutates; return it as that leaves it.

    Raises:
        StatusError: Refused.
    """
    return await backend.admission.mutate(_posted(call, obj), call.warnings) or obj


async def validate_posted(backend: Backend, call: Call, obj: Json) -> None:
    """
    Show an object that was posted to whatever validates.

    Raises:
        StatusError: Refused.
    """
    await backend.admission.validate(_posted(call, obj), call.warnings)


def _posted(call: Call, obj: Json) -> AdmissionRequest:
    options = write_options("CreateOptions", call.request, call.parameters)
    request = writing.admission_request(call, obj, None, options)
    return replace(request, name=call.name or request.name, view=(obj["apiVersion"], obj["kind"]))
