"""A reflector that is cancelled at any of its steps and run again."""

import asyncio
from contextlib import asynccontextmanager
from functools import partial

import msgspec

from ktrain.api.core import PODS
from ktrain.api.meta import Key
from ktrain.framework.cache.informer import Informer, Scope
from ktrain.framework.cache.partition import OBJECTS_PER_TURN
from ktrain.framework.cache.reflector import PRODUCTIVE_S, Reflector
from ktrain.framework.client.client import Client
from ktrain.framework.client.transport import Stream
from ktrain.framework.errors import TransportError
from ktrain.testing.time import simulate

from .following import Mirror, bookmark, event, failure, pod

FOREVER = float("inf")


class Steps:
    """Counts the steps of a coroutine, and throws a cancellation in at one of them."""

    def __init__(self, coroutine, at):
        self._coroutine = coroutine
        self._left = at
        self.cancelled = False

    def __await__(self):
        value = None
        while True:
            try:
                if self._left == 0:
                    self.cancelled = True
                    yielded = self._coroutine.throw(asyncio.CancelledError())
                else:
                    yielded = self._coroutine.send(value)
            except StopIteration as done:
                return done.value
            self._left -= 1
            value = yield yielded


class History:
    """
    A server with a past: 600 objects, a change, a deletion, a compaction, then 600 others and a change.

    Each stream finds it one stage further: the first is cut, the second expires, the third goes on for ever.
    """

    FIRST = {f"p{n}": n + 1 for n in range(600)}
    SECOND = {f"p{n}": n + 1 for n in range(300, 900)}
    EVENTS = (("MODIFIED", "p5", 1001), ("DELETED", "p7", 1002), ("MODIFIED", "p300", 1004))
    STAGES = (
        (FIRST, 1000, 1001, TransportError("reset")),
        ({**FIRST, "p5": 1001}, 1001, 1002, event("ERROR", failure(410, "Expired"))),
        (SECOND, 1003, 1004, None),
    )

    def __init__(self):
        self.stage = 0

    @asynccontextmanager
    async def stream(self, path, *, query, **options):
        await asyncio.sleep(0)
        asked = dict(query)
        yield Stream(200, {}, self._lines("sendInitialEvents" in asked, int(asked.get("resourceVersion", 0))))

    async def _lines(self, initial, version):
        state, base, newest, ending = self.STAGES[self.stage]
        self.stage = min(self.stage + 1, 2)
        if initial:
            for name, number in state.items():
                yield msgspec.json.encode(event("ADDED", pod(name, number)))
            version = base
            yield msgspec.json.encode(bookmark(base, end=True))
        elif version < base:
            yield msgspec.json.encode(event("ERROR", failure(410, "Expired")))
        for kind, name, number in self.EVENTS:
            if version < number <= newest:
                yield msgspec.json.encode(event(kind, pod(name, number)))
        if ending is None:
            await asyncio.sleep(FOREVER)
        await asyncio.sleep(PRODUCTIVE_S)
        if isinstance(ending, Exception):
            raise ending
        yield msgspec.json.encode(ending)


async def cancelled_at(step, env):
    """Run a reflector up to some step, cancel it there, run it again; whether it came so far, and what it made."""
    informer, mirror = Informer(PODS, Scope()), Mirror()
    informer.add_index("name", lambda obj: (obj.metadata.name,))
    informer.add_handler(mirror)
    reflector = Reflector(Client(History(), env, field_manager="test"), PODS, informer.partitions[0], env)
    steps = Steps(reflector.run(), step)

    async def first():
        await steps

    running = asyncio.create_task(first())
    await asyncio.wait([running], timeout=40)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    again = asyncio.create_task(reflector.run())
    await env.clock.sleep(40)
    again.cancel()
    await asyncio.gather(again, return_exceptions=True)
    stored = {obj.metadata.key: obj.metadata.resource_version for obj in informer.list()}
    return steps.cancelled, stored, mirror.versions(), len(informer.by_index("name", "p300")), informer.version


def test_cancelled_at_any_await_and_run_again_it_converges_and_nobody_saw_a_gap():
    expected = {Key("ns", name): str(number) for name, number in {**History.SECOND, "p300": 1004}.items()}
    step, cancelled = 0, True
    while cancelled:
        cancelled, *made = simulate(partial(cancelled_at, step))
        assert made == [expected, expected, 1, 1004], f"cancelled at step {step}"
        step += 1
    assert step > 30


async def test_while_a_long_list_is_taken_in_others_have_turns_and_readers_see_all_or_nothing():
    content = {f"p{n}": pod(f"p{n}", n + 1) for n in range(5_000)}
    objects = {Key("ns", name): msgspec.convert(body, PODS.type) for name, body in content.items()}
    informer, mirror, seen = Informer(PODS, Scope()), Mirror(), []
    informer.add_index("ns", lambda obj: (obj.metadata.namespace,))
    informer.add_handler(mirror)
    replacing = asyncio.create_task(informer.partitions[0].replace(objects, 5_000))

    while not replacing.done():
        seen.append((len(informer), len(informer.by_index("ns", "ns")), len(mirror.objects), informer.synced))
        await asyncio.sleep(0)

    assert {(stored, indexed) for stored, indexed, _, _ in seen} == {(0, 0), (5_000, 5_000)}
    assert not any(told > stored or synced for stored, _, told, synced in seen)
    assert len({told for _, _, told, _ in seen}) > 10
    assert len(seen) > 5_000 / OBJECTS_PER_TURN
    assert (informer.synced, mirror.told) == (True, 5_000)


async def test_who_joins_while_a_list_is_told_hears_of_each_object_once():
    objects = {Key("ns", f"p{n}"): msgspec.convert(pod(f"p{n}", n + 1), PODS.type) for n in range(1_000)}
    informer, early, late = Informer(PODS, Scope()), Mirror(), Mirror()
    informer.add_handler(early)
    replacing = asyncio.create_task(informer.partitions[0].replace(objects, 1_000))
    while not 0 < early.told < 1_000:  # noqa: ASYNC110 - turn by turn
        await asyncio.sleep(0)

    informer.add_handler(late)
    await replacing

    assert (early.told, late.told) == (1_000, 1_000)
