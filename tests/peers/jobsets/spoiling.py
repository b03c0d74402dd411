"""What may be wrong with a JobSet: each changes one at some place, so that it is refused, or nearly so."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

from .writing import EXCLUSIVE, claim_policies, coordinator, failure_policy, pod_template

if TYPE_CHECKING:
    from .watching import Json
    from .writing import Chance

TEXTS = (
    "",
    "a",
    "A",
    "a.b",
    "-a",
    "a-",
    "1a",
    "a_b",
    "x" * 47,
    "x" * 50,
    "x" * 63,
    "x" * 64,
    "ü",
    "a" * 254,
    "a b",
    "a/b",
)
# Fewer replicas than none: what the operator takes of 0.12, and refuses of later commits.
NUMBERS = (-1, 0, 1, 5, 1025, 2**31 - 1, 2**31, "1", 1.5, None)
NAMES = ("js", "x" * 50, "x" * 51, "x" * 52, "x" * 53, "x" * 57, "x" * 60, "1js", "a.b", "js-", "y" * 58, "J")
OBJECTS: tuple[Any, ...] = (None, {}, [], "", 1, True)


def spoiled(c: Chance, jobset: Json) -> Json:
    """The JobSet with something wrong, or at least odd."""
    found: Json = deepcopy(jobset)
    for _ in range(c.choice((1, 1, 1, 2, 3))):
        c.choice(WAYS)(c, found)
    return found


def _name(c: Chance, jobset: Json) -> None:
    jobset["metadata"]["name"] = c.choice(NAMES)


def _generated(c: Chance, jobset: Json) -> None:
    jobset["metadata"].pop("name", None)
    jobset["metadata"]["generateName"] = c.choice(("js-", "x" * 45, "x" * 57, "x" * 70, "1"))


def _network(c: Chance, jobset: Json) -> None:
    field = c.choice(("subdomain", "enableDNSHostnames", "publishNotReadyAddresses"))
    spec = jobset["spec"]
    spec["network"] = _map(spec.get("network")) | {field: c.choice(TEXTS if field == "subdomain" else OBJECTS)}


def _managed_by(c: Chance, jobset: Json) -> None:
    values = ("", "x", "a/b", "a.b/c", "A/b", "a/", "/b", "a.b/" + "c" * 60, "a/b/c", "a/ü", "a b/c", "-a/b", "a/b c")
    jobset["spec"]["managedBy"] = c.choice((*values, 1))


def _job(c: Chance, jobset: Json) -> None:
    field, values = c.choice(
        (
            ("name", (*TEXTS, "a", "b")),
            ("groupName", TEXTS),
            ("replicas", NUMBERS[1:]),
            ("dependsOn", (*OBJECTS, *_dependencies(c))),
            ("template", OBJECTS),
        )
    )
    if jobs := _jobs(jobset):
        job, value = c.choice(jobs), c.choice(values)
        # Who depends on itself is refused here, and never starts with Go.
        if field != "dependsOn" or f"'name': '{job['name']}'" not in str(value):
            job[field] = value


def _dependencies(c: Chance) -> tuple[Any, ...]:
    names = ("a", "b", "ghost", "workers", "")
    one = {"name": c.choice(names), "status": c.choice(("Ready", "Complete", "Done", ""))}
    return [], [one], [{"name": "a"}], [{"status": "Ready"}], [one, one], [one | {"name": str(at)} for at in range(6)]


def _job_spec(c: Chance, jobset: Json) -> None:
    field = c.choice(("parallelism", "completions", "completionMode", "backoffLimit", "template"))
    values: Any = NUMBERS
    if field == "completionMode":
        values = ("", "Indexed", "NonIndexed", "Other", None, 1)
    if field == "template":
        values = (*OBJECTS, {"spec": {}}, {"spec": {"containers": []}}, {"spec": {"containers": [{}]}}, pod_template(c))
    if jobs := _jobs(jobset):
        template = c.choice(jobs).setdefault("template", {})
        if isinstance(template, dict) and isinstance(spec := template.setdefault("spec", {}), dict):
            spec[field] = c.choice(values)


def _success(c: Chance, jobset: Json) -> None:
    whole = ({"operator": "Most"}, {"targetReplicatedJobs": ["a"]}, None, [], {})
    targets = [c.choice(("a", "ghost", "b", "", 1)) for _ in range(c.randint(0, 3))]
    jobset["spec"]["successPolicy"] = c.choice((*whole, {"operator": "Any", "targetReplicatedJobs": targets}))


def _failure(c: Chance, jobset: Json) -> None:
    policy = failure_policy(c, ["a", "b", "ghost"])
    for rule in policy.get("rules", []):
        field, values = c.choice(
            (
                ("name", (*TEXTS, "r,", "r_", "r:a", "x" * 128, "x" * 129, "same", "same", "é" * 100)),
                ("action", ("RestartJob", "RestartJobAndIgnoreMaxRestarts", "Shrug", "", None)),
                ("onJobFailureReasons", (["Bored"], [""], ["DeadlineExceeded", "DeadlineExceeded"], "x", None)),
                ("targetReplicatedJobs", (["ghost", "a"], [""], None)),
                ("onJobFailureMessagePatterns", ([1], None, ["", ""])),
            )
        )
        rule[field] = c.choice(values)
    if c.one_in(3):
        policy["restartStrategy"] = c.choice(("InPlaceRestart", "Slowly", "", None))
    if c.one_in(3):
        policy["maxRestarts"] = c.choice(NUMBERS)
    jobset["spec"]["failurePolicy"] = c.choice((policy, policy, policy, {}, None, []))


def _startup(c: Chance, jobset: Json) -> None:
    values: tuple[Any, ...] = ("InOrder", "AnyOrder", "Other", "", None)
    jobset["spec"]["startupPolicy"] = c.choice(({"startupPolicyOrder": c.choice(values)}, {}, None, []))


def _coordinator(c: Chance, jobset: Json) -> None:
    found: Json = {"replicatedJob": c.choice(("a", "b", "ghost", ""))}
    if isinstance(jobs := jobset["spec"].get("replicatedJobs"), list) and jobs and c.one_in(2):
        found = coordinator(c, jobs)
    found |= c.fields(2, jobIndex=lambda: c.choice(NUMBERS), podIndex=lambda: c.choice(NUMBERS))
    jobset["spec"]["coordinator"] = c.choice((found, found, {}, None))


def _claims(c: Chance, jobset: Json) -> None:
    if not _jobs(jobset):
        return
    spec = jobset["spec"]
    policies: list[Any] = claim_policies(c, spec["replicatedJobs"])
    template = c.choice(policies)["templates"][0]
    field = c.choice(("name", "namespace", "same", "volume", "none"))
    if field == "same":
        policies.append(deepcopy(policies[0]))
    elif field == "volume":
        c.choice(spec["replicatedJobs"])["template"]["spec"]["template"]["spec"]["volumes"] = [{"name": "data0"}]
    elif field == "none":
        policies.append(c.choice(({}, {"templates": []}, {"templates": [{}]}, {"templates": [{"spec": {}}]})))
    else:
        template["metadata"][field] = c.choice(TEXTS)
    spec["volumeClaimPolicies"] = policies


def _missing(c: Chance, jobset: Json) -> None:
    fields = list(jobset["spec"])
    if fields:
        del jobset["spec"][c.choice(fields)]


def _odd(c: Chance, jobset: Json) -> None:
    fields = ("suspend", "ttlSecondsAfterFinished", "replicatedJobs", "volumeClaimPolicies", "unknown", "network")
    jobset["spec"][c.choice(fields)] = c.choice((*OBJECTS, *NUMBERS))


def _twice(c: Chance, jobset: Json) -> None:
    if jobs := _jobs(jobset):
        jobs.append(deepcopy(c.choice(jobs)))


def _metadata(c: Chance, jobset: Json) -> None:
    jobset["metadata"]["annotations"] = c.choice(({EXCLUSIVE: ""}, {EXCLUSIVE: "a/b/c"}, {"a b": "c"}))
    jobset["metadata"]["labels"] = c.choice(({}, {"a": "b c"}, {"a": "x" * 64}))


def _jobs(jobset: Json) -> list[Json]:
    """Replicated jobs that can be changed."""
    jobs = jobset["spec"].get("replicatedJobs")
    whole = isinstance(jobs, list) and all(isinstance(job, dict) and _is_whole(job) for job in jobs)
    return jobs if whole else []


def _is_whole(job: Json) -> bool:
    inner = _map(_map(_map(_map(job.get("template")).get("spec")).get("template")).get("spec"))
    return bool(inner.get("containers")) and all(inner["containers"])


def _map(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


WAYS = (
    *(_name, _generated, _network, _managed_by, _job, _job, _job, _job_spec, _job_spec, _success, _failure, _failure),
    *(_startup, _coordinator, _claims, _claims, _missing, _odd, _twice, _metadata),
)
