"""The TorchElastic proposal, and the elastic runtime of KEP-2170."""

from ktrain.api.core import JOBS, untyped
from ktrain.api.meta import Key, Resource
from ktrain.api.trainer import TRAIN_JOBS

AUTOSCALERS = Resource(
    "autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", namespaced=True, type=dict
)


async def test_the_worker_of_the_document_has_its_variables_and_its_port(apply, built, running):
    async with running("trainjob"):
        await apply("elastic/pytorch-dist-mnist.yaml")
        job = await built("pytorch-dist-mnist")

        env = job.env("node")
        assert env["PET_RDZV_BACKEND"] == "c10d"
        assert env["PET_RDZV_ENDPOINT"] == "pytorch-dist-mnist-node-0-0.pytorch-dist-mnist:29500"
        assert (env["PET_NNODES"], env["PET_NPROC_PER_NODE"]) == ("3:5", "1")
        assert not {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "PET_NODE_RANK"} & set(env)
        (port,) = job.container("node")["ports"]
        # The document says `kubeflow-rdzv-port`; the API server takes 15 characters (controlplane/test_elastic.py).
        assert (port["containerPort"], port["name"], port["protocol"]) == (29500, "kubeflow-rdzv", "TCP")


async def test_scaling_the_job_scales_its_pods_and_keeps_their_template(apply, built, running, control_plane):
    async with running("trainjob", "jobset"):
        await apply("elastic/pytorch-dist-mnist.yaml")
        first = await control_plane.wait_for(
            untyped(JOBS), "pytorch-dist-mnist-node-0", lambda found: found is not None
        )
        key, client = Key(control_plane.namespace, "pytorch-dist-mnist"), control_plane.client()
        await control_plane.wait_for(TRAIN_JOBS, key.name, lambda found: found.status.elastic is not None)
        await client.patch(untyped(TRAIN_JOBS), key, {"spec": {"replicas": 5}}, subresource="scale")
        later = await control_plane.wait_for(
            untyped(JOBS), "pytorch-dist-mnist-node-0", lambda found: found["spec"]["parallelism"] == 5
        )

        assert first["spec"]["parallelism"] == 3
        assert later["spec"]["template"] == first["spec"]["template"]


async def test_metrics_of_the_elastic_runtime_make_an_autoscaler_of_its_range(apply, built, running, control_plane):
    await apply("trainer/torch-distributed-elastic.yaml")
    async with running("trainjob"):
        await apply("trainer/torch-test.yaml", _elastic)
        job = await built("torch-test")
        found = await control_plane.wait_for(AUTOSCALERS, "torch-test", lambda one: one is not None)

        assert (job.size("node"), job.env("node")["PET_NNODES"]) == (5, "5:10")
        assert (found["spec"]["minReplicas"], found["spec"]["maxReplicas"]) == (5, 10)
        (metric,) = found["spec"]["metrics"]
        assert (metric["resource"]["name"], metric["resource"]["target"]["averageUtilization"]) == ("cpu", 80)


def _elastic(body):
    body["spec"]["runtimeRef"]["name"] = "torch-distributed-elastic"
