"""`ktrain operator` with `watchNamespaces`: what it watches, asks for and says."""

import anyio
import pytest
from structlog.testing import capture_logs

from ktrain.api import core
from ktrain.api import trainer as api
from ktrain.api.jobset import JOBSETS
from ktrain.cli import rights
from ktrain.cli.config import ConfigError, Configuration, JobSets, Metrics
from ktrain.cli.config_checks import check
from ktrain.cli.kubeflow import Logs
from ktrain.cli.namespaces import effects, warn
from ktrain.cli.operating import settings_of
from ktrain.controllers import jobset, runtimes, trainjob, webhooks
from ktrain.controllers.jobset.placement import Misplaced
from ktrain.controllers.served_jobsets import StartupRulesCheck
from ktrain.framework import Cache, Client, Operator, Settings
from ktrain.framework.webhook import AdmissionRequest, Allowed, Denied
from ktrain.local.server import make_server
from ktrain.pipeline import Registry
from ktrain.testing.time import simulate

WATCHED = ("a", "b")
LIMITED = "the operator watches single namespaces only (watchNamespaces) and may not read"
STEP = {"metadata": {"labels": {api.ANCESTOR_LABEL: "trainer"}}}
CONTAINERS = {"containers": [{"name": "node", "image": "i"}]}
TEMPLATE = {**STEP, "spec": {"template": {"spec": CONTAINERS}}}
SPEC = {"template": {"spec": {"replicatedJobs": [{"name": "node", "template": TEMPLATE}]}}}


def document(kind, name, namespace, spec):
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return {"apiVersion": api.API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}


def job(name, namespace, kind="TrainingRuntime"):
    return document("TrainJob", name, namespace, {"runtimeRef": {"name": "rt", "kind": kind, "apiGroup": api.GROUP}})


class Fenced:
    """A transport that notes requests outside of the watched namespaces."""

    def __init__(self, transport):
        self._transport = transport
        self.outside = []

    def request(self, method, path, **options):
        self._check(method, path)
        return self._transport.request(method, path, **options)

    def stream(self, path, **options):
        self._check("WATCH", path)
        return self._transport.stream(path, **options)

    def _check(self, method, path):
        if not any(f"/namespaces/{namespace}/" in path for namespace in WATCHED):
            self.outside.append(f"{method} {path}")

    async def aclose(self):
        await self._transport.aclose()


async def prepare(user):
    for namespace in (*WATCHED, "c"):
        await user.create(core.NAMESPACES, {"metadata": {"name": namespace}})
        await user.create(api.TRAINING_RUNTIMES, document("TrainingRuntime", "rt", namespace, SPEC))
    await user.create(api.CLUSTER_TRAINING_RUNTIMES, document("ClusterTrainingRuntime", "rt", "", SPEC))


async def compose(operator, configuration):
    """Put the controllers together as `ktrain operator` does."""
    client, cache, env = operator.client, operator.cache, operator.env
    registry = await trainjob.without_unserved(Registry.load(), client, configuration.watch_namespaces)
    shared = trainjob.SharedSnapshots(client, cache, for_new_jobs=True)
    operator.add(trainjob.make_collector(shared, cache, env))
    operator.add(trainjob.make_controller(client, cache, env, operator.recorder, registry, shared=shared))
    for controller in (
        *runtimes.make_controllers(client, cache, env),
        *jobset.make_controllers(client.with_options(field_manager="jobset"), cache, env, operator.recorder),
    ):
        operator.add(controller)


def test_jobs_of_the_watched_namespaces_run_and_nothing_else_is_asked_for():
    async def main(env):
        server = make_server(env, Registry.load())
        user, fence = Client(server.transport(), env, field_manager="user"), Fenced(server.transport())
        await prepare(user)
        configuration = Configuration(watch_namespaces=WATCHED)
        settings = Settings(watch_namespaces=WATCHED, owns_process=False)
        async with Operator("test", settings, transport=fence, env=env) as operator:
            await compose(operator, configuration)
            async with anyio.create_task_group() as tasks:
                await tasks.start(operator.run)
                for namespace in (*WATCHED, "c"):
                    await user.create(api.TRAIN_JOBS, job("own", namespace))
                    await user.create(api.TRAIN_JOBS, job("cluster", namespace, "ClusterTrainingRuntime"))
                await env.clock.sleep(120)
                made = [str(one.key) for one in (await user.list(JOBSETS)).items]
                jobs = [str(one.key) for one in (await user.list(core.JOBS)).items]
                told = {
                    namespace: (await user.get(api.TRAIN_JOBS, "cluster", namespace)).status.diagnosis
                    for namespace in (*WATCHED, "c")
                }
                operator.stop()
        return made, jobs, told, fence.outside

    made, jobs, told, outside = simulate(main)
    assert made == ["a/own", "b/own"]
    assert jobs == ["a/own-node-0", "b/own-node-0"]
    assert told["c"] is None
    assert told["b"].reason == "RuntimeUnusable"
    assert told["b"].message.endswith(
        f'{LIMITED} ClusterTrainingRuntimes: create "rt" as a TrainingRuntime in namespace b, and refer to that'
    )
    assert outside == []


def limited_cache(env):
    return Cache(Client(None, env, field_manager="test"), env, namespaces=WATCHED)


def create(obj):
    namespace = obj["metadata"]["namespace"]
    return AdmissionRequest(uid="1", operation="CREATE", object=obj, namespace=namespace)


def test_webhooks_refuse_what_the_reconciler_would_and_leave_other_namespaces_alone():
    async def main(env):
        cache = limited_cache(env)
        handler = webhooks.make_handlers(cache, env, Registry([]))[webhooks.VALIDATE_TRAIN_JOB]
        rules = StartupRulesCheck(None, cache, env, controls_jobsets=True)
        cluster = job("cluster", "a", "ClusterTrainingRuntime")
        answers = [handler(create(obj)) for obj in (cluster, job("own", "a"), job("own", "c"))]
        return answers, await rules(create(cluster)), set(cache.statistics())

    (refused, missing, elsewhere), warned, followed = simulate(main)
    assert isinstance(refused, Denied)
    assert refused.message.endswith(
        f'{LIMITED} ClusterTrainingRuntimes: create "rt" as a TrainingRuntime in namespace a, and refer to that'
    )
    assert refused.message.startswith("spec.RuntimeRef: Invalid value: ")
    assert 'TrainingRuntime.trainer.kubeflow.org "rt" not found' in missing.message
    assert elsewhere == warned == Allowed()
    assert followed == {"trainjobs.trainer.kubeflow.org in a, b", "trainingruntimes.trainer.kubeflow.org in a, b"}


def test_exclusive_placement_says_that_nodes_are_not_read():
    async def main(env):
        cache = limited_cache(env)
        pods = jobset.JobSetPods(cache)
        with pytest.raises(Misplaced) as refused:
            pods.node("n1")
        return str(refused.value), set(cache.statistics())

    said, followed = simulate(main)
    assert said == (
        f"{LIMITED} nodes, which exclusive placement needs: label the nodes and annotate the JobSet with"
        " alpha.jobset.sigs.k8s.io/node-selector"
    )
    assert followed == {"pods in a, b jobset.sigs.k8s.io/jobset-name"}


@pytest.mark.parametrize(
    ("namespaces", "problem"),
    [
        (("a", "B"), "'B' is no name of a namespace: at most 63 of a-z, 0-9 and -"),
        (("a", "a"), "'a' is there more than once"),
        (tuple(f"n{number}" for number in range(101)), "at most 100 namespaces can be watched one by one, not 101"),
    ],
)
def test_a_file_with_namespaces_that_cannot_be_is_refused(namespaces, problem):
    with pytest.raises(ConfigError) as refused:
        check(Configuration(watch_namespaces=namespaces), "file.yaml")
    assert str(refused.value) == f"file.yaml: watchNamespaces: {problem}"


def test_the_settings_are_those_of_the_file():
    assert settings_of(Configuration(watch_namespaces=WATCHED), None, Logs()).watch_namespaces == WATCHED


def test_the_start_says_once_what_is_different():
    with capture_logs() as logs:
        warn(Configuration())
        warn(Configuration(watch_namespaces=WATCHED))
    (entry,) = logs
    assert (entry["event"], entry["namespaces"]) == ("operator.namespaced", ["a", "b"])
    assert entry["effects"][0].startswith("a TrainJob needs a TrainingRuntime of its namespace")
    more = Configuration(
        watch_namespaces=WATCHED,
        jobset=JobSets(enable=True),
        metrics=Metrics(secure_serving=True, authorize=True),
    )
    assert [one.split()[0] for one in effects(more)][2:] == ["exclusive", "nobody", "metrics.authorize"]


def test_the_rights_that_are_needed_are_in_namespaces():
    limited = Configuration(watch_namespaces=WATCHED, jobset=JobSets(enable=True), snapshots="shared")
    assert {right.scope for right in rights.needed(limited, Registry.load())} == {"watched"}
    authorized = Configuration(watch_namespaces=WATCHED, metrics=Metrics(secure_serving=True, authorize=True))
    cluster = {right.feature for right in rights.needed(authorized, Registry.load()) if right.scope == "cluster"}
    assert cluster == {"metricsAuth"}
