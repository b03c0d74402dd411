"""Environment variables of containers, in the API server's words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.api import quantity
from ktrain.api.selectors import label_key_errors
from ktrain.local.apiserver import causes, names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause

_FIELDS: Final = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
_OTHER_FIELDS: Final = frozenset(
    {"metadata.annotations", "metadata.labels", "spec.restartPolicy", "spec.schedulerName", "status.phase"}
)
"""Those that the server knows by name, but gives to no variable."""
_OLD_NAMES: Final = {"spec.host": "spec.nodeName"}
_AMOUNTS: Final = {"cpu": "cpu", "ephemeral-storage": "local ephemeral storage", "memory": "memory"}
_RESOURCES: Final = tuple(f"{part}.{name}" for part in ("limits", "requests") for name in _AMOUNTS)
_CPU_DIVISORS: Final = ("1m", "1")
_DIVISORS: Final = ("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")
_ONE_SOURCE: Final = "may not have more than one field specified at a time"


def validate_env(variables: Iterable[Json], field: str, volumes: Mapping[str, Json]) -> Iterator[Cause]:
    """Yield what is wrong with the variables of a container in a pod with these volumes."""
    for index, variable in enumerate(variables):
        path, name = f"{field}[{index}]", variable.get("name", "")
        if name:
            yield from _validate_name(name, f"{path}.name")
        else:
            yield causes.required(f"{path}.name")
        if (source := variable.get("valueFrom")) is not None:
            yield from _validate_source(source, f"{path}.valueFrom", volumes, valued=bool(variable.get("value")))


def validate_env_from(sources: Iterable[Json], field: str) -> Iterator[Cause]:
    """Yield what is wrong with the objects whose data become variables of a container."""
    for index, source in enumerate(sources):
        path = f"{field}[{index}]"
        if prefix := source.get("prefix"):
            yield from _validate_name(prefix, f"{path}.prefix")
        given = [kind for kind in ("configMapRef", "secretRef") if kind in source]
        for kind in given:
            name = source[kind].get("name", "")
            if not name:
                yield causes.required(f"{path}.{kind}.name")
            else:
                for text in names.subdomain(name, prefix=True):
                    yield causes.invalid(f"{path}.{kind}.name", name, text)
        # Upstream leaves the index out.
        if not given:
            yield causes.invalid(field, "", "must specify one of: `configMapRef` or `secretRef`")
        elif len(given) > 1:
            yield causes.invalid(field, "", _ONE_SOURCE)


def validate_field_ref(ref: Json, field: str, supported: tuple[str, ...] = _FIELDS) -> Iterator[Cause]:
    """Yield what is wrong with a reference to a field of the pod itself."""
    version, path = ref.get("apiVersion", ""), ref.get("fieldPath", "")
    if not version or not path:
        yield causes.required(f"{field}.apiVersion" if not version else f"{field}.fieldPath")
        return
    target, subscript = _subscripted(path)
    complaint = _unknown_field(version, path, target, subscript)
    if complaint:
        yield causes.invalid(f"{field}.fieldPath", path, f"error converting fieldPath: {complaint}")
    elif subscript is not None:
        key = subscript.lower() if target == "metadata.annotations" else subscript
        for text in label_key_errors(key):
            yield causes.invalid(field, key, text)
    elif (known := _OLD_NAMES.get(path, path)) not in supported:
        yield causes.not_supported(f"{field}.fieldPath", known, supported)


def validate_resource_ref(ref: Json, field: str) -> Iterator[Cause]:
    """Yield what is wrong with a reference to what a container asks for or may use."""
    name = ref.get("resource", "")
    if not name:
        yield causes.required(f"{field}.resource")
    elif name not in _RESOURCES and not _is_huge(name):
        yield causes.not_supported(f"{field}.resource", name, _RESOURCES)
    given = ref.get("divisor", "0")
    try:
        divisor = quantity.canonical(given)
    except ValueError:
        yield causes.invalid(f"{field}.divisor", given, "must be a valid quantity")
        return
    if divisor == "0" or not (name in _RESOURCES or _is_huge(name)):
        return
    allowed = _CPU_DIVISORS if name.endswith(".cpu") else _DIVISORS
    if divisor not in allowed:
        kind = "hugepages" if _is_huge(name) else _AMOUNTS[name.partition(".")[2]]
        listed = " and ".join(allowed) if allowed is _CPU_DIVISORS else ", ".join(allowed)
        detail = f"only divisor's values {listed} are supported with the {kind} resource"
        yield causes.invalid(f"{field}.divisor", name, detail)


def _validate_name(name: str, field: str) -> Iterator[Cause]:
    if any(not " " <= char <= "~" or char == "=" for char in name):
        detail = "a valid environment variable name must consist only of printable ASCII characters other than '='"
        yield causes.invalid(field, name, detail)


def _validate_source(source: Json, field: str, volumes: Mapping[str, Json], *, valued: bool) -> Iterator[Cause]:
    given = [kind for kind in _SOURCES if kind in source]
    for kind in given:
        yield from _SOURCES[kind](source[kind], f"{field}.{kind}")
    if "fileKeyRef" in source:
        yield from _validate_volume(source["fileKeyRef"].get("volumeName", ""), f"{field}.fileKeyRef", volumes)
    if not given:
        listed = ", ".join(f"`{kind}`" for kind in list(_SOURCES)[:-1])
        yield causes.invalid(field, "", f"must specify one of: {listed} or `fileKeyRef`")
    elif valued:
        yield causes.invalid(field, "", "may not be specified when `value` is not empty")
    elif len(given) > 1:
        yield causes.invalid(field, "", _ONE_SOURCE)


def _validate_key_ref(ref: Json, field: str) -> Iterator[Cause]:
    name, key = ref.get("name", ""), ref.get("key", "")
    for text in names.subdomain(name):
        yield causes.invalid(f"{field}.name", name, text)
    if not key:
        yield causes.required(f"{field}.key")
    else:
        for text in names.config_key(key):
            yield causes.invalid(f"{field}.key", key, text)


def _validate_file_ref(ref: Json, field: str) -> Iterator[Cause]:
    for part in ("key", "volumeName", "path"):
        if not ref.get(part):
            yield causes.required(f"{field}.{part}")
    yield from _validate_name(ref.get("key", ""), f"{field}.key")
    if volume := ref.get("volumeName"):
        for text in names.label(volume):
            yield causes.invalid(f"{field}.volumeName", volume, text)
    if ".." in (path := ref.get("path", "")).split("/"):
        yield causes.invalid(f"{field}.path", path, "must not contain '..'")


def _validate_volume(name: str, field: str, volumes: Mapping[str, Json]) -> Iterator[Cause]:
    if name not in volumes:
        yield causes.missing_reference(f"{field}.volumeName", name)
    elif "emptyDir" not in volumes[name]:
        yield causes.invalid(f"{field}.volumeName", name, "referenced volume must be of type emptyDir")


_SOURCES: Final[dict[str, Callable[[Json, str], Iterator[Cause]]]] = {
    "fieldRef": validate_field_ref,
    "resourceFieldRef": validate_resource_ref,
    "configMapKeyRef": _validate_key_ref,
    "secretKeyRef": _validate_key_ref,
    "fileKeyRef": _validate_file_ref,
}


def _subscripted(path: str) -> tuple[str, str | None]:
    """Split `metadata.labels['a']` into the map and the key; the key is None if there is none."""
    target, bracket, subscript = path.partition("['")
    if target and bracket and path.endswith("']"):
        return target, subscript.removesuffix("']")
    return path, None


def _unknown_field(version: str, path: str, target: str, subscript: str | None) -> str:
    if version != "v1":
        return f"unsupported pod version: {version}"
    if subscript is not None:
        maps = {"metadata.annotations", "metadata.labels"}
        return "" if target in maps else f"field label does not support subscript: {path}"
    known = path in _FIELDS or path in _OTHER_FIELDS or path in _OLD_NAMES
    return "" if known else f"field label not supported: {path}"


def _is_huge(name: str) -> bool:
    return name.startswith(("limits.hugepages-", "requests.hugepages-"))
