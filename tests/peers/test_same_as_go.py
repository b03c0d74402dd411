"""
The same inputs on Kubeflow Trainer with the JobSet operator, and on ktrain, each on a real control plane of its own:
what is answered and what there is after each step is the same, but for what is listed here with its reason.

    export KUBEBUILDER_ASSETS=$(hack/controlplane/build)
    hack/peers/build
    python -m pytest tests/peers/test_same_as_go.py [-k torch]
"""

import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from .cases import gangs, layout, life, patch_rules, patches, plugins, rules, torch, torchtune
from .differences import compare

MODULES = (torch, torchtune, plugins, patches, patch_rules, rules, gangs, life, layout)
CASES = {name: steps for module in MODULES for name, steps in module.CASES.items()}
AT_A_TIME = 6

DECODER = (
    "Go's decoder refuses what is of another type than its fields (400); here the schema does, with the path (422)"
)
LATER = "a release after 2.3.0 does as ktrain does"
RANDOM = "the order of XGBoost's and the user's variables is that of a hash in Go"
NO_NODES = "KEP-2170: 0 nodes of torch are one standalone; of other frameworks they are refused"
_NONE = r"0 answers.*without nodes nothing would run|0/\w+/(none|n0)[/:-]"
KNOWN = {
    "torch-nodes": ("0/(JobSet|TrainJob)/none/", NO_NODES),
    "jax": (_NONE, NO_NODES),
    "mpi": (_NONE, NO_NODES),
    "mpi-separate": (_NONE, NO_NODES),
    "mpi-unusual": (
        r"0/JobSet/names/.*/containers\[0\]/(env|volumeMounts): Go null",
        "KEP-2170: the launcher's only container is its own, whatever its name",
    ),
    "layout-containers": ("./(TrainJob|JobSet)/ports", "Go makes two ports of one number the same, and is refused"),
    "layout-groups": (
        (
            r"\d/(ConfigMap/job-runtime-snapshot/data/runtime/template|JobSet/job)/spec/replicatedJobs\[1\]/replicas: "
            r"|\d/(JobSet/job/status/replicatedJobsStatus|TrainJob/job/status/jobsStatus)\[1\]/active: Go 1, ktrain 0"
        ),
        "Go loses `replicas: 0`",
    ),
    "patch-quantities": ("0/TrainJob/job/spec/runtimePatches", "Go's webhook writes a user's patches anew"),
    "patch-times": ("0 answers", DECODER),
    "trainjob-schema": ("0 answers", DECODER),
    "runtime-schema": ("0 answers", LATER),
    "ttl-failed": (
        (
            r"[23]/(JobSet/job: Go \{.*, ktrain null|TrainJob/job/status/(conditions: Go null, ktrain \[.*\"Failed\""
            r"|jobsStatus\[0\]/(active: Go 1, ktrain 0|failed: Go 0, ktrain 1)))"
        ),
        LATER,
    ),
    "volcano": ("1/VolcanoPodGroup/patched/spec/queue", "a resumed job's PodGroup follows it"),
}
SOMETIMES = {
    **{name: (rf"{_NONE}|\d/JobSet/.*/env", RANDOM) for name in CASES if name.startswith("xgboost")},
    "jobset-edited": ("[12]/JobSet/job/status/conditions: .*ResumeJobs.* null", "who resumes at once, resumes unseen"),
}
"""What differs, as the beginning of its place, and why."""


def is_known(case, line):
    place, _ = KNOWN.get(case) or SOMETIMES.get(case) or ("(?!)", "")
    return bool(re.match(place, line))


@pytest.fixture(scope="session")
def outcomes(planes, request):
    """What became of the cases that were chosen. They mostly wait, so several run at a time."""
    names = [item.callspec.params["case"] for item in request.session.items if item.originalname == TEST]

    def one(name):
        return compare(planes, name, CASES[name], lambda line: is_known(name, line))

    with ThreadPoolExecutor(AT_A_TIME) as pool:
        return dict(zip(names, pool.map(one, names), strict=True))


@pytest.mark.parametrize("case", CASES)
def test_the_same_comes_of_the_same(outcomes, case):
    found = outcomes[case]
    unknown = [line for line in found if not is_known(case, line)]

    assert not unknown, "\n".join(unknown)
    assert bool(found) or case not in KNOWN, f"{case} does not differ any more"


TEST = test_the_same_comes_of_the_same.__name__
