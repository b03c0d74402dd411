"""
envtest's environment variables, so that a machine or CI that is set up for it needs nothing more.

    USE_EXISTING_CLUSTER                    `true`: start nothing, use the cluster of the current kubeconfig
    TEST_ASSET_ETCD, TEST_ASSET_KUBE_APISERVER, TEST_ASSET_KUBECTL
                                            one program; before all else
    KUBEBUILDER_ASSETS                      the directory of the others; /usr/local/kubebuilder/bin if it is not set
    KUBEBUILDER_CONTROLPLANE_START_TIMEOUT, KUBEBUILDER_CONTROLPLANE_STOP_TIMEOUT
                                            as Go writes durations: `60s`, `1m30s`
    KUBEBUILDER_ATTACH_CONTROL_PLANE_OUTPUT `true`: what the programs print is shown, not kept in files

One thing differs: without any of the first three, tests run on the embedded server, even if the default directory
exists, because the embedded server is the default here and nobody should get another one by accident.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

ASSETS: Final = "KUBEBUILDER_ASSETS"
DEFAULT_DIRECTORY: Final = Path("/usr/local/kubebuilder/bin")
START_TIMEOUT_S: Final = 60.0
STOP_TIMEOUT_S: Final = 20.0
_ONE_ASSET: Final = "TEST_ASSET_"
_UNITS_S: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)")
_TRUE: Final = ("1", "t", "true")


@dataclass(frozen=True, slots=True)
class Binaries:
    """The programs of a control plane. The optional ones are None if there is no such file."""

    etcd: Path
    kube_apiserver: Path
    kube_controller_manager: Path | None = None
    kubectl: Path | None = None

    @staticmethod
    def inside(directory: Path) -> Binaries:
        """All programs from one directory, under their own names."""
        return _binaries({}, directory)


@dataclass(frozen=True, slots=True)
class Settings:
    """What the environment asks for."""

    existing_cluster: bool = False
    """Use the cluster of the current kubeconfig."""
    binaries: Binaries | None = None
    """Start these; None: use the embedded server."""
    start_timeout_s: float = START_TIMEOUT_S
    """For one attempt to start everything. Longer than envtest's 20 s: machines that build their own are slow."""
    stop_timeout_s: float = STOP_TIMEOUT_S
    """For one program to be gone."""
    attach_output: bool = False
    """Show what the programs print."""

    @staticmethod
    def of(environment: Mapping[str, str] = os.environ) -> Settings:
        """
        Read the variables.

        Raises:
            ValueError: A duration is none.
        """
        chosen = [ASSETS, *(name for name in environment if name.startswith(_ONE_ASSET))]
        is_chosen = any(environment.get(name) for name in chosen)
        directory = Path(environment.get(ASSETS) or DEFAULT_DIRECTORY)
        return Settings(
            existing_cluster=_flag(environment, "USE_EXISTING_CLUSTER"),
            binaries=_binaries(environment, directory) if is_chosen else None,
            start_timeout_s=_seconds(environment, "KUBEBUILDER_CONTROLPLANE_START_TIMEOUT", START_TIMEOUT_S),
            stop_timeout_s=_seconds(environment, "KUBEBUILDER_CONTROLPLANE_STOP_TIMEOUT", STOP_TIMEOUT_S),
            attach_output=_flag(environment, "KUBEBUILDER_ATTACH_CONTROL_PLANE_OUTPUT"),
        )


def _binaries(environment: Mapping[str, str], directory: Path) -> Binaries:
    def path(program: str) -> Path:
        named = environment.get(_ONE_ASSET + program.upper().replace("-", "_"))
        return Path(named) if named else directory / program

    def optional(program: str) -> Path | None:
        return found if (found := path(program)).exists() else None

    return Binaries(path("etcd"), path("kube-apiserver"), optional("kube-controller-manager"), optional("kubectl"))


def _flag(environment: Mapping[str, str], name: str) -> bool:
    return environment.get(name, "").lower() in _TRUE


def _seconds(environment: Mapping[str, str], name: str, default: float) -> float:
    text = environment.get(name, "")
    if not text:
        return default
    if not re.fullmatch(f"(?:{_PART.pattern})+", text):
        raise ValueError(f"{name}={text} is no duration; write it like 60s or 1m30s")
    return sum(float(number) * _UNITS_S[unit] for number, unit in _PART.findall(text))
