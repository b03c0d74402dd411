"""
A controller runtime for asyncio. It knows nothing of training.

    env, errors, backoff, parallel     the seam for time and randomness; errors; waiting; bounded fan-out
    client/                            a typed client over bytes, and its transports
    cache/                             informers: reflector, store, indexes, handlers
    writes                             read your own writes
    workqueue, controller              keys in, reconciles out
    manager, election                  ordered start and stop; one leader
    events, health, metrics, webhook   what the outside sees
    jsondiff, deepjson                 the patch that makes one document of another; documents too deep to decode
    logging, tracing                   structlog, once per process; spans, if somebody wants them

The names below load on first use: `ktrain --help` must not pay for them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from .cache.cache import Cache as Cache
    from .cache.informer import Handler as Handler
    from .cache.informer import Informer as Informer
    from .client.client import Client as Client
    from .client.client import ObjectList as ObjectList
    from .client.client import PatchType as PatchType
    from .client.http import HttpTransport as HttpTransport
    from .client.http import connect as connect
    from .client.transport import Transport as Transport
    from .controller import Controller as Controller
    from .controller import Result as Result
    from .election import LeaderElection as LeaderElection
    from .env import Env as Env
    from .env import system_env as system_env
    from .events import EventRecorder as EventRecorder
    from .manager import Manager as Manager
    from .metrics import Metrics as Metrics
    from .tracing import Tracing as Tracing
    from .webhook import WebhookServer as WebhookServer
    from .workqueue import WorkQueue as WorkQueue

_HOMES: Final = {
    "Cache": "cache.cache",
    "Client": "client.client",
    "Controller": "controller",
    "Env": "env",
    "EventRecorder": "events",
    "Handler": "cache.informer",
    "HttpTransport": "client.http",
    "Informer": "cache.informer",
    "LeaderElection": "election",
    "Manager": "manager",
    "Metrics": "metrics",
    "ObjectList": "client.client",
    "PatchType": "client.client",
    "Result": "controller",
    "Tracing": "tracing",
    "Transport": "client.transport",
    "WebhookServer": "webhook",
    "WorkQueue": "workqueue",
    "connect": "client.http",
    "system_env": "env",
}

__all__ = [
    "Cache",
    "Client",
    "Controller",
    "Env",
    "EventRecorder",
    "Handler",
    "HttpTransport",
    "Informer",
    "LeaderElection",
    "Manager",
    "Metrics",
    "ObjectList",
    "PatchType",
    "Result",
    "Tracing",
    "Transport",
    "WebhookServer",
    "WorkQueue",
    "connect",
    "system_env",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = found
    return found
