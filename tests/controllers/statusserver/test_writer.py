"""How reports are stored: at what rate, which, in which order; and what happens at the end, and when it cannot be."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import anyio
import msgspec
import pytest

from ktrain.api import trainer as api
from ktrain.api.meta import Condition, Key, ObjectMeta
from ktrain.controllers.statusserver.writer import AT_A_TIME, FLUSH_S, Writer
from ktrain.framework.client.client import Client
from ktrain.framework.client.transport import Response
from ktrain.framework.errors import TransportError
from ktrain.testing.time import EPOCH, simulate

JOBS = 10_000
EVERY_S = 5


@dataclass
class Server:
    """An API server that stores what is applied, in its own time, unless it was told what else to answer."""

    env: object
    takes_s: float = 0.005
    answers: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    """By name of a job: codes of its next answers; 0 is none at all."""
    stored: list[tuple[float, str, int]] = field(default_factory=list)
    requests: list[tuple[dict, dict]] = field(default_factory=list)
    under_way: Counter = field(default_factory=Counter)
    most: int = 0

    times: dict[str, datetime] = field(default_factory=dict)
    """By name of a job: what the writer's cache says of the last report that was stored."""

    gone: set[str] = field(default_factory=set)
    ended: set[str] = field(default_factory=set)

    def get(self, key):
        """The writer's cache: all jobs are there and have the UID `u`."""
        if key.name in self.gone:
            return None
        reported = api.Reported(self.times[key.name]) if key.name in self.times else None
        conditions = (Condition("Complete", "True"),) if key.name in self.ended else ()
        return api.TrainJob(
            metadata=ObjectMeta(uid="u"), status=api.TrainJobStatus(conditions, trainer_status=reported)
        )

    async def request(self, method, path, *, query=(), headers=None, body=None, timeout_s=30.0):
        applied = msgspec.json.decode(body)
        name = applied["metadata"]["name"]
        self.requests.append((dict(query), applied))
        assert (method, path.rsplit("/", 2)[1:]) == ("PATCH", [name, "status"])
        self.under_way[name] += 1
        self.most = max(self.most, self.under_way.total())
        assert self.under_way[name] == 1
        try:
            await self.env.clock.sleep(self.takes_s)
        finally:
            self.under_way[name] -= 1
        code = self.answers[name].pop(0) if self.answers[name] else 200
        if code == 0:
            raise TransportError("the connection broke")
        if code == 200:
            percentage = applied["status"]["trainerStatus"]["progressPercentage"]
            self.stored.append((self.env.clock.monotonic(), name, percentage))
            return Response(200, {}, body)
        return Response(code, {}, msgspec.json.encode({"kind": "Status", "code": code, "message": "no"}))

    @property
    def order(self):
        return [(name, percentage) for _, name, percentage in self.stored]


def report(percentage):
    return {"trainerStatus": {"progressPercentage": percentage, "lastUpdatedTime": "2030-01-01T00:00:00Z"}}


def writing(scenario, **options):
    """Run a scenario `(env, server, put)` with a writer, and close that; returns the server and the writer."""

    async def run(env):
        server = Server(env)
        writer = Writer(Client(server, env, field_manager="x", retry_budget_s=0), env, server, **options)

        def put(name, percentage, uid="u", at_s=0):
            when = EPOCH + timedelta(seconds=at_s)
            writer.put(Key("team", name), uid, report(percentage), when=when, terminal=percentage == 100)

        async with anyio.create_task_group() as tasks:
            await tasks.start(writer.run)
            try:
                await scenario(env, server, put)
            finally:
                writer.close()
        return server, writer

    return simulate(run)


def test_ten_thousand_jobs_cost_at_most_two_hundred_writes_a_second():
    async def scenario(env, _server, put):
        # Spread over the five seconds, as jobs are; and one burst in which all report at once.
        for turn in range(12):
            for step in range(100):
                for job in range(step, JOBS, 100):
                    put(f"j{job}", turn)
                if turn != 6:
                    await env.clock.sleep(EVERY_S / 100)
            if turn == 6:
                await env.clock.sleep(EVERY_S)

    server, writer = writing(scenario)
    times = [when for when, _, _ in server.stored]
    start = 0
    for end, when in enumerate(times):
        while when - times[start] >= 1:
            start += 1
        assert end - start + 1 <= 200
    assert 180 * 60 <= len(times) <= 180 * 60 + 20 + 180 * FLUSH_S
    assert Counter(name for _, name, _ in server.stored).most_common(1)[0][1] <= 2
    assert len({name for _, name, _ in server.stored}) == JOBS
    looked_at = writer.statistics()
    assert looked_at.stored == len(times)
    assert looked_at.stored + looked_at.replaced + looked_at.dropped + looked_at.waiting >= 12 * JOBS


def test_of_each_job_the_newest_is_stored_and_jobs_take_turns_as_they_came():
    async def scenario(env, _server, put):
        for percentage in range(50):
            for name in "abc":
                put(name, percentage)
        await env.clock.sleep(10)

    server, writer = writing(scenario, qps=1, burst=1)
    assert server.order == [("a", 49), ("b", 49), ("c", 49)]
    assert writer.statistics().replaced == 49 * 3


def test_jobs_that_are_done_go_first_and_are_not_held_up_by_a_later_report():
    async def scenario(env, _server, put):
        for name in "abcd":
            put(name, 1)
        put("d", 100)
        put("c", 100)
        put("d", 99)
        await env.clock.sleep(10)

    server, _ = writing(scenario, qps=1, burst=1)
    assert server.order == [("d", 99), ("c", 100), ("a", 1), ("b", 1)]


def test_a_jobs_reports_are_stored_one_after_the_other():
    async def scenario(env, server, put):
        server.takes_s = 1
        put("a", 1)
        await env.clock.sleep(0.5)
        put("a", 2)
        put("a", 3)
        put("b", 4)
        await env.clock.sleep(5)

    server, _ = writing(scenario)
    assert server.order == [("a", 1), ("b", 4), ("a", 3)]


def test_a_slow_server_is_asked_for_few_things_at_a_time():
    async def scenario(env, server, put):
        server.takes_s = 2
        for job in range(100):
            put(f"j{job}", 1)
        await env.clock.sleep(60)

    server, _ = writing(scenario, qps=1000, burst=1000)
    assert server.most == AT_A_TIME
    assert len(server.stored) == 100


def test_it_is_applied_by_its_own_manager():
    async def scenario(env, _server, put):
        put("a", 7)
        await env.clock.sleep(1)

    server, _ = writing(scenario)
    query, applied = server.requests[0]
    assert (query["fieldManager"], query["force"]) == ("trainer-status", "true")
    assert applied == {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "a", "namespace": "team"},
        "status": report(7),
    }


def test_a_report_on_a_job_that_went_meanwhile_is_not_sent_not_even_to_its_successor():
    async def scenario(env, server, put):
        put("x", 1)
        put("a", 1)
        put("b", 1, uid="of-before")
        server.gone.add("a")
        await env.clock.sleep(10)

    server, writer = writing(scenario, qps=1, burst=1)
    assert server.order == [("x", 1)]
    assert writer.statistics().dropped == 2


@pytest.mark.parametrize("code", [404, 409, 422, 403, 400])
def test_a_report_that_is_refused_is_dropped_and_the_next_one_is_tried(code):
    async def scenario(env, server, put):
        server.answers["a"] = [code]
        put("a", 1)
        await env.clock.sleep(1)
        put("a", 2)
        await env.clock.sleep(1)

    server, writer = writing(scenario)
    assert server.order == [("a", 2)]
    assert (writer.statistics().stored, writer.statistics().dropped) == (1, 1)


@pytest.mark.parametrize("code", [0, 500, 503, 429])
@pytest.mark.parametrize("newer", [None, 2])
def test_a_report_without_an_answer_waits_again_unless_a_newer_one_has_come(code, newer):
    async def scenario(env, server, put):
        server.answers["a"] = [code]
        put("a", 1)
        await env.clock.sleep(0.1)
        if newer is not None:
            put("a", newer)
        await env.clock.sleep(60)

    server, writer = writing(scenario)
    assert server.order == [("a", newer or 1)]
    assert writer.statistics().dropped == 0


def test_what_another_replica_stored_since_is_not_turned_back():
    async def scenario(env, server, put):
        put("x", 1)
        put("a", 40, at_s=1)
        put("b", 41, at_s=5)
        await env.clock.sleep(0.5)
        server.times = {name: EPOCH + timedelta(seconds=3) for name in "ab"}
        await env.clock.sleep(10)

    server, writer = writing(scenario, qps=1, burst=1)
    assert server.order == [("x", 1), ("b", 41)]
    assert writer.statistics().dropped == 1


def test_a_clock_that_is_ahead_does_not_silence_others():
    async def scenario(env, server, put):
        server.times["a"] = EPOCH + timedelta(hours=1)
        put("a", 40, at_s=1)
        await env.clock.sleep(1)

    server, _ = writing(scenario)
    assert server.order == [("a", 40)]


def test_at_the_end_what_waits_is_stored_for_as_long_as_there_is_time_and_the_rest_counted():
    async def scenario(_env, _server, put):
        for job in range(1000):
            put(f"j{job}", 100 if job >= 990 else 1)

    server, writer = writing(scenario, qps=10, burst=1)
    assert len(server.stored) == pytest.approx(10 * FLUSH_S, abs=2)
    assert {name for name, percentage in server.order if percentage == 100} == {f"j{job}" for job in range(990, 1000)}
    looked_at = writer.statistics()
    assert looked_at.stored + looked_at.dropped == 1000


def test_what_waits_for_an_answer_at_the_end_is_counted_as_lost():
    async def scenario(env, server, put):
        server.answers["a"] = [0] * 10
        put("a", 1)
        await env.clock.sleep(0.1)

    _, writer = writing(scenario)
    assert (writer.statistics().stored, writer.statistics().dropped, writer.statistics().waiting) == (0, 1, 0)


def test_with_nothing_to_store_the_end_comes_at_once():
    async def run(env):
        server = Server(env)
        writer = Writer(Client(server, env, field_manager="x"), env, server)
        async with anyio.create_task_group() as tasks:
            await tasks.start(writer.run)
            await env.clock.sleep(3)
            writer.close()
        return env.clock.monotonic()

    assert simulate(run) == 3


@pytest.mark.parametrize(("known_s", "said_s", "stored"), [(None, 5, 1), (10, 11, 1), (10, 10, 0), (10, 5, 0)])
def test_of_a_job_that_has_ended_only_what_is_new_is_stored(known_s, said_s, stored):
    async def scenario(env, server, put):
        server.ended = {"a"}
        server.times = {} if known_s is None else {"a": EPOCH + timedelta(seconds=known_s)}
        put("a", 50, at_s=said_s)
        await env.clock.sleep(1)

    server, writer = writing(scenario)
    assert len(server.stored) == stored
    assert writer.statistics().dropped == 1 - stored
