"""`pods/log`, through a source such as the kubelet."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from ktrain.local.apiserver.reading.logs import LogOptions, LogUnavailable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Source:
    """Logs that tell what was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, str, LogOptions]] = []

    async def open(self, namespace: str, pod: str, container: str, options: LogOptions) -> AsyncIterator[bytes]:
        self.asked.append((namespace, pod, container, options))
        if options.previous:
            raise LogUnavailable(f'previous terminated container "{container}" in pod "{pod}" not found')
        return self._lines()

    async def _lines(self) -> AsyncIterator[bytes]:
        yield b"one\n"
        yield b"two\n"


@pytest.fixture
def source(server):
    source = Source()
    server.nodes.register("n", SimpleNamespace(logs=source))
    return source


def pod(*containers: str, node: str = "n"):
    spec = {"containers": [{"name": name, "image": "x"} for name in containers]}
    return {"metadata": {"name": "p"}, "spec": {**spec, **({"nodeName": node} if node else {})}}


async def test_the_only_container_is_meant(api, source):
    await api.create("pods", pod("c"))

    answer = await api.send("GET", api.path("pods", "p", "log"), tailLines="3", follow="")

    assert answer.body == b"one\ntwo\n"
    assert source.asked == [("default", "p", "c", LogOptions(follow=True, tail_lines=3))]


async def test_several_containers_need_a_choice(api, source):
    await api.create("pods", pod("a", "b"))
    path = api.path("pods", "p", "log")

    unnamed = await api.send("GET", path)
    unknown = await api.send("GET", path, container="z")

    assert unnamed.body["message"] == "a container name must be specified for pod p, choose one of: [a b]"
    assert unknown.body["message"] == "container z is not valid for pod p"
    assert (await api.send("GET", path, container="b")).status == 200


async def test_a_pod_without_a_node_has_an_empty_log(api, source):
    await api.create("pods", pod("c", node=""))

    assert (await api.send("GET", api.path("pods", "p", "log"))).status == 204
    assert source.asked == []


async def test_why_there_is_no_log_reaches_the_client(api, source):
    await api.create("pods", pod("c"))

    answer = await api.send("GET", api.path("pods", "p", "log"), previous="true")

    assert (answer.status, answer.body["message"]) == (400, 'previous terminated container "c" in pod "p" not found')


async def test_bad_options_are_refused(api, source):
    await api.create("pods", pod("c"))

    answer = await api.send("GET", api.path("pods", "p", "log"), tailLines="-1")

    assert answer.status == 422
    assert answer.body["message"].startswith('PodLogOptions "p" is invalid: tailLines')


@pytest.mark.parametrize("time", ["x", "2026-01-01T00:00:00", "2026-13-01T00:00:00Z"])
async def test_times_that_are_none_are_refused_before_anything_is_sent(api, source, time):
    await api.create("pods", pod("c"))

    answer = await api.send("GET", api.path("pods", "p", "log"), sinceTime=time)

    assert (answer.status, answer.body["message"]) == (400, f"sinceTime '{time}' is not an RFC 3339 time")
    assert source.asked == []
    assert (await api.send("GET", api.path("pods", "p", "log"), sinceTime="2026-01-01T00:00:00Z")).status == 200


async def test_each_node_is_asked_for_its_own_pods(api, source, server):
    other = Source()
    server.nodes.register("other", SimpleNamespace(logs=other))
    await api.create("pods", pod("c", node="other"))

    await api.send("GET", api.path("pods", "p", "log"))

    assert source.asked == []
    assert other.asked == [("default", "p", "c", LogOptions())]
