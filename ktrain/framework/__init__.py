"""
A controller runtime for asyncio. It knows nothing of training.

    env, errors, backoff, parallel   the seam for time and randomness; errors; waiting; bounded fan-out
    trust                            whom TLS believes
    client/                          a typed client over bytes, its transports and credentials
    cache/                           informers: reflector, store, indexes, handlers
    writes                           read your own writes
    workqueue/, controller/          keys in, reconciles out
    election/, manager/              one leader; ordered start and stop
    operator/                        all of it in one object
    webhook/, events/, serving/      what others ask of an operator, and what it reports to them
    metrics/, telemetry/             numbers; logs and traces
    helpers/                         what many reconcilers need around their writes
    jsondiff, deepjson               the patch that makes one document of another; documents too deep to decode

The names below load on first use: `ktrain --help` must not pay for them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ktrain.api.meta import Json as Json
    from ktrain.api.meta import Key as Key
    from ktrain.api.meta import Object as Object
    from ktrain.api.meta import ObjectMeta as ObjectMeta
    from ktrain.api.meta import Resource as Resource
    from ktrain.api.meta import Struct as Struct

    from .cache.cache import Cache as Cache
    from .cache.handlers import Handler as Handler
    from .cache.informer import Informer as Informer
    from .client.client import Client as Client
    from .client.client import ObjectList as ObjectList
    from .client.client import PatchType as PatchType
    from .client.credentials import Endpoint as Endpoint
    from .client.finding import find_endpoint as find_endpoint
    from .client.generated import generated as generated
    from .client.http import HttpTransport as HttpTransport
    from .client.http import connect as connect
    from .client.mapper import RestMapper as RestMapper
    from .client.reading import WatchEvent as WatchEvent
    from .client.transport import Transport as Transport
    from .controller.context import current_reason as current_reason
    from .controller.controller import Controller as Controller
    from .controller.predicates import Predicate as Predicate
    from .controller.results import Result as Result
    from .controller.sources import Channel as Channel
    from .election.election import LeaderElection as LeaderElection
    from .election.election import Timing as Timing
    from .env import Env as Env
    from .env import system_env as system_env
    from .errors import ApiError as ApiError
    from .errors import Blocked as Blocked
    from .errors import Conflict as Conflict
    from .errors import FrameworkError as FrameworkError
    from .errors import NotFound as NotFound
    from .errors import TerminalError as TerminalError
    from .events.recorder import EventRecorder as EventRecorder
    from .manager.manager import Manager as Manager
    from .metrics.registry import Metrics as Metrics
    from .operator.clusters import Cluster as Cluster
    from .operator.operator import Operator as Operator
    from .operator.settings import Settings as Settings
    from .serving.health import HealthServer as HealthServer
    from .serving.health import MetricsServer as MetricsServer
    from .telemetry.tracing import Tracing as Tracing
    from .webhook.admission import AdmissionRequest as AdmissionRequest
    from .webhook.admission import Allowed as Allowed
    from .webhook.admission import Denied as Denied
    from .webhook.admission import defaulter as defaulter
    from .webhook.conversion import Conversion as Conversion
    from .webhook.injection import Registrations as Registrations
    from .webhook.injection import WebhookAddress as WebhookAddress
    from .webhook.selfmanaged import SelfManagedCertificates as SelfManagedCertificates
    from .webhook.server import WebhookServer as WebhookServer
    from .workqueue.queue import WorkQueue as WorkQueue

_HOMES: Final = {
    "AdmissionRequest": "ktrain.framework.webhook.admission",
    "Allowed": "ktrain.framework.webhook.admission",
    "ApiError": "ktrain.framework.errors",
    "Blocked": "ktrain.framework.errors",
    "Cache": "ktrain.framework.cache.cache",
    "Channel": "ktrain.framework.controller.sources",
    "Client": "ktrain.framework.client.client",
    "Cluster": "ktrain.framework.operator.clusters",
    "Conflict": "ktrain.framework.errors",
    "Controller": "ktrain.framework.controller.controller",
    "Conversion": "ktrain.framework.webhook.conversion",
    "Denied": "ktrain.framework.webhook.admission",
    "Endpoint": "ktrain.framework.client.credentials",
    "Env": "ktrain.framework.env",
    "EventRecorder": "ktrain.framework.events.recorder",
    "FrameworkError": "ktrain.framework.errors",
    "Handler": "ktrain.framework.cache.handlers",
    "HealthServer": "ktrain.framework.serving.health",
    "HttpTransport": "ktrain.framework.client.http",
    "Informer": "ktrain.framework.cache.informer",
    "Json": "ktrain.api.meta",
    "Key": "ktrain.api.meta",
    "LeaderElection": "ktrain.framework.election.election",
    "Manager": "ktrain.framework.manager.manager",
    "Metrics": "ktrain.framework.metrics.registry",
    "MetricsServer": "ktrain.framework.serving.health",
    "NotFound": "ktrain.framework.errors",
    "Object": "ktrain.api.meta",
    "ObjectList": "ktrain.framework.client.client",
    "ObjectMeta": "ktrain.api.meta",
    "Operator": "ktrain.framework.operator.operator",
    "PatchType": "ktrain.framework.client.client",
    "Predicate": "ktrain.framework.controller.predicates",
    "Registrations": "ktrain.framework.webhook.injection",
    "Resource": "ktrain.api.meta",
    "RestMapper": "ktrain.framework.client.mapper",
    "Result": "ktrain.framework.controller.results",
    "SelfManagedCertificates": "ktrain.framework.webhook.selfmanaged",
    "Settings": "ktrain.framework.operator.settings",
    "Struct": "ktrain.api.meta",
    "TerminalError": "ktrain.framework.errors",
    "Timing": "ktrain.framework.election.election",
    "Tracing": "ktrain.framework.telemetry.tracing",
    "Transport": "ktrain.framework.client.transport",
    "WatchEvent": "ktrain.framework.client.reading",
    "WebhookAddress": "ktrain.framework.webhook.injection",
    "WebhookServer": "ktrain.framework.webhook.server",
    "WorkQueue": "ktrain.framework.workqueue.queue",
    "connect": "ktrain.framework.client.http",
    "current_reason": "ktrain.framework.controller.context",
    "defaulter": "ktrain.framework.webhook.admission",
    "find_endpoint": "ktrain.framework.client.finding",
    "generated": "ktrain.framework.client.generated",
    "system_env": "ktrain.framework.env",
}

__all__ = [
    "AdmissionRequest",
    "Allowed",
    "ApiError",
    "Blocked",
    "Cache",
    "Channel",
    "Client",
    "Cluster",
    "Conflict",
    "Controller",
    "Conversion",
    "Denied",
    "Endpoint",
    "Env",
    "EventRecorder",
    "FrameworkError",
    "Handler",
    "HealthServer",
    "HttpTransport",
    "Informer",
    "Json",
    "Key",
    "LeaderElection",
    "Manager",
    "Metrics",
    "MetricsServer",
    "NotFound",
    "Object",
    "ObjectList",
    "ObjectMeta",
    "Operator",
    "PatchType",
    "Predicate",
    "Registrations",
    "Resource",
    "RestMapper",
    "Result",
    "SelfManagedCertificates",
    "Settings",
    "Struct",
    "TerminalError",
    "Timing",
    "Tracing",
    "Transport",
    "WatchEvent",
    "WebhookAddress",
    "WebhookServer",
    "WorkQueue",
    "connect",
    "current_reason",
    "defaulter",
    "find_endpoint",
    "generated",
    "system_env",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(_HOMES[name]), name)
    globals()[name] = found
    return found
