"""
Whether the API server has what `ktrain operator` needs: it answers, knows this identity, and serves the kinds.

Each check asks the API server by requests that every authenticated user may send, and returns findings: none if all is
well. The start of the operator waits for `api_server`, and `/readyz` fails while `kinds` finds an error, so both speak
in the words of `ktrain doctor`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import anyio
import msgspec

from ktrain.api.jobset import JOBSETS
from ktrain.api.meta import Resource, Struct
from ktrain.api.trainer import CLUSTER_TRAINING_RUNTIMES, TRAIN_JOBS, TRAINING_RUNTIMES
from ktrain.framework.errors import (
    ApiError,
    ConfigError,
    Forbidden,
    FrameworkError,
    NotFound,
    TransportError,
    Unauthorized,
)

from .doctor.finding import Finding, Reporter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ktrain.framework.cache.cache import Cache
    from ktrain.framework.client.client import Client
    from ktrain.framework.serving.health import Check

TIMEOUT_S: Final = 5.0
"""For one answer of the API server during the start."""
CHECK_TIMEOUT_S: Final = 0.6
"""For the questions of one probe, which has 0.8 s in all."""
NEEDED_KINDS: Final[tuple[Resource[Any], ...]] = (TRAIN_JOBS, TRAINING_RUNTIMES, CLUSTER_TRAINING_RUNTIMES, JOBSETS)
"""Nothing runs without these. What else plugins watch is left out where it is not served."""
_REVIEW: Final = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}

_server: Final = Reporter("api-server")
_kinds: Final = Reporter("kinds")


@dataclass(frozen=True, slots=True)
class Server:
    """An API server that answers."""

    url: str
    version: str
    """Its release; empty if it may not be asked."""
    identity: str
    """Name of the user that this process is to it; empty if it does not say."""


async def api_server(client: Client) -> Server | Finding:
    """
    Ask the API server who it is and who we are; return what keeps it from answering.

    Raises:
        ConfigError: It cannot be asked as it is configured, whoever runs there.
    """
    endpoint = getattr(client.transport, "endpoint", None)
    url = "the API server" if endpoint is None else str(endpoint.url)
    try:
        return Server(url, await _version(client), await identity(client))
    except ConfigError:
        raise
    except Unauthorized as error:
        what = "renew the token or certificate of the kubeconfig or of the service account"
        return _server.error(url, f"does not accept the credentials of this process: {error}", what)
    except TransportError as error:
        what = "check the address (kubeconfig, context), the network and the API server"
        return _server.error(url, f"does not answer: {error}", what)
    except FrameworkError as error:
        return _server.error(url, f"answers with an error: {error}", "see the log of the API server")


async def _version(client: Client) -> str:
    try:
        answer = await client.raw("GET", "/version", timeout_s=TIMEOUT_S)
        return str(msgspec.json.decode(answer.body)["gitVersion"])
    except (Forbidden, NotFound, msgspec.MsgspecError, KeyError, TypeError):
        return ""  # a proxy, or a cluster that tells nobody


async def identity(client: Client) -> str:
    """Return the name that the API server knows this process by; empty if it does not say."""
    path = f"/apis/{_REVIEW['apiVersion']}/selfsubjectreviews"
    try:
        answer = await client.raw("POST", path, body=_REVIEW, timeout_s=TIMEOUT_S)
        return str(msgspec.json.decode(answer.body)["status"]["userInfo"]["username"])
    except Unauthorized:
        raise
    except (ApiError, msgspec.MsgspecError, KeyError, TypeError):
        return ""  # Kubernetes before 1.28 does not serve it


async def kinds(
    client: Client, *, with_jobset_controller: bool, resources: Sequence[Resource[Any]] = NEEDED_KINDS
) -> list[Finding]:
    """
    Return an error for each of these kinds that the API server does not serve in the version that is read.

    Raises:
        FrameworkError: The API server cannot be asked.
    """
    found: list[Finding] = []
    served: dict[str, frozenset[str]] = {}
    for resource in resources:
        if resource.api_version not in served:
            served[resource.api_version] = await _plurals(client, resource)
        if resource.plural not in served[resource.api_version]:
            others = await _versions(client, resource.group)
            found.append(_missing(resource, others, with_jobset_controller=with_jobset_controller))
    return found


def _missing(resource: Resource[Any], others: Sequence[str], *, with_jobset_controller: bool) -> Finding:
    fix = "install the chart with crds.install, or apply config/crd"
    if resource.group == JOBSETS.group and not with_jobset_controller:
        fix = "install the JobSet operator, or have ktrain run JobSets (jobset.enable, the chart's jobset.mode=builtin)"
    different = [version for version in others if version != resource.version]
    if different:
        message = f"the API server serves {', '.join(different)}, and this release reads {resource.version}"
    else:
        message = f"the API server does not serve {resource.version}: the CRD is not installed"
    return _kinds.error(resource.qualified_name, message, f"{fix}; no restart is needed")


class _Name(Struct, frozen=True):
    name: str = ""


class _Resources(Struct, frozen=True):
    resources: tuple[_Name, ...] = ()


class _Version(Struct, frozen=True):
    version: str = ""


class _Group(Struct, frozen=True):
    versions: tuple[_Version, ...] = ()


async def _plurals(client: Client, resource: Resource[Any]) -> frozenset[str]:
    try:
        answer = await client.raw("GET", f"/apis/{resource.api_version}", timeout_s=TIMEOUT_S)
    except NotFound:
        return frozenset()
    return frozenset(one.name for one in msgspec.json.decode(answer.body, type=_Resources).resources)


async def _versions(client: Client, group: str) -> tuple[str, ...]:
    try:
        answer = await client.raw("GET", f"/apis/{group}", timeout_s=TIMEOUT_S)
    except NotFound:
        return ()
    return tuple(one.version for one in msgspec.json.decode(answer.body, type=_Group).versions)


def kinds_check(cache: Cache, client: Client, *, with_jobset_controller: bool) -> Check:
    """
    Return the check `kinds` of `/readyz`: whether all needed kinds that the cache follows are served.

    It asks the API server only while an informer misses its kind, and passes as soon as the informer has its content.
    """
    wanted = {(one.group, one.plural): one for one in NEEDED_KINDS}

    async def check() -> str | None:
        missing = {
            key: wanted[key]
            for informer in cache.informers()
            if informer.missing and (key := (informer.resource.group, informer.resource.plural)) in wanted
        }
        if not missing:
            return None
        found: list[Finding] = []
        try:
            with anyio.move_on_after(CHECK_TIMEOUT_S):
                found = await kinds(
                    client, with_jobset_controller=with_jobset_controller, resources=tuple(missing.values())
                )
        except FrameworkError:
            pass  # What the informers know is as good.
        found = found or [_missing(one, (), with_jobset_controller=with_jobset_controller) for one in missing.values()]
        return "; ".join(map(sentence, found))

    return check


def sentence(finding: Finding) -> str:
    """Write a finding as one sentence: the object, the problem, what to do."""
    return f"{finding.subject}: {finding.message}; {finding.fix}"
