"""What a PyTorchJob's `restartPolicy: ExitCode` and `cleanPodPolicy` become: examples/pytorchjob."""

import json

import pytest

from ..programs import needs_kubectl
from ..waiting import eventually
from .conftest import Cluster

pytestmark = [pytest.mark.e2e, pytest.mark.examples]

FILE = "pytorchjob/exit-code.yaml"


def test_an_exit_code_from_128_on_is_tried_again(ktrain, example):
    code, output = ktrain("run", example(FILE))

    assert code == 0, output
    assert "[node-0] the first attempt ends with 143" in output
    assert "[node-0] the second attempt succeeds" in output


@pytest.mark.parametrize("exit_code", [1, 127])
def test_an_exit_code_below_128_fails_the_job_at_once(ktrain, example, exit_code):
    code, output = ktrain("run", example(FILE, ("--first=143", f"--first={exit_code}")))

    assert code == 1, output
    assert f"[node-0] the first attempt ends with {exit_code}" in output
    assert "the second attempt" not in output
    assert "first failed job: exit-code-node-0" in output


@needs_kubectl
@pytest.mark.parametrize(("line", "left"), [("ttlSecondsAfterFinished: 1", 0), ("suspend: false", 2)])
def test_pods_go_when_the_job_has_ended_only_if_there_is_a_time_to_live(start, example, tmp_path, line, left):
    file = example(FILE, ("ttlSecondsAfterFinished: 5", line))
    start("up", "--kubeconfig", "kc").wait_for("ready ")
    cluster = Cluster(tmp_path / "kc")
    assert cluster.run("apply", "-f", str(file))[0] == 0
    code, said = cluster.run("wait", "trainjob/exit-code", "--for=condition=Complete", "--timeout=40s")
    assert code == 0, said

    def pods():
        code, said = cluster.run("get", "pods", "-o", "json")
        assert code == 0, said
        return [pod["status"]["phase"] for pod in json.loads(said)["items"]]

    if left:
        assert pods().count("Succeeded") == left  # cleanPodPolicy: Running, which is what there is without it
    else:
        eventually(pods, lambda found: found == [], within_s=30)
    assert cluster.run("get", "trainjob", "exit-code")[0] == 0
