"""Where a Service leads: an address or a function that somebody named, else a pod that it selects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktrain.api.meta import Key

if TYPE_CHECKING:
    from ktrain.api.meta import Json
    from ktrain.local.apiserver.admission.callouts import InProcess
    from ktrain.local.apiserver.storage.store import Store


class Unreachable(Exception):
    """Nothing stands behind a Service, or there is no such Service."""


class ServiceAddresses:
    """Resolves Services for the server's own calls. `named` wins over what is stored."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.named: dict[tuple[str, str, int], str | InProcess] = {}

    def find(self, namespace: str, name: str, port: int) -> str | InProcess:
        """
        Return `host:port`, or the function that stands for the Service.

        Raises:
            Unreachable: With the API server's text.
        """
        named = self.named.get((namespace, name, port))
        if named is not None:
            return named
        item = self._store.collection("services").get(Key(namespace, name))
        if item is None:
            raise Unreachable(f'service "{name}" not found')
        spec = item.obj["spec"]
        if spec.get("type") == "ExternalName":
            return f"{spec.get('externalName', '')}:{port}"
        wanted = next((one for one in spec.get("ports") or () if one.get("port") == port), None)
        if wanted is None:
            raise Unreachable(f'no service port {port} found for service "{name}"')
        selector = spec.get("selector") or {}
        for _, pod in self._store.collection("pods").entries(namespace) if selector else ():
            address = _address(pod.obj, selector, wanted)
            if address:
                return address
        raise Unreachable(f'no endpoints available for service "{name}"')


def _address(pod: Json, selector: dict[str, str], port: Json) -> str:
    """Return where a ready pod listens for a Service's port; nothing if the pod is not meant or not ready."""
    status = pod.get("status") or {}
    labels = pod["metadata"].get("labels") or {}
    conditions = {one["type"]: one.get("status") for one in status.get("conditions") or ()}
    if not selector.items() <= labels.items() or conditions.get("Ready") != "True" or not status.get("podIP"):
        return ""
    target = port.get("targetPort", port["port"])
    if isinstance(target, str):
        # The built-in kinds import admission.
        from ktrain.local.apiserver.builtins.pods.defaults import containers

        ports = [one for container in containers(pod["spec"]) for one in container.get("ports") or ()]
        target = next((one["containerPort"] for one in ports if one.get("name") == target), None)
    host = status["podIP"]
    return f"[{host}]:{target}" if ":" in host else f"{host}:{target}" if target else ""
