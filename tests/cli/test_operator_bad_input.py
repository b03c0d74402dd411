"""
What `ktrain operator` says of a cluster, a file or a certificate that it cannot work with.

Each case is one sentence that names the object and says what to do; `/readyz` and `ktrain doctor` agree.
"""

import copy
import json
import re
import socket
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial

import anyio
import pytest
import structlog
from click.testing import CliRunner

from ktrain.api import assets
from ktrain.cli import operating
from ktrain.cli.config import Configuration, JobSets, LeaderElection, Metrics, Webhook
from ktrain.cli.doctor.examination import examine
from ktrain.cli.doctor.finding import Status
from ktrain.cli.kubeflow import Logs
from ktrain.cli.operator import command
from ktrain.framework import Client, system_env
from ktrain.framework.operator.operator import Operator
from ktrain.framework.serving.health import Note, answers
from ktrain.local.apiserver.requests import User
from ktrain.local.apiserver.server import ApiServer
from ktrain.testing.faults import FaultTransport
from ktrain.testing.time import simulate

SOMEBODY = User("system:serviceaccount:here:ktrain")
OFF = Metrics(bind_address="0")
QUIET = Configuration(metrics=OFF)


@pytest.fixture(autouse=True)
def own_log():
    """Commands set logging up for their process."""
    yield
    structlog.reset_defaults()


@asynccontextmanager
async def starting(env, transport, configuration=QUIET):
    """Run an operator; `await probe()` is what fails of its `/readyz`, by check."""
    settings = operating.settings(configuration, None, Logs())
    settings = replace(settings, owns_process=False, namespace="default", health_address="0")
    async with Operator("operator", settings, transport=transport, env=env) as op:

        async def probe():
            ready = op._endpoints._ready(op._clusters, op.election, op.servers.webhooks)
            said = await answers(ready if op._manager else {"startup": op.startup.check})
            return {name: text for name, text in said.items() if text and not isinstance(text, Note)}

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(op.run, setup=partial(operating.set_up, op, configuration)))
            yield probe
            op.stop()


def definitions(*groups, version=None):
    """The shipped definitions of some groups, in another version if one is named."""
    found = [copy.deepcopy(one) for one in assets.crds() if one["spec"]["group"].split(".")[0] in groups]
    for one in found:
        if version:
            one["spec"]["versions"][0]["name"] = version
    return found


INSTALL = "install the chart with crds.install, or apply config/crd; no restart is needed"
NO_TRAIN_JOBS = (
    "trainjobs.trainer.kubeflow.org: the API server does not serve v1alpha1: the CRD is not installed; " + INSTALL
)
NO_JOB_SETS = (
    "jobsets.jobset.x-k8s.io: the API server does not serve v1alpha2: the CRD is not installed; install the JobSet"
    " operator, or have ktrain run JobSets (jobset.enable, the chart's jobset.mode=builtin); no restart is needed"
)
OTHER_VERSION = (
    "trainjobs.trainer.kubeflow.org: the API server serves v2alpha1, and this release reads v1alpha1; " + INSTALL
)
CLUSTERS = {
    "nothing": ([], NO_TRAIN_JOBS),
    "no JobSets": (definitions("trainer"), NO_JOB_SETS),
    "another version": ([*definitions("trainer", version="v2alpha1"), *definitions("jobset")], OTHER_VERSION),
}


@pytest.mark.parametrize("case", CLUSTERS)
def test_a_cluster_without_a_kind_is_not_ready_and_becomes_so_without_a_restart(case):
    present, sentence = CLUSTERS[case]

    async def scenario(env):
        server = ApiServer(env)
        server.install_crds(present)
        async with starting(env, server.transport()) as probe:
            await env.clock.sleep(30)
            before = await probe()
            doctor = await examine(Client(server.transport(SOMEBODY), env, field_manager="doctor"), configuration=QUIET)
            server.install_crds(definitions("trainer", "jobset"))
            await env.clock.sleep(30)
            return before, doctor, await probe()

    before, doctor, after = simulate(scenario)
    assert list(before) == ["kinds"]
    assert sentence in before["kinds"]
    kind = sentence.partition(":")[0]
    (found,) = [one for one in doctor if one.subject == kind and one.check == "definitions"]
    assert found.status is Status.ERROR
    assert after == {}


@pytest.mark.parametrize("lacks", [True, False])
def test_a_definition_that_lacks_fields_is_one_line_and_the_operator_works(lacks):
    present = definitions("trainer", "jobset")
    if lacks:
        (train_jobs,) = (one for one in present if one["spec"]["names"]["kind"] == "TrainJob")
        for field in ("diagnosis", "state"):
            del train_jobs["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"][
                field
            ]
        train_jobs["spec"]["versions"][0].pop("additionalPrinterColumns", None)

    async def scenario(env):
        server = ApiServer(env)
        server.install_crds(present)
        with structlog.testing.capture_logs() as lines:
            async with starting(env, server.transport()) as probe:
                await env.clock.sleep(30)
                return await probe(), [one for one in lines if one["event"].startswith("definition.")]

    said, lines = simulate(scenario)
    assert said == {}
    kind, fields = "trainjobs.trainer.kubeflow.org", ["status.diagnosis", "status.state"]
    assert [(one["kind"], sorted(one["fields"])) for one in lines] == ([(kind, fields)] if lacks else [])


def test_with_its_own_jobset_controller_it_asks_for_the_definition_and_not_for_another_operator():
    configuration = Configuration(metrics=OFF, jobset=JobSets(enable=True))

    async def scenario(env):
        server = ApiServer(env)
        server.install_crds(definitions("trainer"))
        async with starting(env, server.transport(), configuration) as probe:
            await env.clock.sleep(30)
            return await probe()

    assert simulate(scenario) == {"kinds": NO_JOB_SETS.partition("install the JobSet")[0] + INSTALL}


def test_kinds_that_may_not_be_listed_are_named_with_verb_and_identity():
    async def scenario(env):
        server = ApiServer(env)
        server.install_crds(definitions("trainer", "jobset"))
        async with starting(env, server.transport(SOMEBODY)) as probe:
            await env.clock.sleep(30)
            return await probe()

    said = simulate(scenario)
    refused = re.findall(r'User "(\S+)" cannot (list|watch) resource "(\w+)"', said["informers"])
    assert {kind for _, _, kind in refused} >= {"trainjobs", "trainingruntimes", "clustertrainingruntimes", "jobsets"}
    assert {identity for identity, _, _ in refused} == {SOMEBODY.name}
    assert "; grant this identity `list` and `watch` on the kind" in said["informers"]


def test_a_lease_that_may_not_be_written_is_no_standby():
    configuration = Configuration(metrics=OFF, leader_election=LeaderElection(leader_elect=True))
    refusal = 'leases is forbidden: User "me" cannot get resource "leases"'

    async def scenario(env):
        server = ApiServer(env)
        server.install_crds(definitions("trainer", "jobset"))
        weather = FaultTransport(server.transport(), env)
        refused = weather.on(resource="leases").answer(403, reason="Forbidden", message=refusal)
        with structlog.testing.capture_logs() as lines:
            async with starting(env, weather, configuration) as probe:
                await env.clock.sleep(60)
                before = await probe()
                refused.remove()
                await env.clock.sleep(10)
                return before, await probe(), lines

    before, after, lines = simulate(scenario)
    assert list(before) == ["leader-election"]
    assert refusal in before["leader-election"]
    assert before["leader-election"].endswith(
        "; grant this identity `get`, `list`, `watch`, `create` and `patch` on the Lease"
    )
    assert len([one for one in lines if one["event"] == "election.attempt_failed"]) == 1
    assert after == {}


def test_a_server_that_never_answers_is_waited_for_and_the_reason_is_a_line_a_minute():
    async def scenario(env):
        server = ApiServer(env)
        server.install_crds(definitions("trainer", "jobset"))
        weather = FaultTransport(server.transport(), env)
        silence = weather.on().lose_request()
        with structlog.testing.capture_logs() as lines:
            async with starting(env, weather) as probe:
                await env.clock.sleep(300)
                during = await probe()
                silence.remove()
                await env.clock.sleep(30)
                return during, await probe(), lines

    during, after, lines = simulate(scenario)
    said = [one["reason"] for one in lines if one["event"] == "operator.waiting"]
    assert during == {"startup": f"the operator starts and waits for {said[0]}"}
    assert said[0].startswith("the API server: does not answer: GET /version: ")
    assert said[0].endswith("; check the address (kubeconfig, context), the network and the API server")
    assert (set(said), 4 <= len(said) <= 6) == ({said[0]}, True)
    assert after == {}


def test_a_server_that_is_silent_about_kinds_costs_seconds_and_not_so_many_for_each():
    async def scenario(env):
        server = ApiServer(env)
        server.install_crds(definitions("trainer", "jobset"))
        weather = FaultTransport(server.transport(), env)
        weather.on("list").lose_request()
        async with starting(env, weather) as probe:
            started_s = env.clock.monotonic()
            while "startup" in await probe():
                await env.clock.sleep(0.5)
            return env.clock.monotonic() - started_s

    assert 4 < simulate(scenario) < 12


def test_the_wish_to_stop_ends_the_wait_for_a_server():
    async def scenario(env):
        weather = FaultTransport(ApiServer(env).transport(), env)
        weather.on().lose_request()
        async with starting(env, weather):
            await env.clock.sleep(30)
        return env.clock.monotonic()

    assert simulate(scenario) == 30


def test_credentials_that_are_refused_are_one_line_whatever_is_followed():
    async def scenario(env):
        server = ApiServer(env)
        server.install_crds(definitions("trainer", "jobset"))
        weather = FaultTransport(server.transport(), env)
        unknown = weather.on().answer(401, reason="Unauthorized", message="Unauthorized")
        with structlog.testing.capture_logs() as starts:
            async with starting(env, weather) as probe:
                await env.clock.sleep(50)
                waiting = await probe()
                unknown.remove()
                await env.clock.sleep(30)
                ready = await probe()
                weather.on().answer(401, reason="Unauthorized", message="Unauthorized")
                with structlog.testing.capture_logs() as runs:
                    await env.clock.sleep(1200)
        return waiting, ready, starts, runs

    waiting, ready, starts, runs = simulate(scenario)
    assert "renew the token or certificate of the kubeconfig or of the service account" in waiting["startup"]
    assert ready == {}
    assert len([one for one in starts if one["event"] == "operator.waiting"]) == 1
    assert 5 <= len([one for one in runs if one["event"] == "identity.refused"]) <= 20
    assert [one for one in runs if one["event"] in ("list.failed", "watch.failed")] == []


def webhooks(directory):
    for name in ("tls.crt", "tls.key"):
        (directory / name).write_text("junk")
    return Configuration(metrics=OFF, webhook=Webhook(enable=True, host="127.0.0.1", port=1, cert_dir=str(directory)))


def secure_metrics(directory):
    for name in ("tls.crt", "tls.key"):
        (directory / name).write_text("junk")
    return Configuration(metrics=Metrics(bind_address="127.0.0.1:0", secure_serving=True, cert_dir=str(directory)))


@pytest.mark.parametrize("configured", [webhooks, secure_metrics])
def test_a_certificate_that_is_none_ends_it_with_the_name_of_the_file(configured, tmp_path):
    with pytest.raises(OSError, match=f"{tmp_path}/tls.crt: it holds no certificate in PEM form"):
        anyio.run(_until_its_end, configured(tmp_path))


def test_a_port_in_use_ends_it_with_the_address_and_the_purpose():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match="metrics: cannot listen") as end:
            anyio.run(_until_its_end, Configuration(metrics=Metrics(bind_address=f"127.0.0.1:{port}")))

    said = operating._in_words(end.value)
    assert said == f"metrics: cannot listen on 127.0.0.1:{port}: Address already in use"


async def _until_its_end(configuration):
    env = system_env()
    server = ApiServer(env)
    server.install_crds(definitions("trainer", "jobset"))
    settings = replace(operating.settings(configuration, None, Logs()), owns_process=False, health_address="0")
    async with Operator("operator", settings, transport=server.transport(), env=env) as op:
        with anyio.fail_after(20):
            await op.run(setup=partial(operating.set_up, op, configuration))


KUBECONFIG = """
current-context: elsewhere
contexts: [{name: here, context: {cluster: here, user: me}}]
clusters: [{name: here, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: me}]
"""
COMMANDS = {
    "a field that there is not": (
        "webook: {enable: true}",
        "",
        2,
        "config.yaml: Object contains unknown field `webook`",
    ),
    "a value of another type": (
        "webhook: {port: high}",
        "",
        2,
        "config.yaml: Expected `int`, got `str` - at `$.webhook.port`",
    ),
    "a context that there is not": ("{}", KUBECONFIG, 1, "elsewhere"),
    "a kubeconfig that is none": ("{}", "[1, 2", 1, "kubeconfig"),
}


@pytest.mark.parametrize("case", COMMANDS)
def test_what_ends_the_command_is_one_line_of_the_log(case, tmp_path):
    config, kubeconfig, code, text = COMMANDS[case]
    (tmp_path / "config.yaml").write_text(config)
    (tmp_path / "kubeconfig").write_text(kubeconfig)
    arguments = ["--config", str(tmp_path / "config.yaml"), "--kubeconfig", str(tmp_path / "kubeconfig")]
    arguments += ["--metrics-bind-address", "0", "--health-probe-bind-address", "0"]

    as_json = CliRunner().invoke(command, [*arguments, "--zap-encoder", "json"])
    as_text = CliRunner().invoke(command, [*arguments, "--zap-encoder", "console"])

    lines = [json.loads(line) for line in as_json.stderr.splitlines()]
    assert (as_json.exit_code, as_text.exit_code) == (code, code)
    assert (lines[-1]["event"], lines[-1]["exit_code"]) == ("operator.failed", code)
    assert text in lines[-1]["error"]
    assert as_text.stderr.splitlines()[-1] == f"ktrain: {lines[-1]['error']}"
    assert as_json.stdout == ""
