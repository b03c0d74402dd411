"""
A look inside a running process: what its tasks wait for, what is in its queues, what its informers have.

For people, while something is wrong; off unless asked for. It asks nobody who they are and shows names of objects, so
it listens on loopback only: `kubectl port-forward`, or `kubectl exec ... curl`. Looking changes nothing. Times and
stacks are shown, values of variables never.
"""

from __future__ import annotations

import asyncio
import dataclasses
from typing import TYPE_CHECKING, Final

import anyio
import msgspec

from ktrain.framework.controller.stuck import task_stack

from .site import serving

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from aiohttp import web
    from anyio.abc import TaskStatus

    from ktrain.api.meta import Json, JsonValue
    from ktrain.framework.cache.cache import Cache
    from ktrain.framework.controller.controller import Controller

SHOWN_KEYS: Final = 100


class DebugServer:
    """
    Serves `/debug/tasks`, `/debug/queues` and `/debug/informers`; as text, or with `?format=json` as JSON.

    A service of the manager.

    Args:
        host: Address to listen on; loopback.
        port: 0 chooses one; see `port` after the start.
        controllers: Those there are now, asked anew for each look.
        caches: By a name for each.
    """

    def __init__(
        self, host: str, port: int, *, controllers: Callable[[], list[Controller]], caches: Mapping[str, Cache]
    ) -> None:
        self.host = host
        self.port: int = port
        self._controllers = controllers
        self._caches = caches
        self._views: dict[str, Callable[[], JsonValue]] = {
            "tasks": task_dump,
            "queues": self._queues,
            "informers": self._informers,
        }

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled. OSError if the port is taken."""
        from aiohttp import web

        app = web.Application()
        app.router.add_get("/debug", self._index)
        app.router.add_get("/debug/{view}", self._answer)
        async with serving(app, self.host, self.port) as self.port:
            task_status.started()
            await anyio.sleep_forever()

    async def _index(self, request: web.Request) -> web.Response:
        from aiohttp import web

        return web.Response(text="".join(f"/debug/{view}\n" for view in self._views))

    async def _answer(self, request: web.Request) -> web.Response:
        from aiohttp import web

        view = self._views.get(request.match_info["view"])
        if view is None:
            return web.Response(status=404, text=f"there are {', '.join(self._views)}\n")
        found = view()
        if request.query.get("format") == "json":
            body = msgspec.json.encode(found, enc_hook=str)
            return web.Response(body=body, content_type="application/json")
        return web.Response(text=as_text(found))

    def _queues(self) -> Json:
        return {
            controller.name: {
                **dataclasses.asdict(controller.statistics()),
                "keys": [{**dataclasses.asdict(one), "key": str(one.key)} for one in controller.dump(SHOWN_KEYS)],
            }
            for controller in self._controllers()
        }

    def _informers(self) -> Json:
        return {
            f"{cluster}: {name}" if cluster else name: dataclasses.asdict(look)
            for cluster, cache in self._caches.items()
            for name, look in cache.statistics().items()
        }


def task_dump() -> dict[str, str]:
    """Where each task of the running loop waits, by its name; of several with one name, one is numbered."""
    found: dict[str, str] = {}
    for task in sorted(asyncio.all_tasks(), key=lambda one: one.get_name()):
        name, number = task.get_name(), 1
        while name in found:
            number += 1
            name = f"{task.get_name()} ({number})"
        found[name] = task_stack(task)
    return found


def as_text(found: Mapping[str, JsonValue], indent: str = "") -> str:
    """Write a tree of values for people, one value per line, long ones below their name."""
    lines: list[str] = []
    for name, value in found.items():
        if isinstance(value, dict):
            lines += [f"{indent}{name}", as_text(value, indent + "  ").rstrip("\n")] if value else []
        elif isinstance(value, list):
            lines += [f"{indent}{name}", *(f"{indent}  {_row(one)}" for one in value)] if value else []
        elif "\n" in str(value):
            lines += [f"{indent}{name}", *(f"{indent}  {line}" for line in str(value).splitlines())]
        else:
            lines.append(f"{indent}{name}: {value}")
    return "\n".join(lines) + "\n"


def _row(value: JsonValue) -> str:
    return "  ".join(f"{name}={one}" for name, one in value.items()) if isinstance(value, dict) else str(value)
