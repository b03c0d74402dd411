"""
Where metrics come from: a URL, the operator's Service through the API server, or the server of `ktrain up` itself.

The API server's proxy sends a request to any replica, and replicas that do not lead have idle controllers. So it is
asked again, a few times, until the answer is the leader's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from ktrain.api.meta import Object, Resource, Struct
from ktrain.framework.errors import FrameworkError, NotFound

from .samples import Scrape

if TYPE_CHECKING:
    from ktrain.framework.client.client import Client

SELECTOR: Final = "trainer.kubeflow.org/implementation=ktrain"
PORT: Final = "metrics"
TIMEOUT_S: Final = 5.0
TRIES: Final = 5
"""How often the Service is asked for its leader."""
OWN_VERSION: Final = "+ktrain"
"""What the version of `ktrain up` ends with."""


class _Port(Struct, frozen=True):
    name: str = ""


class _ServiceSpec(Struct, frozen=True):
    ports: tuple[_Port, ...] = ()


class _Service(Object, frozen=True):
    spec: _ServiceSpec = _ServiceSpec()


_SERVICES: Final = Resource("", "v1", "Service", "services", namespaced=True, type=_Service)


class NoMetrics(Exception):
    """There are none; the text says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Source:
    """Answers with metrics: a URL outside of the cluster, or a path of the API server."""

    client: Client
    url: str = ""
    paths: tuple[str, ...] = ()
    """The first that answers is taken: a Service does not say whether its port speaks TLS."""

    async def scrape(self) -> Scrape:
        """
        Read the metrics; of an operator with several replicas those of the leader.

        Raises:
            NoMetrics: They cannot be read, or are not those of an operator.
        """
        clock = self.client.env.clock
        for _ in range(TRIES):
            text = await (self._from_url() if self.url else self._from_server())
            try:
                found = Scrape.parse(text, clock.monotonic())
            except ValueError as error:
                raise NoMetrics(f"{self}: the answer is not in Prometheus' text format: {error}") from error
            if not found.has_controllers:
                raise NoMetrics(f"{self}: the answer has no metrics of controllers")
            if found.leads:
                return found
        raise NoMetrics(f"{self}: none of {TRIES} answers is from a replica that leads")

    async def _from_server(self) -> str:
        problems: list[str] = []
        for path in self.paths:
            try:
                return (await self.client.raw("GET", path, timeout_s=TIMEOUT_S)).body.decode()
            except (FrameworkError, UnicodeDecodeError) as error:
                problems.append(str(error))
        raise NoMetrics("; ".join(problems))

    async def _from_url(self) -> str:
        from aiohttp import ClientError, ClientSession, ClientTimeout

        try:
            async with (
                ClientSession(timeout=ClientTimeout(total=TIMEOUT_S)) as session,
                session.get(self.url) as answer,
            ):
                if answer.status != 200:
                    raise NoMetrics(f"{self}: the answer is {answer.status}")
                return await answer.text()
        except (TimeoutError, ClientError, ValueError) as error:
            raise NoMetrics(f"{self}: {str(error) or 'no answer'}") from error

    def __str__(self) -> str:
        return self.url or self.paths[0]


async def find_source(client: Client, url: str = "") -> Source:
    """
    Return where the operator's metrics are.

    Args:
        client: To the cluster.
        url: Where the user says that they are.

    Raises:
        NoMetrics: They are nowhere.
    """
    if url:
        return Source(client, url=url)
    if await _is_own(client):
        return Source(client, paths=("/metrics",))
    try:
        services = (await client.list(_SERVICES, label_selector=SELECTOR)).items
    except FrameworkError as error:
        raise NoMetrics(f"the operator's Service cannot be looked for ({error}); name it with --metrics") from error
    found = [service.metadata.key for service in services if any(port.name == PORT for port in service.spec.ports)]
    if len(found) > 1:
        names = ", ".join(map(str, found))
        raise NoMetrics(f"several Services have the label {SELECTOR}: {names}; say which is meant with --metrics URL")
    for namespace, name in found:
        proxies = (f"{scheme}:{name}:{PORT}/proxy/metrics" for scheme in ("http", "https"))
        return Source(client, paths=tuple(f"/api/v1/namespaces/{namespace}/services/{one}" for one in proxies))
    raise NoMetrics(
        f"no Service with the label {SELECTOR} has a port named {PORT}; say where the operator's metrics are with"
        " --metrics URL"
    )


class _Version(Struct, frozen=True):
    git_version: str = ""


async def _is_own(client: Client) -> bool:
    try:
        answer = await client.raw("GET", "/version", timeout_s=TIMEOUT_S)
        return msgspec.json.decode(answer.body, type=_Version).git_version.endswith(OWN_VERSION)
    except (NotFound, msgspec.MsgspecError):
        return False
    except FrameworkError as error:
        raise NoMetrics(str(error)) from error
