"""Which patches are refused, and when they may change."""

from ..objects import Json, change, container, create, drive, env, job, patch, patched, rjob, runtime, wait
from .patches import one, patched_job, rich


def ops(**pod: Json) -> Json:
    """The patches of a spec: one, for the pods of the trainer."""
    return {"runtimePatches": [patch("acme.io/ops", patched(**pod))]}


CASES = {
    "patch-refused": [
        create(
            rich(),
            one("main-env", containers=[{"name": "node", "env": env(A="2")}]),
            patched_job(
                "data-env", patch("acme.io/ops", patched("data", containers=[{"name": "data", "env": env(A="2")}]))
            ),
            patched_job("no-domain", patch("ops", patched(nodeSelector={"a": "b"}))),
            patched_job("empty-path", patch("acme.io/")),
            patched_job("empty-host", patch("/ops")),
            patched_job("upper", patch("Acme.io/ops")),
            patched_job("space", patch("acme.io/o ps")),
            patched_job("two", patch("bad_host.io/x"), patch("acme.io/a\\b")),
            patched_job("twice", patch("acme.io/a"), patch("acme.io/a")),
            patched_job("deep", patch("a.b-c.d/e/f:g,h")),
            patched_job("no-manager", {"trainingRuntimeSpec": {}}),
            patched_job("empty-manager", patch("")),
            patched_job("unknown-field", patch("acme.io/ops", patched(hostNetwork=True, nodeSelector={"a": "b"}))),
            one("image", containers=[{"name": "node", "image": "own:1", "command": ["x"]}]),
            one("grace", terminationGracePeriodSeconds=-1),
            one(
                "same-mounts",
                containers=[
                    {
                        "name": "node",
                        "volumeMounts": [{"name": "data", "mountPath": "/1"}, {"name": "data", "mountPath": "/2"}],
                    }
                ],
            ),
            one("nameless", containers=[{"env": env(A="1")}]),
            one("long-account", serviceAccountName="a" * 254),
            one("bad-toleration", tolerations=[{"key": "a", "operator": "Sometimes"}]),
        )
    ],
    "patch-initializer-env": [
        create(
            runtime(
                "rt",
                rjob(
                    "dataset-initializer",
                    container("dataset-initializer"),
                    container("side"),
                    step="dataset-initializer",
                ),
                rjob(),
            ),
            patched_job(
                "refused",
                patch(
                    "acme.io/ops",
                    patched("dataset-initializer", containers=[{"name": "dataset-initializer", "env": env(A="2")}]),
                ),
            ),
            patched_job(
                "side",
                patch(
                    "acme.io/ops",
                    patched(
                        "dataset-initializer", nodeSelector={"a": "b"}, containers=[{"name": "side", "env": env(A="2")}]
                    ),
                ),
            ),
        )
    ],
    "patch-changes": [
        create(
            rich(),
            one("job", nodeSelector={"pool": "1"}),
            job("running", runtimePatches=[patch("acme.io/ops", patched(nodeSelector={"pool": "1"}))]),
        ),
        change(
            "job",
            {
                "spec": {
                    **ops(
                        nodeSelector={"pool": "2"},
                        tolerations=[{"key": "k"}],
                        schedulingGates=[{"name": "acme.io/g"}],
                    )
                }
            },
        ),
        change("running", {"spec": ops(nodeSelector={"pool": "2"})}),
        change("running", {"spec": {"runtimePatches": []}}),
        change("running", {"metadata": {"labels": {"a": "b"}}}),
        change(
            "job",
            {
                "spec": {
                    "suspend": False,
                    **ops(nodeSelector={"pool": "3"}, schedulingGates=[]),
                }
            },
        ),
        change("job", {"spec": ops(nodeSelector={"pool": "4"})}),
        change(
            "job",
            {"spec": {"suspend": True, **ops(nodeSelector={"pool": "5"})}},
        ),
    ],
    "patch-while-active": [
        create(rich() | {"metadata": {"name": "rt"}}, job("job")),
        drive(node="running", data="running"),
        change(
            "job",
            {"spec": {"suspend": True, **ops(nodeSelector={"pool": "1"})}},
        ),
        change("job", {"spec": {"suspend": True}}),
        wait(1),
        change(
            "job",
            {"spec": {**ops(nodeSelector={"pool": "1"}, tolerations=[])}},
        ),
        change("job", {"spec": {"suspend": False}}),
    ],
    "patch-immutable-parts": [
        create(
            rich(),
            one(
                "job",
                serviceAccountName="one",
                terminationGracePeriodSeconds=5,
                imagePullSecrets=[{"name": "s"}],
                volumes=[{"name": "v", "emptyDir": {}}],
                securityContext={"fsGroup": 1},
                containers=[{"name": "side", "env": env(S="2")}],
                initContainers=[{"name": "first", "env": env(A="2")}],
            ),
        ),
        *(
            change(
                "job",
                {
                    "spec": {
                        **ops(
                            **(
                                {
                                    "serviceAccountName": "one",
                                    "terminationGracePeriodSeconds": 5,
                                    "imagePullSecrets": [{"name": "s"}],
                                    "volumes": [{"name": "v", "emptyDir": {}}],
                                    "securityContext": {"fsGroup": 1},
                                    "containers": [{"name": "side", "env": env(S="2")}],
                                    "initContainers": [{"name": "first", "env": env(A="2")}],
                                    **other,
                                }
                            )
                        )
                    }
                },
            )
            for other in (
                {"serviceAccountName": "two"},
                {"terminationGracePeriodSeconds": 6},
                {"imagePullSecrets": [{"name": "t"}]},
                {"volumes": [{"name": "v", "emptyDir": {"medium": "Memory"}}]},
                {"securityContext": {"fsGroup": 2}},
                {"containers": [{"name": "side", "env": env(S="3")}]},
                {"initContainers": [{"name": "first", "env": env(A="3")}]},
                {"nodeSelector": {"fine": "yes"}},
            )
        ),
    ],
    "patch-times": [
        create(
            rich(),
            patched_job(
                "job",
                {**patch("a.io/given", patched(nodeSelector={"a": "1"})), "time": "2020-01-02T03:04:05Z"},
                {"manager": "b.io/none"},
            ),
            patched_job("zone", {"manager": "b.io/none", "time": "2020-01-02T03:04:05+02:00"}),
            patched_job("fraction", {"manager": "b.io/none", "time": "2020-01-02T03:04:05.678Z"}),
            patched_job("wrong", {"manager": "b.io/none", "time": "yesterday"}),
        ),
        change(
            "job",
            {
                "spec": {
                    "runtimePatches": [
                        {"manager": "b.io/none", "time": "2021-01-02T03:04:05Z"},
                        {**patch("a.io/given", patched(nodeSelector={"a": "2"})), "time": "2020-01-02T03:04:05Z"},
                    ]
                }
            },
        ),
    ],
}
