"""
The life of a random JobSet: what is done with it, its Jobs and what lies in its way, step by step.

Each step is one change, so that every controller sees the same changes one by one. What a Job's status says has its
times from the case, too.
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

from .writing import GATES, MESSAGES, NOBODY, REASONS, TOLERATIONS, Chance, jobset, labels

if TYPE_CHECKING:
    from .watching import Json

BEGUN = "2026-01-01T00:00:00Z"
STEPS = 7
KEYS = ("restart-attempt", "replicatedjob-name", "job-index", "jobset-name")


def life(seed: int) -> list[Json]:
    """The steps of a life, all told by the seed."""
    c = Chance(seed)
    made = jobset(c)
    steps = [{"do": "create", "kind": "JobSet", "object": made}]
    if c.one_in(10):
        steps.insert(0, in_the_way(c, made))
    spec = dict(made["spec"])
    for at in range(c.randint(2, STEPS)):
        steps.append(step(c, spec, at))
        if steps[-1]["do"] == "update" and "suspend" in steps[-1]["spec"]:
            spec["suspend"] = steps[-1]["spec"]["suspend"]
            steps += [_patch("Job", job, _rests()) for job in _running(steps) if spec["suspend"]]
    return steps


def _running(steps: list[Json]) -> list[str]:
    """Jobs whose status says that they run."""
    told = {one["name"]: one["patch"]["status"] for one in steps if one.get("subresource")}
    return [name for name, status in told.items() if status["active"]]


def in_the_way(c: Chance, made: Json) -> Json:
    """Something of somebody else, by a name that the JobSet would use."""
    kind = c.choice(("Job", "Service", "Service"))
    if kind == "Service":
        spec: Json = {"selector": {"a": "b"}, "ports": [{"port": 80}]}
        name = made["spec"].get("network", {}).get("subdomain") or "js"
    else:
        pod = {"restartPolicy": "Never", "containers": [{"name": "x", "image": "x"}]}
        spec = {"managedBy": NOBODY, "template": {"spec": pod}}
        name = c.choice(list(names(made["spec"])) or ["js-a-0"])
    return {"do": "create", "kind": kind, "object": {"metadata": {"name": name}, "spec": spec}}


def names(spec: Json) -> list[str]:
    """Names of the Jobs that a JobSet has."""
    return [f"js-{job['name']}-{at}" for job in spec["replicatedJobs"] for at in range(job.get("replicas", 1))]


def step(c: Chance, spec: Json, at: int) -> Json:
    """Something that happens, the `at`th."""
    jobs = names(spec)
    if jobs and not c.one_in(4):
        job = c.choice(jobs)
        return _patch("Job", job, c.choice((_runs, _runs, _completes, _completes, _fails, _fails))(c, spec, job, at))
    resizing = (resizes,) * 4 if "ElasticJobSet" in GATES else ()
    return c.choice((suspends, suspends, resumes, resumes, deletes, edits, relabels, *resizing))(c, spec, jobs)


def suspends(c: Chance, spec: Json, _: list[str]) -> Json:
    patch: Json = {"suspend": True}
    return {"do": "update", "spec": patch, "pod": pod_changes(c) if c.one_in(3) else {}, "index": _index(c, spec)}


def resumes(c: Chance, spec: Json, _: list[str]) -> Json:
    return {**suspends(c, spec, _), "spec": {"suspend": c.choice((False, False, None))}}


def pod_changes(c: Chance) -> Json:
    """What may be changed of a pod template while suspended: null takes it away."""
    return c.fields(
        2,
        nodeSelector=lambda: c.choice(({"zone": "new"}, {"pool": "p"}, None)),
        tolerations=lambda: c.some(TOLERATIONS) or None,
        schedulingGates=lambda: [{"name": name} for name in c.some(("g.io/a", "g.io/b", "g.io/c"))] or None,
        labels=lambda: labels(c) or None,
        annotations=lambda: labels(c) or None,
    )


def edits(c: Chance, spec: Json, _: list[str]) -> Json:
    """What users change of a JobSet: some of it may be changed. Without network or success policy, Go panics."""
    patch: Json = c.choice(
        (
            {"coordinator": {"replicatedJob": "ghost"}},
            {"coordinator": None},
            {"network": {"enableDNSHostnames": c.one_in(2)}},
            {"failurePolicy": None},
            {"failurePolicy": {"maxRestarts": 3}},
            {"successPolicy": {"operator": "Any"}},
            {"startupPolicy": None},
            {"startupPolicy": {"startupPolicyOrder": "InOrder"}},
            {"ttlSecondsAfterFinished": 3000},
            {"managedBy": None},
            {"volumeClaimPolicies": None},
            {"replicatedJobs": spec["replicatedJobs"]},
            {"replicatedJobs": []},
        )
    )
    return {"do": "update", "spec": patch, "pod": {}, "index": 0}


def resizes(c: Chance, spec: Json, _: list[str]) -> Json:
    """Other numbers of pods, which may be changed of indexed Jobs, together."""
    jobs: list[Json] = deepcopy(spec["replicatedJobs"])
    size = c.choice((0, 1, 2, 4))
    numbers = {"parallelism": size, "completions": c.choice((size, size, size, 3))}
    c.choice(jobs)["template"]["spec"] |= c.choice((numbers, numbers, {"parallelism": size}))
    return {"do": "resize", "jobs": [job["template"]["spec"] for job in jobs]}


def deletes(c: Chance, _: Json, jobs: list[str]) -> Json:
    name = c.choice(jobs or ["js-a-0"])
    return {"do": "delete", **c.choice(({"kind": "Job", "name": name}, {"kind": "Service", "name": "js"}))}


def relabels(c: Chance, _: Json, jobs: list[str]) -> Json:
    key = c.choice(KEYS)
    # With another attempt than a number, Go tries again and again, which holds up all others.
    value = c.choice(("0", "1", "99", "007") if key == "restart-attempt" else ("", "0", "1", "x", None, "a", "ghost"))
    patch = {"metadata": {"labels": {f"jobset.sigs.k8s.io/{key}": value}}}
    return {"do": "patch", "kind": "Job", "name": c.choice(jobs or ["js-a-0"]), "patch": patch}


def _rests() -> Json:
    """What the Job controller makes of a suspended Job."""
    suspended = _condition("Suspended", "JobSuspended", "Job suspended", BEGUN)
    return {**_over, "startTime": None, "conditions": [suspended]}


def _runs(c: Chance, spec: Json, job: str, _: int) -> Json:
    if spec.get("suspend"):
        return _rests()
    wanted, indexed = _size(spec, job)
    done = c.randrange(wanted) if c.one_in(3) else 0
    active = wanted - done
    return {
        "startTime": BEGUN,
        "active": active,
        "ready": c.choice((0, active, active)),
        "terminating": 0,
        "uncountedTerminatedPods": {},
        "succeeded": done,
        "completedIndexes": _upto(done) if indexed else None,
    }


def _completes(_c: Chance, spec: Json, job: str, at: int) -> Json:
    wanted, indexed = _size(spec, job)
    end = f"2026-01-01T00:01:{at:02}Z"
    return {
        **_over,
        "succeeded": wanted,
        "completedIndexes": _upto(wanted) if indexed else None,
        "completionTime": end,
        "conditions": [
            _condition("SuccessCriteriaMet", "CompletionsReached", "Reached expected number", end),
            _condition("Complete", "CompletionsReached", "Reached expected number", end),
        ],
    }


def _fails(c: Chance, _spec: Json, _job: str, at: int) -> Json:
    reason, message = c.choice(REASONS), c.choice(MESSAGES)
    end = f"2026-01-01T00:01:{at:02}Z"
    return {
        **_over,
        "failed": 1,
        "conditions": [_condition(type_, reason, message, end) for type_ in ("FailureTarget", "Failed")],
    }


_over: Json = {"startTime": BEGUN, "active": 0, "ready": 0, "terminating": 0, "uncountedTerminatedPods": {}}


def _condition(type_: str, reason: str, message: str, at: str) -> Json:
    times = {"lastTransitionTime": at, "lastProbeTime": at}
    return {"type": type_, "status": "True", "reason": reason, "message": message, **times}


def _patch(kind: str, name: str, status: Json) -> Json:
    return {"do": "patch", "kind": kind, "name": name, "subresource": "status", "patch": {"status": status}}


def _size(spec: Json, name: str) -> tuple[int, bool]:
    """How many pods the Job has, and whether they have indexes."""
    job = next(job for job in spec["replicatedJobs"] if f"js-{job['name']}" == name.rpartition("-")[0])
    inside = job["template"]["spec"]
    return inside.get("completions") or 1, inside.get("completionMode") != "NonIndexed"


def _upto(count: int) -> Any:
    return None if count == 0 else "0" if count == 1 else f"0-{count - 1}"


def _index(c: Chance, spec: Json) -> int:
    return c.randrange(len(spec["replicatedJobs"]))
