"""Events stay for a while after they were last written."""

import json

from ktrain.local.apiserver.server import ApiServer
from ktrain.testing.time import simulate

EVENTS = "/api/v1/namespaces/default/events"


async def names(server):
    answer = await server.transport().request("GET", EVENTS)
    return [item["metadata"]["name"] for item in json.loads(answer.body)["items"]]


async def write(server, method, path, body, content_type="application/json"):
    headers = {"Content-Type": content_type}
    answer = await server.transport().request(method, path, headers=headers, body=json.dumps(body).encode())
    assert answer.status < 300, answer.body


def test_an_event_goes_an_hour_after_it_was_last_written_also_when_nothing_else_happens():
    async def scenario(env):
        server, seen = ApiServer(env), []
        async with server.running():
            for name in ("old", "again"):
                await write(server, "POST", EVENTS, {"metadata": {"name": name}})
            await env.clock.sleep(1800)
            merge = "application/merge-patch+json"
            await write(server, "PATCH", f"{EVENTS}/again", {"count": 2}, merge)
            for pause_s in (1799, 2, 1798, 2):
                await env.clock.sleep(pause_s)
                seen.append(await names(server))
            await write(server, "POST", EVENTS, {"metadata": {"name": "later"}})
            seen.append(await names(server))
            await env.clock.sleep(3601)
            seen.append(await names(server))
        return seen

    assert simulate(scenario) == [["again", "old"], ["again"], ["again"], [], ["later"], []]
