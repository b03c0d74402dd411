import anyio
import pytest

from ktrain.api.core import CONFIG_MAPS, EVENTS, untyped
from ktrain.framework.client.client import Client
from ktrain.framework.client.transport import Response
from ktrain.framework.errors import TransportError
from ktrain.framework.events import MAX_ATTEMPTS, QUEUE_SIZE, EventRecorder
from ktrain.local.apiserver.server import ApiServer
from ktrain.testing.faults import FaultTransport
from ktrain.testing.time import simulate

A = {"metadata": {"name": "a", "namespace": "default", "uid": "u"}}


def record(report, *, wait_s=1.0, flaky=0, code=0):
    """Let `report(recorder, env)` report to an embedded server; return the events that are there afterwards."""

    async def scenario(env):
        server = ApiServer(env)
        transport = Flaky(server.transport(), flaky, code)
        recorder = EventRecorder(Client(transport, env, field_manager="t"), env, component="test")
        async with anyio.create_task_group() as tasks:
            await tasks.start(recorder.run)
            await report(recorder, env)
            await env.clock.sleep(wait_s)
            tasks.cancel_scope.cancel()
        client = Client(server.transport(), env, field_manager="t")
        return (await client.list(untyped(EVENTS))).items

    return simulate(scenario)


class Flaky:
    def __init__(self, inner, failures, code):
        self._inner = inner
        self._failures = failures
        self._code = code

    async def request(self, *args, **options):
        if self._failures > 0:
            self._failures -= 1
            if self._code:
                return Response(self._code, {}, b'{"kind":"Status","message":"no"}')
            raise TransportError("no answer")
        return await self._inner.request(*args, **options)


def test_an_event_says_who_saw_what_about_which_object():
    async def report(recorder, env):
        recorder.event(CONFIG_MAPS, A, reason="Created", message="made it", type="Warning", action="Create")

    (event,) = record(report)
    assert event["regarding"] == {
        "apiVersion": "v1", "kind": "ConfigMap", "name": "a", "namespace": "default", "uid": "u",
    }  # fmt: skip
    said = [event[name] for name in ("reason", "note", "type", "action", "reportingController")]
    assert said == ["Created", "made it", "Warning", "Create", "test"]
    assert event["metadata"]["namespace"] == "default"


def test_the_same_again_becomes_a_series_and_something_else_does_not():
    async def report(recorder, env):
        for _ in range(4):
            recorder.event(CONFIG_MAPS, A, reason="Failed", message="x")
            await env.clock.sleep(60)
        recorder.event(CONFIG_MAPS, A, reason="Failed", message="y")

    events = record(report)
    assert sorted((e["note"], e.get("series", {}).get("count")) for e in events if e["note"] == "x") == [("x", 4)]
    assert len(events) == 2


def test_after_six_minutes_of_silence_a_new_series_begins():
    async def report(recorder, env):
        for _ in range(2):
            recorder.event(CONFIG_MAPS, A, reason="Failed", message="x")
            await env.clock.sleep(400)

    assert len(record(report)) == 2


def test_one_object_may_report_25_and_then_one_in_five_minutes():
    async def report(recorder, env):
        for n in range(100):
            recorder.event(CONFIG_MAPS, A, reason="Noise", message=str(n))
        await env.clock.sleep(601)
        for n in range(100, 200):
            recorder.event(CONFIG_MAPS, A, reason="Noise", message=str(n))

    assert len(record(report)) == 27


def test_reporting_never_waits_and_what_does_not_fit_is_dropped():
    async def report(recorder, env):
        for n in range(2 * QUEUE_SIZE):
            other = {"metadata": {"name": f"o{n}", "namespace": "default", "uid": f"u{n}"}}
            recorder.event(CONFIG_MAPS, other, reason="Burst", message="x" * 5000)

    events = record(report, wait_s=60)
    assert len(events) == QUEUE_SIZE
    assert {len(event["note"]) for event in events} == {1024}


@pytest.mark.parametrize(
    ("code", "failures", "sent"),
    # The client itself comes back to a 429 some times; eight are more than it does within its budget.
    [(0, 2, 1), (429, 8, 1), (500, 2, 1), (503, 2, 1), (403, 1, 0), (404, 1, 0), (422, 1, 0)],
)
def test_an_event_that_a_busy_server_did_not_take_is_sent_again_and_a_refused_one_is_not(code, failures, sent):
    async def report(recorder, env):
        recorder.event(CONFIG_MAPS, A, reason="Once", message="x")

    assert len(record(report, wait_s=30, flaky=failures, code=code)) == sent


def test_a_server_that_stays_busy_costs_four_attempts_and_then_the_next_event_has_its_turn():
    async def report(recorder, env):
        recorder.event(CONFIG_MAPS, A, reason="Lost", message="x")
        recorder.event(CONFIG_MAPS, A, reason="Kept", message="x")

    assert [event["reason"] for event in record(report, wait_s=60, flaky=MAX_ATTEMPTS, code=500)] == ["Kept"]


def test_an_exception_that_nobody_foresaw_costs_its_event_only():
    async def report(recorder, env):
        recorder.event(CONFIG_MAPS, A, reason="Lost", message="x", action=object())
        recorder.event(CONFIG_MAPS, A, reason="Kept", message="x")

    assert [event["reason"] for event in record(report)] == ["Kept"]


@pytest.mark.parametrize("flaky", [0, 2])
def test_what_is_queued_at_the_end_is_still_sent(flaky):
    async def report(recorder, env):
        recorder.event(CONFIG_MAPS, A, reason="Last", message="word")

    assert len(record(report, wait_s=0, flaky=flaky)) == 1


def test_an_event_in_a_namespace_that_is_not_there_is_given_up():
    async def report(recorder, env):
        gone = {"metadata": {"name": "a", "namespace": "gone", "uid": "u"}}
        recorder.event(CONFIG_MAPS, gone, reason="Lost", message="x")
        recorder.event(CONFIG_MAPS, A, reason="Kept", message="x")

    assert [event["reason"] for event in record(report)] == ["Kept"]


def test_an_event_whose_sending_was_cut_short_after_it_was_stored_is_not_stored_twice():
    async def scenario(env):
        server = ApiServer(env)
        weather = FaultTransport(server.transport(), env)
        weather.on("create", EVENTS, nth=1).delay(answer_s=0.5)
        recorder = EventRecorder(Client(weather, env, field_manager="t"), env, component="test")
        async with anyio.create_task_group() as tasks:
            await tasks.start(recorder.run)
            for _ in range(3):
                recorder.event(CONFIG_MAPS, A, reason="Again", message="once more")
            await env.clock.sleep(0.1)
            tasks.cancel_scope.cancel()
        return (await Client(server.transport(), env, field_manager="t").list(untyped(EVENTS))).items

    (event,) = simulate(scenario)
    assert event["series"]["count"] == 3
