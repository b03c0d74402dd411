"""`ktrain top`: what is shown of TrainJobs and metrics, and where the metrics come from."""

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import anyio
import msgspec
import pytest
from prometheus_client import CollectorRegistry, generate_latest

from ktrain.api import trainer as api
from ktrain.cli.top.command import as_json
from ktrain.cli.top.figures import Figures, figures, quantile
from ktrain.cli.top.jobs import TOP_JOBS, Row, TopJob, rows
from ktrain.cli.top.samples import Scrape
from ktrain.cli.top.screen import duration, lines, seconds
from ktrain.cli.top.source import NoMetrics, Source, find_source
from ktrain.cli.top.views import View, Wish, following, views
from ktrain.controllers import trainjob
from ktrain.framework import Client, Operator, Settings, system_env
from ktrain.framework.client.transport import Response
from ktrain.framework.errors import KindMissing
from ktrain.framework.metrics import Metrics
from ktrain.framework.metrics.controller import ControllerMetrics
from ktrain.local.apiserver.server import ApiServer
from ktrain.local.server import make_server
from ktrain.pipeline import Registry
from ktrain.pipeline.calls import Calls

POD = {"containers": [{"name": "node", "image": "i"}]}
NOW = datetime(2026, 11, 23, 12, 0, 0, tzinfo=UTC)


def job(name, *, namespace="team", age_s=60, **status):
    created = (NOW - timedelta(seconds=age_s)).strftime("%Y-%m-%dT%H:%M:%SZ")
    body = {
        "metadata": {"name": name, "namespace": namespace, "creationTimestamp": created},
        "spec": {"runtimeRef": {"name": "torch"}},
        "status": status,
    }
    return msgspec.convert(body, TopJob)


# TrainJobs


def test_a_row_has_the_columns_of_kubectl_and_why():
    full = job(
        "a",
        state="Stalled",
        nodes={"ready": 1, "wanted": 2, "summary": "1/2"},
        restarts=3,
        diagnosis={"reason": "Refused", "message": "m"},
        conditions=[{"type": "Suspended", "status": "False", "reason": "Resumed"}],
    )
    assert rows([full], NOW, "name") == [Row("team", "a", "Stalled", "1/2", 3, "Refused", "torch", 60)]


@pytest.mark.parametrize(
    ("status", "state", "reason"),
    [
        ({}, "Unknown", ""),
        ({"conditions": [{"type": "Complete", "status": "True", "reason": "AllDone"}]}, "Complete", "AllDone"),
        ({"conditions": [{"type": "Suspended", "status": "False", "reason": "Resumed"}]}, "Unknown", "Resumed"),
    ],
)
def test_without_a_state_the_last_condition_tells(status, state, reason):
    (row,) = rows([job("a", **status)], NOW, "name")
    assert (row.state, row.reason) == (state, reason)


def test_jobs_are_sorted_as_asked_and_then_by_name():
    found = [
        job("done", state="Complete", age_s=9),
        job("b", state="Running", age_s=5, restarts=1),
        job("a", state="Running", age_s=7),
        job("sick", state="Stalled", age_s=8),
    ]

    def order(sort):
        return [row.name for row in rows(found, NOW, sort)]

    assert order("state") == ["sick", "a", "b", "done"]
    assert order("name") == ["a", "b", "done", "sick"]
    assert order("age") == ["b", "a", "sick", "done"]
    assert order("restarts") == ["b", "a", "done", "sick"]


# Metrics


def exposed(registry, at_s):
    return Scrape.parse(generate_latest(registry).decode(), at_s)


def test_figures_are_of_what_happened_between_two_scrapes():
    registry, calls = CollectorRegistry(), Calls()
    metrics = Metrics(registry)
    counted = ControllerMetrics.of(metrics, "trainjob_controller")
    calls.expose(metrics)
    for _ in range(100):
        counted.result("success")
        counted.duration(50.0)
    calls.took("Torch", "build", 1.0)
    before = exposed(registry, 10.0)
    for _ in range(8):
        counted.result("success")
        counted.duration(0.02)
    for _ in range(2):
        counted.result("error")
        counted.duration(0.4)
    calls.took("Torch", "build", 0.5)
    calls.failed("Torch", "build", "raised")

    found = figures(before, exposed(registry, 12.0))

    (one,) = found.controllers
    assert (one.name, one.reconciles_per_s, one.errors_per_s) == ("trainjob_controller", 5.0, 1.0)
    assert 0.01 < one.p50_s <= 0.025
    assert 0.35 < one.p99_s <= 0.4
    assert one.wait_p99_s is None
    (plugin,) = found.plugins
    assert (plugin.name, plugin.calls_per_s, plugin.share, plugin.failures) == ("Torch", 0.5, 0.25, 1)


@pytest.mark.parametrize(
    ("q", "cumulative", "expected"),
    [
        (0.5, {1.0: 0, 2.0: 10, float("inf"): 10}, 1.5),
        (0.99, {1.0: 10, 2.0: 10, float("inf"): 10}, 0.99),
        (0.99, {1.0: 0, 2.0: 0, float("inf"): 4}, 2.0),
        (0.5, {1.0: 0, float("inf"): 0}, None),
        (0.5, {}, None),
    ],
)
def test_quantiles_are_those_of_prometheus(q, cumulative, expected):
    assert quantile(q, cumulative) == (expected if expected is None else pytest.approx(expected))


LEADER = 'leader_election_master_status{name="x"} 1\n'
STANDBY = 'leader_election_master_status{name="x"} 0\n'
BUSY = 'controller_runtime_reconcile_total{controller="c",result="success"} 5\n'


class Cluster:
    """A transport to an API server that knows some paths; each gives its answers in order, the last one for ever."""

    def __init__(self, **answers):
        self.answers = {path: list(found) for path, found in answers.items()}
        self.asked = []

    async def request(self, method, path, *, query=(), **_):
        self.asked.append(path)
        found = self.answers.get(path)
        if found is None:
            return Response(404, {}, b"")
        body = found.pop(0) if len(found) > 1 else found[0]
        return Response(200, {}, body if isinstance(body, bytes) else msgspec.json.encode(body))


SERVICES = "/api/v1/services"
PROXY = "/api/v1/namespaces/ktrain/services/{}:manager:metrics/proxy/metrics"
FOUND = {
    "metadata": {"resourceVersion": "1"},
    "items": [
        {"metadata": {"name": "other", "namespace": "ktrain"}, "spec": {"ports": [{"name": "webhooks"}]}},
        {"metadata": {"name": "manager", "namespace": "ktrain"}, "spec": {"ports": [{"name": "metrics"}]}},
    ],
}


def connected(answers):
    return Client(Cluster(**answers), system_env(), field_manager="test")


async def test_the_services_metrics_are_the_leaders():
    answers = [(STANDBY + BUSY).encode(), (STANDBY + BUSY).encode(), (LEADER + BUSY).encode()]
    client = connected({SERVICES: [FOUND], PROXY.format("http"): answers})
    source = await find_source(client)
    assert (await source.scrape()).leads
    assert client.transport.asked.count(PROXY.format("http")) == 3


async def test_a_service_that_speaks_tls_is_asked_by_tls():
    client = connected({SERVICES: [FOUND], PROXY.format("https"): [(LEADER + BUSY).encode()]})
    assert (await (await find_source(client)).scrape()).total("controller_runtime_reconcile_total") == 5


@pytest.mark.parametrize(
    ("answers", "problem"),
    [
        (
            {SERVICES: [{"metadata": {}, "items": []}]},
            "no Service with the label trainer.kubeflow.org/implementation=ktrain has",
        ),
        (
            {SERVICES: [{**FOUND, "items": FOUND["items"] * 2}]},
            "several Services have the label .*: ktrain/manager, ktrain/manager; say which is meant with --metrics",
        ),
        ({}, "the operator's Service cannot be looked for .* name it with --metrics"),
        ({SERVICES: [FOUND]}, r"http:manager:metrics/proxy/metrics.*404.*https:manager"),
        ({SERVICES: [FOUND], PROXY.format("http"): [(STANDBY + BUSY).encode()]}, "none of 5 answers is from a replica"),
        ({SERVICES: [FOUND], PROXY.format("http"): [b"up 1\n"]}, "has no metrics of controllers"),
        ({SERVICES: [FOUND], PROXY.format("http"): [b"<html>\n"]}, "is not in Prometheus' text format"),
    ],
)
async def test_without_metrics_one_line_says_why(answers, problem):
    with pytest.raises(NoMetrics, match=problem):
        await (await find_source(connected(answers))).scrape()


async def test_a_url_where_nobody_answers_is_named(unused_tcp_port):
    url = f"http://127.0.0.1:{unused_tcp_port}/metrics"
    with pytest.raises(NoMetrics, match=url):
        await Source(connected({}), url=url).scrape()


# On an API server


async def create(client, name, **spec):
    ref = {"name": "none", "kind": "TrainingRuntime", "apiGroup": api.GROUP}
    metadata = {"name": name, "namespace": "default"}
    body = {
        "apiVersion": api.API_VERSION,
        "kind": "TrainJob",
        "metadata": metadata,
        "spec": {"runtimeRef": ref, **spec},
    }
    await client.create(TOP_JOBS, body)


def wish(**changes):
    fields = {"namespace": "", "sort": "name", "interval_s": 0.05, "metrics": "", "as_json": False, "once": False}
    return Wish(**{**fields, **changes})


async def test_jobs_and_a_working_operator_are_shown():
    env = system_env()
    server = make_server(env, Registry([]))
    client = Client(server.transport(), env, field_manager="test")
    step = {"metadata": {"labels": {api.ANCESTOR_LABEL: "trainer"}}, "spec": {"template": {"spec": POD}}}
    runtime = {
        "apiVersion": api.API_VERSION,
        "kind": "TrainingRuntime",
        "metadata": {"name": "none", "namespace": "default"},
        "spec": {"template": {"spec": {"replicatedJobs": [{"name": "node", "template": step}]}}},
    }
    await client.create(api.TRAINING_RUNTIMES, runtime)
    settings = Settings(owns_process=False, metrics_address="127.0.0.1:0")
    async with Operator("test", settings, transport=server.transport(), env=env) as operator:
        registry = Registry.load()
        registry.calls.expose(operator.metrics)
        operator.add(
            trainjob.make_controller(
                operator.client,
                operator.cache,
                env,
                operator.recorder,
                await trainjob.without_unserved(registry, operator.client),
                metrics=operator.metrics,
            )
        )
        async with anyio.create_task_group() as tasks:
            await tasks.start(operator.run)
            url = f"http://127.0.0.1:{operator.servers.metrics.port}/metrics"
            async with following(client, env, "default") as jobs:
                shown = views(client, env, wish(metrics=url, namespace="default"), jobs)
                first = await anext(shown)
                for number in range(3):
                    await create(client, f"job-{number}", suspend=True)
                async for view in shown:
                    (one,) = view.figures.controllers
                    if len(view.jobs) == 3 and one.reconciles_per_s > 0:
                        break
            operator.stop()

    assert (first.jobs, first.figures, first.note) == ([], None, "")
    assert [row.name for row in view.jobs] == ["job-0", "job-1", "job-2"]
    assert one.name == "trainjob_controller"
    assert one.workers == 16
    assert one.p99_s > 0
    assert {"JobSet", "Torch"} <= {plugin.name for plugin in view.figures.plugins}
    assert "namespace default: 3 TrainJobs" in lines(view)[0]
    assert json.loads(as_json(view))["controllers"][0]["name"] == "trainjob_controller"


async def test_without_metrics_jobs_are_shown_and_the_reason():
    env = system_env()
    client = Client(make_server(env, Registry([])).transport(), env, field_manager="test")
    async with following(client, env, "") as jobs:
        view = await anext(views(client, env, wish(once=True), jobs))
    assert view.note.startswith("no controllers, queues and plugins: /metrics: ")
    head, note, *_, last = lines(view)
    assert head.endswith("all namespaces: 0 TrainJobs")
    assert note == f"note: {view.note}"
    assert last == "no TrainJobs"


async def test_a_cluster_without_ktrain_is_an_error():
    env = system_env()
    client = Client(ApiServer(env).transport(), env, field_manager="test")
    with pytest.raises(KindMissing, match="ktrain is not installed in this cluster, see `ktrain doctor`"):
        async with following(client, env, ""):
            pass


# On the screen


def view_of(*found, note=""):
    return View("12:00:00Z", "all namespaces", rows(found, NOW, "state"), Figures(), note)


def test_a_small_terminal_gets_the_first_jobs_and_how_many_there_are():
    many = [job(f"job-{number:02}", state="Running") for number in range(50)]
    shown = lines(view_of(*many), columns=40, rows=12)
    assert len(shown) <= 12
    assert max(map(len, shown)) <= 40
    assert any(line.startswith("... ") and line.endswith(" more") for line in shown)
    assert shown[2].startswith("NAMESPACE  NAME")


def test_what_jobs_say_cannot_move_the_cursor():
    evil = job("a", state="Running", diagnosis={"reason": "x\x1b[2Jy", "message": ""})
    assert not any("\x1b" in line for line in lines(view_of(evil)))


@pytest.mark.parametrize(
    ("age_s", "text"),
    [
        *((0, "0s"), (119, "119s"), (120, "2m"), (150, "2m30s"), (600, "10m"), (3 * 3600 - 1, "179m")),
        *((3 * 3600, "3h"), (3 * 3600 + 1800, "3h30m"), (8 * 3600, "8h"), (47 * 3600, "47h"), (48 * 3600, "2d")),
        *((50 * 3600, "2d2h"), (8 * 86400, "8d"), (400 * 86400, "400d")),
    ],
)
def test_ages_are_written_as_kubectl_does(age_s, text):
    assert duration(age_s) == text


def test_lengths_of_time_have_a_fitting_unit():
    assert [seconds(one) for one in (None, 0.00002, 0.0125, 2.5)] == ["-", "20us", "12ms", "2.5s"]


def top(*arguments):
    command = [sys.executable, "-m", "ktrain", "top", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.e2e
async def test_the_command_line_prints_once_where_there_is_no_terminal(control_plane):
    arguments = ("--kubeconfig", await control_plane.kubeconfig(), "-n", control_plane.namespace)
    table, document = [await anyio.to_thread.run_sync(top, *arguments, *more) for more in ((), ("-o", "json"))]

    assert (table.returncode, table.stderr) == (0, "")
    assert table.stdout.splitlines()[0].endswith(f"namespace {control_plane.namespace}: 0 TrainJobs")
    assert json.loads(document.stdout)["trainJobs"] == []


@pytest.mark.e2e
def test_a_cluster_that_cannot_be_asked_is_one_line_and_2(tmp_path):
    (tmp_path / "config").write_text("apiVersion: v1\nkind: Config\ncurrent-context: none\n")
    done = top("--kubeconfig", tmp_path / "config")
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
