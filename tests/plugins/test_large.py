"""Jobs of very many nodes: no object grows with their number but MPI's host file, which says what does not fit."""

from __future__ import annotations

import msgspec
import pytest

from ktrain.pipeline import PlanError

POLICIES = {
    "plain": "numNodes: 1",
    "torch": "torch: {}",
    "elastic": "torch: {elasticPolicy: {minNodes: 1, maxNodes: 2000000000}}",
    "jax": "jax: {}",
    "xgboost": "xgboost: {}",
    "flux": "flux: {}",
    "mpi": "mpi: {}",
    "mpi, launcher works": "mpi: {runLauncherAsNode: true}",
}
GANGS = ["", "coscheduling: {}", "volcano: {}", "workload: {}"]
STEP = "{name: %s, template: {metadata: {%s}, spec: {template: {spec: {containers: [{name: node, image: i}]}}}}}"
RUNTIME = "{spec: {mlPolicy: {%s}, podGroupPolicy: {%s}, template: {spec: {replicatedJobs: [%s]}}}}"
JOB = "{metadata: {name: job, namespace: ns, uid: u}, spec: {runtimeRef: {name: rt}, trainer: {numNodes: %d}}}"


def runtime(policy: str, gang: str = "") -> str:
    steps = [STEP % ("node", "labels: L")]
    if "mpi" in policy:
        steps = [STEP % ("launcher", "labels: L"), STEP % ("node", "")]
    return RUNTIME % (policy, gang, ", ".join(steps))


@pytest.mark.parametrize("gang", GANGS)
@pytest.mark.parametrize("policy", POLICIES)
def test_two_thousand_million_nodes_take_as_much_room_as_two(kit, policy, gang):
    def sizes(nodes: int) -> dict[str, int]:
        objects = kit.objects_of(runtime(POLICIES[policy], gang), JOB % nodes)
        return {kind: len(msgspec.json.encode(body)) for kind, body in objects.items()}

    many = 100 if "mpi" in policy else 2_000_000_000
    two, more = sizes(2), sizes(many)
    if "mpi" in policy:
        assert 100 * 20 < more.pop("ConfigMap") - two.pop("ConfigMap") < 100 * 40

    assert two.keys() == more.keys()
    assert all(0 <= more[kind] - two[kind] < 200 for kind in two)


def test_a_thousand_nodes_of_the_longest_name_fit_into_a_host_file(kit):
    long = JOB.replace("name: job", f"name: {'j' * 44}")

    assert kit.errors(runtime("mpi: {}"), long % 1000) == []
    hosts = kit.objects_of(runtime("mpi: {}"), long % 1000)["ConfigMap"]["data"]["hostfile"]
    assert (len(hosts.splitlines()), len(hosts) < 1024 * 1024) == (1000, True)


@pytest.mark.parametrize("nodes", [50_000, 2**31 - 1])
def test_a_host_file_that_would_be_too_long_says_how_many_fit(kit, nodes):
    with pytest.raises(PlanError, match=rf"the MPI host file of {nodes} pods does not fit .* \d+ pods do; use fewer"):
        kit.plan(runtime("mpi: {}"), JOB % nodes)
