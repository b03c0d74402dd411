"""
The embedded API server: a request in, an answer out, all as bytes.

    server = ApiServer(env, admission=[...], crds=[...])
    async with server.running():                      # the garbage collector and the namespace controller
        transport = server.transport()                # in process
        async with serve_http(server, token="...") as url: ...

Nothing here reads sockets or clocks by itself, so the same server stands behind HTTP, behind an in-process transport,
and in simulations. The way of a request: `access/` lets it in, `ktrain.api.routes` understands the URL, `negotiate` the
Accept header, one of `verbs/`, `listing` or `watching` does the work, `representation` renders it. Refusals are raised
as `StatusError` and become answers in `handle`.
"""

from __future__ import annotations

import asyncio
import uuid
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import structlog

from ktrain.api import routes
from ktrain.local.apiserver import builtins, errors
from ktrain.local.apiserver.access import issuer
from ktrain.local.apiserver.access.accounts import AccountController
from ktrain.local.apiserver.access.aggregation import Aggregator
from ktrain.local.apiserver.access.escalation import Escalation
from ktrain.local.apiserver.access.gate import Gate
from ktrain.local.apiserver.access.owner_references import OwnerReferences
from ktrain.local.apiserver.admission.callouts import Callouts
from ktrain.local.apiserver.admission.chain import AdmissionPlugin, Chain
from ktrain.local.apiserver.backend import Backend, Call, NodeAgents
from ktrain.local.apiserver.controllers.crds import CrdController
from ktrain.local.apiserver.controllers.disruption import DisruptionController
from ktrain.local.apiserver.controllers.gc import GarbageCollector
from ktrain.local.apiserver.controllers.namespaces import NamespaceController
from ktrain.local.apiserver.controllers.nodes import NodeController
from ktrain.local.apiserver.controllers.protection import ClaimProtection, VolumeProtection
from ktrain.local.apiserver.controllers.quotas import QuotaController
from ktrain.local.apiserver.conversion import Conversions
from ktrain.local.apiserver.dispatch import dispatch
from ktrain.local.apiserver.documents import information
from ktrain.local.apiserver.durability.errors import StateError
from ktrain.local.apiserver.errors import NOT_FOUND_TEXT, PageNotFound, StatusError
from ktrain.local.apiserver.expiry import EventExpiry
from ktrain.local.apiserver.forms.representation import Format, negotiate
from ktrain.local.apiserver.front.inprocess import InProcessTransport
from ktrain.local.apiserver.registry import Registry
from ktrain.local.apiserver.requests import ADMIN, Answer, Parameters, Request, User, warning_headers
from ktrain.local.apiserver.storage.store import DEFAULT_HISTORY, NotStored, Store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
    from datetime import datetime

    from ktrain.api.meta import Json, Key
    from ktrain.framework.client.transport import Transport
    from ktrain.framework.env import Env
    from ktrain.local.apiserver.access.credentials import PeerCertificate
    from ktrain.local.apiserver.access.gate import Authorization
    from ktrain.local.apiserver.admission.callouts import InProcess
    from ktrain.local.apiserver.durability.journal import Journal

_READS: Final = frozenset({"GET", "HEAD"})
log = structlog.get_logger(__name__)

DEFAULT_FEATURES: Final = tuple(builtins.FEATURES)
"""Features that are on unless a server is made without them."""


class ApiServer:
    """
    One API server with its own store. Making one takes about a millisecond.

    `history` bounds the changes that each resource remembers. `crds` are CustomResourceDefinitions to have from the
    start. `features` are those of Kubernetes' feature gates whose kinds are served (`builtins.FEATURES`). Events
    are deleted `event_ttl_s` seconds after they were last written. Not thread-safe: all runs on one event loop.

    `authorization` says whether users need roles; administrators (`system:masters`) never do. `tokens` are bearer
    tokens that HTTP accepts beside those of service accounts, which are signed with `signing_key`
    (`access.signing.new_signing_key`): kept by whoever keeps the objects, else a new one.
    `enforce_owner_references` turns the admission plugin OwnerReferencesPermissionEnforcement on.

    With a `journal`, objects are those of its database and outlive the server; `running` must then be entered, and no
    write is answered before it is stored.

    Raises:
        StateError: What the journal's database holds cannot be read. It is closed then.
    """

    def __init__(
        self,
        env: Env,
        *,
        admission: Sequence[AdmissionPlugin] = (),
        history: int = DEFAULT_HISTORY,
        crds: Sequence[Json] = (),
        features: Iterable[str] = DEFAULT_FEATURES,
        event_ttl_s: float = 3600,
        authorization: Authorization = "RBAC",
        tokens: Mapping[str, User] | None = None,
        signing_key: bytes | None = None,
        enforce_owner_references: bool = False,
        journal: Journal | None = None,
    ) -> None:
        self.journal = journal
        self.store = Store(history=history, journal=journal)
        gated = [resource for name in features for resource in builtins.FEATURES[name]]
        registry = Registry([*builtins.RESOURCES, *gated])
        self._gate = Gate(self.store, env, authorization=authorization, tokens=tokens, signing_key=signing_key)
        plugins = [*admission, AdmissionPlugin("rbac-escalation", Escalation(self._gate).admit)]
        if enforce_owner_references:
            plugins.append(AdmissionPlugin("owner-references", OwnerReferences(self._gate, registry).admit))
        self._callouts = Callouts(self.store)
        conversions = Conversions(self._callouts, registry, env)
        chain = Chain(plugins, self.store, registry, env, self._callouts, conversions, self._gate.decide)
        self.nodes = NodeAgents()
        """Who runs containers: the kubelets register here."""
        self._backend = Backend(self.store, registry, env, chain, conversions, self._gate, self.nodes)
        self._crds = CrdController(self._backend)
        self._gc = GarbageCollector(self._backend)
        self._budgets = DisruptionController(self._backend)
        self._claims = ClaimProtection(self._backend)
        self._volumes = VolumeProtection(self._backend)
        self._node_controller = NodeController(self._backend)
        self._expiry = EventExpiry(self._backend, event_ttl_s)
        self._namespaces = NamespaceController(self._backend)
        self._quotas = QuotaController(self._backend)
        self._accounts = AccountController(self._backend)
        self._aggregator = Aggregator(self._backend)
        if journal is not None:
            # SQLite is loaded only by those who need it.
            from ktrain.local.apiserver.durability.restoring import restore

            try:
                restore(self._backend, journal.database)
            except BaseException:
                journal.database.close(complete=False)  # Nobody will run this server, so nobody else does.
                raise
        builtins.bootstrap(self._backend)
        self.install_crds(crds)

    def expose(self, read: Callable[[], bytes]) -> None:
        """Have `/metrics` also return what *read* returns: Prometheus text of metrics that the server has not."""
        self._backend.expositions.append(read)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[ApiServer]:
        """
        Run the server's own controllers: garbage collection, namespaces and their accounts, deletion of custom kinds.

        Stopped on leaving.

        Raises:
            StateError: There is a journal, and its disk takes nothing.
            Exception: On leaving, what a controller died of; it is logged when it happens.
        """
        # Tasks, not a task group: test frameworks enter and leave a fixture's contexts in different tasks.
        tasks = [
            asyncio.create_task(controller.run(), name=f"apiserver.{name}")
            for name, controller in (
                ("gc", self._gc),
                ("namespaces", self._namespaces),
                ("quotas", self._quotas),
                ("crds", self._crds),
                ("budgets", self._budgets),
                ("claims", self._claims),
                ("volumes", self._volumes),
                ("nodes", self._node_controller),
                ("events", self._expiry),
                ("accounts", self._accounts),
                ("aggregation", self._aggregator),
            )
        ]
        if self.journal is not None:
            tasks.append(asyncio.create_task(self.journal.run(self.store), name="apiserver.journal"))
        for task in tasks:
            task.add_done_callback(_log_crash)
        try:
            await self._keep_bootstrap()
            yield self
        finally:
            self.end_streams()
            # The journal, which comes last, still takes what the others do on their way out.
            for task in tasks:
                task.cancel()
                await asyncio.wait([task])
            await self._callouts.aclose()
            for task in tasks:
                if not task.cancelled() and (error := task.exception()) is not None:
                    raise error

    async def _keep_bootstrap(self) -> None:
        """Have what a fresh server holds on disk before anybody builds on it."""
        if self.journal is None:
            return
        try:
            await self.journal.durable(committed=True)
        except NotStored as error:
            raise StateError(str(error)) from error

    def transport(self, user: str | User = ADMIN) -> Transport:
        """Return a transport that calls this server in process as one user; a mere name is an administrator's."""
        return InProcessTransport(self.handle, user if isinstance(user, User) else User(user, ADMIN.groups))

    @property
    def webhook_addresses(self) -> dict[tuple[str, str, int], str | InProcess]:
        """
        Where webhooks of Services are: (namespace, name, port) to `host:port`, or to an async function of this process.

        Such a function takes a review as JSON and returns it with its response. Change the mapping at any time.
        """
        return self._callouts.addresses.named

    async def authenticate(self, headers: Mapping[str, str], peer_certificate: PeerCertificate | None = None) -> User:
        """
        Return whose request this is, by its headers (names in lower case) and its verified client certificate.

        Raises:
            StatusError: 401.
        """
        return self._gate.authenticate(headers.get("authorization", ""), peer_certificate)

    def accept_token(self, token: str, user: User = ADMIN) -> None:
        """
        Accept a bearer token from now on.

        Raises:
            ValueError: No header could carry it.
        """
        self._gate.credentials.add(token, user)

    def publish_authority(self, certificate: bytes, *, admit_accounts: bool = False) -> None:
        """
        Say which certificate (PEM) clients check this server's by; every namespace has it in `kube-root-ca.crt`.

        `admit_accounts` turns the ServiceAccount admission on: from now on a pod's account must exist, and its new pods
        mount this certificate and a token of their own. Only if something runs the pods that can mount both.
        """
        self._gate.authority = certificate
        self._gate.admits_accounts = admit_accounts
        self._accounts.publish()

    def now(self) -> datetime:
        """Return the wall time."""
        return self._backend.now()

    def install_crds(self, documents: Sequence[Json]) -> None:
        """
        Store CustomResourceDefinitions and serve their kinds at once.

        Raises:
            StatusError: One of them is not valid.
        """
        for document in documents:
            self._crds.install(document)

    def find(self, group: str, version: str, plural: str, key: Key) -> Json | None:
        """Return an object as it is stored, which nobody may change, or None."""
        item = self._backend.find(group, version, plural, key)
        return item.obj if item else None

    def compact(self, revision: int) -> None:
        """Forget history up to a revision, as a real server does every few minutes; running watches end with 410."""
        self.store.compact(revision)

    def end_streams(self) -> None:
        """End all running watches: the server stops. Clients see the end of the stream and would reconnect."""
        for collection in self.store.collections.values():
            collection.close()

    async def handle(self, request: Request) -> Answer:
        """
        Answer one request. Never raises for what a client sent; safe to cancel before it answers.

        An answer with `chunks` must be exhausted or closed.
        """
        warnings: list[str] = []
        began = self.store.revision
        try:
            answer = await self._answer(request, warnings)
            if self.journal is not None and request.method not in _READS:
                await self.journal.durable(committed=self.store.revision != began)
        except NotStored as error:
            answer = _failure(StatusError(500, "InternalError", f"Internal error occurred: {error}"), request)
        except StatusError as error:
            answer = _failure(error, request)
        except PageNotFound:
            answer = Answer(404, NOT_FOUND_TEXT, (("content-type", "text/plain; charset=utf-8"),))
        except Exception as error:
            log.exception("request.failed", method=request.method, path=request.path)
            message = f"Internal error occurred: {type(error).__name__}: {error}"
            answer = _failure(StatusError(500, "InternalError", message), request)
        self._backend.requests.add(request, answer.status)
        headers = (*answer.headers, *self._headers(), *warning_headers(warnings))
        body = b"" if request.method == "HEAD" else answer.body
        return Answer(answer.status, body, headers, answer.chunks, answer.upgrade)

    def failure(self, error: StatusError) -> Answer:
        """Return the answer to what is refused before it is a request."""
        answer = _failure(error)
        return Answer(answer.status, answer.body, (*answer.headers, *self._headers()))

    def _headers(self) -> tuple[tuple[str, str], ...]:
        """Return the headers of every answer."""
        audit_id = str(uuid.UUID(int=self._backend.env.random.getrandbits(128), version=4))
        return (("audit-id", audit_id), ("cache-control", "no-cache, private"))

    async def _answer(self, request: Request, warnings: list[str]) -> Answer:
        request = self._gate.enter(request)
        segments = routes.split(request.path)
        route = routes.resource_route(segments)
        if route is None:
            if (document := issuer.document(self._gate.account_tokens, request, segments)) is not None:
                return document
            return information.answer(self._backend, request, segments)
        resource = self._backend.registry.find(route.group, route.version, route.plural)
        if resource is None or (bool(route.namespace) and not resource.namespaced and resource.plural != "namespaces"):
            found = self._backend.registry.of_group(route.group)
            raise errors.resource_not_found() if errors.is_built_in(found, route.group) else PageNotFound
        if resource.deprecation:
            warnings.append(resource.deprecation)
        parameters = Parameters(request.query)
        call = Call(request, parameters, resource, route.namespace, route.name, route.subresource, warnings)
        return await dispatch(self._backend, call)


def _failure(error: StatusError, request: Request | None = None) -> Answer:
    """Return the answer to a refused request, in the form it accepts if possible."""
    fmt = Format()
    if request is not None:
        try:
            fmt = negotiate(request.headers.get("accept", ""), forms=False)
        except StatusError:
            fmt = Format()
    headers = [("content-type", fmt.content_type)]
    if retry := (error.details or {}).get("retryAfterSeconds"):
        headers.append(("retry-after", str(retry)))
    return Answer(error.code, fmt.encode(error.body()), tuple(headers))


def _log_crash(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("apiserver.controller_crashed", task=task.get_name(), error=repr(error), exc_info=error)
