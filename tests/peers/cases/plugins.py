"""What plugins make of runtimes and TrainJobs."""

from ..objects import Json, container, create, dev, env, field, job, of, res, rjob, runtime

GPU = "nvidia.com/gpu"


def mpi(*jobs: Json, **policy: object) -> Json:
    nodes = {"numNodes": policy.pop("numNodes")} if "numNodes" in policy else {}
    return runtime("rt", *(jobs or LAUNCHER_AND_NODE), ml={**nodes, "mpi": policy})


LAUNCHER_AND_NODE = (
    rjob("launcher", container("node"), step="trainer"),
    rjob("node", container("node", command=["/usr/sbin/sshd"], args=["-De"]), step="-"),
)

CASES = {
    "jax": [
        create(
            runtime(
                "rt",
                rjob("node", container(env=env(JAX_PROCESS_ID="9"), ports=[{"name": "p", "containerPort": 1}])),
                ml={"jax": {}, "numNodes": 3},
            ),
            job("runtimes"),
            job("empty", trainer={}),
            job("nodes", trainer={"numNodes": 6, **dev(GPU, "8")}),
            job("none", trainer={"numNodes": 0}),
            job(
                "own",
                trainer={
                    "numProcPerNode": 4,
                    "env": [
                        *env(JAX_COORDINATOR_ADDRESS="me:1", X="x"),
                        field("JAX_PROCESS_ID", fieldRef={"fieldPath": "metadata.name"}),
                    ],
                },
            ),
        )
    ],
    "xgboost": [
        create(
            runtime("rt", rjob("node", container(env=env(DMLC_TASK_ID="9", A="a"))), ml={"xgboost": {}, "numNodes": 3}),
            job("runtimes"),
            job("empty", trainer={}),
            job("gpus", trainer={"numNodes": 4, "numProcPerNode": 3, **dev(GPU, "2")}),
            job("none", trainer={"numNodes": 0}),
            job("mig", trainer=dev("nvidia.com/mig-1g.5gb", "2")),
            job("reserved", trainer={"env": env(DMLC_TASK_ID="1", OK="1", DMLC_NUM_WORKER="2")}),
            job("reserved-port", trainer={"env": env(OK="1", DMLC_TRACKER_PORT="1", DMLC_TRACKER_URI="u")}),
        )
    ],
    "xgboost-gpus-of-runtime": [
        create(
            runtime(
                "rt", rjob("node", container(resources=res({"amd.com/gpu": "3"}))), ml={"xgboost": {}, "numNodes": 2}
            ),
            job("empty", trainer={"env": env(A="a")}),
            job("two", trainer=dev(GPU, "2")),
        )
    ],
    "plainml": [
        create(
            runtime(
                "rt",
                rjob(
                    "node",
                    container(command=["a"], args=["b"], env=env(A="1", B="2"), workingDir="/w"),
                    container("side", env=env(A="1")),
                ),
            ),
            job("program", trainer={"image": "own:2", "command": ["x", "y z"], "args": [""], "env": env(B="", C="3")}),
            job("args", trainer={"args": [], "env": []}),
            job("none", trainer={"command": []}),
            job("nodes", trainer={"numNodes": 0}, activeDeadlineSeconds=90000),
        )
    ],
    "plainml-sources": [
        create(
            runtime(
                "rt",
                rjob(
                    "node",
                    container(
                        env=[*env(A="1"), field("S", secretKeyRef={"name": "s", "key": "k"})],
                        envFrom=[{"prefix": "P_", "configMapRef": {"name": "c", "optional": True}}],
                    ),
                ),
            ),
            job(
                trainer={
                    "env": [
                        field("F", fieldRef={"apiVersion": "v1", "fieldPath": "spec.nodeName"}),
                        field("R", resourceFieldRef={"resource": "limits.memory", "divisor": "1Mi"}),
                        field("Q", resourceFieldRef={"resource": "requests.cpu", "containerName": "node"}),
                        field("S", configMapKeyRef={"name": "c", "key": "k", "optional": True}),
                        field("A", secretKeyRef={"name": "s", "key": "k", "optional": False}),
                    ]
                }
            ),
        )
    ],
    "plainml-no-policy": [
        create(
            runtime("rt", rjob("node", container(resources=res({"cpu": "2"})), job={"parallelism": 4}), ml=None),
            job("unsaid", trainer=of(cpu="7")),
            job("said", trainer={"numNodes": 2, "env": env(A="1")}),
        )
    ],
    "two-trainers": [
        create(
            runtime(
                "rt",
                rjob("node", container(env=env(A="1"))),
                rjob("second", container(), container("side"), step="trainer"),
                ml={"numNodes": 2},
            ),
            job(trainer={"numNodes": 3, "image": "own:2", "env": env(B="2"), **of(cpu="2")}),
        )
    ],
    "mpi": [
        create(
            mpi(numProcPerNode=4, sshAuthMountPath="/home/u/.ssh", runLauncherAsNode=True),
            *(job(f"n{n}", trainer={"numNodes": n, "env": env(A="1"), **of(cpu="3")}) for n in (0, 1, 2, 5)),
            job(
                "procs",
                trainer={"numNodes": 2, "numProcPerNode": 2, "image": "own:1", "command": ["mpirun"], "args": ["x"]},
            ),
            job("unsaid"),
        )
    ],
    "mpi-separate": [
        create(
            mpi(),
            *(job(f"n{n}", trainer={"numNodes": n, "env": env(A="1"), **of(cpu="3")}) for n in (0, 1, 3)),
            job("gpus", trainer={"numNodes": 2, **dev("amd.com/gpu", "4")}),
            job("one-gpu", trainer={"numNodes": 2, **dev(GPU, "1")}),
            job("unsaid"),
            job("reserved", trainer={"env": env(OMPI_MCA_plm_rsh_args="1", B="", OMPI_MCA_orte_default_hostfile="f")}),
        )
    ],
    "mpi-layout": [
        create(
            runtime(
                "rt",
                rjob(
                    "node",
                    container(
                        "node",
                        env=env(N="1"),
                        resources=res({GPU: "2"}),
                        volumeMounts=[{"name": "d", "mountPath": "/root/.ssh"}],
                    ),
                    step="-",
                    replicas=2,
                    job={"parallelism": 3},
                    pod={"volumes": [{"name": "d", "emptyDir": {}}]},
                ),
                rjob("extra", container("node"), step="-"),
                rjob(
                    "launcher",
                    container("node", env=env(OMPI_MCA_orte_set_default_slots="9")),
                    container("side"),
                    step="trainer",
                    dependsOn=[{"name": "node", "status": "Ready"}],
                ),
                ml={"numNodes": 1, "mpi": {"runLauncherAsNode": True}},
                jobset={"network": {"subdomain": "other", "publishNotReadyAddresses": True}},
            ),
            job("said", trainer={"numNodes": 3, "env": env(A="1")}),
            job("unsaid", trainer={}),
        )
    ],
    "mpi-unusual": [
        create(
            runtime(
                "no-node", rjob("launcher", container("node"), step="trainer"), ml={"mpi": {"runLauncherAsNode": True}}
            ),
            runtime("no-launcher", rjob("node", container("node")), ml={"mpi": {"runLauncherAsNode": True}}),
            runtime("others", rjob("a", container("node"), step="trainer"), rjob("b"), ml={"mpi": {}}),
            runtime(
                "names", rjob("launcher", container("mpi")), rjob("node", container("node"), step="-"), ml={"mpi": {}}
            ),
            job("no-node", "no-node", trainer={"numNodes": 1}),
            job("no-node-two", "no-node", trainer={"numNodes": 2}),
            job("no-launcher", "no-launcher", trainer={"numNodes": 1}),
            job("no-launcher-two", "no-launcher", trainer={"numNodes": 3}),
            job("others", "others", trainer={"numNodes": 2}),
            job("names", "names", trainer={"numNodes": 2, "env": env(A="a")}),
        )
    ],
    "flux": [
        create(
            runtime(
                "rt",
                rjob("node", container(command=["lmp", "-v"], args=["tail"], env=env(FLUX_QUEUE_POLICY="easy", A="1"))),
                ml={"flux": {"numProcPerNode": 3}, "numNodes": 2},
            ),
            job("unsaid", trainer={"numNodes": 1}),
            job("args", trainer={"numNodes": 4, "args": ["x", "y"], **dev(GPU, "2")}),
            job(
                "program",
                trainer={
                    "numNodes": 2,
                    "numProcPerNode": 5,
                    "command": ["a", "b"],
                    "args": ["c"],
                    "image": "own:1",
                    "env": env(FLUX_VIEW_IMAGE="view:2", FLUX_NETWORK_DEVICE="ib0", Z="z"),
                },
            ),
        )
    ],
    "flux-layout": [
        create(
            runtime(
                "rt",
                rjob("prepare", container("node")),
                rjob(
                    "node",
                    container("side"),
                    container(volumeMounts=[{"name": "own", "mountPath": "/dev/shm"}]),
                    pod={
                        "initContainers": [container("own")],
                        "volumes": [{"name": "own", "emptyDir": {}}, {"name": "flux-curve", "emptyDir": {}}],
                    },
                ),
                ml={"flux": {}},
            ),
            job("job", trainer={"numNodes": 2}),
        )
    ],
    "claims-of-jobset": [
        create(
            runtime(
                "rt",
                rjob("node", container(volumeMounts=[{"name": "data", "mountPath": "/data"}])),
                jobset={
                    "volumeClaimPolicies": [
                        {
                            "templates": [
                                {
                                    "metadata": {"name": "data"},
                                    "spec": {
                                        "accessModes": ["ReadWriteOnce"],
                                        "resources": {"requests": {"storage": "1.5Gi"}},
                                    },
                                }
                            ],
                            "retentionPolicy": {"whenDeleted": "Retain"},
                        }
                    ]
                },
            ),
            job("job", trainer={}),
        )
    ],
    "resources": [
        create(
            runtime(
                "rt",
                rjob(
                    "node",
                    container(
                        resources=res({"cpu": "4", "memory": "8Gi", "ephemeral-storage": "1G"}, cpu="1", memory="1Gi")
                    ),
                    pod={"initContainers": [container("node-init", resources=res({"cpu": "1"}))]},
                ),
                rjob("other", container("node", resources=res({"cpu": "1"}))),
            ),
            job("limits", trainer=of(memory="0.5Gi", **{"hugepages-2Mi": "4Mi", "ephemeral-storage": "2000M"})),
            job("requests", trainer={"resourcesPerNode": res(None, cpu="500m")}),
            job("empty", trainer={"resourcesPerNode": {}}),
            job("spelling", trainer=of(cpu="0.50", memory="1048576Ki")),
        )
    ],
}
