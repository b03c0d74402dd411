"""A program reports its progress as its documentation says, in both ways pods run, and it is shown."""

import json
import re
from pathlib import Path

import pytest
import yaml

from .conftest import Cluster

pytestmark = pytest.mark.e2e

PAGE = Path(__file__).parents[2] / "docs/plugins/trainjobstatus.md"
REPORT = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)[1]
GATE = ("--feature-gates", "TrainJobStatus")
MODES = ["host", pytest.param("ns", marks=pytest.mark.ns)]
STRANGER = """
import urllib.error
token = Path(os.environ["KUBEFLOW_TRAINER_SERVER_TOKEN"]).read_text()
tls = ssl.create_default_context(cafile=os.environ["KUBEFLOW_TRAINER_SERVER_CA_CERT"])
url = os.environ["KUBEFLOW_TRAINER_SERVER_URL"].replace("/trainjobs/job/", "/trainjobs/other/")
try:
    urllib.request.urlopen(urllib.request.Request(url, b"{}", {"Authorization": f"Bearer {token}"}), context=tls)
except urllib.error.HTTPError as error:
    print("on another job:", error.code, flush=True)
"""


@pytest.mark.parametrize("mode", MODES)
def test_what_pods_report_is_on_the_screen_and_in_the_final_trainjob(ktrain, train_job, mode):
    program = f"{REPORT}\nimport time\nreport(42, 3661, loss=0.5, step=7)\ntime.sleep(1)\nreport(100, 0, loss=0.25)\n"
    job = train_job(program, nodes=2)

    code, output = ktrain("run", job, "--pods", mode, *GATE, "-o", "yaml")

    assert code == 0, output
    assert re.search(r"^job: Running: .*; 42 %, 1:01:01 left, loss 0.5, step 7$", output, re.MULTILINE), output
    status = yaml.safe_load(output[output.index("kind: TrainJob") :])["status"]["trainerStatus"]
    assert (status["progressPercentage"], status["metrics"]) == (100, [{"name": "loss", "value": "0.25"}])


def test_without_the_gate_programs_are_told_nothing(ktrain, train_job):
    code, output = ktrain("run", train_job(f"{REPORT}\nreport(42, 0)\nprint('URL' in str(os.environ))\n"))

    assert (code, "[node-0] False" in output) == (0, True), output


@pytest.mark.parametrize("mode", MODES)
def test_kubectl_shows_what_was_reported_and_a_token_is_for_one_job_only(start, train_job, tmp_path, mode):
    server = start("up", "--kubeconfig", tmp_path / "kubeconfig", "--pods", mode, *GATE)
    server.wait_for("ready http")
    cluster = Cluster(tmp_path / "kubeconfig")
    job = train_job(f"{REPORT}\nreport(42, 60, loss=0.5)\n{STRANGER}")

    assert cluster.run("apply", "-f", str(job))[0] == 0
    code, said = cluster.run("wait", "--for=condition=Complete", "trainjob/job", "--timeout=30s")
    assert code == 0, said
    found = json.loads(cluster.run("get", "trainjob", "job", "-o", "json")[1])["status"]["trainerStatus"]

    assert found.pop("lastUpdatedTime")
    assert found == {
        "progressPercentage": 42,
        "estimatedRemainingSeconds": 60,
        "metrics": [{"name": "loss", "value": "0.5"}],
    }
    assert "on another job: 403" in cluster.run("logs", "-l", "jobset.sigs.k8s.io/jobset-name=job")[1]
