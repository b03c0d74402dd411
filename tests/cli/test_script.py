import pytest
from click.testing import CliRunner

from ktrain.cli.run import command
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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["trian.py"], "no such file: trian.py; did you mean train.py?"),
        (["other.py"], "no such file: other.py\n"),
        (["train.py", "--epochs", "3"], "comes after --: ktrain run SCRIPT.py -- --epochs"),
        (["train.py", "--epochs=3"], "comes after --: ktrain run SCRIPT.py -- --epochs"),
        (["job.yaml", "--epochs", "3"], "No such option '--epochs'"),
    ],
)
def test_a_slip_on_the_command_line_is_told_with_what_was_meant(tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()

    result = CliRunner().invoke(command, arguments)

    assert result.exit_code == 2
    assert message in result.output
