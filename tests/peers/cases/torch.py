"""What the Torch plugin makes of runtimes and TrainJobs."""

from ..objects import Json, change, container, create, dev, env, field, job, of, patch, patched, res, rjob, runtime

GPU = "nvidia.com/gpu"


def torch(*jobs: Json, **fields: Json) -> Json:
    return runtime("rt", *jobs, ml={"numNodes": 1, "torch": {}} | fields.pop("ml", {}), **fields)


DEVICES = {
    "amd": ("amd.com/gpu", "8"),
    "intel": ("gpu.intel.com/i915", "3"),
    "shared": ("nvidia.com/gpu.shared", "4"),
    "mig": ("nvidia.com/mig-1g.5gb", "2"),
    "mig-of-gpu": ("nvidia.com/mig-3g.20gb.gpu", "2"),
    "tpu": ("google.com/tpu", "4"),
    "neuron": ("aws.amazon.com/neuron", "2"),
    "gaudi": ("habana.ai/gaudi", "8"),
    "upper": ("Example.com/GPU-big", "2"),
    "none": ("nvidia.com/gpu", "0"),
}
CPUS = {
    "third": "333m", "one": "1", "thousand": "1000m", "above": "1001m", "dot": "2.5", "micro": "2500000u",
    "below": "3999m", "exponent": "1e1", "many": "128", "zero": "0", "nano": "1n",
}  # fmt: skip

CASES = {
    "torch-devices": [
        create(torch(), *(job(name, trainer=dev(*device)) for name, device in DEVICES.items())),
    ],
    "torch-devices-and-cores": [
        create(torch(), *(job(name, trainer=dev(*device, cpu="5")) for name, device in DEVICES.items())),
    ],
    "torch-devices-of-runtime": [
        create(
            *(
                runtime(name, rjob("node", container(resources=res({dev_: n, "cpu": "6"}))), ml={"torch": {}})
                for name, (dev_, n) in DEVICES.items()
            ),
            *(job(name, name, trainer={}) for name in DEVICES),
        )
    ],
    "torch-cores": [create(torch(), *(job(name, trainer=of(cpu=cpu)) for name, cpu in CPUS.items()))],
    "torch-cores-of-runtime": [
        create(
            *(
                runtime(n, rjob("node", container(resources=res({"cpu": cpu}))), ml={"torch": {}})
                for n, cpu in CPUS.items()
            ),
            *(job(name, name, trainer={}) for name in CPUS),
        )
    ],
    "torch-requests-before-limits": [
        create(
            torch(rjob("node", container(resources=res({"cpu": "9", "memory": "1.5Gi"}, cpu="3100m")))),
            job("runtimes", trainer={"numNodes": 3}),
            job("zero", trainer={"resourcesPerNode": res({"cpu": "2"}, cpu="0")}),
            job("memory-only", trainer=of(memory="129e6")),
            job("requests", trainer={"resourcesPerNode": res(None, cpu="1500m", memory="1G")}),
            job("both", trainer={"resourcesPerNode": res({"cpu": "8", GPU: "2"}, cpu="7", **{GPU: "2"})}),
            job("said", trainer={"numProcPerNode": 7, **of(cpu="2")}),
            job("said-gpu", trainer={"numProcPerNode": 1, **dev(GPU, "4")}),
        )
    ],
    "torch-nodes": [
        create(
            torch(ml={"numNodes": 5}),
            job("runtimes"),
            job("trainer", trainer={}),
            job("fewer", trainer={"numNodes": 2}),
            job("none", trainer={"numNodes": 0}),
            job("large", trainer={"numNodes": 4096}),
        )
    ],
    "torch-parallelism": [
        create(
            torch(
                rjob("node", job={"parallelism": 7, "completions": 9, "completionMode": "NonIndexed"}),
                rjob("side", job={"parallelism": 3, "completions": 2}),
                rjob("wide", replicas=3),
            ),
            job("job", trainer={"numNodes": 2}),
        )
    ],
    "torch-ports": [
        create(
            *(
                runtime(name, rjob("node", container(ports=ports)), ml={"torch": {}})
                for name, ports in {
                    "named": [{"name": "metrics", "containerPort": 9100}],
                    "same": [{"name": "rdzv", "containerPort": 29500}],
                    "udp": [{"name": "u", "containerPort": 29500, "protocol": "UDP"}],
                    "host": [
                        {"name": "h", "containerPort": 29500, "hostPort": 29500},
                        {"name": "i", "containerPort": 80},
                    ],
                    "unnamed-same": [{"containerPort": 29500, "hostPort": 1234}],
                }.items()
            ),
            *(job(name, name, trainer={}) for name in ("named", "same", "udp", "host", "unnamed-same")),
        )
    ],
    "torch-variables-of-runtime": [
        create(
            torch(
                rjob(
                    "node",
                    container(
                        env=[
                            *env(A="1", PET_NNODES="9", PET_MASTER_PORT="1", B="2"),
                            field("PET_NODE_RANK", fieldRef={"fieldPath": "metadata.name"}),
                            field("POD", fieldRef={"fieldPath": "metadata.uid"}),
                        ]
                    ),
                    container("side", env=env(PET_NNODES="x")),
                )
            ),
            job("job", trainer={"numNodes": 2, "env": env(B="3", C="", A="4")}),
            job("no-trainer"),
        )
    ],
    "torch-injection": [
        create(
            torch(
                rjob(
                    "node",
                    container(),
                    container("log", env=env(PET_NNODES="8")),
                    pod={"initContainers": [container("check"), container("wait", restartPolicy="Always")]},
                ),
                rjob("data", container("data"), container("log")),
                ml={
                    "numNodes": 3,
                    "torch": {
                        "envInjection": {
                            "targets": [
                                {"jobName": "data", "containerNames": ["log"]},
                                {"jobName": "node", "containerNames": ["wait", "log", "check"]},
                            ]
                        }
                    },
                },
            ),
            job("said", trainer={"numNodes": 2, "numProcPerNode": 4}),
            job("unsaid"),
            job("reserved", trainer={"env": env(PET_NNODES="1")}),
        )
    ],
    "torch-injection-missing": [
        create(
            torch(
                ml={
                    "torch": {
                        "envInjection": {
                            "targets": [
                                {"jobName": "nobody", "containerNames": ["a", "b"]},
                                {"jobName": "node", "containerNames": ["c"]},
                            ]
                        }
                    }
                }
            ),
            job(),
            job("more", trainer={"env": env(PET_NODE_RANK="1", PET_MASTER_ADDR="a")}),
        )
    ],
    "suspended-patched-torch": [
        create(
            torch(rjob("node", container(), container("side", env=env(A="1")))),
            job(
                suspend=True,
                trainer={"numNodes": 2, "env": env(A="1")},
                runtimePatches=[
                    patch(
                        "acme.io/a",
                        patched(
                            nodeSelector={"a": "b"}, containers=[{"name": "side", "env": env(PET_NNODES="7", A="2")}]
                        ),
                    )
                ],
            ),
        ),
        change("job", {"spec": {"suspend": False}}),
    ],
}
