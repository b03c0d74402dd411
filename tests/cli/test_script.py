import pytest

from ktrain.cli.script import Script, job_name, train_job


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("train.py", "train"),
        ("src/My_Train.v2.py", "my-train-v2"),
        ("9lives.py", "job-9lives"),
        ("___.py", "job"),
        ("x" * 60 + ".py", "x" * 40),
    ],
)
def test_a_job_is_named_after_its_file_as_a_dns_label(path, name):
    assert job_name(path) == name


def test_a_torch_script_is_started_by_torchrun_on_every_node():
    job = train_job(Script("train.py", ["--lr", "1"], nodes=2, processes_per_node=3, env=[("A", "b")]))

    assert job["spec"] == {
        "runtimeRef": {"name": "torch-distributed"},
        "trainer": {
            "numNodes": 2,
            "numProcPerNode": 3,
            "command": ["torchrun", "train.py"],
            "args": ["--lr", "1"],
            "env": [{"name": "A", "value": "b"}],
        },
    }


def test_other_runtimes_start_the_script_by_python():
    assert train_job(Script("t.py", runtime="plain"))["spec"]["trainer"]["command"] == ["python", "t.py"]
