"""
Telling the API server which CA to trust: `caBundle` in webhook configurations and in the conversion of definitions.

Every replica does it, and none minds the others: what is right already is not written. A write is a JSON patch that
tests what it rests on, so it cannot hit an entry that somebody moved meanwhile. Only entries that lead to this webhook
are touched; the rest of a configuration belongs to others.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import structlog

from ktrain.api.core import CUSTOM_RESOURCE_DEFINITIONS, untyped
from ktrain.api.meta import Json, JsonValue, Key, Object, Resource
from ktrain.framework.client.client import PatchType
from ktrain.framework.errors import Forbidden, FrameworkError, NotFound

if TYPE_CHECKING:
    from collections.abc import Iterator

    from structlog.typing import FilteringBoundLogger

    from ktrain.framework.client.client import Client
    from ktrain.framework.metrics.webhook import RotationMetrics

log: FilteringBoundLogger = structlog.get_logger("ktrain.framework.webhook")


def _configuration(kind: str) -> Resource[Json]:
    plural = f"{kind.lower()}s"
    return untyped(Resource("admissionregistration.k8s.io", "v1", kind, plural, namespaced=False, type=Object))


VALIDATING_WEBHOOK_CONFIGURATIONS: Final = _configuration("ValidatingWebhookConfiguration")
MUTATING_WEBHOOK_CONFIGURATIONS: Final = _configuration("MutatingWebhookConfiguration")
DEFINITIONS: Final = untyped(CUSTOM_RESOURCE_DEFINITIONS)


@dataclass(frozen=True, slots=True)
class WebhookAddress:
    """
    How the API server reaches the webhooks: through a Service, or by URL at some hosts.

    Make one with `of_service` or `of_hosts`. `names` are what the certificate must be for.
    """

    names: tuple[str, ...]
    service: Key | None = None

    @classmethod
    def of_service(cls, namespace: str, name: str) -> WebhookAddress:
        """Through a Service; API servers use `NAME.NAMESPACE.svc`, people the others."""
        within = f"{name}.{namespace}"
        return cls((name, within, f"{within}.svc", f"{within}.svc.cluster.local"), Key(namespace, name))

    @classmethod
    def of_hosts(cls, *hosts: str) -> WebhookAddress:
        """By URL: DNS names and IP addresses as they stand in it."""
        return cls(hosts)

    def __str__(self) -> str:
        return f"Service {self.service}" if self.service is not None else ", ".join(self.names)

    def leads_here(self, client_config: Json) -> bool:
        """Whether an entry's `clientConfig` is about this webhook."""
        if (service := client_config.get("service")) is not None:
            return self.service is not None and self.service == Key(service.get("namespace", ""), service.get("name"))
        url = client_config.get("url")
        return self.service is None and url is not None and urlsplit(url).hostname in {n.lower() for n in self.names}


@dataclass(frozen=True, slots=True)
class Registrations:
    """Names of the objects that send the API server to these webhooks."""

    validating: tuple[str, ...] = ()
    mutating: tuple[str, ...] = ()
    definitions: tuple[str, ...] = ()
    """Custom resource definitions with conversion by webhook."""

    def __iter__(self) -> Iterator[tuple[Resource[Json], str]]:
        for names, resource in (
            (self.validating, VALIDATING_WEBHOOK_CONFIGURATIONS),
            (self.mutating, MUTATING_WEBHOOK_CONFIGURATIONS),
            (self.definitions, DEFINITIONS),
        ):
            for name in names:
                yield resource, name


NO_REGISTRATIONS: Final = Registrations()
REGISTRATIONS_CHECK: Final = "webhook-registrations"
"""Name of the check in `/readyz` that says which registrations lead elsewhere."""


class Injector:
    """Writes a CA bundle into registrations."""

    def __init__(
        self, client: Client, address: WebhookAddress, registrations: Registrations, metrics: RotationMetrics
    ) -> None:
        self._client = client
        self._address = address
        self._registrations = registrations
        self._metrics = metrics
        self._absent: set[str] = set()
        self._elsewhere: dict[tuple[str, str], str] = {}

    def check(self) -> str | None:
        """Say which registrations have no entry that leads to this webhook, for readiness; None if all have one."""
        return "; ".join(self._elsewhere.values()) or None

    async def inject(self, bundle: bytes) -> bool:
        """
        See to it that every registration carries the bundle (PEM); whether all of them do now.

        One that does not exist needs none. One that cannot be read or written is logged, and does not stop the others.
        """
        encoded = base64.b64encode(bundle).decode()
        done = True
        for resource, name in self._registrations:
            try:
                await self._inject(resource, name, encoded)
            except NotFound:
                if name not in self._absent:
                    log.warning("webhook.registration_absent", kind=resource.kind, name=name)
                    self._absent.add(name)
                self._elsewhere.pop((resource.kind, name), None)
            except FrameworkError as error:
                self._metrics.injection_errors()
                log.warning("webhook.injection_failed", kind=resource.kind, name=name, error=str(error))
                done = False
            else:
                self._absent.discard(name)
        return done

    async def _inject(self, resource: Resource[Json], name: str, encoded: str) -> None:
        registration = await self._client.get(resource, name)
        entries = list(_entries(registration, is_definition=resource == DEFINITIONS))
        self._note_elsewhere(resource.kind, name, [config for _, config, _ in entries])
        patch: list[Json] = []
        for path, config, tests in entries:
            if self._address.leads_here(config) and config.get("caBundle") != encoded:
                patch += [*tests, {"op": "add", "path": f"{path}/caBundle", "value": encoded}]
                config["caBundle"] = encoded
        if patch:
            try:
                await self._client.patch(resource, Key("", name), patch, type=PatchType.JSON)
            except Forbidden:
                # Roles made for operators in Go let update, and not patch. It was just read, and its version is told.
                await self._client.update(resource, registration)
            self._metrics.injected()
            log.info("webhook.ca_injected", kind=resource.kind, name=name)

    def _note_elsewhere(self, kind: str, name: str, configs: list[Json]) -> None:
        """Log once, and keep for `check`, that a registration has entries and none of them leads to this webhook."""
        if not configs or any(map(self._address.leads_here, configs)):
            self._elsewhere.pop((kind, name), None)
            return
        found = ", ".join(sorted({_destination(config) for config in configs}))
        problem = (
            f"{kind} {name} calls {found}, and not {self._address}: it gets no CA, and the API server cannot call this "
            "webhook; correct one of the two names"
        )
        if self._elsewhere.get((kind, name)) != problem:
            self._elsewhere[kind, name] = problem
            log.warning("webhook.registration_elsewhere", kind=kind, name=name, problem=problem)


def _destination(config: Json) -> str:
    if service := config.get("service"):
        return f"Service {service.get('namespace', '')}/{service.get('name', '')}"
    return str(config.get("url"))


def _entries(registration: Json, *, is_definition: bool) -> Iterator[tuple[str, Json, list[Json]]]:
    """Path and content of every `clientConfig` in a registration, and the tests that prove it is still there."""
    if is_definition:
        conversion: Json = registration.get("spec", {}).get("conversion") or {}
        config: Json | None = (conversion.get("webhook") or {}).get("clientConfig")
        if config is not None:
            yield "/spec/conversion/webhook/clientConfig", config, [_same("/spec/conversion/strategy", "Webhook")]
        return
    for n, entry in enumerate(registration.get("webhooks") or ()):
        config = entry.get("clientConfig") or {}
        yield f"/webhooks/{n}/clientConfig", config, [_same(f"/webhooks/{n}/name", entry["name"])]


def _same(path: str, value: JsonValue) -> Json:
    return {"op": "test", "path": path, "value": value}
