"""
A control plane that is asked over a few connections and seen through watches: what there is costs its server nothing.
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import threading
import time
import urllib.parse
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from pathlib import Path

Json = dict[str, Any]

KINDS = {
    "JobSet": "/apis/jobset.x-k8s.io/v1alpha2/{}jobsets",
    "Job": "/apis/batch/v1/{}jobs",
    "Service": "/api/v1/{}services",
    "PersistentVolumeClaim": "/api/v1/{}persistentvolumeclaims",
    "Event": "/apis/events.k8s.io/v1/{}events",
}
TIMEOUT_S = 60.0


def path_of(kind: str, namespace: str = "", *rest: str) -> str:
    """The path of a kind: in a namespace, or in all; `rest` is a name and a subresource."""
    return "/".join((KINDS[kind].format(f"namespaces/{namespace}/" if namespace else ""), *rest))


class Watched:
    """A control plane, by its kubeconfig. Threads of its own keep up with the objects of all namespaces."""

    def __init__(self, name: str, kubeconfig: Path) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        url = urllib.parse.urlsplit(cluster["server"])
        self.name = name
        self._address = (url.hostname, url.port)
        self._headers = {"Authorization": f"Bearer {user['token']}"}
        given = cluster.get("certificate-authority-data")
        data = base64.b64decode(given).decode() if given else None
        self._tls = ssl.create_default_context(cafile=cluster.get("certificate-authority"), cadata=data)
        self._local = threading.local()
        self._lock = threading.Lock()
        self._objects: dict[str, dict[tuple[str, str], Json]] = {}
        self._changed: dict[str, float] = {}
        self._connections: list[http.client.HTTPSConnection] = []
        self._ended = False
        self._threads = [threading.Thread(target=self._follow, args=(kind,), daemon=True) for kind in KINDS]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Follow no longer, and close all connections. Call it when the server has ended, or watches hang."""
        self._ended = True
        for thread in self._threads:
            thread.join()
        for connection in self._connections:
            connection.close()

    def call(self, method: str, path: str, body: Any = None) -> tuple[int, Json, list[str]]:
        """Send a request; returns code, answer and warnings. A list is a JSON patch."""
        form = "json"
        if method == "PATCH":
            form = "json-patch+json" if isinstance(body, list) else "merge-patch+json"
        data = None if body is None else json.dumps(body)
        headers = self._headers | {"Content-Type": f"application/{form}"}
        for again in (True, False):
            connection = getattr(self._local, "connection", None) or self._connect(TIMEOUT_S)
            self._local.connection = connection
            try:
                connection.request(method, path, data, headers)
                answer = connection.getresponse()
                return answer.status, json.loads(answer.read()), answer.headers.get_all("Warning") or []
            except (OSError, http.client.HTTPException):
                connection.close()
                self._local.connection = None
                if not again:
                    raise
        raise AssertionError

    def seen(self, namespace: str) -> dict[str, Json]:
        """What there is in a namespace now, by kind and name."""
        with self._lock:
            return {
                f"{kind}/{name}": obj
                for kind, objects in self._objects.items()
                for (where, name), obj in objects.items()
                if where == namespace
            }

    def quiet_s(self, namespace: str) -> float:
        """For how long nothing has changed in a namespace."""
        return time.monotonic() - self._changed.get(namespace, 0.0)

    def _connect(self, timeout: float | None) -> http.client.HTTPSConnection:
        connection = http.client.HTTPSConnection(*self._address, context=self._tls, timeout=timeout)
        self._connections.append(connection)
        return connection

    def _follow(self, kind: str) -> None:
        while not self._ended:
            with suppress(OSError, http.client.HTTPException, ValueError, KeyError):
                listed = self.call("GET", path_of(kind))[1]
                with self._lock:
                    self._objects[kind] = {_key(obj): obj for obj in listed["items"]}
                self._watch(kind, listed["metadata"]["resourceVersion"])
            time.sleep(0.2)

    def _watch(self, kind: str, version: str) -> None:
        connection = self._connect(None)
        connection.request("GET", f"{path_of(kind)}?watch=1&resourceVersion={version}", None, self._headers)
        with closing(connection), connection.getresponse() as answer:
            self._take_in(kind, answer)

    def _take_in(self, kind: str, answer: http.client.HTTPResponse) -> None:
        for line in answer:
            event = json.loads(line)
            obj = event["object"]
            if event["type"] == "ERROR":
                return
            with self._lock:
                if event["type"] == "DELETED":
                    self._objects[kind].pop(_key(obj), None)
                else:
                    self._objects[kind][_key(obj)] = obj
                self._changed[obj["metadata"]["namespace"]] = time.monotonic()


def _key(obj: Json) -> tuple[str, str]:
    return obj["metadata"]["namespace"], obj["metadata"]["name"]
