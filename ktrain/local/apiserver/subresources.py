"""
The subresources that do something other than show or change the object: one handler each.

`status`, `scale`, `finalize`, `resize` and `ephemeralcontainers` are views of the object and live with the verbs. The
verbs of each handler are those that the resource declares (`ServedResource.subresources`); `dispatch` checks them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.local.apiserver.access import token_requests
from ktrain.local.apiserver.builtins import bindings
from ktrain.local.apiserver.builtins.workloads import evictions
from ktrain.local.apiserver.reading import logs
from ktrain.local.apiserver.streams import connecting as streams
from ktrain.local.apiserver.streams import portforward

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from ktrain.local.apiserver.backend import Backend, Call
    from ktrain.local.apiserver.requests import Answer

    Handler = Callable[[Backend, Call], Awaitable[Answer]]

SUBRESOURCES: Final[Mapping[tuple[str, str], Handler]] = {
    ("pods", "attach"): streams.serve,
    ("pods", "binding"): bindings.serve,
    ("pods", "eviction"): evictions.serve,
    ("pods", "exec"): streams.serve,
    ("pods", "portforward"): portforward.serve,
    ("pods", "log"): logs.serve,
    ("serviceaccounts", "token"): token_requests.serve,
}
"""By the resource's qualified name and the subresource."""
