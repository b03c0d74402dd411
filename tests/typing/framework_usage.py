"""
The framework as somebody else's checkers see it. Nothing here runs: mypy --strict must be content with all of it.

What must not type-check carries an ignore; were it allowed, mypy would report the ignore as unused.
"""

from __future__ import annotations

from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, assert_type

from kubernetes_asyncio.client import CoreV1Api, V1ConfigMap

from ktrain.framework import (
    AdmissionRequest,
    Allowed,
    Channel,
    Client,
    Controller,
    Conversion,
    Denied,
    Informer,
    Json,
    Key,
    Object,
    ObjectList,
    Operator,
    Predicate,
    Registrations,
    Resource,
    RestMapper,
    Result,
    Settings,
    Struct,
    TerminalError,
    WatchEvent,
    current_reason,
)
from ktrain.framework.controller.predicates import GENERATION_CHANGED, Changed, Events, Matching, label_selector
from ktrain.framework.errors import ApiError, NotFound
from ktrain.framework.helpers import (
    Outcome,
    add_finalizer,
    create_or_update,
    has_finalizer,
    remove_finalizer,
    retry_on_conflict,
    set_controller_reference,
)
from ktrain.framework.workqueue.limiters import Exponential

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from ktrain.testing.planes import FreshPlane


class WebsiteSpec(Struct, frozen=True):
    host: str = ""
    replicas: int = 1


class Website(Object, frozen=True):
    spec: WebsiteSpec = WebsiteSpec()


class Deployment(Object, frozen=True):
    pass


WEBSITES = Resource("example.com", "v1", "Website", "websites", namespaced=True, type=Website)
DEPLOYMENTS = Resource("apps", "v1", "Deployment", "deployments", namespaced=True, type=Deployment)
FINALIZER = "example.com/dns"


class Reconciler:
    def __init__(self, op: Operator) -> None:
        self.client = op.client
        self.recorder = op.recorder
        self.env = op.env
        self.websites = op.cache.informer(WEBSITES, label_selector="team=a")
        self.websites.add_index("host", lambda site: [site.spec.host])

    async def reconcile(self, key: Key) -> Result | None:
        site = self.websites.get(key)
        if site is None:
            return None
        assert_type(site, Website)
        str(site.spec.hots)  # type: ignore[attr-defined]
        site.spec.host = "other"  # type: ignore[misc]
        if site.metadata.deletion_timestamp is not None:
            await remove_finalizer(self.client, WEBSITES, site, FINALIZER)
            return None
        if not has_finalizer(site, FINALIZER):
            assert_type(await add_finalizer(self.client, WEBSITES, site, FINALIZER), bool)
        for twin in self.websites.by_index("host", site.spec.host):
            assert_type(twin, Website)
        body: Json = {"metadata": {"name": key.name, "namespace": key.namespace}}
        set_controller_reference(body, site, WEBSITES)
        assert_type(await self.client.apply(DEPLOYMENTS, body), Deployment)
        assert_type(await create_or_update(self.client, DEPLOYMENTS, key, lambda _: None), tuple[Json, Outcome])
        self.recorder.event(WEBSITES, site, reason="Deployed", message=f"because {current_reason()}")
        if not site.spec.host:
            raise TerminalError("no host")
        return Result(requeue_after_s=60)


async def wire(op: Operator) -> None:
    reconciler = Reconciler(op)
    controller = op.controller(
        "website", reconciler.reconcile, limiter=Exponential(op.env), max_concurrent_reconciles=4
    )
    assert_type(controller, Controller)
    op.controller("website", reconciler.reconcile, workers=4)  # type: ignore[call-arg]
    op.controller("website", lambda key: None)  # type: ignore[arg-type, return-value]
    busy: Predicate[Website] = Matching(lambda site: site.spec.replicas > 0)
    controller.for_(reconciler.websites, predicate=GENERATION_CHANGED & label_selector("tier=web") | ~busy)
    controller.for_(reconciler.websites, predicate=Events(updated=lambda old, new: old.spec != new.spec))
    controller.for_(reconciler.websites, predicate=Changed(lambda site: site.spec.host))
    deployments = op.cache.informer(DEPLOYMENTS)
    assert_type(deployments, Informer[Deployment])
    controller.owns(deployments, owner=WEBSITES)
    controller.watches(deployments, owners_of)
    controller.watches(deployments, lambda site: [site.spec.host])  # type: ignore[attr-defined]
    timer: Channel[str] = Channel("timer")
    controller.listens(timer, lambda name: [Key("default", name)])
    timer.send(3)  # type: ignore[arg-type]

    op.admission("/validate", check)
    websites = Conversion("example.com", "Website", hub="v1")
    websites.spoke("v1alpha1", to_hub=lambda site: site, from_hub=lambda site: site)
    op.conversion(websites)
    op.manage_certificates(service="website", registrations=Registrations(definitions=("websites.example.com",)))

    away = await op.cluster("away", kubeconfig="/etc/away/config")
    found = await RestMapper(away.unguarded).for_kind("Website")
    assert_type(found, Resource[Json])
    assert_type(away.cache.informer(found), Informer[Json])
    assert_type(await RestMapper(away.client).for_kind("Website", type=Website), Resource[Website])


def owners_of(deployment: Deployment) -> Iterable[Key]:
    return [Key(deployment.metadata.namespace, owner.name) for owner in deployment.metadata.owner_references]


async def check(request: AdmissionRequest) -> Allowed | Denied:
    site = request.decode(WEBSITES)
    assert_type(site, Website)
    return Allowed(warnings=("a short host",)) if site.spec.host else Denied("spec.host must not be empty")


async def calls(client: Client, key: Key) -> AsyncIterator[str]:
    assert_type(await client.get(WEBSITES, key.name, key.namespace), Website)
    assert_type(await client.list(WEBSITES), ObjectList[Website])
    async for page in client.pages(WEBSITES, page_size=10):
        assert_type(page, ObjectList[Website])
    async with aclosing(client.watch(WEBSITES)) as events:
        async for event in events:
            assert_type(event, WatchEvent[Website])
            yield event.object.spec.host if event.object is not None else event.type
    await client.patch(WEBSITES, key, {"spec": {}}, dry_run=True, field_validation="Strict")
    await client.patch(WEBSITES, key, {"spec": {}}, dryrun=True)  # type: ignore[call-arg]
    await client.delete(WEBSITES, key, propagation="Background")
    await client.delete(WEBSITES, key, propagation="background")  # type: ignore[arg-type]
    assert_type(await retry_on_conflict(client.env, lambda: client.get(WEBSITES, "a")), Website)
    try:
        await client.get(WEBSITES, "a")
    except NotFound as error:
        assert_type(error.code, int)
    except ApiError as error:
        assert_type(error.status.message, str)


async def run() -> None:
    async with Operator("website", Settings(leader_election="website", health_address=":8081")) as op:
        await wire(op)
        await op.run()
    Settings("website")  # type: ignore[call-arg]


async def test_of_an_operator(control_plane: FreshPlane) -> None:
    await control_plane.install_crds(Path("config/crd"), "one.yaml", {"kind": "CustomResourceDefinition"})
    seen = await control_plane.wait_for(WEBSITES, "a", lambda site: site is not None and site.spec.replicas > 1)
    assert_type(seen, Website | None)


async def kubernetes_own_types(client: Client) -> None:
    config_maps = Resource("", "v1", "ConfigMap", "configmaps", namespaced=True, type=V1ConfigMap)
    assert_type(client.typed(CoreV1Api), CoreV1Api)
    assert_type(await client.apply(config_maps, V1ConfigMap(data={})), V1ConfigMap)
    assert_type(await client.get(config_maps, "c", "shop"), V1ConfigMap)
    await client.create(config_maps, "text")  # type: ignore[arg-type]
