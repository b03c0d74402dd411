"""PodGroups of both schedulers: who is counted, what they ask for, and what the pods are told."""

from ..objects import Json, change, container, create, delete, env, job, patch, patched, rjob, runtime

QUEUE = "scheduling.volcano.sh/queue-name"


def asks(name: str = "node", limits: Json | None = None, **requests: str) -> Json:
    return container(
        name, resources=({"requests": requests} if requests else {}) | ({"limits": limits} if limits else {})
    )


def gang(name: str, *jobs: Json, policy: Json | None = None, **fields: Json) -> Json:
    return runtime(name, *jobs, gang=policy or {"coscheduling": {}}, **fields)


SIDECAR = {"restartPolicy": "Always"}
STEPS = (
    rjob("dataset-initializer", asks("dataset-initializer", cpu="1", memory="0.5Gi"), step="dataset-initializer"),
    rjob(
        "node",
        asks(cpu="1500m", memory="3Gi", limits={"nvidia.com/gpu": "2"}),
        asks("side", cpu="0.1", **{"ephemeral-storage": "1G"}),
    ),
    rjob("many", asks("x", cpu="250m", memory="100M"), step="-", replicas=3, job={"parallelism": 4}),
)
PODS = {
    "init-larger": rjob(
        "node", asks(cpu="1", memory="2Gi"), pod={"initContainers": [asks("i", cpu="3"), asks("j", memory="1Gi")]}
    ),
    "sidecar-first": rjob(
        "node", asks(cpu="1"), pod={"initContainers": [asks("s", cpu="500m") | SIDECAR, asks("i", cpu="2")]}
    ),
    "sidecar-last": rjob(
        "node",
        asks(cpu="1"),
        pod={"initContainers": [asks("i", cpu="2"), asks("s", cpu="500m", memory="64Mi") | SIDECAR]},
    ),
    "overhead": rjob("node", asks(cpu="1"), pod={"overhead": {"cpu": "250m", "memory": "120Mi"}}),
    "pod-level": rjob(
        "node", asks(cpu="1", memory="1Gi"), pod={"resources": {"requests": {"cpu": "4"}, "limits": {"memory": "8Gi"}}}
    ),
    "nothing": rjob("node"),
    "limits-only": rjob("node", asks(limits={"cpu": "2", "nvidia.com/gpu": "1"})),
    "huge": rjob("node", asks(limits={"hugepages-2Mi": "6Mi", "cpu": "1"}, cpu="1", **{"hugepages-2Mi": "6Mi"})),
    "odd": rjob("node", asks(cpu="333m", memory="1e3"), asks("b", memory="1.5Ki", cpu="1u")),
}

CASES = {
    "coscheduling": [
        create(
            gang("rt", *STEPS, policy={"coscheduling": {"scheduleTimeoutSeconds": 7}}, ml={"numNodes": 3}),
            job("unsaid"),
            job(
                "said",
                trainer={
                    "numNodes": 5,
                    "resourcesPerNode": {
                        "requests": {"cpu": "2", "example.com/x": "1"},
                        "limits": {"example.com/x": "1"},
                    },
                },
            ),
            job("none", trainer={"numNodes": 0}),
        )
    ],
    "coscheduling-pods": [
        create(
            *(gang(name, node, ml={"numNodes": 2}) for name, node in PODS.items()), *(job(name, name) for name in PODS)
        ),
    ],
    "coscheduling-torch": [
        create(
            gang(
                "rt",
                rjob(
                    "node",
                    asks(cpu="2"),
                    pod_meta={"labels": {"scheduling.x-k8s.io/pod-group": "mine", "a": "b"}},
                    pod={"schedulerName": "scheduler-plugins-scheduler"},
                ),
                ml={"torch": {}, "numNodes": 2},
            ),
            job(trainer={"numNodes": 4}),
        )
    ],
    "coscheduling-mpi": [
        create(
            gang(
                "rt",
                rjob("node", asks(cpu="2"), step="-"),
                rjob("launcher", asks(cpu="1"), step="trainer"),
                ml={"mpi": {"runLauncherAsNode": True}},
            ),
            job(trainer={"numNodes": 4, "resourcesPerNode": {"requests": {"cpu": "3"}}}),
        )
    ],
    "coscheduling-suspended": [
        create(gang("rt", rjob("node", asks(cpu="1")), ml={"numNodes": 2}), job(suspend=True)),
        delete("job", "PodGroup"),
        change("job", {"spec": {"suspend": False}}),
        delete("job", "PodGroup"),
    ],
    "volcano": [
        create(
            gang("rt", *STEPS, policy={"volcano": {}}, ml={"numNodes": 3}),
            gang(
                "soft",
                *STEPS,
                policy={"volcano": {"networkTopology": {"mode": "soft"}}},
                meta={"annotations": {QUEUE: "q"}, "labels": {"l": "1"}},
            ),
            gang("tier", policy={"volcano": {"networkTopology": {"highestTierAllowed": 4}}}),
            job("plain"),
            job("soft", "soft", meta={"annotations": {QUEUE: "mine"}}),
            job("tier", "tier", trainer={"numNodes": 9}),
            job(
                "patched",
                "soft",
                suspend=True,
                runtimePatches=[
                    patch("a.io/b", patched(nodeSelector={"a": "b"}), metadata={"annotations": {QUEUE: "other"}})
                ],
            ),
            job(
                "emptied", "soft", suspend=True, runtimePatches=[patch("a.io/b", metadata={"annotations": {QUEUE: ""}})]
            ),
        ),
        change("patched", {"spec": {"suspend": False, "runtimePatches": []}}),
    ],
    "volcano-classes": [
        create(
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": "golden-peers"},
                "value": 7,
            },
            *(
                gang(
                    name,
                    *(rjob(n, asks(cpu="1"), pod={"priorityClassName": c} if c else None) for n, c in classes.items()),
                    policy={"volcano": {}},
                )
                for name, classes in {
                    "known": {"a": "golden-peers", "node": ""},
                    "system-last": {"a": "golden-peers", "node": "system-cluster-critical"},
                    "missing": {"a": "nobody", "node": "golden-peers"},
                    "missing-twice": {"a": "nobody", "b": "", "node": "no-one"},
                    "after-system": {"a": "system-node-critical", "node": "nobody"},
                    "before-system": {"a": "nobody", "node": "system-node-critical"},
                }.items()
            ),
            *(
                job(name, name, suspend=True)
                for name in ("known", "system-last", "missing", "missing-twice", "after-system", "before-system")
            ),
        )
    ],
    "volcano-annotation-kept": [
        create(
            gang(
                "rt",
                rjob(
                    "node", asks(cpu="1"), pod_meta={"annotations": {"scheduling.k8s.io/group-name": "mine", "x": "y"}}
                ),
                policy={"volcano": {}},
            ),
            job(trainer={"env": env(A="1")}),
        ),
    ],
}
