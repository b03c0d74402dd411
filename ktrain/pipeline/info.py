"""
What the phases pass on: `Info`, its pod sets, and their containers.

An `Info` owns a private plain-dict copy of the runtime's JobSet template (patches already applied). Pod sets and
containers are views on that copy, so a plugin's write is in the result at once and nothing has to be copied back.
Plugins write through the methods here and never into the dicts: each write is an upsert by the key that Kubernetes uses
for the list (env by name, ports by number, volumes by name, mounts by path), and is noted in the journal.

Upserts replace the whole element: a literal variable can become a reference and the other way round.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from ktrain.api import trainer as api
from ktrain.api.quantity import canonical

from .journal import Journal
from .steps import container_name, step_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from ktrain.api.meta import Json, JsonValue

MetadataKind = Literal["labels", "annotations"]
COMPLETION_INDEX: Final = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
"""Where a pod of an indexed Job finds its rank (downward API field path)."""


def upsert(items: list[Json], item: Json, *keys: str) -> None:
    """Replace the first element that agrees in all *keys*, or append."""
    wanted = [(key, item.get(key)) for key in keys]
    for index, existing in enumerate(items):
        for key, value in wanted:  # no `all`: its generator takes longer than the comparison
            if existing.get(key) != value:
                break
        else:
            items[index] = item
            return
    items.append(item)


def literal(name: str, value: str) -> Json:
    """Build an environment variable with a value."""
    return {"name": name, "value": value}


def from_field(name: str, field_path: str) -> Json:
    """Build an environment variable that the kubelet fills from a field of the pod."""
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": field_path}}}


class Container:
    """A main or init container of a pod set. There is no setter for args and resources: they are the user's."""

    __slots__ = ("_journal", "_path", "spec")

    def __init__(self, spec: Json, path: str, journal: Journal) -> None:
        self.spec = spec
        self._path = path
        self._journal = journal

    @property
    def name(self) -> str:
        """The container's name."""
        return str(self.spec.get("name", ""))

    @property
    def env(self) -> list[Json]:
        """The variables so far, in order."""
        return list(self.spec.get("env") or ())

    @property
    def resources(self) -> Json:
        """Requests and limits, the TrainJob's already laid over the runtime's."""
        return self.spec.get("resources") or {}

    def set_env(self, *entries: Json) -> None:
        """Set environment variables by name."""
        if not entries:
            return
        items = self._list("env")
        places: dict[object, int] = {}  # long lists are searched once
        for index, item in enumerate(items):
            places.setdefault(item.get("name"), index)
        for entry in entries:
            self._journal.record(f"{self._path}.env[{entry['name']}]", entry)
            place = places.setdefault(entry["name"], len(items))
            items[place : place + 1] = [entry]

    def set_port(self, number: int, *, name: str = "") -> None:
        """
        Declare a TCP port; one of the same number is replaced.

        Go's Trainer takes two unnamed ports for the same, and so replaces the user's metrics port by the rendezvous
        port.
        """
        entry: Json = {"containerPort": number, "protocol": "TCP"} | ({"name": name} if name else {})
        self._upsert("ports", entry, str(number), "containerPort")

    def mount(self, volume: str, path: str, *, read_only: bool = False) -> None:
        """Mount a volume of the pod at a path; a mount already at that path is replaced."""
        entry: Json = {"name": volume, "mountPath": path} | ({"readOnly": True} if read_only else {})
        self._upsert("volumeMounts", entry, path, "mountPath")

    def set_image(self, image: str) -> None:
        """Run another image. An empty one is said, too: no Job can be made of it, and that is told."""
        self._set("image", image)

    def set_command(self, command: Iterable[str]) -> None:
        """Run another command. An empty one clears the runtime's, and the image's entry point runs."""
        self._set("command", list(command))

    def set_args(self, args: Iterable[str]) -> None:
        """Pass other arguments. For the JobSet plugin, which lays the TrainJob's over the runtime's."""
        self._set("args", list(args))

    def add_env_from(self, source: Json) -> None:
        """Append a source of many variables."""
        self._journal.record(f"{self._path}.envFrom", source)
        self._list("envFrom").append(source)

    def merge_resources(self, resources: Json) -> None:
        """
        Lay requests, limits and claims over the container's, by name and canonically; nothing is removed.

        Go's Trainer loses claims (DRA) on this way; here they are kept.
        """
        merged = dict(self.resources)
        for kind in ("limits", "requests"):
            if asked := resources.get(kind):
                amounts = {name: canonical(amount) for name, amount in asked.items()}
                merged[kind] = (merged.get(kind) or {}) | amounts
        if resources.get("claims"):
            claims = list(merged.get("claims") or ())
            for claim in resources["claims"]:
                upsert(claims, claim, "name", "request")
            merged["claims"] = claims
        self._set("resources", merged)

    def _set(self, key: str, value: JsonValue) -> None:
        self._journal.record(f"{self._path}.{key}", value)
        if value or key in ("resources", "image"):
            self.spec[key] = value
        else:
            self.spec.pop(key, None)

    def _list(self, key: str) -> list[Json]:
        items: list[Json] = self.spec.get(key) or []
        self.spec[key] = items
        return items

    def _upsert(self, key: str, item: Json, label: str, by: str) -> None:
        self._journal.record(f"{self._path}.{key}[{label}]", item)
        upsert(self._list(key), item, by)


class PodSet:
    """The pods of one replicated job: how many, what they run, and under which host names."""

    __slots__ = (
        "_journal",
        "_path",
        "ancestor",
        "containers",
        "count",
        "endpoints",
        "init_containers",
        "job",
        "least",
        "pod",
        "step",
        "step_container",
    )

    def __init__(self, replicated_job: Json, count: int, journal: Journal) -> None:
        self.job = replicated_job
        template = child(replicated_job, "template")
        pod_template = child(child(template, "spec"), "template")
        self.pod = child(pod_template, "spec")
        self._path = f"replicatedJobs[{self.name}].template.spec.template"
        self._journal = journal
        self.step = step_of(replicated_job)
        self.ancestor: str = self.step.name
        """The step of a TrainJob that this is; empty if none (`steps`)."""
        self.count = count
        self.least: int | None = None
        """Fewest pods with which an elastic job works: a gang waits for these. None: for all of `count`."""
        self.containers = self._views("containers")
        self.init_containers = self._views("initContainers")
        self.step_container = self._step_container()
        """The main container that the step runs in, which gets what the TrainJob says of the step (`steps`)."""
        self.endpoints: Callable[[], Iterator[str]] = lambda: iter(())
        """
        Short host names of the pods, in order; set in the PodNetwork phase. Lazy: a job may have 10,000.

        For plugins that write the names down, as MPI's host file wants them; torchrun needs the coordinator's only.
        """

    @property
    def name(self) -> str:
        """The replicated job's name."""
        return str(self.job.get("name", ""))

    @property
    def replicas(self) -> int:
        """How many Jobs of it there are, each with `count` pods."""
        replicas = self.job.get("replicas")
        return 1 if replicas is None else int(replicas)

    def _step_container(self) -> Container | None:
        name = container_name(self.step, [container.name for container in self.containers])
        return self.main_container(name) if name is not None else None

    def container(self, name: str) -> Container | None:
        """Return the main container of this name, else the init container, else None."""
        return next((c for c in (*self.containers, *self.init_containers) if c.name == name), None)

    def main_container(self, name: str) -> Container | None:
        """Return the main container of this name, or None."""
        return next((c for c in self.containers if c.name == name), None)

    @property
    def enough(self) -> int:
        """How many pods of each of its Jobs a gang has to wait for."""
        return self.count if self.least is None else self.least

    def set_count(self, count: int, *, least: int | None = None) -> None:
        """Say how many pods each of its Jobs has; 0 is a count. An elastic one works with fewer, too."""
        self._journal.record(f"replicatedJobs[{self.name}].count", count)
        self.count, self.least = count, least

    def set_replicas(self, replicas: int) -> None:
        """Say how many Jobs of it there are."""
        self._journal.record(f"replicatedJobs[{self.name}].replicas", replicas)
        self.job["replicas"] = replicas

    def set_job_field(self, name: str, value: JsonValue) -> None:
        """Set a field of the Job's spec, beside its pods'."""
        self._journal.record(f"replicatedJobs[{self.name}].template.spec.{name}", value)
        child(child(self.job, "template"), "spec")[name] = value

    def default_job_field(self, name: str, value: JsonValue) -> None:
        """Set a field of the Job's spec that the runtime leaves open."""
        if child(child(self.job, "template"), "spec").get(name) is None:
            self.set_job_field(name, value)

    def set_job_label(self, key: str, value: str) -> None:
        """Set a label of the Jobs."""
        self._journal.record(f"replicatedJobs[{self.name}].template.metadata.labels.{key}", value)
        child(child(child(self.job, "template"), "metadata"), "labels")[key] = value

    def set_volume(self, volume: Json) -> None:
        """Set a volume of the pod by name."""
        self._journal.record(f"{self._path}.spec.volumes[{volume['name']}]", volume)
        volumes: list[Json] = self.pod.get("volumes") or []
        self.pod["volumes"] = volumes
        upsert(volumes, volume, "name")

    def add_search_domain(self, domain: str) -> None:
        """Let the pods find hosts of a DNS domain by their first label."""
        self._journal.record(f"{self._path}.spec.dnsConfig.searches[{domain}]", domain)
        config = child(self.pod, "dnsConfig")
        searches = config.get("searches") or []
        config["searches"] = searches if domain in searches else [*searches, domain]

    def add_init_container(self, spec: Json) -> Container:
        """Append an init container."""
        self._journal.record(f"{self._path}.spec.initContainers[{spec['name']}]", spec)
        self.pod["initContainers"] = [*(self.pod.get("initContainers") or ()), spec]
        self.init_containers = self._views("initContainers")
        return self.init_containers[-1]

    def set_scheduling_group(self, name: str) -> None:
        """Make the pods members of a PodGroup of Kubernetes' own."""
        self._journal.record(f"{self._path}.spec.schedulingGroup", name)
        self.pod["schedulingGroup"] = {"podGroupName": name}

    def set_workload_ref(self, reference: Json) -> None:
        """Make the pods members of a group of a Workload, as Kubernetes 1.35 has it."""
        self._journal.record(f"{self._path}.spec.workloadRef", reference)
        self.pod["workloadRef"] = reference

    def set_metadata(self, kind: MetadataKind, key: str, value: str) -> None:
        """Set a label or an annotation of the pods."""
        self._journal.record(f"{self._path}.metadata.{kind}.{key}", value)
        pod_template = child(child(child(self.job, "template"), "spec"), "template")
        child(child(pod_template, "metadata"), kind)[key] = value

    def _views(self, key: str) -> list[Container]:
        specs: list[Json] = self.pod.get(key) or []
        return [Container(spec, f"{self._path}.spec.{key}[{spec.get('name')}]", self._journal) for spec in specs]


class JobSetMetadata(NamedTuple):
    """Labels and annotations of the JobSet."""

    labels: dict[str, str]
    annotations: dict[str, str]


@dataclass(frozen=True, slots=True)
class Program:
    """What the trainer's containers start. None leaves it to the runtime; empty is a value and clears the runtime's."""

    command: tuple[str, ...] | None = None
    args: tuple[str, ...] | None = None


@dataclass(slots=True)
class Info:
    """One job on its way through the phases. Mutable, private to one run of the pipeline."""

    job: api.TrainJob
    runtime: api.RuntimeSpec
    """As the runtime's author wrote it, before patches."""
    template: Json
    """The JobSet spec being built."""
    pod_sets: list[PodSet]
    """One for each replicated job, in the same order."""
    metadata: JobSetMetadata = field(default_factory=lambda: JobSetMetadata({}, {}))
    journal: Journal = field(default_factory=Journal)
    program: Program = field(default_factory=Program)
    """The TrainJob's, unless a plugin has set another; laid over the runtime's when the JobSet is built."""

    @property
    def labels(self) -> Mapping[str, str]:
        """The JobSet's labels so far; `set_metadata` adds to them."""
        return MappingProxyType(self.metadata.labels)

    @property
    def annotations(self) -> Mapping[str, str]:
        """The JobSet's annotations so far."""
        return MappingProxyType(self.metadata.annotations)

    def set_metadata(self, kind: MetadataKind, key: str, value: str) -> None:
        """Set a label or an annotation of the JobSet."""
        self.journal.record(f"metadata.{kind}.{key}", value)
        getattr(self.metadata, kind)[key] = value

    def set_pod_metadata(self, kind: MetadataKind, key: str, value: str) -> None:
        """Set a label or an annotation of all pods, as gang schedulers want it."""
        for pod_set in self.pod_sets:
            pod_set.set_metadata(kind, key, value)

    def default_field(self, name: str, value: JsonValue) -> None:
        """Set a field of the JobSet's spec that the runtime leaves open."""
        if name not in self.template:
            self.journal.record(name, value)
            self.template[name] = value

    def set_program(self, program: Program) -> None:
        """Start this in the trainer's containers instead of what the TrainJob says: for plugins that wrap it."""
        self.journal.record("trainer.program", program)
        self.program = program

    @property
    def trainer(self) -> PodSet | None:
        """The first pod set labelled as the trainer step."""
        return self.by_ancestor(api.ANCESTOR_TRAINER)

    @property
    def trainer_container(self) -> Container | None:
        """The container of the trainer step where the user's code runs."""
        return self.trainer.step_container if self.trainer else None

    @property
    def subdomain(self) -> str:
        """The headless service's name, under which the pods find each other."""
        return (self.template.get("network") or {}).get("subdomain") or self.job.metadata.name

    @property
    def coordinator_host(self) -> str:
        """
        The short host name of the trainer's first pod, where workers meet.

        Go's Trainer always says `<job>-node-0-0.<job>`, which does not resolve when the runtime names its trainer job
        or its subdomain otherwise.
        """
        return self.host(self.trainer.name if self.trainer else api.TRAINER_CONTAINER, 0, 0)

    def host(self, replicated_job: str, replica: int, pod: int) -> str:
        """Name one pod as JobSet does, see `host_name`."""
        return host_name(self.subdomain, self.job.metadata.name, replicated_job, replica, pod)

    def by_ancestor(self, ancestor: str) -> PodSet | None:
        """Return the first pod set of this step, or None."""
        return next((pod_set for pod_set in self.pod_sets if pod_set.ancestor == ancestor), None)

    def by_name(self, name: str) -> PodSet | None:
        """Return the pod set of this replicated job, or None."""
        return next((pod_set for pod_set in self.pod_sets if pod_set.name == name), None)


def host_name(subdomain: str, job_set: str, replicated_job: str, replica: int, pod: int) -> str:
    """Name a pod as JobSet does: `<jobset>-<replicated job>-<job index>-<pod index>.<subdomain>`."""
    return f"{job_set}-{replicated_job}-{replica}-{pod}.{subdomain}"


def child(parent: Json, key: str) -> Json:
    """Return the object under *key*, making an empty one if there is none."""
    value: Json | None = parent.get(key)
    if not isinstance(value, dict):
        value = parent[key] = {}
    return value
