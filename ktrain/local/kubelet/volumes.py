"""
What a pod mounts: a volume becomes a directory (or a path) of this machine, a volumeMount a `Mount` of the executor.

What a volume must contain is computed without touching a disk (`payload`); writing happens in `files`, off the event
loop. Volumes that come from the API are written again now and then, so changes reach running pods, as in a cluster,
except through subPath.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio.to_thread

from ktrain.api import quantity
from ktrain.api.core import PERSISTENT_VOLUME_CLAIMS
from ktrain.framework.errors import FrameworkError, NotFound
from ktrain.local.sandbox.executor import Mount

from . import mpi
from . import sources as api_objects
from .environment import ConfigError, PodFacts, Sources, expand, field_value, resource_value
from .files import File, VolumeError, check_host_path, escapes, make_directory, prepare_sub_path, write_payload
from .tokens import PodTokens
from .volume_spec import (
    ConfigMapVolume,
    DownwardVolume,
    KeyToPath,
    ProjectedSecret,
    ProjectedVolume,
    Projection,
    SecretVolume,
    ServiceAccountToken,
    Volume,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ktrain.framework import Client
    from ktrain.framework.env import Clock

    from .spec import Container, Pod

Payload = dict[str, File]
ACCOUNT_DIRECTORY: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
"""Where clients in a pod look for their credentials; no variable tells them otherwise."""


class PodVolumes:
    """The volumes of one pod. Owned by its worker; not safe for concurrent use."""

    def __init__(
        self,
        pod: Pod,
        *,
        directory: Path,
        claims: Path,
        client: Client,
        clock: Clock,
        facts: PodFacts,
        rewrite: Callable[[str], str],
        in_memory: bool,
    ) -> None:
        """`in_memory`: the sandbox has put a file system of its own in place of `memory_volumes`."""
        self._directory = directory
        self._claims = claims / pod.metadata.namespace
        self._client = client
        self._tokens = PodTokens(client, clock)
        self._facts = facts
        self._rewrite = rewrite
        self._paths: dict[str, Path] = {}
        # What shows API objects is read-only in a cluster, too; a write would be lost with the next refresh.
        self._read_only = {v.name for v in pod.spec.volumes if v.shows_api or (v.claim and v.claim.read_only)}
        # Only the pod itself sees into what it has in memory.
        self._in_memory = {v.name for v in pod.spec.volumes if v.in_memory} if in_memory else set()
        self._keys = {v.name for v in pod.spec.volumes if mpi.holds_keys(v)}
        self.shows_api = any(v.shows_api for v in pod.spec.volumes)

    async def set_up(self, pod: Pod) -> None:
        """
        Make every volume ready, or bring those that show API objects up to date. Safe to repeat.

        Raises:
            VolumeError: The first volume that cannot be set up, by name, with the reason.
        """
        volumes = pod.spec.volumes
        if not volumes:
            return
        try:
            found = await api_objects.fetch(self._client, pod.metadata.namespace, *referenced(volumes))
            found = replace(found, tokens=await self._tokens.fetch(pod, _wanted_tokens(volumes)))
        except FrameworkError as error:
            raise VolumeError(f"cannot read what the volumes refer to: {error}") from error
        for volume in volumes:
            try:
                self._paths[volume.name] = await self._set_up(volume, pod, found)
            except (VolumeError, ConfigError) as error:
                raise VolumeError(f"volume {volume.name!r}: {error}") from error

    async def mounts(self, container: Container, variables: Mapping[str, str]) -> tuple[Mount, ...]:
        """
        Return what this container sees, parents before what lies inside them.

        Raises:
            VolumeError: A subPath cannot be used.
        """
        found = []
        for mount in container.volume_mounts:
            path, inside = self._path(mount.name), ""
            if mount.sub_path or mount.sub_path_expr:
                inside = mount.sub_path or _expanded_sub_path(mount.sub_path_expr, variables)
                if mount.name not in self._in_memory:
                    path, inside = await anyio.to_thread.run_sync(prepare_sub_path, path, inside), ""
                elif escapes(inside):
                    raise VolumeError(f"subPath {inside!r} must be a relative path inside the volume, without '..'")
            read_only = mount.read_only or mount.name in self._read_only
            # On a shared host only one pod can have it there; the others have other uses for their time.
            optional = mount.mount_path.rstrip("/") == ACCOUNT_DIRECTORY or mount.name in self._keys
            found.append(Mount(path, mount.mount_path, read_only, optional=optional, inside=inside))
        return tuple(sorted(found, key=lambda m: m.target.rstrip("/").count("/")))

    def _path(self, name: str) -> Path:
        if name not in self._paths:
            raise VolumeError(f"volumeMounts name {name!r}, but the pod has no such volume")
        return self._paths[name]

    async def _set_up(self, volume: Volume, pod: Pod, found: Sources) -> Path:
        content, group = payload(volume, pod, self._facts, found), pod.spec.security_context.fs_group
        if content is not None:
            path = self._directory / volume.name
            files = self._rewritten(content)
            await anyio.to_thread.run_sync(lambda: write_payload(path, files, group=group))
            return path
        if (host := volume.host_path) is not None:
            await anyio.to_thread.run_sync(check_host_path, Path(host.path), host.type)
            return Path(host.path)
        if (claim := volume.claim) is not None:
            await self._check_claim(claim.claim_name, pod)
            path = self._claims / claim.claim_name
        elif volume.empty_dir is not None:
            # `medium: Memory` is a plain directory, too, if the sandbox has not made it a file system in memory.
            path = self._directory / volume.name
        else:
            raise VolumeError(
                "its kind is not supported here; use emptyDir, configMap, secret, downwardAPI, "
                "projected, persistentVolumeClaim or hostPath"
            )
        await anyio.to_thread.run_sync(lambda: make_directory(path, mode=0o777, group=group))
        return path

    async def _check_claim(self, name: str, pod: Pod) -> None:
        if escapes(name) or "/" in name:
            raise VolumeError(f"persistentvolumeclaim {name!r} is no name")
        try:
            await self._client.get(PERSISTENT_VOLUME_CLAIMS, name, pod.metadata.namespace)
        except NotFound:
            raise VolumeError(f"persistentvolumeclaim {name!r} not found in {pod.metadata.namespace!r}") from None
        except FrameworkError as error:
            raise VolumeError(f"cannot read persistentvolumeclaim {name!r}: {error}") from error

    def _rewritten(self, content: Payload) -> Payload:
        """Host files and the like name peers; on a shared host those names must become what works there."""
        result = {}
        for path, file in content.items():
            try:
                result[path] = File(self._rewrite(file.content.decode()).encode(), file.mode)
            except UnicodeDecodeError:
                result[path] = file
        return result


def memory_volumes(pod: Pod, directory: Path) -> dict[Path, int | None]:
    """Return where a pod's volumes in memory will be below that of its volumes, with their limits in bytes."""
    return {
        directory / volume.name: int(quantity.parse(volume.empty_dir.size_limit)) or None
        for volume in pod.spec.volumes
        if volume.in_memory and volume.empty_dir is not None
    }


def _expanded_sub_path(expression: str, variables: Mapping[str, str]) -> str:
    expanded = expand(expression, variables)
    if "$(" in expanded:
        raise VolumeError(f"subPathExpr {expression!r} names a variable that is not set")
    return expanded


def referenced(volumes: Iterable[Volume]) -> tuple[set[str], set[str]]:
    """Name the ConfigMaps and the Secrets that these volumes show."""
    config_maps: set[str] = set()
    secrets: set[str] = set()
    for volume in volumes:
        config_maps |= {volume.config_map.name} if volume.config_map else set()
        secrets |= {volume.secret.secret_name} if volume.secret else set()
        for source in _projections(volume):
            config_maps |= {source.config_map.name} if source.config_map else set()
            secrets |= {source.secret.name} if source.secret else set()
    return config_maps, secrets


def payload(volume: Volume, pod: Pod, facts: PodFacts, found: Sources) -> Payload | None:
    """
    Compute the files of a volume that shows API objects: path to content and mode. None for other kinds.

    Raises:
        VolumeError: An object or a key that is not optional is missing, or a path leads out of the volume.
        ConfigError: A downward API reference is not supported.
    """
    if volume.config_map is not None:
        return _config_map_files(volume.config_map, found, volume.config_map.default_mode)
    if volume.secret is not None:
        reference = volume.secret
        return _secret_files(reference.secret_name, reference, found, reference.default_mode)
    if volume.downward_api is not None:
        return _downward_files(volume.downward_api, pod, facts, volume.downward_api.default_mode)
    if volume.projected is not None:
        return _projected_files(volume.projected, pod, facts, found)
    return None


def _wanted_tokens(volumes: Iterable[Volume]) -> set[ServiceAccountToken]:
    projections = (source for volume in volumes for source in _projections(volume))
    return {one for source in projections if (one := source.service_account_token) is not None}


def _projections(volume: Volume) -> tuple[Projection, ...]:
    return (volume.projected.sources or ()) if volume.projected else ()


def _check_path(path: str, what: str) -> None:
    if escapes(path) or path.startswith(".."):
        raise VolumeError(f"{what}: path {path!r} must be relative and must not contain '..'")


def _projected_files(volume: ProjectedVolume, pod: Pod, facts: PodFacts, found: Sources) -> Payload:
    files: Payload = {}
    mode = volume.default_mode
    for source in volume.sources or ():
        if source.config_map is not None:
            files |= _config_map_files(source.config_map, found, mode)
        elif source.secret is not None:
            files |= _secret_files(source.secret.name, source.secret, found, mode)
        elif source.downward_api is not None:
            files |= _downward_files(source.downward_api, pod, facts, mode)
        elif (wanted := source.service_account_token) is not None:
            _check_path(wanted.path, "serviceAccountToken")
            files[wanted.path] = File(found.tokens[wanted].encode(), mode)
        else:
            raise VolumeError(
                "projected sources other than configMap, secret, downwardAPI and serviceAccountToken "
                "are not supported here"
            )
    return files


def _config_map_files(volume: ConfigMapVolume, found: Sources, mode: int) -> Payload:
    config_map = found.config_maps.get(volume.name)
    data = None
    if config_map is not None:
        data = {key: text.encode() for key, text in config_map.data.items()} | config_map.binary_data
    return _chosen(data, volume.items, mode, f"configmap {volume.name!r}", optional=volume.optional)


def _secret_files(name: str, volume: SecretVolume | ProjectedSecret, found: Sources, mode: int) -> Payload:
    secret = found.secrets.get(name)
    data = secret.data if secret is not None else None
    return _chosen(data, volume.items, mode, f"secret {name!r}", optional=volume.optional)


def _chosen(
    data: Mapping[str, bytes] | None, items: tuple[KeyToPath, ...], mode: int, what: str, *, optional: bool
) -> Payload:
    if data is None:
        if optional:
            return {}
        raise VolumeError(f"{what} not found")
    files: Payload = {}
    for item in items or tuple(KeyToPath(key, key) for key in sorted(data)):
        _check_path(item.path, what)
        if item.key in data:
            files[item.path] = File(data[item.key], mode if item.mode is None else item.mode)
        elif not optional:
            raise VolumeError(f"{what} has no key {item.key!r}")
    return files


def _downward_files(volume: DownwardVolume, pod: Pod, facts: PodFacts, mode: int) -> Payload:
    files: Payload = {}
    for item in volume.items:
        _check_path(item.path, "downwardAPI")
        if item.field_ref is not None:
            text = field_value(item.field_ref.field_path, pod, facts)
        elif item.resource_field_ref is not None:
            text = resource_value(item.resource_field_ref, pod, None, facts.allocatable)
        else:
            raise VolumeError(f"downwardAPI: {item.path!r} has neither fieldRef nor resourceFieldRef")
        files[item.path] = File(text.encode(), mode if item.mode is None else item.mode)
    return files
