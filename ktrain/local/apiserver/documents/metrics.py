"""
What the server counts, as Prometheus text at `/metrics`: requests by verb, resource and code, and objects stored.

The names are kube-apiserver's, so that dashboards and load tests made for it work here. Written by hand: the library
for it takes longer to import than the server to start, and counts nothing that a dictionary cannot.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

from ktrain.api import routes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ktrain.local.apiserver.requests import Request
    from ktrain.local.apiserver.storage.store import Store

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_VERBS: Final = {"HEAD": "GET"}
_COLLECTION_VERBS: Final = {"GET": "LIST", "HEAD": "LIST", "DELETE": "DELETECOLLECTION"}


class _Labels(NamedTuple):
    code: int
    group: str
    resource: str
    scope: str
    subresource: str
    verb: str
    version: str


class RequestCounts:
    """Counts requests. Bounded by what is served: a path that leads nowhere is counted without its words."""

    def __init__(self) -> None:
        self._counts: Counter[_Labels] = Counter()

    def add(self, request: Request, code: int) -> None:
        """Count an answered request."""
        route = None if code == 404 else routes.resource_route(routes.split(request.path))
        verb = _VERBS.get(request.method, request.method)
        if route is None:
            labels = _Labels(code, "", "", "", "", verb, "")
        else:
            if not route.name:
                verb = _COLLECTION_VERBS.get(request.method, request.method)
            if verb == "LIST" and any(name == "watch" for name, _ in request.query):
                verb = "WATCH"
            scope = "resource" if route.name else "namespace" if route.namespace else "cluster"
            labels = _Labels(code, route.group, route.plural, scope, route.subresource, verb, route.version)
        self._counts[labels] += 1

    def samples(self) -> Iterator[tuple[Mapping[str, str], int]]:
        """Yield labels and value of each count."""
        for labels, value in sorted(self._counts.items()):
            yield {name: str(label) for name, label in labels._asdict().items()}, value


def exposition(requests: RequestCounts, store: Store) -> bytes:
    """Return all metrics as Prometheus text."""
    objects = (({"resource": name}, len(found)) for name, found in sorted(store.collections.items()))
    lines = [
        *_metric("apiserver_request_total", "counter", "Requests answered.", requests.samples()),
        *_metric("apiserver_storage_objects", "gauge", "Objects stored, by resource.", objects),
    ]
    return ("\n".join(lines) + "\n").encode()


def _metric(name: str, kind: str, text: str, samples: Iterable[tuple[Mapping[str, str], int]]) -> Iterator[str]:
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} {kind}"
    for labels, value in samples:
        shown = ",".join(f'{label}="{_escaped(word)}"' for label, word in labels.items())
        yield f"{name}{{{shown}}} {value}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
