"""What admission and the definitions refuse, and what they take."""

from ..objects import STEP, Json, change, container, create, delete, env, job, patch, patched, rjob, runtime

INIT_MOUNT = [{"name": "initializer", "mountPath": "/workspace"}]


def step(name: str, **fields: Json) -> Json:
    """An initializer's step, as it should be."""
    return rjob(name, container(name, **({"volumeMounts": INIT_MOUNT} | fields)), step=name)


def named(name: str, obj: Json) -> Json:
    return obj | {"metadata": {**obj["metadata"], "name": name}}


CASES = {
    "initializers": [
        create(
            runtime(
                "rt",
                step(
                    "dataset-initializer",
                    env=env(STORAGE_URI="hf://old", A="1"),
                    envFrom=[{"configMapRef": {"name": "c"}}],
                ),
                step("model-initializer"),
                rjob(job={"backoffLimit": 0}),
            ),
            job(
                "both",
                initializer={
                    "dataset": {"storageUri": "s3://b/k", "env": env(A="2", B="3"), "secretRef": {"name": "s"}},
                    "model": {
                        "storageUri": "hf://m/n",
                        "env": [{"name": "T", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}],
                    },
                },
            ),
            job("dataset", initializer={"dataset": {"secretRef": {"name": "s"}}}),
            job("model", initializer={"model": {"storageUri": "", "env": env(STORAGE_URI="x://y")}}),
            job("empty", initializer={}),
            job("empty-parts", initializer={"dataset": {}, "model": {}}, trainer={"numNodes": 3}),
            job("scheme", initializer={"dataset": {"storageUri": "file:/x"}}),
            job("digit", initializer={"dataset": {"storageUri": "3s://x"}}),
            job("nothing-after", initializer={"model": {"storageUri": "s3://"}}),
            job("plus", initializer={"model": {"storageUri": "a+b-c.d://x y"}}),
        )
    ],
    "initializers-missing": [
        create(
            runtime("none"),
            runtime(
                "container",
                rjob("dataset-initializer", container("other"), step="-"),
                rjob(
                    "model-initializer",
                    container("x"),
                    step="-",
                    pod={"initContainers": [container("model-initializer")]},
                ),
                rjob(),
            ),
            runtime(
                "mount",
                rjob("dataset-initializer", container("dataset-initializer"), step="-"),
                rjob(
                    "model-initializer",
                    container("model-initializer", volumeMounts=[{"name": "other", "mountPath": "/w"}]),
                    step="-",
                ),
                rjob(),
            ),
            runtime(
                "label",
                rjob("get", container("dataset-initializer", volumeMounts=INIT_MOUNT), step="dataset-initializer"),
                rjob(),
            ),
            *(job(name, name, initializer={"dataset": {}, "model": {}}) for name in ("none", "container", "mount")),
            *(job(f"{name}-model", name, initializer={"model": {}}) for name in ("none", "container", "mount")),
            job("label", "label", initializer={"dataset": {}}),
        )
    ],
    "initializers-by-label": [
        create(
            runtime(
                "rt",
                rjob(
                    "dataset-initializer",
                    container("dataset-initializer", volumeMounts=INIT_MOUNT),
                    step="-",
                    job={"parallelism": 2},
                    replicas=2,
                ),
                rjob(
                    "get",
                    container("dataset-initializer", env=env(X="1")),
                    container("side"),
                    step="dataset-initializer",
                    job={"parallelism": 2},
                ),
                rjob(),
            ),
            job(initializer={"dataset": {"storageUri": "hf://a/b", "env": env(A="a")}}),
        )
    ],
    "runtime-steps": [
        create(
            runtime("two-replicas", rjob(replicas=2), step("model-initializer")),
            runtime("zero-replicas", rjob(replicas=0)),
            runtime(
                "no-node",
                rjob("a", container("main"), step="trainer"),
                rjob("b", container("x"), step="dataset-initializer", replicas=3),
            ),
            runtime(
                "init-only", rjob("a", container("x"), step="trainer", pod={"initContainers": [container("node")]})
            ),
            runtime("launcher", rjob("launcher", container("mpi"), step="trainer"), ml={"mpi": {}}),
            named("golden-cluster-steps", runtime("x", rjob(replicas=2), cluster=True)),
            runtime("empty-label", rjob("a", container("x"), meta={"labels": {STEP: ""}}, replicas=4), rjob()),
            runtime("unchecked", rjob(replicas=2), labels={"trainer.kubeflow.org/webhook-validation": "disabled"}),
            runtime("checked", rjob(replicas=2), labels={"trainer.kubeflow.org/webhook-validation": "enabled"}),
        ),
    ],
    "runtime-schema": [
        create(
            *(
                runtime(f"r{n}", ml=policy)
                for n, policy in enumerate(
                    (
                        {"torch": {}, "jax": {}},
                        {"flux": {}, "xgboost": {}, "mpi": {}},
                        {"mpi": {"mpiImplementation": "Intel"}},
                        {"mpi": {"numProcPerNode": 0}},
                        {"mpi": {"sshAuthMountPath": "/" + "a" * 4096}},
                        {"flux": {"numProcPerNode": 0}},
                        {"numNodes": "2"},
                        {
                            "torch": {
                                "envInjection": {
                                    "targets": [
                                        {"jobName": "a", "containerNames": ["b"]},
                                        {"jobName": "a", "containerNames": ["c"]},
                                    ]
                                }
                            }
                        },
                        {"torch": {"envInjection": {"targets": [{"jobName": "", "containerNames": ["b"]}]}}},
                        {"torch": {"envInjection": {"targets": [{"jobName": "a", "containerNames": ["b", "b"]}]}}},
                        {"torch": {"envInjection": {"targets": [{"jobName": "a", "containerNames": ["x", "node"]}]}}},
                        {
                            "torch": {
                                "envInjection": {
                                    "targets": [{"jobName": "a", "containerNames": [f"c{i}" for i in range(9)]}]
                                }
                            }
                        },
                    )
                )
            ),
            runtime("timeout", gang={"coscheduling": {"scheduleTimeoutSeconds": "1"}}),
            runtime("topology", gang={"volcano": {"networkTopology": {"mode": "loose"}}}),
            runtime(
                "both-orders",
                rjob("a"),
                rjob(dependsOn=[{"name": "a", "status": "Complete"}]),
                jobset={"startupPolicy": {"startupPolicyOrder": "InOrder"}},
            ),
            runtime("depends-on", rjob("a"), rjob(dependsOn=[{"name": "a", "status": "Started"}])),
            runtime("policy", jobset={"successPolicy": {"operator": "Some"}}),
            runtime("restarts", jobset={"failurePolicy": {"maxRestarts": 1, "restartStrategy": "Never"}}),
            runtime("ttl", jobset={"ttlSecondsAfterFinished": -1}),
            {**runtime("empty"), "spec": {}},
            {**runtime("empty-template"), "spec": {"template": {}}},
        ),
    ],
    "runtime-updates": [
        create(
            runtime("rt", jobset={"successPolicy": {"operator": "All"}, "network": {"subdomain": "a"}}),
            named("golden-updates", runtime("x", cluster=True)),
            runtime("gone"),
            job("job"),
            job("of-gone", "gone", suspend=True),
        ),
        change(
            "rt",
            [{"op": "replace", "path": "/spec/template/spec/replicatedJobs/0/replicas", "value": 2}],
            "TrainingRuntime",
        ),
        change(
            "golden-updates",
            [{"op": "replace", "path": "/spec/template/spec/replicatedJobs/0/replicas", "value": 2}],
            "ClusterTrainingRuntime",
        ),
        change("rt", {"spec": {"template": {"spec": {"successPolicy": {"operator": "Any"}}}}}, "TrainingRuntime"),
        change("rt", {"spec": {"template": {"spec": {"network": {"subdomain": "b"}}}}}, "TrainingRuntime"),
        change("rt", {"spec": {"mlPolicy": {"numNodes": 4}}}, "TrainingRuntime"),
        change(
            "golden-updates",
            {"metadata": {"labels": {"trainer.kubeflow.org/support": "deprecated"}}},
            "ClusterTrainingRuntime",
        ),
        change("job", {"spec": {"suspend": True}}),
        delete("gone", "TrainingRuntime"),
        delete("of-gone"),
    ],
    "runtime-deprecation": [
        create(
            runtime("old", labels={"trainer.kubeflow.org/support": "deprecated"}),
            named("golden-old", runtime("x", cluster=True, labels={"trainer.kubeflow.org/support": "deprecated"})),
            named("golden-odd", runtime("x", cluster=True, labels={"trainer.kubeflow.org/support": "Deprecated"})),
            job("namespaced", "old"),
            *({**job(name, name), "spec": {"runtimeRef": {"name": name}}} for name in ("golden-old", "golden-odd")),
            {**job("refused"), "spec": {"runtimeRef": {"name": "golden-old"}, "runtimePatches": [{"manager": "x"}]}},
        ),
        change("golden-old", {"metadata": {"labels": {"a": "b"}}}),
    ],
    "runtime-references": [
        create(
            runtime("rt"),
            *(
                {**job(f"ref-{n}"), "spec": {"runtimeRef": ref}}
                for n, ref in enumerate(
                    (
                        {"name": "rt"},
                        {"name": "rt", "kind": "trainingruntime"},
                        {"name": "rt", "kind": "JobSet", "apiGroup": "jobset.x-k8s.io"},
                        {"name": "rt", "kind": "TrainingRuntime", "apiGroup": "x.io"},
                        {"name": "rt", "kind": "TrainingRuntime", "apiGroup": ""},
                        {"name": "", "kind": "TrainingRuntime"},
                        {"kind": "TrainingRuntime"},
                        {"name": "a" * 254},
                        {"name": "other", "kind": "TrainingRuntime"},
                        {"name": "Not A Name", "kind": "TrainingRuntime"},
                    )
                )
            ),
            {**job("none"), "spec": {}},
            {key: value for key, value in job("no-spec").items() if key != "spec"},
        )
    ],
    "trainjob-schema": [
        create(
            runtime("rt"),
            *(
                job(f"j{n}", **spec)
                for n, spec in enumerate(
                    (
                        {"managedBy": "me"},
                        {"managedBy": ""},
                        {"managedBy": "trainer.kubeflow.org/trainjob-controller"},
                        {"activeDeadlineSeconds": 0},
                        {"activeDeadlineSeconds": -5},
                        {"activeDeadlineSeconds": 1.5},
                        {"suspend": "yes"},
                        {"trainer": {"numNodes": 2147483648}},
                        {"trainer": {"numNodes": "3"}},
                        {"trainer": {"image": "i" * 501}},
                        {"trainer": {"command": ["c"] * 129}},
                        {"trainer": {"args": "one"}},
                        {"trainer": {"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]}},
                        {"trainer": {"env": [{"value": "1"}]}},
                        {"trainer": {"env": [{"name": "A", "value": 1}]}},
                        {"trainer": {"resourcesPerNode": {"limits": {"cpu": "two"}}}},
                        {"trainer": {"resourcesPerNode": {"limits": {"cpu": 2}}}},
                        {"initializer": {"dataset": {"storageUri": "s3://" + "a" * 2048}}},
                        {"runtimePatches": [{"manager": f"a.io/{i}"} for i in range(17)]},
                        {"runtimePatches": [{"manager": "a.io/" + "b" * 250}]},
                        {"unknown": 1, "trainer": {"other": {"x": 1}}},
                    )
                )
            ),
        )
    ],
    "trainjob-names": [
        create(
            runtime("rt", rjob("node", job={"completionMode": "NonIndexed"})),
            *(
                job(name, managedBy="kueue.x-k8s.io/multikueue")
                for name in ("x", "x--y", "x-1", "-x", "1x", "x_y", "X", "x.y", "a" * 63, "b" * 64, "ünder")
            ),
        )
    ],
    "trainjob-longest-names": [
        create(
            runtime("rt", rjob(), rjob("data-preparation", container("x"))),
            job("a" * 36),
            job("b" * 35, trainer={"numNodes": 12}),
        )
    ],
    "trainjob-immutable": [
        create(
            runtime("rt"),
            runtime("other"),
            runtime("steps", step("dataset-initializer"), rjob()),
            job(
                suspend=True,
                trainer={"numNodes": 1, "env": env(A="1")},
                activeDeadlineSeconds=600,
                managedBy="trainer.kubeflow.org/trainjob-controller",
            ),
            job("init", "steps", suspend=True, initializer={"dataset": {"storageUri": "a://b"}}),
        ),
        change("job", {"spec": {"trainer": {"numNodes": 2}}}),
        change("job", {"spec": {"trainer": {"image": "x:1"}}}),
        change("job", {"spec": {"runtimeRef": {"name": "other"}}}),
        change("job", {"spec": {"activeDeadlineSeconds": 601}}),
        change("job", {"spec": {"activeDeadlineSeconds": None}}),
        change("job", {"spec": {"managedBy": "kueue.x-k8s.io/multikueue"}}),
        change("job", {"spec": {"initializer": {"dataset": {}}}}),
        change("init", {"spec": {"initializer": {"dataset": {"storageUri": "a://c"}}}}),
        change("init", {"spec": {"initializer": {"dataset": {"env": env(A="1")}}}}),
        change("job", {"metadata": {"labels": {"x": "y"}, "annotations": {"z": ""}}}),
        change("job", {"spec": {"suspend": False, "trainer": {"numNodes": 3}}}),
    ],
    "reserved-variables": [
        create(
            runtime("torch", ml={"torch": {}}),
            runtime("mpi", rjob("launcher", container("node"), step="trainer"), ml={"mpi": {}}),
            runtime("jax", ml={"jax": {}}),
            runtime("plain"),
            *(
                job(
                    of,
                    of,
                    trainer={
                        "env": env(
                            PET_MASTER_PORT="",
                            OMPI_MCA_orte_keep_fqdn_hostnames="1",
                            OMPI_MCA_orte_set_default_slots="2",
                            PET_NPROC_PER_NODE="3",
                            JAX_NUM_PROCESSES="4",
                            DMLC_TASK_ID="5",
                        )
                    },
                )
                for of in ("torch", "mpi", "jax", "plain")
            ),
            job("lower", "torch", trainer={"env": env(pet_nnodes="1")}),
            job(
                "patched",
                "torch",
                suspend=True,
                runtimePatches=[patch("a.io/b", patched(initContainers=[{"name": "x", "env": env(PET_NNODES="1")}]))][
                    :0
                ],
            ),
        )
    ],
}
