"""Each fault, as the client behind it meets it. On virtual time."""

from contextlib import asynccontextmanager

import msgspec
import pytest

from ktrain.api.core import CONFIG_MAPS, SECRETS
from ktrain.api.meta import Key
from ktrain.framework import Client
from ktrain.framework.client.client import ATTEMPT_TIMEOUT_S
from ktrain.framework.errors import Conflict, Forbidden, Gone, ServerError, TooManyRequests, TransportError
from ktrain.testing.faults import FaultTransport
from ktrain.testing.planes import embedded_plane
from ktrain.testing.time import simulate

PATH = "/api/v1/namespaces/default/configmaps"
WATCH = [("watch", "true"), ("allowWatchBookmarks", "true")]


def in_weather(scenario, seed=0):
    """Run `scenario(faults, client, env)` against an embedded server."""

    async def main(env):
        async with embedded_plane(env) as plane:
            faults = FaultTransport(plane.transport, env)
            return await scenario(faults, Client(faults, env, field_manager="test", retry_budget_s=0), env)

    return simulate(main, seed=seed)


def config_map(name, **data):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": data}


async def put(client, *names):
    for name in names:
        await client.create(CONFIG_MAPS, config_map(name))


async def exists(client, name):
    return name in [found.metadata.name for found in (await client.list(CONFIG_MAPS)).items]


@asynccontextmanager
async def watching(faults, client, *, idle_timeout_s=75.0):
    """Yield a function that returns the next event as `TYPE name`."""
    version = (await client.list(CONFIG_MAPS)).resource_version
    query = [*WATCH, ("resourceVersion", version)]
    async with faults.stream(PATH, query=query, idle_timeout_s=idle_timeout_s) as stream:

        async def event():
            line = msgspec.json.decode(await anext(stream.lines))
            return f"{line['type']} {line['object'].get('metadata', {}).get('name', line['object'].get('code'))}"

        yield event


@pytest.mark.parametrize(
    ("effect", "error", "stored", "waited_s"),
    [
        ("lose_request", TransportError, False, ATTEMPT_TIMEOUT_S),
        ("lose_answer", TransportError, True, ATTEMPT_TIMEOUT_S),
        ("refuse", TransportError, False, 0),
        ("reset", TransportError, True, 0),
    ],
)
def test_an_answer_may_be_missing_in_four_ways(effect, error, stored, waited_s):
    async def scenario(faults, client, env):
        rule = getattr(faults.on("create", CONFIG_MAPS), effect)()
        begun = env.clock.monotonic()
        with pytest.raises(error):
            await put(client, "a")
        waited = env.clock.monotonic() - begun
        rule.remove()
        return await exists(client, "a"), waited, rule.hits, faults.calls("create")[0].status

    assert in_weather(scenario) == (stored, waited_s, 1, 0)


@pytest.mark.parametrize(
    ("code", "error"), [(403, Forbidden), (409, Conflict), (410, Gone), (429, TooManyRequests), (503, ServerError)]
)
@pytest.mark.parametrize("committed", [False, True])
def test_a_call_may_be_refused_before_or_after_it_took_effect(code, error, committed):
    async def scenario(faults, client, env):
        faults.on("create").answer(code, committed=committed)
        with pytest.raises(error, match="a fault of the test"):
            await put(client, "a")
        return await exists(client, "a")

    assert in_weather(scenario) is committed


def test_retry_after_is_in_the_header_and_in_the_status():
    async def scenario(faults, client, env):
        patient = Client(faults, env, field_manager="test", retry_budget_s=60)
        faults.on("create", times=1).answer(429, retry_after_s=7)
        await put(patient, "a")
        faults.on("create").answer(429, retry_after_s=7)
        with pytest.raises(TooManyRequests) as caught:
            await put(client, "b")
        return env.clock.monotonic() >= 7, caught.value.status.details.retry_after_seconds

    assert in_weather(scenario) == (True, 7)


def test_a_call_and_its_answer_can_be_late():
    async def scenario(faults, client, env):
        faults.on("write").delay(0.5, answer_s=(0.25, 0.25))
        await put(client, "a")
        return env.clock.monotonic()

    assert in_weather(scenario) == 0.75


def test_a_rule_meets_the_calls_that_it_says():
    async def scenario(faults, client, env):
        rules = {
            "nth": faults.on("create", nth={2, 4}),
            "times": faults.on("create", times=3),
            "name": faults.on(name="b"),
            "resource": faults.on("write", SECRETS),
            "plural": faults.on("write", "configmaps"),
            "subresource": faults.on("write", "configmaps/status"),
            "window": faults.on("create", after_s=10, for_s=5),
            "where": faults.on(where=lambda call: b'"data":{"k":"v"}' in (call.body or b"")),
        }
        rules = {name: when.delay() for name, when in rules.items()}
        await put(client, "a", "b", "c", "d")
        await env.clock.sleep(10)
        await client.create(CONFIG_MAPS, config_map("e", k="v"))
        await env.clock.sleep(5)
        await client.delete(CONFIG_MAPS, Key("default", "b"))
        return {name: rule.hits for name, rule in rules.items()}

    hits = {"nth": 2, "times": 3, "name": 1, "resource": 0, "plural": 6, "subresource": 0, "window": 1, "where": 1}
    assert in_weather(scenario) == hits


def test_chance_comes_from_the_seed():
    async def scenario(faults, client, env):
        faults.on("create", probability=0.5).answer(500)
        outcomes = ""
        for number in range(40):
            try:
                await put(client, f"c{number}")
                outcomes += "+"
            except ServerError:
                outcomes += "-"
        return outcomes

    first = in_weather(scenario, seed=1)
    assert first == in_weather(scenario, seed=1)
    assert first != in_weather(scenario, seed=2)
    assert 10 <= first.count("-") <= 30


def test_several_rules_meet_one_call_in_their_order():
    async def scenario(faults, client, env):
        faults.on("create").delay(2)
        faults.on("create").answer(500)
        faults.on("create").delay(4)
        with pytest.raises(ServerError):
            await put(client, "a")
        return env.clock.monotonic(), faults.calls("create")[0].faults

    assert in_weather(scenario) == (2, ["delay 2 s, answer 0.0 s", "answer 500", "delay 4 s, answer 0.0 s"])


def test_a_rule_ends_with_its_block():
    async def scenario(faults, client, env):
        with faults.on("create").answer(500) as rule:
            assert rule.active
        await put(client, "a")
        return rule.hits, faults.count("write"), faults.count("list"), str(faults.calls("create")[0])

    path = f"{PATH}?fieldManager=test"
    assert in_weather(scenario) == (0, 1, 0, f"0.000 POST {path}: 201")


def test_the_log_knows_lists_and_watches_that_begin_with_one():
    async def scenario(faults, client, env):
        await client.list(CONFIG_MAPS)
        for more in ([], [("sendInitialEvents", "true"), ("resourceVersionMatch", "NotOlderThan")]):
            async with faults.stream(PATH, query=[*WATCH, *more]):
                pass
        names = ("list", "watch", "initial", "read", "write")
        return {name: faults.count(name, "configmaps") for name in names}

    assert in_weather(scenario) == {"list": 1, "watch": 2, "initial": 2, "read": 3, "write": 0}


def test_a_watch_is_cut_after_some_lines_or_some_time():
    async def scenario(faults, client, env):
        with faults.on("watch").cut(after_lines=1):
            async with watching(faults, client) as event:
                await put(client, "a", "b")
                assert await event() == "ADDED a"
                with pytest.raises(TransportError, match="reset"):
                    await event()
        with faults.on("watch").cut(every_s=3, clean=True):
            begun = env.clock.monotonic()
            async with watching(faults, client) as event:
                with pytest.raises(StopAsyncIteration):
                    await event()
        return env.clock.monotonic() - begun

    assert in_weather(scenario) == 3


def test_a_watch_is_cut_in_the_middle_of_a_line():
    async def scenario(faults, client, env):
        with faults.on("watch").cut(after_lines=2, mid_line=True):
            async with watching(faults, client) as event:
                await put(client, "a", "b")
                assert await event() == "ADDED a"
                with pytest.raises(msgspec.DecodeError, match="truncated"):
                    await event()
                with pytest.raises(StopAsyncIteration):
                    await event()

    in_weather(scenario)


def test_a_silent_watch_ends_at_its_idle_time_out_and_not_before():
    async def scenario(faults, client, env):
        faults.on("watch").silence(after_lines=1)
        async with watching(faults, client, idle_timeout_s=20) as event:
            await put(client, "a", "b")
            assert await event() == "ADDED a"
            begun = env.clock.monotonic()
            with pytest.raises(TransportError, match="nothing came for 20 s"):
                await event()
        return env.clock.monotonic() - begun

    assert in_weather(scenario) == 20


def test_weather_reaches_watches_that_are_open_and_leaves_them_again():
    async def scenario(faults, client, env):
        async with watching(faults, client) as event:
            await put(client, "a")
            assert await event() == "ADDED a"
            with faults.on("watch").silence():
                await put(client, "b")
                await env.clock.sleep(30)
            assert await event() == "ADDED b"
            faults.on("watch").cut()
            with pytest.raises(TransportError, match="reset"):
                await event()

    in_weather(scenario)


def test_a_late_watch_keeps_the_order_and_the_distance_of_events():
    async def scenario(faults, client, env):
        faults.on("watch", CONFIG_MAPS).lag(2)
        async with watching(faults, client) as event:
            begun = env.clock.monotonic()
            await put(client, "a")
            await env.clock.sleep(1)
            await put(client, "b")
            return [(await event(), env.clock.monotonic() - begun) for _ in range(2)]

    assert in_weather(scenario) == [("ADDED a", 2), ("ADDED b", 3)]


def test_events_come_twice_or_again_after_a_reconnect_or_never():
    async def scenario(faults, client, env):
        seen = []
        with faults.on("watch").duplicate():
            async with watching(faults, client) as event:
                await put(client, "a")
                seen += [await event(), await event()]
        with faults.on("watch").replay(last=2):
            async with watching(faults, client) as event:
                await put(client, "b", "c", "d")
                seen += [await event() for _ in range(3)]
            async with watching(faults, client) as event:
                await put(client, "e")
                seen += [await event() for _ in range(3)]
        with faults.on("watch").drop(lambda event: event["object"]["metadata"]["name"] == "f"):
            async with watching(faults, client) as event:
                await put(client, "f", "g")
                seen.append(await event())
        return " ".join(seen).replace("ADDED ", "")

    assert in_weather(scenario) == "a a b c d c d e g"


def test_a_watch_ends_with_an_error_event():
    async def scenario(faults, client, env):
        faults.on("watch").error_event(410, after_lines=1)
        async with watching(faults, client) as event:
            await put(client, "a", "b")
            seen = [await event(), await event()]
            with pytest.raises(StopAsyncIteration):
                await event()
        return seen

    assert in_weather(scenario) == ["ADDED a", "ERROR 410"]


def test_a_slow_reader_takes_one_line_at_a_time():
    async def scenario(faults, client, env):
        faults.on("watch").slow(0.5)
        async with watching(faults, client) as event:
            await put(client, "a", "b", "c")
            begun = env.clock.monotonic()
            for _ in range(3):
                await event()
        return env.clock.monotonic() - begun

    assert in_weather(scenario) == 1.5


def test_a_watch_may_be_refused():
    async def scenario(faults, client, env):
        faults.on("watch").answer(403)
        with pytest.raises(Forbidden):
            async with client.stream(PATH, query=WATCH):
                pass
        return faults.calls("watch")[0].status

    assert in_weather(scenario) == 403


def test_resource_versions_jump_and_everything_goes_on():
    async def scenario(faults, client, env):
        before = await client.create(CONFIG_MAPS, config_map("a"))
        async with watching(faults, client) as event:
            await faults.jump_revisions(by=1 << 40)
            known = await client.get(CONFIG_MAPS, "a", "default")
            after = await client.create(CONFIG_MAPS, config_map("b"))
            assert await event() == "ADDED b"
            await faults.jump_revisions(by=1 << 40)
            body = config_map("b", k="v")
            body["metadata"]["resourceVersion"] = after.metadata.resource_version
            changed = await client.update(CONFIG_MAPS, body)
            with pytest.raises(Conflict):
                await client.update(CONFIG_MAPS, body)
            assert await event() == "MODIFIED b"
        async with watching(faults, client) as event:
            await put(client, "c")
            assert await event() == "ADDED c"
        return known == before, [int(found.metadata.resource_version) >> 40 for found in (before, after, changed)]

    assert in_weather(scenario) == (True, [0, 1, 2])
