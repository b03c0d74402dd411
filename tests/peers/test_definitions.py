"""The definitions of TrainJob, runtimes and JobSet beside upstream's own: the same but for what is listed here."""

import re
from pathlib import Path

import pytest
import yaml

from .stack import ROOT, missing, peers

OURS = "ktrain's own field"
LATER = "a release after 2.3.0 has it"
OLDER = "an older Trainer had it"
SAME = "the same in other words"
KNOWN = (
    (r"spec\.(elasticNodes|mlPolicy\.(plugin|mpi\.variant|x-)|podGroupPolicy\.(plugin|workload|x-))", OURS),
    (
        r"status\.(diagnosis|elastic|nodes|restarts|state)|additionalPrinterColumns|x-kubernetes-validations$|subresources\.scale",
        OURS,
    ),
    (
        r"spec\.trainer\.(processesPerNode|x-kubernetes-validations$)|spec\.mlPolicy\.(mpi|torch)\.x-kubernetes-validations",
        OURS,
    ),
    (r"(.*\.)?template\.spec\.workloadRef", "Kubernetes 1.35's pods have it"),
    (r"spec\.trainer\.numProcPerNode\.(anyOf|type|format|x-kubernetes-int-or-string)", OLDER),
    (r"spec\.mlPolicy\.mpi\.SSHAuthMountPath", "KEP-2170 spells it so"),
    (r"spec\.(annotations|labels|podSpecOverrides|podTemplateOverrides)", OLDER),
    (r"spec\.mlPolicy\.torch\.(elasticPolicy|numProcPerNode)", OLDER),
    (
        r"spec\.(trainer\.num(Nodes|ProcPerNode)|mlPolicy\.mpi\.numProcPerNode)\.(minimum|x-kubernetes-validations)",
        LATER,
    ),
    (r"(.*\.)?startupPolicy\.rules|(.*\.)?(replicas|jobRestarts\w*)\.minimum", LATER),
    (r".*\.x-kubernetes-validations\[\d+\]\.rule", SAME),
    (r"(.*\.)?failurePolicy\.rules(\.onJobFailure\w+)?\.x-kubernetes-list-type", "what a list is that says nothing"),
)


def definitions(directory):
    """Return the only version of each definition, by name."""
    documents = (one for path in Path(directory).glob("**/*.yaml") for one in yaml.safe_load_all(path.read_text()))
    return {one["metadata"]["name"]: one["spec"]["versions"][0] for one in documents if one}


def differing(go, ours, at=""):
    """Yield the places; descriptions do not count, and required fields in any order."""
    if isinstance(go, dict) and isinstance(ours, dict):
        for key in sorted({*go, *ours}):
            if key != "description" or isinstance(go.get(key), dict):
                step = "" if key in ("schema", "openAPIV3Schema", "properties", "items") else f".{key}"
                yield from differing(go.get(key), ours.get(key), f"{at}{step}")
    elif isinstance(go, list) and isinstance(ours, list) and len(go) == len(ours) > 0:
        both = [sorted(some) if isinstance(some[0], str) else some for some in (go, ours)]
        for index, (one, other) in enumerate(zip(*both, strict=True)):
            yield from differing(one, other, f"{at}[{index}]")
    elif go != ours:
        yield at.removeprefix(".")


@pytest.fixture(scope="module")
def places():
    if why := missing():
        pytest.skip(why)
    go, ours = definitions(peers() / "crds"), definitions(ROOT / "config" / "crd")
    return {f"{name.partition('.')[0]} {place}" for name in go for place in differing(go[name], ours[name])}


def test_what_is_defined_is_what_upstream_defines(places):
    unknown = [one for one in places if not any(re.match(form, one.partition(" ")[2]) for form, _ in KNOWN)]

    assert not unknown, "\n".join(sorted(unknown))


@pytest.mark.parametrize("form", [form for form, _ in KNOWN])
def test_what_is_known_to_differ_does(places, form):
    assert any(re.match(form, one.partition(" ")[2]) for one in places)
