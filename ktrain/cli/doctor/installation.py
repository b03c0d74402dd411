"""Which operators run in a cluster, and how ours is configured: read from Deployments and their ConfigMap."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

import msgspec

from ktrain.api.core import CONFIG_MAPS, untyped
from ktrain.cli.config import ConfigError, Configuration
from ktrain.cli.config_file import parse
from ktrain.framework.errors import NotFound

from .cluster import DEPLOYMENTS, name_of

if TYPE_CHECKING:
    from ktrain.api.meta import Json
    from ktrain.framework.client.client import Client

NAME_LABEL: Final = "app.kubernetes.io/name"
OURS: Final = "ktrain"
IMPLEMENTATION_LABEL: Final = "trainer.kubeflow.org/implementation"
"""Which operator of TrainJobs an object belongs to, whatever its names are."""
ACCOUNTS: Final = "system:serviceaccount:"
"""What names of service accounts begin with."""
KUBEFLOW_IMAGE: Final = "trainer-controller-manager"
"""Part of the image of Kubeflow Trainer's operator, however its chart and labels are called."""
JOBSET_IMAGE: Final = "/jobset/jobset"
TRAINING_OPERATOR_IMAGE: Final = "training-operator"


@dataclass(frozen=True, slots=True)
class Installation:
    """
    What runs here.

    Attributes:
        deployment: ktrain's operator; None if there is none, or none that may be read.
        account: The operator's, `system:serviceaccount:NAMESPACE:NAME`; empty if no operator is known.
        others: Deployments of operators that work on the same objects, by what they are.
        configuration: The operator's; the defaults without an operator.
        problem: Why the configuration could not be read; empty if it was.
        candidates: Names of Deployments of ktrain's operator, if there are several.
    """

    deployment: Json | None = None
    account: str = ""
    others: tuple[tuple[str, Json], ...] = ()
    configuration: Configuration = field(default_factory=Configuration)
    problem: str = ""
    candidates: tuple[str, ...] = ()

    @property
    def namespace(self) -> str:
        """Where the operator runs; empty without one."""
        return self.account.split(":")[2] if self.account else ""


async def find_installation(client: Client, namespace: str, given: Configuration | None) -> Installation:
    """
    Find the operators among the Deployments of a namespace, or of all.

    Args:
        client: Of the user who asks.
        namespace: Empty: all.
        given: The operator's configuration, where its ConfigMap is not to be read.

    Raises:
        FrameworkError: The Deployments cannot be read.
    """
    answer = await client.raw("GET", DEPLOYMENTS.path(namespace))
    deployments: list[Json] = msgspec.json.decode(answer.body)["items"]
    ours = [one for one in deployments if is_ours(one)]
    others = tuple((product, one) for one in deployments if one not in ours and (product := _product(one)))
    if not ours:
        return Installation(others=others)
    if len(ours) > 1:
        # Anybody who may create a Deployment can make one that looks like ours: none of them is taken at its word.
        return Installation(others=(*others, *((OURS, one) for one in ours)), candidates=tuple(map(name_of, ours)))
    try:
        configuration, problem = given or await _configuration(client, ours[0]), ""
    except ConfigError as error:
        configuration, problem = Configuration(), str(error)
    return Installation(ours[0], _account(ours[0]), others, configuration, problem)


def is_ours(deployment: Json) -> bool:
    """Whether a Deployment runs `ktrain operator`."""
    labels = deployment["metadata"].get("labels") or {}
    return OURS in (labels.get(IMPLEMENTATION_LABEL), labels.get(NAME_LABEL)) and any(
        _config_path(one) for one in _containers(deployment)
    )


def _account(deployment: Json) -> str:
    name = deployment["spec"]["template"]["spec"].get("serviceAccountName", "default")
    return f"{ACCOUNTS}{deployment['metadata']['namespace']}:{name}"


def _product(deployment: Json) -> str:
    images = " ".join(str(one.get("image", "")) for one in _containers(deployment))
    products = (
        (KUBEFLOW_IMAGE, "Kubeflow Trainer"),
        (JOBSET_IMAGE, "JobSet operator"),
        (TRAINING_OPERATOR_IMAGE, "Kubeflow Training Operator v1"),
    )
    return next((product for part, product in products if part in images), "")


async def _configuration(client: Client, deployment: Json) -> Configuration:
    """Read the file that the operator is started with from the ConfigMap that is mounted there."""
    pod = deployment["spec"]["template"]["spec"]
    for container in _containers(deployment):
        path = _config_path(container)
        for mount in container.get("volumeMounts") or ():
            below = PurePosixPath(mount["mountPath"])
            if not path or not PurePosixPath(path).is_relative_to(below):
                continue
            volume: Json = next((one for one in pod.get("volumes") or () if one["name"] == mount["name"]), {})
            if name := (volume.get("configMap") or {}).get("name"):
                return await _from_config_map(client, name, deployment["metadata"]["namespace"], path)
    return Configuration()


async def _from_config_map(client: Client, name: str, namespace: str, path: str) -> Configuration:
    source = f"ConfigMap {namespace}/{name}"
    try:
        config_map = await client.get(untyped(CONFIG_MAPS), name, namespace)
    except NotFound as error:
        raise ConfigError(f"{source} does not exist, and the operator's configuration is mounted from it") from error
    key = PurePosixPath(path).name
    text = (config_map.get("data") or {}).get(key)
    if text is None:
        raise ConfigError(f"{source} has no key {key}, which the operator's --config names")
    return parse(text, f"{source}, {key}")


def _config_path(container: Json) -> str:
    """Return the file of `--config`; empty without one."""
    words = [str(word) for word in (*(container.get("command") or ()), *(container.get("args") or ()))]
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word == "--config":
            return following
        if word.startswith("--config="):
            return word.removeprefix("--config=")
    return ""


def _containers(deployment: Json) -> list[Json]:
    found: list[Json] = deployment["spec"]["template"]["spec"].get("containers") or []
    return found
