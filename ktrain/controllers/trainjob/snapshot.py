"""
Runtime snapshots (Kubeflow Trainer KEP-2599): the first pass over a TrainJob copies its runtime into a ConfigMap, and
from then on only that copy counts. Runtimes can be edited and deleted under running jobs.

`data.runtime` is the whole runtime object as YAML. We write the JSON subset of YAML: every parser reads it alike, also
where YAML 1.1 and 1.2 disagree about an unquoted `on` or `1e3`. We read any YAML: Go's Trainer may have written it.

A snapshot is either of one job (`JOB-runtime-snapshot`, owned by it; the same as Go's) or shared by the jobs of a
namespace (`ktrain-runtime-DIGEST`): that one is named by a digest of its text, so its content proves itself. It holds
the spec and the runtime's name only, so that a runtime that is labelled or made anew is still the same one.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary

import msgspec

from ktrain.api import trainer as api
from ktrain.api.meta import Key, format_time, owner_reference
from ktrain.api.typed import as_typed
from ktrain.controllers import admission
from ktrain.pipeline.errors import PlanError

if TYPE_CHECKING:
    from ktrain.api.core import ConfigMap
    from ktrain.api.meta import Json, JsonValue, ObjectMeta
    from ktrain.plugins.jobset import JobSetState

_MAX_YAML_CHARS: Final = 128 * 1024
"""Go's Trainer writes some 4,000. The worst that can be in these takes a tenth of a second to read."""
_MAX_CHARS: Final = 1024 * 1024
"""As large as a ConfigMap can be."""
SHARED: Final = f"{api.GROUP}/runtime-snapshot"
"""Label (value `shared`) of the ConfigMaps that are shared; annotation of a JobSet that names the one it runs on."""
FOREIGN: Final = "a snapshot configmap exists but is owned by another object"


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Snapshot:
    """A frozen runtime. `text` is what the ConfigMap holds."""

    kind: str
    api_group: str
    name: str
    spec: api.RuntimeSpec
    text: str
    refusal: str = ""
    """What admission has against the runtime itself, in its words."""

    @property
    def shared_name(self) -> str:
        """The name of the ConfigMap that shares it."""
        return f"ktrain-runtime-{_digest(self.text).hex()}"


# A thousand jobs of one runtime share one snapshot in memory.
_by_text: WeakValueDictionary[bytes, Snapshot] = WeakValueDictionary()
_by_version: WeakValueDictionary[tuple[str, str, bool], Snapshot] = WeakValueDictionary()


def snapshot_key(job: api.TrainJob) -> Key:
    """Where the snapshot of a TrainJob lives."""
    return Key(job.metadata.namespace, f"{job.metadata.name}{api.SNAPSHOT_SUFFIX}")


def shared_key(job_set: JobSetState) -> Key | None:
    """Where the shared snapshot lives that a JobSet says it runs on; None if it says nothing."""
    name = job_set.metadata.annotations.get(SHARED)
    return Key(job_set.metadata.namespace, name) if name else None


def _digest(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=16).digest()


def take(runtime: api.Runtime, *, shared: bool = False) -> Snapshot:
    """
    Copy a live runtime, for one job or to be shared.

    Raises:
        PlanError: Its spec does not fit the schema, or no ConfigMap holds it.
    """
    version = (runtime.metadata.uid, runtime.metadata.resource_version, shared)
    known = _by_version.get(version)
    if known is not None:
        return known
    document = {
        "apiVersion": api.API_VERSION,
        "kind": runtime.kind,
        "metadata": _shared_metadata(runtime.metadata) if shared else _metadata(runtime.metadata),
        "spec": _as_go_writes(runtime.spec),
    }
    snapshot = parse(_text(document))
    if all(version[:2]):
        _by_version[version] = snapshot
    return snapshot


def _text(document: Json) -> str:
    """Write for people, unless there is no room for that."""
    plain = msgspec.json.encode(document)
    if len(plain) > _MAX_CHARS:
        which = f'{document["kind"]} "{document["metadata"]["name"]}"'
        raise PlanError(
            f"{which} has {len(plain)} bytes, and its snapshot must fit into a ConfigMap, which holds {_MAX_CHARS}; "
            "move what is long into ConfigMaps that its pods mount"
        )
    pretty = msgspec.json.format(plain)
    return (pretty if len(pretty) <= _MAX_CHARS else plain).decode()


def _metadata(metadata: ObjectMeta) -> Json:
    meta: Json = msgspec.to_builtins(metadata, builtin_types=(datetime,))
    for name in ("creationTimestamp", "deletionTimestamp"):
        if name in meta:
            meta[name] = format_time(meta[name])
    return meta


def _shared_metadata(metadata: ObjectMeta) -> Json:
    """What says which runtime it is, and whether its author asked not to have it checked."""
    labels = {key: value for key, value in metadata.labels.items() if key == admission.UNCHECKED_LABEL}
    named = {"name": metadata.name, "namespace": metadata.namespace, "labels": labels}
    return {key: value for key, value in named.items() if value}


def _as_go_writes(raw: msgspec.Raw) -> JsonValue:
    """
    Write a runtime's JobSet template as Go's types do.

    A JobSet that an apply of ours and one of Go's Trainer's both made is then the same.
    """
    spec: Json = msgspec.json.decode(raw)
    template = spec.get("template")
    if isinstance(template, dict) and isinstance(template.get("spec"), dict):
        template["spec"] = as_typed(template["spec"])
    return spec


def canonical(spec: api.RuntimeSpec) -> JsonValue:
    """Return a runtime's spec as a snapshot holds it, so that two that mean the same are equal."""
    return _as_go_writes(msgspec.Raw(msgspec.json.encode(spec)))


def parse(text: str) -> Snapshot:
    """
    Read a snapshot's text.

    Raises:
        PlanError: It is not YAML, or not a runtime.
    """
    digest = _digest(text)
    known = _by_text.get(digest)
    if known is not None:
        return known
    try:
        runtime = msgspec.json.decode(_json(text), type=api.Runtime)
        spec = msgspec.json.decode(runtime.spec, type=api.RuntimeSpec)
    except (msgspec.MsgspecError, ValueError, ArithmeticError, RecursionError) as error:
        raise PlanError(f"invalid runtime snapshot: unable to unmarshal the snapshot: {error}") from error
    group = runtime.api_version.rpartition("/")[0]
    snapshot = Snapshot(runtime.kind, group, runtime.metadata.name, spec, text, admission.refusal_of_runtime(runtime))
    _by_text[digest] = snapshot
    return snapshot


def is_kubeflows(snapshot: Snapshot | PlanError | None) -> bool:
    """Whether Kubeflow's operator took a snapshot, and so made what was built from it: its YAML is no JSON."""
    return isinstance(snapshot, Snapshot) and not snapshot.text.lstrip().startswith("{")


def read(config_map: ConfigMap, job: api.TrainJob) -> Snapshot | PlanError:
    """Read a snapshot's ConfigMap; say why if it cannot be used."""
    if not config_map.metadata.is_controlled_by(job.metadata.uid):
        return PlanError(f"invalid runtime snapshot: {FOREIGN}")
    return _read(config_map)


def read_shared(config_map: ConfigMap) -> Snapshot | PlanError:
    """Read the ConfigMap of a shared snapshot; say why if it cannot be used. Its name proves its content."""
    snapshot = _read(config_map)
    if isinstance(snapshot, Snapshot) and snapshot.shared_name != config_map.metadata.name:
        which = f'ConfigMap "{config_map.metadata.name}"'
        return PlanError(
            f"invalid runtime snapshot: {which} does not hold what its name says, so somebody else wrote it; delete it"
        )
    return snapshot


def _read(config_map: ConfigMap) -> Snapshot | PlanError:
    text = config_map.data.get(api.SNAPSHOT_KEY)
    if text is None:
        return PlanError(f'invalid runtime snapshot: snapshot ConfigMap missing "{api.SNAPSHOT_KEY}" data key')
    try:
        return parse(text)
    except PlanError as error:
        return error


def _json(text: str) -> bytes:
    """
    Return a snapshot's text as JSON.

    The ConfigMap lies in the user's namespace, so anything may be in it, and while it is read nothing else runs.

    Raises:
        ValueError: It is not one document of YAML, or larger than a snapshot can be.
    """
    is_json = text.lstrip().startswith("{")
    most = _MAX_CHARS if is_json else _MAX_YAML_CHARS
    if len(text) > most:
        raise ValueError(f"it has {len(text)} characters, and at most {most} are read")
    if is_json:
        return text.encode()
    from ktrain.api.documents import parse as yaml  # only for snapshots that Go's Trainer made
    from ktrain.api.documents.errors import DocumentError

    try:
        documents = list(yaml.parse(text.encode(), api.SNAPSHOT_KEY, repeated=[]))
    except DocumentError as error:
        raise ValueError(str(error)) from error
    if len(documents) != 1:
        raise ValueError(f"{len(documents)} documents, where one is expected")
    value = documents[0].value
    # Aliases are shared in memory, and written out each time.
    if not _is_within(value, _MAX_CHARS):
        raise ValueError(f"it expands to more than {_MAX_CHARS} characters; are there aliases of aliases?")
    return msgspec.json.encode(value)


def _is_within(root: JsonValue, most: int) -> bool:
    """Whether a value, written out, has at most so many characters; each part, which costs time, counts for ten."""
    total, pending = 0, [root]
    while pending and total <= most:
        value = pending.pop()
        total += 10 + len(value) if isinstance(value, str) else 10
        if isinstance(value, dict):
            total += sum(map(len, value))
            pending.extend(value.values())
        elif isinstance(value, list):
            pending.extend(value)
    return total <= most


def check(snapshot: Snapshot, ref: api.RuntimeRef) -> None:
    """
    Make sure that a snapshot is of the runtime that the TrainJob refers to.

    Raises:
        PlanError: It is not.
    """
    expected = (ref.name, ref.api_group or "<any>", ref.kind or "<any>")
    found = (snapshot.name, snapshot.api_group, snapshot.kind)
    if all(want in ("<any>", have) for want, have in zip(expected, found, strict=True)):
        return
    what = "name, api group and kind of "
    raise PlanError(
        "invalid runtime snapshot: the snapshot refers to the wrong runtime: expecting a runtime with "
        f"{what}{_quoted(expected)} but found runtime with {what}{_quoted(found)}"
    )


def _quoted(parts: tuple[str, str, str]) -> str:
    return ", ".join(f'"{part}"' for part in parts)


def config_map(job: api.TrainJob, snapshot: Snapshot) -> Json:
    """Build the snapshot's ConfigMap. It carries no labels: Go's does not, and its users compare."""
    key = snapshot_key(job)
    owner = owner_reference(api.API_VERSION, "TrainJob", job.metadata.name, job.metadata.uid)
    body: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": key.name, "namespace": key.namespace, "ownerReferences": [owner]},
        "data": {api.SNAPSHOT_KEY: snapshot.text},
    }
    return body


def shared_config_map(namespace: str, snapshot: Snapshot) -> Json:
    """Build the ConfigMap of a shared snapshot. It needs no owner: whoever has the same runtime writes the same."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": snapshot.shared_name, "namespace": namespace, "labels": {SHARED: "shared"}},
        "immutable": True,
        "data": {api.SNAPSHOT_KEY: snapshot.text},
    }
