"""
The shipped runtime `trl-sft`: dataset and model from S3, TRL on one node and two, LoRA and all weights; on CPU.

A run takes half a minute, so one test covers what two would.
"""

import re
import subprocess
import sys

import pytest
import yaml

from ktrain.api.assets import runtime_files

from .conftest import ROOT

pytestmark = [pytest.mark.e2e, pytest.mark.examples, pytest.mark.slow]

PATIENCE_S = 240
ENDPOINT = "http://127.0.0.1:5055"


@pytest.fixture
def endpoint(request):
    """The address of an S3 server with the example's model and dataset."""
    for library in ("boto3", "moto", "peft", "trl"):
        pytest.importorskip(library, reason=f"{library} is not installed: pip install '.[examples-llm]'")
    url = request.getfixturevalue("moto")
    subprocess.run([sys.executable, ROOT / "examples/llm/upload.py", url], check=True, capture_output=True)
    return url


def train(start, file, pods):
    running = start("run", "--pods", pods, file)
    code = running.finish(PATIENCE_S)
    return code, running.output


def losses(output):
    return [float(loss) for loss in re.findall(r"\[node-0\].*?'loss': '([\d.]+)'", output)]


@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize("way", ["lora", "full"])
def test_a_language_model_is_tuned_and_its_loss_falls(start, example, endpoint, tmp_path, way, nodes):
    output_dir = tmp_path / "tuned"
    replacements = [
        (ENDPOINT, endpoint),
        ("numNodes: 2", f"numNodes: {nodes}"),
        ("      - --use_cpu\n", f"      - --use_cpu\n      - --output_dir={output_dir}\n"),
    ]
    if way == "full":
        replacements += [(f"      - {argument}\n", "") for argument in ADAPTER]
    code, output = train(start, example("llm/lora.yaml", *replacements), "host")

    assert code == 0, output
    found = losses(output)
    assert len(found) == 4, output
    assert found[-1] < found[0] - 0.2, output
    trained = {file.name for file in output_dir.iterdir()}
    assert ("adapter_model.safetensors" in trained, "model.safetensors" in trained) == (way == "lora", way == "full")
    assert f"[node-{nodes - 1}]" in output
    assert "[node-2]" not in output


ADAPTER = ("--use_peft", "--lora_r=8", "--lora_target_modules=all-linear")


@pytest.mark.ns
def test_the_result_is_on_the_volume_that_all_steps_share(start, example, endpoint, tmp_path):
    """In namespaces the initializers need this machine's network, as the S3 server is on it."""
    file = next(file for file in runtime_files() if file.stem == "trl-sft")
    runtime = yaml.safe_load(file.read_text())
    runtime["metadata"]["name"] = "trl-here"
    for job in runtime["spec"]["template"]["spec"]["replicatedJobs"][:2]:
        job["template"]["spec"]["template"]["spec"]["hostNetwork"] = True
    job = example("llm/lora.yaml", (ENDPOINT, endpoint), ("name: trl-sft", "name: trl-here"))
    job.write_text(job.read_text() + "---\n" + yaml.safe_dump(runtime))
    code, output = train(start, job, "ns")

    assert code == 0, output
    assert losses(output)[-1] < losses(output)[0], output
    assert "[node-0] 💾 Model saved to /workspace/output." in output
