"""The shipped runtimes: each becomes a JobSet with the plugins that are built in."""

import gc

import pytest
import yaml

from ktrain.api.assets import runtime_files

FILES = {file.stem: file.read_text() for file in runtime_files()}
JOB = """
metadata: {name: tj, namespace: team, uid: u}
spec: {runtimeRef: {name: %s}, trainer: {numNodes: %s, command: %s}}
"""


@pytest.mark.parametrize("name", FILES)
def test_a_shipped_runtime_is_named_as_its_file_and_takes_a_job(kit, name):
    nodes, command = ("1", "[tune, run]") if name.startswith("torchtune") else ("2", "[run]")
    text = JOB % (name, nodes, command)

    assert yaml.safe_load(FILES[name])["metadata"]["name"] == name
    assert kit.errors(FILES[name], text) == []
    jobs = {rj["name"]: rj["template"]["spec"] for rj in kit.job_set(FILES[name], text)["spec"]["replicatedJobs"]}
    trainer = jobs.get("launcher", jobs["node"])
    assert trainer["template"]["spec"]["containers"][0]["command"][0] == command.strip("[]").split(",")[0]
    assert sum(jobs[job]["parallelism"] for job in ("node", "launcher") if job in jobs) == int(nodes)


@pytest.mark.parametrize("name", FILES)
def test_a_plan_is_freed_as_soon_as_it_is_let_go(kit, name):
    """Plans in circles, of some kilobytes each, would lie about by the thousand: the collector hardly ever runs."""
    job, runtime = kit.job(JOB % (name, 2, "[run]")), kit.runtime(FILES[name])
    kit.plan_of(job, runtime)  # what is loaded at the first time may have circles
    gc.collect()
    gc.disable()
    try:
        kit.plan_of(job, runtime)
        assert gc.collect() == 0
    finally:
        gc.enable()


@pytest.mark.parametrize("name", [name for name in FILES if name.startswith("torchtune")])
def test_a_tuning_runtimes_configuration_is_that_of_its_name(kit, name):
    runtime = yaml.safe_load(FILES[name])
    node = runtime["spec"]["template"]["spec"]["replicatedJobs"][-1]["template"]["spec"]["template"]["spec"]
    command = kit.container(FILES[name], JOB % (name, "1", "[tune, run]"), index=2)["command"]

    words = node["containers"][0]["command"]
    assert words[words.index("--config") + 1] == command[command.index("--config") + 1]
    own = [word for word in words if "=/workspace/" in word and not word.startswith("dataset")]
    assert command[command.index("--config") + 2 :] == own
