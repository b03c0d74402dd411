"""What becomes of a job while its Jobs run, fail and end."""

from typing import Any

from ..objects import Json, change, container, create, delete, drive, job, patch, patched, rjob, runtime, wait

FIRST = {"backoffLimit": 0}


def jobs(*names: str, **fields: Any) -> list[Json]:
    """Replicated jobs that fail with their first pod."""
    return [
        rjob(name, container("node" if name == "node" else name), job=FIRST, **fields.get(name, {})) for name in names
    ]


def with_jobs(*names: str, nodes: int = 1, **jobset: Any) -> Json:
    fields = jobset.pop("fields", {})
    return runtime("rt", *jobs(*names, **fields), ml={"numNodes": nodes}, jobset=jobset)


RULES = [
    {"name": "quit", "action": "FailJobSet", "targetReplicatedJobs": ["critical"]},
    {"action": "RestartJobSetAndIgnoreMaxRestarts", "targetReplicatedJobs": ["aux"]},
]

CASES = {
    "success-any": [
        create(with_jobs("aux", "node", successPolicy={"operator": "Any", "targetReplicatedJobs": ["aux"]}), job()),
        drive(node="running", aux="running"),
        drive(aux="succeeded"),
        change("job", {"metadata": {"labels": {"a": "b"}}}),
    ],
    "success-all-of-one": [
        create(
            with_jobs("aux", "node", successPolicy={"operator": "All", "targetReplicatedJobs": ["node"]}, nodes=2),
            job(),
        ),
        drive(node="running"),
        drive(node="succeeded"),
        delete("job", "JobSet"),
        wait(1),
    ],
    "fails-by-rule": [
        create(with_jobs("critical", "aux", "node", failurePolicy={"maxRestarts": 2, "rules": RULES}), job()),
        drive(node="running", aux="running", critical="running"),
        drive(aux="failed"),
        drive(node="running", critical="running"),
        drive(critical="failed"),
    ],
    "restarts": [
        create(with_jobs("aux", "node", failurePolicy={"maxRestarts": 2}), job()),
        drive(node="running", aux="running"),
        drive(aux="failed"),
        drive(aux="running", node="running"),
        drive(node="failed"),
        drive(aux="running", node="running"),
        drive(aux="succeeded"),
        drive(node="succeeded"),
    ],
    "replicas": [
        create(with_jobs("many", "node", nodes=2, fields={"many": {"replicas": 3}}), job()),
        drive(many={0: "running", 2: "running"}),
        drive(many={0: "succeeded", 1: "running"}),
        drive(many={1: "succeeded", 2: "succeeded"}, node="running"),
        drive(node="succeeded"),
    ],
    "replicas-one-fails": [
        create(with_jobs("many", "node", fields={"many": {"replicas": 2}}), job()),
        drive(many={0: "running", 1: "running"}, node="running"),
        drive(many={1: "failed"}),
        change("job", {"metadata": {"annotations": {"later": "1"}}}),
        wait(1),
    ],
    "depends-on": [
        create(
            with_jobs(
                "first",
                "second",
                "node",
                fields={
                    "second": {"dependsOn": [{"name": "first", "status": "Complete"}]},
                    "node": {"dependsOn": [{"name": "second", "status": "Ready"}]},
                },
            ),
            job(),
        ),
        drive(first="running"),
        drive(first="succeeded"),
        drive(second="running"),
        drive(node="running"),
        drive(node="succeeded", second="succeeded"),
    ],
    "in-order": [
        create(with_jobs("first", "node", startupPolicy={"startupPolicyOrder": "InOrder"}), job()),
        drive(first="running"),
        drive(node="running"),
        drive(node="succeeded", first="succeeded"),
    ],
    "suspended-and-resumed": [
        create(with_jobs("aux", "node", nodes=2), job(suspend=True, trainer={"numNodes": 3})),
        change("job", {"spec": {"suspend": False}}),
        drive(node="running", aux="running"),
        change("job", {"spec": {"suspend": True}}),
        wait(1),
        change("job", {"spec": {"suspend": None}}),
        drive(node="running", aux="running"),
        drive(node="succeeded", aux="succeeded"),
    ],
    "suspended-partly-done": [
        create(with_jobs("aux", "node"), job()),
        drive(aux="running", node="running"),
        drive(aux="succeeded"),
        change("job", {"spec": {"suspend": True}}),
        wait(1),
        change("job", {"spec": {"suspend": False}}),
        drive(node="running"),
        drive(node="failed"),
    ],
    "suspended-jobset-deleted": [
        create(with_jobs("node"), job(suspend=True)),
        delete("job", "JobSet"),
        change("job", {"spec": {"suspend": False}}),
        delete("job-runtime-snapshot", "ConfigMap"),
        delete("job", "TrainingRuntime"),
    ],
    "deadline": [
        create(
            with_jobs("aux", "node"),
            job(activeDeadlineSeconds=15),
            job("suspended", activeDeadlineSeconds=3, suspend=True),
        ),
        drive(node="running"),
        wait(14),
        change("suspended", {"spec": {"suspend": False}}),
        wait(3),
    ],
    "deadline-done": [
        create(with_jobs("node"), job(activeDeadlineSeconds=20)),
        drive(node="running"),
        drive(node="succeeded"),
        wait(19),
    ],
    "deadline-failed": [
        create(with_jobs("node"), job(activeDeadlineSeconds=20)),
        drive(node="running"),
        drive(node="failed"),
        wait(19),
    ],
    "ttl-failed": [
        create(with_jobs("node", ttlSecondsAfterFinished=3), job()),
        drive(node="running"),
        drive(node="failed"),
        wait(8),
    ],
    "job-fields": [
        create(
            runtime(
                "rt",
                rjob(
                    "node",
                    job={
                        "backoffLimit": 3,
                        "activeDeadlineSeconds": 600,
                        "ttlSecondsAfterFinished": 60,
                        "podReplacementPolicy": "Failed",
                        "podFailurePolicy": {
                            "rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]
                        },
                    },
                    pod={"restartPolicy": "Never", "hostNetwork": True, "dnsPolicy": "Default"},
                ),
            ),
            job(),
        ),
        drive(node="running"),
    ],
    "managed-elsewhere": [
        create(
            with_jobs("node"),
            job(
                managedBy="kueue.x-k8s.io/multikueue",
                suspend=True,
                runtimePatches=[patch("a.io/b", patched(nodeSelector={"a": "b"}))],
            ),
            job("refused", managedBy="kueue.x-k8s.io/multikueue", runtimePatches=[{"manager": "x"}]),
        ),
        change("job", {"spec": {"suspend": False}}),
        change("job", {"metadata": {"labels": {"a": "b"}}}),
    ],
    "runtime-changes": [
        create(with_jobs("node"), job(suspend=True)),
        change("rt", {"spec": {"mlPolicy": {"numNodes": 5}}}, "TrainingRuntime"),
        change("job", {"spec": {"suspend": False}}),
        create(job("later")),
        delete("job-runtime-snapshot", "ConfigMap"),
        delete("rt", "TrainingRuntime"),
        drive(node="running"),
    ],
    "jobset-edited": [
        create(with_jobs("node"), job(), job("suspended", suspend=True)),
        change("job", {"metadata": {"labels": {"mine": "1"}}, "spec": {"suspend": True}}, "JobSet"),
        change("suspended", {"spec": {"suspend": False}}, "JobSet"),
    ],
}
