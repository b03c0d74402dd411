"""
What is asked before TrainJobs and runtimes are stored: one default, and the rules that a schema cannot express.

Plain functions of the objects and of lookups, called by the webhook server on a cluster and by the embedded API server
in its own process. The texts are Kubeflow Trainer's; field paths and quirks of spelling are part of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import msgspec

from ktrain import pipeline
from ktrain.api import trainer as api
from ktrain.api.meta import Key, format_time
from ktrain.pipeline.errors import PluginError
from ktrain.pipeline.findings import FieldError, Findings, invalid

from . import kueue
from .runtime_steps import LAUNCHER, check_steps
from .scope import no_cluster_runtimes

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from ktrain.api.meta import Json, JsonValue
    from ktrain.api.schema import Cause
    from ktrain.pipeline import Context, Registry
    from ktrain.pipeline.points import Lookup

MISSING_RUNTIME: Final = "must be created before the TrainJob is created"
"""In every refusal of a TrainJob whose runtime is not there; whoever sees it can list those that are."""
UNCHECKED_LABEL: Final = "trainer.kubeflow.org/webhook-validation"
"""On a runtime, with the value `disabled`: its author asks not to have it checked."""

_FIXED_NODES: Final = (
    "spec.trainer.numNodes: an elastic job begins with so many nodes; to have others, change spec.elasticNodes"
)
_DEPRECATED: Final = (
    'ClusterTrainingRuntime "{}" is deprecated and will be removed in a future release of Kubeflow Trainer. '
    "See runtime deprecation policy: "
    "https://trainer.kubeflow.org/en/latest/operator-guides/runtime.html#runtime-deprecation-policy"
)
_MOVED: Final = ("Intel", "MPICH")
"""Values of `mpiImplementation` that KEP-2170 has, and Kubeflow Trainer's schema has not."""
_PROCESSES: Final = ("auto", "cpu", "gpu")
_BROKEN_PLUGIN: Final = (
    "nothing is wrong with the TrainJob: ask who runs ktrain to mend or uninstall the plugin, then submit it again"
)
_BROKEN_FOR_RUNTIME: Final = (
    "plugin {} failed in {}; nothing is wrong with the runtime: the operator's log has the reason; ask who runs ktrain"
    " to mend or uninstall the plugin, then submit the runtime again"
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer to an admission request. Refused if there is a `message`."""

    message: str = ""
    warnings: tuple[str, ...] = ()
    is_ours: bool = False
    """Whether it is no fault of the object's, but of a plugin: what is an internal error to the API server."""

    @property
    def allowed(self) -> bool:
        """Whether the object may be stored."""
        return not self.message


def default_train_job(job: Json, old: Json | None, now: datetime) -> Json:
    """
    Return the TrainJob with `time` of its runtime patches kept: when each was last changed. Neither input is changed.

    Of an update by Kueue only what it is for counts (`kueue`).

    New patches get *now* unless they bring a time; changed ones get *now* in any case; the others keep what is stored.
    """
    job = kueue.meant(job, old)
    patches = _patches(job)
    before = {patch["manager"]: patch for patch in _patches(old)}
    stamped = [_stamped(patch, before.get(patch["manager"]), format_time(now)) for patch in patches]
    return job if stamped == patches else job | {"spec": job["spec"] | {"runtimePatches": stamped}}


def with_processes(job: Json) -> Json:
    """
    Return the TrainJob with a number as `trainer.numProcPerNode`, where it is a text; the input is not changed.

    A number in quotes becomes one; `auto`, `cpu` and `gpu` become `processesPerNode`. The schema refuses other texts.
    """
    spec = job.get("spec")
    trainer = spec.get("trainer") if isinstance(spec, dict) else None
    said = trainer.get("numProcPerNode") if isinstance(trainer, dict) else None
    if not isinstance(spec, dict) or not isinstance(trainer, dict) or not isinstance(said, str):
        return job
    if said in _PROCESSES and trainer.get("processesPerNode", said) == said:
        rest = {key: value for key, value in trainer.items() if key != "numProcPerNode"}
        return job | {"spec": spec | {"trainer": rest | {"processesPerNode": said}}}
    if re.fullmatch(r"[0-9]{1,9}", said):
        return job | {"spec": spec | {"trainer": trainer | {"numProcPerNode": int(said)}}}
    return job


def default_nodes(job: Json, old: Json | None, lookup: Lookup) -> Json:
    """
    Return the TrainJob with `elasticNodes`, if it is elastic and says none: what it had, else with how many it begins.

    The scale subresource, and so every autoscaler, finds nothing to change where there is no number.
    """
    spec = job.get("spec")
    if not isinstance(spec, dict) or spec.get("elasticNodes") is not None:
        return job
    try:
        new, stored = _typed(job), _typed(old) if old else None
    except msgspec.ValidationError:
        return job  # the schema, which comes next, says what is wrong
    nodes = (
        _first_nodes(new, lookup) if stored is None else stored.spec.elastic_nodes if stored.status.elastic else None
    )
    return job if nodes is None else job | {"spec": spec | {"elasticNodes": nodes}}


def _first_nodes(job: api.TrainJob, lookup: Lookup) -> int | None:
    resource = _RUNTIMES.get((job.spec.runtime_ref.api_group, job.spec.runtime_ref.kind))
    if resource is None:
        return None
    namespace = job.metadata.namespace if resource.namespaced else ""
    runtime = lookup(resource, Key(namespace, job.spec.runtime_ref.name))
    policy = msgspec.json.decode(runtime.spec, type=api.RuntimeSpec).elastic_policy if runtime else None
    return policy.nodes_of(job) if policy else None


def hints(job: Json, old: Json | None) -> tuple[str, ...]:
    """
    Say how an elastic TrainJob is resized, where its first number of nodes is to change; and what of an update is kept.

    The definition refuses that before the rules here are asked, in words that say no more than that it is immutable.
    """
    try:
        stored = _typed(old) if old else None
        if stored is None or stored.status.elastic is None or _num_nodes(_typed(job)) == _num_nodes(stored):
            return kueue.kept(job, old)
    except msgspec.ValidationError:
        return ()
    resize = f"{_FIXED_NODES}, or use kubectl scale trainjob/{stored.metadata.name} --replicas=N"
    return (*kueue.kept(job, old), resize)


def _num_nodes(job: api.TrainJob) -> int | None:
    return job.spec.trainer.num_nodes if job.spec.trainer else None


def _patches(job: JsonValue) -> list[Json]:
    """The runtime patches; none where their shape is wrong: defaults come before the schema, which will refuse it."""
    spec = job.get("spec") if isinstance(job, dict) else None
    patches = spec.get("runtimePatches") if isinstance(spec, dict) else None
    if not isinstance(patches, list):
        return []
    fit = all(isinstance(patch, dict) and isinstance(patch.get("manager"), str) for patch in patches)
    return patches if fit else []


def _stamped(patch: Json, old: Json | None, now: str) -> Json:
    if old is None:
        return patch if patch.get("time") else patch | {"time": now}
    rest = {key: value for key, value in patch.items() if key != "time"}
    if rest != {key: value for key, value in old.items() if key != "time"}:
        return rest | {"time": now}
    return rest | ({"time": old["time"]} if old.get("time") else {})


def validate_train_job(registry: Registry, job: Json, old: Json | None, ctx: Context) -> Verdict:
    """
    Check a TrainJob against its runtime, as it is now, and against all plugins' rules.

    *old* is what it replaces, None on CREATE. `ctx.lookup` must know both kinds of runtimes.

    The job runs on its snapshot, so an update is not refused for what the runtime has become since: what is wrong with
    *old* already, counts no more. Of a job that is being deleted nothing is asked, since nothing will be built of it.
    """
    try:
        new, stored = _typed(job), _typed(old) if old else None
    except msgspec.ValidationError as error:
        return Verdict(f"the TrainJob does not fit its schema: {error}")
    if new.metadata.deletion_timestamp:
        return Verdict()
    ref = new.spec.runtime_ref if "runtimeRef" in (job.get("spec") or {}) else api.RuntimeRef(api_group="", kind="")
    resource = _RUNTIMES.get((ref.api_group, ref.kind))
    if resource is None:
        kind = ".".join(part for part in (ref.kind, ref.api_group) if part)
        return Verdict(f"unsupported runtime: {kind}")
    namespace = new.metadata.namespace if resource.namespaced else ""
    runtime = ctx.lookup(resource, Key(namespace, ref.name))
    findings = Findings()
    if runtime is None:
        if stored is None:
            return Verdict(str(_missing_runtime(ref, new.metadata.namespace, is_read=ctx.knows(resource))))
        # The job runs on its snapshot. Go's Trainer refuses every update from here on, also to resume it.
    elif resource is api.CLUSTER_TRAINING_RUNTIMES and _is_deprecated(runtime):
        findings = Findings(warnings=(f"Referenced {_DEPRECATED.format(ref.name)}",))
    spec = msgspec.json.decode(runtime.spec, type=api.RuntimeSpec) if runtime else None
    try:
        findings += pipeline.validate(registry, new, stored, spec, ctx)
        if spec and stored is None and not findings.errors:
            findings += Findings(warnings=without_effect(registry, new, spec, ctx))
        if stored and findings.errors:
            known = pipeline.validate(registry, stored, stored, spec, ctx)
            findings = Findings(_not_among(known.errors, findings.errors), findings.warnings)
    except PluginError as error:
        # The user can do nothing about it but tell, and their program has no use for our traceback: the log has it.
        ctx.log.warning("plugin.failed", plugin=error.plugin, hook=error.hook, trainjob=error.job, exc_info=error)
        return Verdict(f"{error}; {_BROKEN_PLUGIN}", findings.warnings, is_ours=True)
    return Verdict(findings.message, findings.warnings)


def without_effect(registry: Registry, job: api.TrainJob, runtime: api.RuntimeSpec, ctx: Context) -> tuple[str, ...]:
    """Say which fields of a new job change nothing, but for those that Kubeflow Trainer is recorded to be silent of."""
    return tuple(str(one) for one in pipeline.unused(registry, job, runtime, ctx) if not one.is_upstreams)


def _not_among(
    known: Sequence[FieldError | Cause], errors: Sequence[FieldError | Cause]
) -> tuple[FieldError | Cause, ...]:
    """Return the errors that are not known, each as often as it is new."""
    left, new = list(known), []
    for error in errors:
        if (same := next((one for one in left if _is_same(one, error)), None)) is not None:
            left.remove(same)
        else:
            new.append(error)
    return tuple(new)


def _is_same(known: FieldError | Cause, error: FieldError | Cause) -> bool:
    """
    Whether a fault was there before.

    The value of a list is all of it, though one element is at fault, and which is not told: it is among those that were
    there if all of them still are.
    """
    if not (isinstance(known, FieldError) and isinstance(error, FieldError)):
        return known == error
    before, after = known.value, error.value
    if not (isinstance(before, list) and isinstance(after, list)):
        return known == error
    return replace(known, value=None) == replace(error, value=None) and all(one in after for one in before)


def _typed(job: Json) -> api.TrainJob:
    return msgspec.json.decode(msgspec.json.encode(job), type=api.TrainJob)


def _missing_runtime(ref: api.RuntimeRef, namespace: str, *, is_read: bool) -> FieldError:
    kind = f"{ref.kind[0].lower()}{ref.kind[1:]}"
    value = {"name": ref.name, "apiGroup": ref.api_group, "kind": ref.kind}
    # The capital R is Go's, for cluster-scoped runtimes only.
    path = "spec.runtimeRef" if ref.kind == api.TRAINING_RUNTIMES.kind else "spec.RuntimeRef"
    detail = f'{ref.kind}.{ref.api_group} "{ref.name}" not found: specified {kind} {MISSING_RUNTIME}'
    if not is_read:
        detail = no_cluster_runtimes(ref.name, namespace)
    return invalid(path, value, detail)


def default_runtime(runtime: Json, old: Json | None = None) -> Json:
    """
    Return a runtime for Intel MPI or MPICH with its `mpi.variant`, where `mpiImplementation` names it (KEP-2170).

    The schema takes no other `mpiImplementation` than Open MPI's, in words of Kubeflow Trainer's that clients and
    recorded cases know. So what names another one is moved where the schema takes it; but only in a runtime that can
    run it, by a `launcher`. *old* is what the runtime replaces: what was moved there gives way to what is said now.
    Neither input is changed.
    """
    mpi, before = _mpi(runtime), _mpi(old or {})
    said, variant = mpi.get("mpiImplementation"), mpi.get("variant")
    was_moved = before.get("mpiImplementation") == "" and variant == before.get("variant")
    jobs = _within(_within(_within(runtime, "spec"), "template"), "spec").get("replicatedJobs")
    has_launcher = isinstance(jobs, list) and any(isinstance(one, dict) and one.get("name") == LAUNCHER for one in jobs)
    if said == "OpenMPI" and variant and was_moved:
        moved = {key: value for key, value in mpi.items() if key != "variant"}
    elif said in _MOVED and has_launcher and (not variant or variant == said or was_moved):
        moved = mpi | {"mpiImplementation": "", "variant": said}
    else:
        return runtime
    spec = _within(runtime, "spec")
    return runtime | {"spec": spec | {"mlPolicy": _within(spec, "mlPolicy") | {"mpi": moved}}}


def _mpi(runtime: Json) -> Json:
    return _within(_within(_within(runtime, "spec"), "mlPolicy"), "mpi")


def _within(holder: JsonValue, key: str) -> Json:
    found = holder.get(key) if isinstance(holder, dict) else None
    return found if isinstance(found, dict) else {}


def validate_runtime(registry: Registry, runtime: Json, old: Json | None, ctx: Context | None = None) -> Verdict:
    """
    Check a runtime, which replaces *old* (None on CREATE): its labelled steps, the plugins that it names, and with
    *ctx* the plugins' own rules. Errors of plugins that *old* has, too, do not count.

    The steps of a TrainingRuntime are checked on CREATE only, as in Go's Trainer. Of one that is being deleted nothing
    is asked: it may have been stored unchecked, and its finalizers have to go.
    """
    if (runtime.get("metadata") or {}).get("deletionTimestamp"):
        return Verdict()
    cluster = runtime.get("kind") == api.CLUSTER_TRAINING_RUNTIMES.kind
    findings = check_steps(runtime) if cluster or old is None else Findings()
    findings += registry.slots.check_runtime(runtime.get("spec") or {}, (old or {}).get("spec"))
    metadata = runtime.get("metadata") or {}
    if cluster and old is None and (metadata.get("labels") or {}).get(api.SUPPORT_LABEL) == "deprecated":
        findings += Findings(warnings=(_DEPRECATED.format(metadata.get("name", "")),))
    if ctx is None or findings.errors:  # no plugin is asked about a configuration that its schema refuses
        return Verdict(findings.message, findings.warnings)
    try:
        findings += _plugins_findings(registry, runtime, old, ctx)
    except PluginError as error:
        ctx.log.warning("plugin.failed", plugin=error.plugin, hook=error.hook, runtime=error.job, exc_info=error)
        return Verdict(_BROKEN_FOR_RUNTIME.format(error.plugin, error.hook), findings.warnings, is_ours=True)
    return Verdict(findings.message, findings.warnings)


def _plugins_findings(registry: Registry, runtime: Json, old: Json | None, ctx: Context) -> Findings:
    metadata = runtime.get("metadata") or {}
    key = Key(metadata.get("namespace", ""), metadata.get("name", ""))
    found = pipeline.validate_runtime(registry, key, _typed_runtime(runtime), ctx)
    if old and found.errors:
        known = pipeline.validate_runtime(registry, key, _typed_runtime(old), ctx)
        return Findings(_not_among(known.errors, found.errors), found.warnings)
    return found


def _typed_runtime(runtime: Json) -> api.RuntimeSpec:
    return msgspec.json.decode(msgspec.json.encode(runtime.get("spec") or {}), type=api.RuntimeSpec)


def refusal_of_runtime(runtime: api.Runtime) -> str:
    """
    Say what is wrong with the steps of a runtime, whatever was asked when it was stored; empty if nothing is.

    For clusters where the webhook is off or was down, and for what it does not look at.
    """
    if runtime.metadata.labels.get(UNCHECKED_LABEL) == "disabled":
        return ""
    return check_steps({"spec": msgspec.json.decode(runtime.spec)}).message


def _is_deprecated(runtime: api.Runtime) -> bool:
    return runtime.metadata.labels.get(api.SUPPORT_LABEL) == "deprecated"


_RUNTIMES: Final = {
    (resource.group, resource.kind): resource for resource in (api.TRAINING_RUNTIMES, api.CLUSTER_TRAINING_RUNTIMES)
}
