"""
The files that ship beside the code: `config/` of a checkout, or `ktrain/_config` of an installed wheel.

CRDs are read from the one JSON file that the generator writes beside the YAML files, with equal parts written once
(`sharing`): parsing a megabyte of YAML would cost `ktrain run` more than everything else it does before the first
pod starts.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from .sharing import unpack

if TYPE_CHECKING:
    from .meta import Json

_PACKAGE: Final = Path(__file__).parent.parent


class AssetsMissing(Exception):
    """The installation has no `config` directory."""

    def __init__(self, places: list[Path]) -> None:
        self.places = places
        looked = " and ".join(str(place) for place in places)
        super().__init__(f"the shipped CRDs and runtimes are missing: looked in {looked}; reinstall ktrain-operator")


@lru_cache(maxsize=1)
def config_directory() -> Path:
    """
    Where the shipped configuration lies.

    Raises:
        AssetsMissing: If it is in neither place.
    """
    places = [_PACKAGE / "_config", _PACKAGE.parent / "config"]
    for place in places:
        if (place / "crd").is_dir():
            return place
    raise AssetsMissing(places)


@lru_cache(maxsize=1)
def crds() -> list[Json]:
    """
    The CRDs of trainer.kubeflow.org and JobSet. All callers share them, and nobody may change them.

    Raises:
        AssetsMissing: If the configuration is not there.
    """
    return _embedded("crds")


@lru_cache(maxsize=1)
def pod_group_crds() -> list[Json]:
    """
    The PodGroups of scheduler-plugins and of Volcano, for servers without their schedulers; as immutable as `crds`.

    Raises:
        AssetsMissing: If the configuration is not there.
    """
    return _embedded("podgroups")


def _embedded(name: str) -> list[Json]:
    found: list[Json] = unpack((config_directory() / "crd" / "embedded" / f"{name}.json").read_bytes())
    return found


def runtime_files() -> list[Path]:
    """
    The files of the shipped runtimes, by name.

    Raises:
        AssetsMissing: If the configuration is not there.
    """
    return sorted((config_directory() / "runtimes").glob("*.yaml"))


def public_file() -> Path:
    """
    The file of what Kubeflow's SDK looks up.

    Raises:
        AssetsMissing: If the configuration is not there.
    """
    return config_directory() / "trainer" / "public.yaml"
