import anyio
import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from ktrain.api.core import CONFIG_MAPS, CORE_EVENTS, EVENTS, NAMESPACES, untyped
from ktrain.api.meta import Key
from ktrain.framework.client.client import Client
from ktrain.framework.client.transport import Response
from ktrain.framework.errors import TransportError
from ktrain.framework.events import MAX_ATTEMPTS, QUEUE_SIZE, EventRecorder
from ktrain.framework.events.correlation import KEPT, Correlation, Series, Subject
from ktrain.framework.metrics import Metrics
from ktrain.local.apiserver.server import ApiServer
from ktrain.testing.faults import FaultTransport
from ktrain.testing.time import simulate

A = {"metadata": {"name": "a", "namespace": "default", "uid": "u"}}


def record(report, *, wait_s=1.0, flaky=0, code=0, registry=None, prepare=None, older=False):
    """Let `report(recorder, env)` report to an embedded server; return the events that are there afterwards."""

    async def scenario(env):
        server = ApiServer(env)
        transport = Flaky(server.transport(), flaky, code)
        if prepare is not None:
            await prepare(Client(server.transport(), env, field_manager="t"))
        client = Client(transport, env, field_manager="t")
        recorder = EventRecorder(client, env, component="test", metrics=Metrics(registry), older=older)
        recorder.transport = transport
        async with anyio.create_task_group() as tasks:
            await tasks.start(recorder.run)
            await report(recorder, env)
            await env.clock.sleep(wait_s)
            tasks.cancel_scope.cancel()
        client = Client(server.transport(), env, field_manager="t")
        return (await client.list(untyped(CORE_EVENTS if older else EVENTS))).items

    return simulate(scenario)


class Flaky:
    def __init__(self, inner, failures, code):
        self._inner = inner
        self._failures = failures
        self._code = code
        self.calls = []

    async def request(self, *args, **options):
        self.calls.append(args[0])
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


def test_through_the_older_api_an_event_has_its_times_and_a_count():
    async def report(recorder, env):
        recorder.event(CONFIG_MAPS, A, reason="Once", message="x")
        for _ in range(4):
            recorder.event(CONFIG_MAPS, A, reason="Often", message="y")
            await env.clock.sleep(60)

    once, often = record(report, older=True)
    assert (once["message"], once["count"], once["eventTime"]) == ("x", 1, None)
    assert (once["involvedObject"]["name"], once["source"], once["firstTimestamp"]) == (
        "a", {"component": "test"}, once["lastTimestamp"],
    )  # fmt: skip
    assert (often["count"], often["firstTimestamp"] < often["lastTimestamp"], "series" in often) == (4, True, False)


def test_after_six_minutes_of_silence_a_new_series_begins():
    async def report(recorder, env):
        for _ in range(2):
            recorder.event(CONFIG_MAPS, A, reason="Failed", message="x")
            await env.clock.sleep(400)

    assert len(record(report)) == 2


def test_one_object_may_begin_25_events_and_then_one_in_five_minutes():
    async def report(recorder, env):
        for n in range(100):
            recorder.event(CONFIG_MAPS, A, reason=f"Noise{n}", message="x")
        await env.clock.sleep(601)
        for n in range(100, 200):
            recorder.event(CONFIG_MAPS, A, reason=f"Noise{n}", message="x")

    registry = CollectorRegistry()
    assert len(record(report, registry=registry)) == 27
    assert lost(registry, "spam") == 200 - 27


def lost(registry, reason):
    return registry.get_sample_value("ktrain_events_dropped_total", {"reason": reason})


def test_from_the_tenth_on_events_that_differ_by_their_note_are_one():
    async def report(recorder, env):
        for n in range(50):
            recorder.event(CONFIG_MAPS, A, reason="Failed", message=f"attempt {n}")
            await env.clock.sleep(10)
        recorder.event(CONFIG_MAPS, A, reason="Other", message="attempt 50")

    events = record(report)
    notes = [event["note"] for event in events if event["reason"] == "Failed"]
    assert sorted(notes) == sorted([*(f"attempt {n}" for n in range(9)), "(combined from similar events): attempt 9"])
    (combined,) = [event for event in events if event["note"].startswith("(combined")]
    assert combined["series"]["count"] == 41


def test_after_ten_quiet_minutes_similar_events_are_shown_one_by_one_again():
    async def report(recorder, env):
        for n in range(9):
            recorder.event(CONFIG_MAPS, A, reason="Failed", message=str(n))
        await env.clock.sleep(601)
        recorder.event(CONFIG_MAPS, A, reason="Failed", message="9")

    assert sorted(event["note"] for event in record(report)) == [str(n) for n in range(10)]


def test_a_combined_note_is_no_longer_than_the_api_takes():
    async def report(recorder, env):
        for n in range(10):
            recorder.event(CONFIG_MAPS, A, reason="Failed", message=f"{n}" + "\u00e9" * 1000)

    # 1023: no half character.
    assert max(len(event["note"].encode()) for event in record(report)) == 1023


def test_a_series_is_written_at_its_second_event_and_then_ever_more_rarely():
    calls = []

    async def report(recorder, env):
        for _ in range(3600):
            recorder.event(CONFIG_MAPS, A, reason="Failed", message="x")
            await env.clock.sleep(1)
        calls.extend(recorder.transport.calls)

    (event,) = record(report)
    assert event["series"]["count"] == 3600
    # At 0 s, then 1, 3, 7, 15, 31 minutes after the second event.
    assert calls == ["POST"] + ["PATCH"] * 6


def test_the_last_count_of_a_series_is_written_when_it_ends():
    async def report(recorder, env):
        for _ in range(5):
            recorder.event(CONFIG_MAPS, A, reason="Failed", message="x")
            await env.clock.sleep(1)
        await env.clock.sleep(400)
        assert recorder.transport.calls == ["POST", "PATCH", "PATCH"]

    (event,) = record(report)
    assert (event["series"]["count"], event["series"]["lastObservedTime"]) == (5, "2030-01-01T00:00:04.000000Z")


def test_an_event_the_server_has_forgotten_is_written_anew_with_its_count():
    async def report(recorder, env):
        recorder.event(CONFIG_MAPS, A, reason="Failed", message="x")
        await env.clock.sleep(1)
        client = recorder._client
        for event in (await client.list(untyped(EVENTS))).items:
            await client.delete(EVENTS, Key("default", event["metadata"]["name"]))
        recorder.event(CONFIG_MAPS, A, reason="Failed", message="x")

    (event,) = record(report)
    assert event["series"]["count"] == 2


def test_an_event_can_name_a_second_object_and_is_another_one_for_it():
    async def report(recorder, env):
        for uid in ("1", "2"):
            job = {"metadata": {"name": "j", "namespace": "default", "uid": uid}}
            recorder.event(CONFIG_MAPS, A, reason="Made", message="x", related=(NAMESPACES, job))

    first, second = sorted(record(report), key=lambda event: event["related"]["uid"])
    assert first["related"] == {
        "apiVersion": "v1",
        "kind": "Namespace",
        "name": "j",
        "namespace": "default",
        "uid": "1",
    }
    assert second["related"]["uid"] == "2"


def test_an_event_in_a_namespace_that_is_going_away_is_tried_once():
    async def prepare(client):
        meta = {"name": "going"}
        await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
        pinned = {"name": "pin", "namespace": "going", "finalizers": ["t/t"]}
        await client.create(CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": pinned})
        await client.delete(NAMESPACES, Key("", "going"))

    calls = []

    async def report(recorder, env):
        inside = {"metadata": {"name": "a", "namespace": "going", "uid": "u"}}
        recorder.event(CONFIG_MAPS, inside, reason="Lost", message="x")
        await env.clock.sleep(60)
        calls.extend(recorder.transport.calls)

    registry = CollectorRegistry()
    assert record(report, prepare=prepare, registry=registry) == []
    assert (calls, lost(registry, "refused")) == (["POST"], 1)


def test_what_a_recorder_remembers_is_bounded():
    correlation = Correlation()
    for n in range(2 * KEPT):
        subject = Subject(str(n), "", "K", "Normal", "R", "A", "n")
        correlation.combine(subject, 0.0)
        correlation.begin(Series(subject, {}, 0.0, ""))
        assert correlation.may_begin(str(n), 0.0)
    assert {len(memory) for memory in (correlation._series, correlation._alike, correlation._budgets)} == {KEPT}
    assert correlation.running(Subject("0", "", "K", "Normal", "R", "A", "n"), 1.0) is None
    assert correlation.running(subject, 1.0) is not None


def test_reporting_never_waits_and_what_does_not_fit_is_dropped():
    async def report(recorder, env):
        for n in range(2 * QUEUE_SIZE):
            other = {"metadata": {"name": f"o{n}", "namespace": "default", "uid": f"u{n}"}}
            recorder.event(CONFIG_MAPS, other, reason="Burst", message="x" * 5000)

    registry = CollectorRegistry()
    events = record(report, wait_s=60, registry=registry)
    assert len(events) == QUEUE_SIZE
    assert lost(registry, "queue_full") == QUEUE_SIZE
    assert registry.get_sample_value("ktrain_events_written_total") == QUEUE_SIZE
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


def test_a_server_that_is_away_for_a_minute_gets_the_event_when_it_is_back():
    async def report(recorder, env):
        recorder.event(CONFIG_MAPS, A, reason="Kept", message="x")

    assert [event["reason"] for event in record(report, wait_s=300, flaky=9)] == ["Kept"]


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


def test_the_log_names_the_object_whose_event_was_lost():
    async def report(recorder, env):
        recorder.event(CONFIG_MAPS, A, reason="", message="the API wants a reason")

    with capture_logs() as lines:
        assert record(report) == []
    (lost,) = [line for line in lines if line["event"] == "event.dropped"]
    assert (lost["kind"], lost["object"], lost["why"]) == ("ConfigMap", "default/a", "refused")
