"""
Calls as an operator's engineer thinks of them: a verb on a resource, not a method on a path.

The verbs are those of RBAC: get, list, watch, create, update, patch, delete, deletecollection. Four words more name
sets of them that tests ask for:

    read        get, list and watch
    write       all others
    apply       a patch that is a server-side apply
    initial     a request for everything: a list (its first page), or a watch that begins with all objects
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ktrain.api.meta import Resource
from ktrain.api.routes import Route, resource_route, split

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ktrain.framework.client.transport import Query

LOG_LENGTH: Final = 100_000
"""The log forgets the oldest calls beyond this many; counts go on."""
_WRITES: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_TRUE: Final = ("1", "true")

ResourceName = Resource[Any] | str
"""A resource, or its plural, which may be followed by a subresource: `pods`, `jobs/status`."""


@dataclass(slots=True, eq=False)
class Call:
    """
    One call, and what became of it.

    Attributes:
        at_s: When it came, on the monotonic clock.
        verb: RBAC's verb; the HTTP method in lower case for paths that are no resource.
        verbs: The verb and the names of all sets it is in.
        route: The resource; None for discovery, health and the like.
        timeout_s: How long the caller waits for an answer, or for the next line of a stream; None if it does not say.
        status: The answer that the caller got; 0 if none came (yet).
        lines: How many lines of a stream the caller got.
        faults: The rules that took effect, as text.
    """

    at_s: float
    method: str
    path: str
    query: Query
    headers: Mapping[str, str]
    body: bytes | None
    timeout_s: float | None = None
    route: Route | None = field(init=False)
    verb: str = field(init=False)
    verbs: frozenset[str] = field(init=False)
    status: int = 0
    lines: int = 0
    faults: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.route = resource_route(split(self.path))
        self.verb = self._verb()
        self.verbs = frozenset([self.verb, *self._sets()])

    @property
    def parameters(self) -> dict[str, str]:
        """The query; the first value of each name."""
        return dict(reversed(list(self.query)))

    def concerns(self, resource: ResourceName) -> bool:
        """Whether the call is about this resource. A name without a subresource means any of them."""
        if self.route is None:
            return False
        if isinstance(resource, Resource):
            return (self.route.group, self.route.plural) == (resource.group, resource.plural)
        plural, slash, subresource = resource.partition("/")
        return self.route.plural == plural and (not slash or self.route.subresource == subresource)

    def __str__(self) -> str:
        query = "&".join(f"{name}={value}" for name, value in self.query)
        outcome = str(self.status or "no answer") + (f", {self.lines} lines" if self.verb == "watch" else "")
        line = f"{self.at_s:.3f} {self.method} {self.path}{'?' if query else ''}{query}: {outcome}"
        return f"{line} [{'; '.join(self.faults)}]" if self.faults else line

    def _verb(self) -> str:
        route = self.route
        if route is None:
            return self.method.lower()
        if self.method in _WRITES:
            return "deletecollection" if self.method == "DELETE" and not route.name else _WRITES[self.method]
        if self.parameters.get("watch") in _TRUE:
            return "watch"
        return "get" if route.name else "list"

    def _sets(self) -> list[str]:
        asked = self.parameters
        first_page = self.verb == "list" and "continue" not in asked
        streamed = self.verb == "watch" and asked.get("sendInitialEvents") in _TRUE
        content_type = next((value for name, value in self.headers.items() if name.lower() == "content-type"), "")
        return [
            "read" if self.method in {"GET", "HEAD"} else "write",
            *(["initial"] if first_page or streamed else []),
            *(["apply"] if self.verb == "patch" and "apply-patch" in content_type else []),
        ]


class CallLog:
    """Everything that passed, in order."""

    def __init__(self) -> None:
        self._calls: deque[Call] = deque(maxlen=LOG_LENGTH)
        self.total = 0
        """How many calls there were in all."""

    def add(self, call: Call) -> None:
        """Note a call; it is completed in place."""
        self._calls.append(call)
        self.total += 1

    def find(
        self,
        verb: str | None = None,
        resource: ResourceName | None = None,
        *,
        name: str | None = None,
        since_s: float = 0.0,
        where: Callable[[Call], bool] | None = None,
    ) -> list[Call]:
        """Return the calls that fit all that is given."""
        return [
            call
            for call in self._calls
            if call.at_s >= since_s
            and (verb is None or verb in call.verbs)
            and (resource is None or call.concerns(resource))
            and (name is None or (call.route is not None and call.route.name == name))
            and (where is None or where(call))
        ]

    def clear(self) -> None:
        """Forget the calls so far."""
        self._calls.clear()
