"""Reports of pods, from the token to the status of the TrainJob, as an API server has it."""

import asyncio
import contextlib
import ssl
from base64 import urlsafe_b64encode

import aiohttp
import anyio
import pytest
from msgspec import json

from ktrain.api.core import CONFIG_MAPS, untyped
from ktrain.api.jobset import JOBSETS
from ktrain.api.meta import Key
from ktrain.api.trainer import TRAIN_JOBS, TRAINING_RUNTIMES
from ktrain.controllers import statusserver, trainjob
from ktrain.controllers.statusserver import StatusServer, Tokens, Writer
from ktrain.framework import Cache, EventRecorder, Manager
from ktrain.framework.errors import AlreadyExists, Invalid
from ktrain.framework.serving.connections import Limits
from ktrain.framework.serving.self_signed import SelfSigned
from ktrain.pipeline import Registry
from ktrain.plugins import trainjobstatus
from ktrain.plugins.jobset import JobSet
from ktrain.plugins.plainml import PlainML

API = "trainer.kubeflow.org/v1alpha1"
JOBS = untyped(TRAIN_JOBS)
REPORT = {
    "trainerStatus": {
        "progressPercentage": 42,
        "estimatedRemainingSeconds": 60,
        "metrics": [{"name": "loss", "value": "0.5"}],
        "lastUpdatedTime": "2026-11-21T10:00:00Z",
    }
}
RUNTIME = {
    "apiVersion": API,
    "kind": "TrainingRuntime",
    "spec": {
        "template": {
            "spec": {
                "replicatedJobs": [
                    {
                        "name": "node",
                        "template": {
                            "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
                            "spec": {"template": {"spec": {"containers": [{"name": "node", "image": "i"}]}}},
                        },
                    }
                ]
            }
        }
    },
}


class Pods:
    """What a pod of the job can do: ask for a token, and report."""

    def __init__(self, control_plane, server, session):
        self.plane = control_plane
        self.server = server
        self.session = session
        self.namespace = control_plane.namespace

    async def token(self, job="job", *, namespace=None, audience=None):
        path = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/pod/token"
        audiences = [audience or trainjobstatus.audience(Key(namespace or self.namespace, job))]
        spec = {"audiences": audiences, "expirationSeconds": 3600}
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        made = await self.plane.client().raw("POST", path, body=request)
        return json.decode(made.body)["status"]["token"]

    async def send(self, body, *, token, job="job", namespace=None, method="POST", path=None, **headers):
        path = path or trainjobstatus.path(Key(namespace or self.namespace, job))
        data = body if isinstance(body, bytes) else json.encode(body)
        authorization = {"Authorization": token if " " in token else f"Bearer {token}"} if token else {}
        url = f"https://127.0.0.1:{self.server.port}{path}"
        async with self.session.request(method, url, data=data, headers={**authorization, **headers}) as answer:
            return answer.status, json.decode(await answer.read())


@contextlib.asynccontextmanager
async def serving(control_plane, **options):
    client, env = control_plane.client(), control_plane.env
    cache = Cache(client, env)
    jobs = cache.informer(TRAIN_JOBS)
    server = StatusServer(
        jobs,
        Tokens(client, env),
        Writer(client, env, jobs),
        SelfSigned(env),
        env,
        host="127.0.0.1",
        port=0,
        **options,
    )
    connector = aiohttp.TCPConnector(ssl=False)
    async with anyio.create_task_group() as tasks, aiohttp.ClientSession(connector=connector) as session:
        await tasks.start(cache.run)
        await tasks.start(server.run)
        await cache.wait_for_sync()
        yield Pods(control_plane, server, session)
        tasks.cancel_scope.cancel()


@pytest.fixture
def reporting(control_plane):
    """`async with reporting() as pods:` serves, with a TrainJob `job` that is suspended, and a service account."""

    @contextlib.asynccontextmanager
    async def run(**options):
        client, namespace = control_plane.client(), control_plane.namespace
        with contextlib.suppress(AlreadyExists):
            account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "pod"}}
            await client.raw("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts", body=account)
            runtime = RUNTIME | {"metadata": {"name": "rt", "namespace": namespace}}
            await client.create(untyped(TRAINING_RUNTIMES), runtime)
            spec = {"runtimeRef": {"name": "rt", "kind": "TrainingRuntime"}, "suspend": True}
            metadata = {"name": "job", "namespace": namespace}
            await client.create(JOBS, {"apiVersion": API, "kind": "TrainJob", "metadata": metadata, "spec": spec})
        async with serving(control_plane, **options) as pods:
            yield pods

    return run


def refused(code, reason, message):
    return code, {"metadata": {}, "status": "Failure", "message": message, "reason": reason, "code": code}


async def test_a_report_becomes_the_trainer_status_and_the_next_one_takes_its_place(control_plane, reporting):
    async with reporting() as pods:
        token = await pods.token()
        assert await pods.send(REPORT, token=token) == (200, REPORT)
        stored = await control_plane.wait_for(JOBS, "job", lambda job: job.get("status", {}).get("trainerStatus"))
        assert stored["status"]["trainerStatus"] == REPORT["trainerStatus"]
        managers = {entry["manager"]: entry for entry in stored["metadata"]["managedFields"]}
        assert (managers["trainer-status"]["operation"], managers["trainer-status"]["subresource"]) == (
            "Apply",
            "status",
        )

        last = {"trainerStatus": {"progressPercentage": 100, "lastUpdatedTime": "2026-11-21T11:00:00Z"}}
        assert await pods.send(last, token=token) == (200, last)
        await control_plane.wait_for(JOBS, "job", lambda job: job["status"]["trainerStatus"] == last["trainerStatus"])


async def test_each_request_is_answered_in_kubeflows_words_and_order(reporting):
    async with reporting() as pods:
        token = await pods.token()
        elsewhere = await pods.token("gone")
        bad_range = {"trainerStatus": {**REPORT["trainerStatus"], "progressPercentage": 101}}
        forbidden = refused(403, "Forbidden", "Forbidden")
        not_found = refused(404, "NotFound", "Not found")
        large = b" " * 65_537

        assert await pods.send(large, token="", path="/elsewhere") == refused(
            413, "RequestEntityTooLarge", "Payload too large"
        )
        assert await pods.send(REPORT, token=token, method="PUT") == not_found
        assert await pods.send(REPORT, token="", path="/healthz") == not_found
        for wrong in ("", f"Basic {token}", f"Bearer {token} x", "a.b.c", token[:-4] + "AAAA", elsewhere):
            assert await pods.send(b"{", token=wrong) == forbidden
        assert await pods.send(REPORT, token=token, job="other") == forbidden
        assert await pods.send(REPORT, token=f"bearer {token}") == (200, REPORT)
        assert await pods.send(b"{", token=token) == refused(422, "Invalid", "Invalid payload")
        assert await pods.send({}, token=elsewhere, job="gone") == (200, {})
        assert await pods.send(bad_range, token=elsewhere, job="gone") == refused(
            404, "NotFound", "Train job not found"
        )
        code, said = await pods.send(bad_range, token=token)
        assert (code, said["reason"]) == (422, "Invalid")
        assert said["message"].startswith(
            'TrainJob.trainer.kubeflow.org "job" is invalid: status.trainerStatus.progress'
        )


async def test_the_words_against_a_report_are_those_of_the_api_server(control_plane, reporting):
    async with reporting() as pods:
        wrong = {"trainerStatus": {**REPORT["trainerStatus"], "metrics": [{"name": "", "value": "x"}]}}
        _, said = await pods.send(wrong, token=await pods.token())
        metadata = {"name": "job", "namespace": pods.namespace}
        body = {"apiVersion": API, "kind": "TrainJob", "metadata": metadata, "status": wrong}
        with pytest.raises(Invalid) as refusal:
            await control_plane.client("trainer-status").apply(JOBS, body, subresource="status")

        assert said["message"] == refusal.value.status.message


async def test_a_token_of_another_namespace_is_worth_nothing(reporting):
    """Its audience is right, but who has it is not of the job's namespace."""
    async with reporting() as pods:
        token = await pods.token(namespace="elsewhere")

        assert await pods.send(REPORT, token=token, namespace="elsewhere") == refused(403, "Forbidden", "Forbidden")


async def test_a_body_that_does_not_say_its_length_is_bounded_too(reporting):
    async with reporting() as pods:
        token = await pods.token()

        async def endless():
            for _ in range(100):
                yield b" " * 1024

        path = trainjobstatus.path(Key(pods.namespace, "job"))
        url = f"https://127.0.0.1:{pods.server.port}{path}"
        async with pods.session.post(url, data=endless(), headers={"Authorization": f"Bearer {token}"}) as answer:
            assert (answer.status, json.decode(await answer.read())["message"]) == (422, "Invalid payload")


async def test_a_body_that_does_not_come_is_waited_for_a_while_only(reporting, monkeypatch):
    monkeypatch.setattr(statusserver.server, "BODY_S", 0.2)
    async with reporting() as pods, asyncio.timeout(10):
        token = await pods.token()

        async def slow():
            yield b'{"trainerStatus":'
            await asyncio.Event().wait()

        url = f"https://127.0.0.1:{pods.server.port}{trainjobstatus.path(Key(pods.namespace, 'job'))}"
        async with pods.session.post(url, data=slow(), headers={"Authorization": f"Bearer {token}"}) as answer:
            assert (answer.status, json.decode(await answer.read())["message"]) == (422, "Invalid payload")
        assert await pods.send(REPORT, token=token) == (200, REPORT)


async def test_nonsense_is_answered_and_never_an_error_of_the_server(reporting):
    deep = b"[" * 20_000 + b"]" * 20_000
    async with reporting() as pods:
        token = await pods.token()
        far = {"trainerStatus": {"lastUpdatedTime": "9999-12-31T23:59:59-12:00"}}
        many = {"trainerStatus": {**REPORT["trainerStatus"], "metrics": [{}] * 20_000}}
        invalid = refused(422, "Invalid", "Invalid payload")
        for body in (
            b'{"x":' + deep + b"}",
            b'{"trainerStatus":{"metrics":[{"name":"\xff"}]}}',
            far,
            b"\x1f\x8b\x08\x00",
        ):
            assert await pods.send(body, token=token) == invalid
        assert await pods.send(REPORT, token=token, **{"Content-Encoding": "gzip"}) == (200, REPORT)
        code, said = await pods.send(many, token=token)
        assert (code, said["reason"], len(said["message"]) < 100_000) == (422, "Invalid", True)
        claims = urlsafe_b64encode(deep[:2_000] + deep[-2_000:]).decode()
        for wrong in (f"h.{claims}.s", "h.e30.s", "..", "a.b.c.d"):
            assert await pods.send(REPORT, token=wrong) == refused(403, "Forbidden", "Forbidden")
        for path in ("/%00", trainjobstatus.path(Key("..", "..")), trainjobstatus.path(Key("a", "b")) + "/"):
            assert (await pods.send(REPORT, token="", path=path))[0] in (403, 404)


async def test_a_client_that_asks_before_it_sends_is_told_to_go_on(reporting):
    async with reporting() as pods, asyncio.timeout(10):
        url = f"https://127.0.0.1:{pods.server.port}{trainjobstatus.path(Key(pods.namespace, 'job'))}"
        headers = {"Authorization": f"Bearer {await pods.token()}"}
        async with pods.session.post(url, data=json.encode(REPORT), headers=headers, expect100=True) as answer:
            assert (answer.status, json.decode(await answer.read())) == (200, REPORT)


async def test_what_was_taken_is_stored_before_the_server_ends(control_plane, reporting):
    async with reporting() as pods:
        assert await pods.send(REPORT, token=await pods.token()) == (200, REPORT)

    stored = await control_plane.client().get(JOBS, "job", control_plane.namespace)
    assert stored["status"]["trainerStatus"] == REPORT["trainerStatus"]


async def test_silent_clients_and_one_too_many_are_let_go(control_plane):
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    async with serving(control_plane, limits=Limits(connections=2, first_request_s=1.5)) as pods:

        async def connect(sends):
            reader, writer = await asyncio.open_connection("127.0.0.1", pods.server.port, ssl=context)
            writer.write(sends)
            return reader, writer

        async def is_let_go(reader, writer):
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""
            writer.close()
            return True

        async with asyncio.timeout(20):
            # The server's look at itself is over when it has started.
            silent = [await connect(b"POST /half"), await connect(b"")]
            started = asyncio.get_running_loop().time()
            with contextlib.suppress(ConnectionError):
                assert await is_let_go(*await connect(b""))
            assert asyncio.get_running_loop().time() - started < 1
            for one in silent:
                assert await is_let_go(*one)


async def test_it_says_that_it_serves(reporting):
    async with reporting() as pods:
        assert pods.server.check() is None


async def test_the_controller_gives_pods_what_a_report_takes(control_plane, reporting):
    plane, env, client = control_plane, control_plane.env, control_plane.client("trainer")
    section = {trainjobstatus.URL: "https://here:1", trainjobstatus.CA: "first"}
    config = {"TrainJobStatus": section}
    cache = Cache(client, env)
    recorder = EventRecorder(client, env, component="test")
    registry = Registry([JobSet(), PlainML(), trainjobstatus.TrainJobStatus()])
    controller = trainjob.make_controller(client, cache, env, recorder, registry, config=config)
    async with reporting(), anyio.create_task_group() as tasks:
        await tasks.start(Manager(cache=cache, controllers=[controller], recorder=recorder).run)
        job_set = await plane.wait_for(untyped(JOBSETS), "job", lambda found: found is not None)
        spec = job_set["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
        assert spec["volumes"][0]["projected"]["sources"][1]["configMap"]["name"] == "job-tls-config"
        assert spec["containers"][0]["env"][0]["value"] == "https://here:1" + trainjobstatus.path(
            Key(plane.namespace, "job")
        )
        await plane.wait_for(CONFIG_MAPS, "job-tls-config", lambda found: found and found.data == {"ca.crt": "first"})

        config["TrainJobStatus"] = {**section, trainjobstatus.CA: "second"}
        await client.patch(JOBS, Key(plane.namespace, "job"), {"metadata": {"labels": {"touched": "yes"}}})
        await plane.wait_for(CONFIG_MAPS, "job-tls-config", lambda found: found.data == {"ca.crt": "second"})
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize(("least", "takes"), [(ssl.TLSVersion.TLSv1_2, True), (ssl.TLSVersion.TLSv1_3, False)])
async def test_a_client_of_an_older_tls_than_is_asked_for_gets_no_connection(reporting, least, takes):
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    async with reporting(tls_minimum=least) as pods:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", pods.server.port, ssl=context)
        except (ssl.SSLError, ConnectionError):
            assert not takes
        else:
            writer.transport.abort()
            assert takes
