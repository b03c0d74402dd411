"""
Random JobSets from a seed: mostly valid, with fields of every kind; `spoiled` makes something wrong with one.

Jobs are managed by nobody (`managedBy`), so no Job controller interferes: their status is what a case says, on every
plane, and nothing has to be waited for but the JobSet controller.
"""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from .watching import Json

GATES = tuple(filter(None, os.environ.get("KTRAIN_PEERS_GATES", "").split(",")))
"""The feature gates that are on."""
NOBODY = "example.com/nobody"
JOBS = ("a", "b", "c", "workers", "x1")
REASONS = ("BackoffLimitExceeded", "DeadlineExceeded", "FailedIndexes", "MaxFailedIndexesExceeded", "PodFailurePolicy")
MESSAGES = ("Job was active longer than specified deadline", "pod x-0 failed with exit code 42", "")
PATTERNS = (
    "exit code \\d+$",
    "^Job",
    "longer|shorter",
    "(?i)JOB",
    "[",
    "exit code 43",
    "",
    "(?P<x>pod)",
    "(?=pod)",
    "a{2000}",
)
SINGLE = ("RestartJob", "RestartJobAndIgnoreMaxRestarts")
ACTIONS = ("FailJobSet", "RestartJobSet", "RestartJobSetAndIgnoreMaxRestarts", *(SINGLE * 2 * ("RestartJob" in GATES)))
EXCLUSIVE, BY_NODE = "alpha.jobset.sigs.k8s.io/exclusive-topology", "alpha.jobset.sigs.k8s.io/node-selector"
CPUS = ("500m", "0.5", "1", "1.250", "+2", "1E0", "1000m", "3.", "0.0005")
SIZES = ("1024Mi", "0.5Gi", "1Gi", "+3Mi", "8Ei", "1E3", "1.250G", "1.2345k")
TOLERATIONS = (
    {"key": "a", "operator": "Exists"},
    {"key": "b", "operator": "Equal", "value": "1", "effect": "NoSchedule"},
    {"operator": "Exists", "effect": "NoExecute"},
)


class Chance(random.Random):
    """Short words for what is left to chance."""

    def some(self, values: Any, most: int | None = None) -> list[Any]:
        """Some of the values, in any order."""
        return self.sample(list(values), self.randint(0, len(values) if most is None else min(most, len(values))))

    def one_in(self, n: int) -> bool:
        return self.randrange(n) == 0

    def fields(self, chance: int, **makers: Callable[[], Any]) -> Json:
        """Each field in one of `chance` cases."""
        return {name: make() for name, make in makers.items() if self.one_in(chance)}


def jobset(c: Chance, name: str = "js") -> Json:
    """A JobSet that is valid."""
    names = c.sample(JOBS, c.choice((1, 1, 2, 2, 2, 3, 4)))
    in_order = c.one_in(4)
    jobs = [replicated_job(c, one, [] if in_order else names[:at]) for at, one in enumerate(names)]
    spec: Json = {"replicatedJobs": jobs}
    if in_order:
        spec["startupPolicy"] = {"startupPolicyOrder": "InOrder"}
    spec |= c.fields(
        3,
        network=lambda: network(c),
        successPolicy=lambda: success_policy(c, names),
        suspend=lambda: c.one_in(2),
        coordinator=lambda: coordinator(c, jobs),
        volumeClaimPolicies=lambda: claim_policies(c, jobs),
    )
    spec |= c.fields(9, ttlSecondsAfterFinished=lambda: c.choice((3600, 10**8)), managedBy=lambda: managers(c))
    if not c.one_in(3):
        spec["failurePolicy"] = failure_policy(c, names)
    metadata: Json = {"name": name} | c.fields(5, labels=lambda: {"a": "b"}, annotations=lambda: exclusive(c))
    return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": metadata, "spec": spec}


def managers(c: Chance) -> str:
    return c.choice(("jobset.sigs.k8s.io/jobset-controller", "kueue.x-k8s.io/multikueue"))


def network(c: Chance) -> Json:
    return c.fields(
        2,
        enableDNSHostnames=lambda: c.one_in(2),
        subdomain=lambda: c.choice(("sub", "net-1", "", "js")),
        publishNotReadyAddresses=lambda: c.one_in(2),
    )


def success_policy(c: Chance, names: list[str]) -> Json:
    return {"operator": c.choice(("All", "Any"))} | c.fields(2, targetReplicatedJobs=lambda: c.some(names))


def failure_policy(c: Chance, names: list[str]) -> Json:
    rules = [failure_rule(c, names) for _ in range(c.choice((0, 1, 1, 2, 3)))]
    for at, rule in enumerate(rules):
        if "name" in rule:
            rule["name"] += str(at)
    return c.fields(
        2, restartStrategy=lambda: c.choice(("Recreate", "BlockingRecreate")), maxRestarts=lambda: c.randint(-1, 2)
    ) | ({"rules": rules} if rules or c.one_in(3) else {})


def failure_rule(c: Chance, names: list[str]) -> Json:
    rule: Json = {"action": c.choice(ACTIONS)} | c.fields(2, name=lambda: c.choice(("r", "Rule_", "a:b,")))
    return rule | c.fields(
        3,
        onJobFailureReasons=lambda: c.some(REASONS, 3),
        targetReplicatedJobs=lambda: c.some(names),
        onJobFailureMessagePatterns=lambda: c.some(PATTERNS, 2),
    )


def coordinator(c: Chance, jobs: list[Json]) -> Json:
    job = c.choice(jobs)
    job["replicas"] = max(1, job.get("replicas", 1))
    job["template"]["spec"].update(parallelism=2, completions=2)
    job["template"]["spec"].pop("completionMode", None)
    return {"replicatedJob": job["name"]} | c.fields(
        2, jobIndex=lambda: c.randrange(job["replicas"]), podIndex=lambda: c.randrange(2)
    )


def claim_policies(c: Chance, jobs: list[Json]) -> list[Json]:
    policies = []
    for at in range(c.randint(1, 2)):
        name, pod = f"data{at}", c.choice(jobs)["template"]["spec"]["template"]["spec"]
        c.choice(pod["containers"]).setdefault("volumeMounts", []).append({"name": name, "mountPath": f"/{name}"})
        claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": c.choice(("1Gi", "500M"))}}}
        metadata = {"name": name} | c.fields(3, labels=lambda: {"l": "1"}, annotations=lambda: {"n": "1"})
        policy: Json = {"templates": [{"metadata": metadata, "spec": claim}]}
        keep = c.choice((None, {}, {"whenDeleted": "Retain"}, {"whenDeleted": "Delete"}))
        policies.append(policy | ({} if keep is None else {"retentionPolicy": keep}))
    return policies


def replicated_job(c: Chance, name: str, earlier: list[str]) -> Json:
    job: Json = {"name": name, "template": job_template(c)}
    job |= c.fields(2, replicas=lambda: c.choice((0, 1, 2, 2, 3)))
    job |= c.fields(4, groupName=lambda: c.choice(("g", "group-2", "default")))
    if earlier and c.one_in(3):
        parents = c.some(earlier, 3)
        job["dependsOn"] = [{"name": parent, "status": c.choice(("Ready", "Complete"))} for parent in parents]
    return job


def job_template(c: Chance) -> Json:
    size = c.choice(({"parallelism": 1, "completions": 1}, {"parallelism": 2, "completions": 2}, {"completions": 3}))
    spec: Json = size | {"managedBy": NOBODY, "template": pod_template(c)}
    if c.one_in(4):
        spec |= c.choice(({"completionMode": "NonIndexed"}, {"completionMode": "NonIndexed", "parallelism": 3}))
    spec |= c.fields(
        4,
        backoffLimit=lambda: c.randint(0, 3),
        suspend=lambda: c.one_in(2),
        activeDeadlineSeconds=lambda: 600,
        ttlSecondsAfterFinished=lambda: 10**8,
        podReplacementPolicy=lambda: c.choice(("Failed", "TerminatingOrFailed")),
    )
    metadata = c.fields(3, labels=lambda: labels(c), annotations=lambda: labels(c) | exclusive(c))
    return {"spec": spec} | ({"metadata": metadata} if metadata or c.one_in(5) else {})


def labels(c: Chance) -> Json:
    keys = ("one", "two", "jobset.sigs.k8s.io/job-index", "jobset.sigs.k8s.io/unknown", "app.kubernetes.io/name")
    return {key: c.choice(("1", "x", "")) for key in c.some(keys, 3)}


def exclusive(c: Chance) -> Json:
    found = {EXCLUSIVE: "rack"} if c.one_in(2) else {}
    return found | ({BY_NODE: "true"} if c.one_in(3) else {})


def pod_template(c: Chance) -> Json:
    containers = [container(c, "main")] + ([container(c, "side")] if c.one_in(5) else [])
    spec: Json = {"containers": containers} | c.fields(
        4,
        restartPolicy=lambda: c.choice(("Never", "OnFailure")),
        nodeSelector=lambda: {"zone": c.choice("xy")},
        tolerations=lambda: c.some(TOLERATIONS, 2),
        schedulingGates=lambda: [{"name": name} for name in c.some(("g.io/a", "g.io/b"))],
        initContainers=lambda: [container(c, "init")],
        subdomain=lambda: "mine",
        volumes=lambda: [{"name": "tmp", "emptyDir": c.fields(2, sizeLimit=lambda: c.choice(SIZES))}],
        terminationGracePeriodSeconds=lambda: 5,
        hostNetwork=lambda: False,
    )
    metadata = c.fields(3, labels=lambda: labels(c), annotations=lambda: labels(c) | exclusive(c))
    return {"spec": spec} | ({"metadata": metadata} if metadata or c.one_in(5) else {})


def container(c: Chance, name: str) -> Json:
    return {"name": name, "image": "example.com/none:1"} | c.fields(
        4,
        env=lambda: [{"name": "A", "value": c.choice(("", "1"))}],
        resources=lambda: {"requests": {"cpu": c.choice(CPUS)}},
        command=lambda: c.some(("sh", "-c", "true")),
    )
