"""
A plan without a cluster: an API server in memory checks the objects, and the pipeline builds what an operator would.

The server is the one of `ktrain run`, without controllers and pods. So schemas, admission rules and defaults are the
same, and what the API server would refuse of the built objects is found, too. It is gone when the plan is made.

UIDs are drawn from a fixed seed, so that the same input gives the same names on every machine. Secrets are drawn from
it, too, and must not be shown.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ktrain import pipeline
from ktrain.api import trainer as api
from ktrain.api.core import untyped
from ktrain.controllers.trainjob import without_unserved
from ktrain.framework import Client
from ktrain.framework.client.warnings import warning_texts
from ktrain.framework.env import system_env
from ktrain.framework.errors import ApiError, Forbidden, NotFound
from ktrain.local.installing import install
from ktrain.local.server import make_server
from ktrain.local.store_reader import StoreReader
from ktrain.pipeline import Context, Registry

from .session import cluster_session
from .submit import FIELD_MANAGER, Refused, Submission, read, submit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from ktrain.api.meta import Json, Resource
    from ktrain.framework import Transport
    from ktrain.framework.client.transport import Response, Stream
    from ktrain.framework.env import Env
    from ktrain.pipeline import Component, Plan

_SEED: Final = 0
_ROUNDS: Final = 5
"""How often a plan is made anew because a component names the UID of an earlier one."""
_SYSTEM: Final = "system-"
"""Objects of this prefix belong to every API server."""


@dataclass(frozen=True, slots=True)
class OfflinePlan:
    """The objects that an operator would build for a TrainJob."""

    objects: tuple[Json, ...]
    """In the order in which they would be written."""
    authors: Mapping[str, str]
    """By the path of the field."""
    runtime: str
    """Kind and name."""
    warnings: tuple[str, ...]
    refusals: tuple[str, ...]
    """Objects that the API server would refuse, and why."""


async def make_plan(
    objects: Sequence[Json], namespace: str, kubeconfig: str | None, context: str | None
) -> OfflinePlan:
    """
    Plan the TrainJob among *objects*; `kubeconfig` and `context` may name a cluster to take the runtime from.

    Raises:
        Refused: The input is refused, or there is no such runtime.
        PipelineError: The objects cannot be built, or plugins cannot be put in order.
        FrameworkError: The cluster could not be asked.
    """
    env = replace(system_env(), random=Random(_SEED))  # noqa: S311 -- what is drawn is never shown
    registry = Registry.load()
    submission = read(objects, namespace)
    notes: tuple[str, ...] = ()
    if kubeconfig is not None or context is not None:
        async with cluster_session(env, kubeconfig=kubeconfig, context=context) as session:
            submission, notes = await with_cluster(session.client, submission, registry)
    server = make_server(env, registry)
    async with server.running():
        transport = _Warned(server.transport())
        client = Client(transport, env, field_manager=FIELD_MANAGER)
        await install(client)
        transport.texts.clear()
        # A kind in several versions is watched in the version that this server has.
        registry = await without_unserved(registry, client)
        job = await submit(client, submission, is_local=True)
        planned = await _Planner(client, env, registry, StoreReader.of(server)).plan(job)
    warnings = (*notes, *transport.texts, *planned.warnings)
    return replace(planned, warnings=tuple(dict.fromkeys(warnings)))


class _Planner:
    """Builds the objects of a TrainJob, and has the server check them."""

    def __init__(self, client: Client, env: Env, registry: Registry, reader: StoreReader) -> None:
        self._client = client
        self._env = env
        self._registry = registry
        self._reader = reader
        self._refusals: dict[str, None] = {}
        self._warnings: list[str] = []

    async def plan(self, job: api.TrainJob) -> OfflinePlan:
        ref = job.spec.runtime_ref
        resource = api.TRAINING_RUNTIMES if ref.kind == api.TRAINING_RUNTIMES.kind else api.CLUSTER_TRAINING_RUNTIMES
        runtime = await self._client.get(resource, ref.name, job.metadata.namespace if resource.namespaced else "")
        spec = msgspec.json.decode(runtime.spec, type=api.RuntimeSpec)
        # Admission gives the same warnings, but for those that Kubeflow Trainer is recorded not to give.
        blank = Context.at_present(self._env, self._reader.lookup)
        self._warnings += map(str, pipeline.unused(self._registry, job, spec, blank))
        if not job.is_managed_here:
            self._warnings.append(f"spec.managedBy is {job.spec.managed_by}: this TrainJob's objects are built there")
        plan = await self._plan(job, spec)
        objects = tuple(component.body for component in plan.components)
        where = f"{ref.kind} {ref.name}"
        return OfflinePlan(objects, plan.provenance, where, tuple(self._warnings), tuple(self._refusals))

    async def _plan(self, job: api.TrainJob, spec: api.RuntimeSpec) -> Plan:
        """Plan until no component waits for the UID of another."""
        # `Any`: any kind.
        written: dict[tuple[Resource[Any], str], Json] = {}
        kinds = {watch.resource for watch in self._registry.watches}
        for _ in range(_ROUNDS):
            context = Context.at_present(self._env, self._reader.lookup, kinds=kinds, find=self._reader.find)
            plan = pipeline.plan(self._registry, job, spec, context)
            before = set(written)
            for component in plan.components:
                where = component.resource, component.body["metadata"]["name"]
                if written.get(where) != component.body:
                    await self._apply(component)
                    written[where] = component.body
            if not any(component.awaited for component in plan.components) or before == set(written):
                break
        return plan

    async def _apply(self, component: Component) -> None:
        kind, name = component.resource.kind, component.body["metadata"]["name"]
        try:
            await self._client.apply(component.resource, component.body, field_manager=api.FIELD_MANAGER, force=True)
        except NotFound:
            self._warnings.append(
                f"{kind} {name} is not checked: {component.resource.qualified_name} is a kind of your cluster"
            )
        except ApiError as error:
            self._refusals[f"{kind} {name}: {error.status.message}"] = None


async def with_cluster(
    client: Client, submission: Submission, registry: Registry
) -> tuple[Submission, tuple[str, ...]]:
    """
    Return the submission with what it needs of a cluster, and what could not be read there.

    That is the runtime, unless the files have it, and what plugins look up that belongs to no TrainJob.

    Raises:
        Refused: The cluster has no such runtime.
        FrameworkError: The cluster could not be asked.
    """
    from .submit import check_runtime, runtime_ref

    ref, namespace = runtime_ref(submission.job), submission.key.namespace
    brought = {(item["kind"], item["metadata"].get("name")) for item in submission.companions}
    found: list[Json] = []
    notes: list[str] = []
    if (ref.kind, ref.name) not in brought:
        await check_runtime(client, ref, namespace)
        resource = api.TRAINING_RUNTIMES if ref.kind == api.TRAINING_RUNTIMES.kind else api.CLUSTER_TRAINING_RUNTIMES
        try:
            found.append(await client.get(untyped(resource), ref.name, namespace if resource.namespaced else ""))
        except Forbidden as error:
            raise Refused(f"{ref.kind} {ref.name} cannot be read: {error}") from error
    for watch in registry.watches:
        if watch.owned or watch.label_selector:
            continue  # those are parts of TrainJobs
        kind = untyped(watch.resource)
        try:
            listed = await client.list(kind, namespace=namespace if kind.namespaced else "")
        except (NotFound, Forbidden) as error:
            notes.append(f"{watch.resource.qualified_name} of the cluster are taken for none: {error}")
            continue
        found += [
            {"apiVersion": watch.resource.api_version, "kind": watch.resource.kind} | item for item in listed.items
        ]
    copies = [
        _copied(item)
        for item in found
        if (item["kind"], item["metadata"]["name"]) not in brought and not item["metadata"]["name"].startswith(_SYSTEM)
    ]
    unique = {(item["kind"], item["metadata"]["name"]): item for item in copies}
    return replace(submission, companions=(*unique.values(), *submission.companions)), tuple(notes)


def _copied(item: Json) -> Json:
    """Return an object without what its API server wrote."""
    kept = ("name", "namespace", "labels", "annotations")
    metadata = {key: item["metadata"][key] for key in kept if key in item["metadata"]}
    return {key: value for key, value in item.items() if key != "status"} | {"metadata": metadata}


class _Warned:
    """A transport that keeps the warnings of all answers."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.texts: list[str] = []

    async def request(self, method: str, path: str, **more: Any) -> Response:  # noqa: ANN401 -- as the inner one takes it
        """Send a request."""
        response = await self._inner.request(method, path, **more)
        self.texts += warning_texts(response.headers.get("warning", ""))
        return response

    def stream(self, path: str, **more: Any) -> AbstractAsyncContextManager[Stream]:  # noqa: ANN401 -- as the inner one takes it
        """Open a stream."""
        return self._inner.stream(path, **more)

    async def aclose(self) -> None:
        """Close connections."""
        await self._inner.aclose()
