"""
`pods/exec`, `pods/attach` and `pods/portforward`: which container is meant, and its bytes over a WebSocket.

A request is checked like any other and answered with an `Upgrade`: the protocol that was agreed on, and what to do with
the connection once it is there. Who owns the socket (`websockets`, or a test in process) makes the connection and calls
`Upgrade.serve` with it. What runs is asked of the pod's kubelet (`StreamSource`); the protocols are in `channels` and
`portforward`.

SPDY, which clients older than Kubernetes 1.30 speak without WebSockets, is not served.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from ktrain.local.apiserver.admission.subresources import admit_connect
from ktrain.local.apiserver.errors import StatusError, bad_request
from ktrain.local.apiserver.reading import listing
from ktrain.local.apiserver.reading.logs import choose_container
from ktrain.local.apiserver.requests import Answer, Upgrade
from ktrain.local.apiserver.streams.channels import CHANNEL_PROTOCOLS, Session, refuse, serve_session

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence

    from ktrain.api.meta import Json
    from ktrain.local.apiserver.backend import Backend, Call, NodeAgent
    from ktrain.local.apiserver.requests import Connection


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """v1.PodExecOptions and v1.PodAttachOptions without the container; `command` is empty for attach."""

    command: tuple[str, ...] = ()
    stdin: bool = False
    stdout: bool = True
    stderr: bool = True
    tty: bool = False


class StreamUnavailable(Exception):
    """Raised by a `StreamSource`: nothing runs that could be reached, or it cannot be started; the message says why."""


class StreamSource(Protocol):
    """Whoever runs containers: the kubelet."""

    async def execute(self, namespace: str, pod: str, container: str, options: StreamOptions) -> Session:
        """Start a command in a running container. StreamUnavailable."""

    async def attach(self, namespace: str, pod: str, container: str, options: StreamOptions) -> Session:
        """Take part in what a running container's main process reads and writes. StreamUnavailable."""

    async def connect(self, namespace: str, pod: str, port: int) -> socket.socket:
        """Connect to a port of a running pod, as a program in it would; non-blocking. StreamUnavailable."""


async def serve(backend: Backend, call: Call) -> Answer:
    """
    Answer a request for exec or attach with an `Upgrade`.

    Raises:
        StatusError: 404 for the pod or container; 400 for what was asked, or when the client wants no WebSocket.
    """
    asked = await admit_connect(backend, call, _read_options(call))
    pod = listing.get_object(backend, call).obj
    container = choose_container(call, pod, asked.get("container", ""))
    has_tty = asked.get("tty", False)
    options = StreamOptions(
        command=tuple(asked.get("command") or ()),
        stdin=asked.get("stdin", False),
        stdout=asked.get("stdout", False),
        # A terminal has one output (v1.PodExecOptions).
        stderr=asked.get("stderr", False) and not has_tty,
        tty=has_tty,
    )
    if not pod["spec"].get("nodeName"):
        raise bad_request(f"pod {call.name} does not have a host assigned")
    agent = agent_of(backend, pod)
    if not (options.stdin or options.stdout or options.stderr):
        raise bad_request("you must specify at least 1 of stdin, stdout, stderr")
    if call.subresource == "exec" and not options.command:
        raise bad_request("you must specify at least one command for the container")
    protocol = agree(call, CHANNEL_PROTOCOLS)
    source = agent.streams
    start = source.execute if call.subresource == "exec" else source.attach

    async def serve_connection(connection: Connection) -> None:
        # Told on the connection: a client that is refused before it would try again in another protocol.
        try:
            session = await start(call.namespace, call.name, container, options)
        except StreamUnavailable as error:
            await refuse(connection, str(error))
        else:
            await serve_session(session, connection, half_close=protocol.startswith("v5."))

    return Answer(101, headers=(), upgrade=Upgrade(protocol, serve_connection))


def _read_options(call: Call) -> Json:
    """Return a request's PodExecOptions or PodAttachOptions."""
    is_exec = call.subresource == "exec"
    options: Json = {"kind": "PodExecOptions" if is_exec else "PodAttachOptions", "apiVersion": "v1"}
    options |= {name: True for name in ("stdin", "stdout", "stderr", "tty") if call.parameters.flag(name)}
    if container := call.parameters.text("container"):
        options["container"] = container
    if is_exec:
        options["command"] = [value for name, value in call.request.query if name == "command"] or None
    return options


def agent_of(backend: Backend, pod: Json) -> NodeAgent:
    """
    Return who runs a pod that is bound.

    Raises:
        StatusError: 500: nobody does.
    """
    agent = backend.nodes.of(pod)
    if agent is None:
        message = f"nobody runs the pods of node {pod['spec']['nodeName']}"
        raise StatusError(500, "InternalError", f"Internal error occurred: {message}")
    return agent


def agree(call: Call, known: Sequence[str]) -> str:
    """
    Return the first subprotocol the client offers that is known here.

    Raises:
        StatusError: 400: it offers none, or wants no WebSocket.
    """
    offered = [part.strip() for part in call.header("sec-websocket-protocol").split(",")]
    if call.header("upgrade").lower() != "websocket":
        raise bad_request("unable to upgrade: WebSockets are served here, SPDY is not; use kubectl 1.30 or newer")
    for protocol in offered:
        if protocol in known:
            return protocol
    raise bad_request(f"unable to upgrade: none of the protocols {offered} is one of {list(known)}")
