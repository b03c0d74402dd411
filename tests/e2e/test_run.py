"""`ktrain run` from outside: what a user types, sees, and gets as exit code."""

import json
import os
import signal
import subprocess
import uuid

import pytest

from ..waiting import eventually
from .conftest import KTRAIN, processes_with

pytestmark = pytest.mark.e2e


def add_env(file, *entries):
    file.write_text(file.read_text().replace("]}\n", f"], env: [{', '.join(entries)}]}}\n"))


def test_two_nodes_run_to_complete_and_nothing_is_left(ktrain, train_job, temporary):
    program = "import os, socket; print('hello from', os.environ['JOB_COMPLETION_INDEX'], socket.gethostname())\n"

    code, output = ktrain("run", train_job(program, nodes=2))

    assert code == 0, output
    assert "[node-0] hello from 0" in output
    assert "[node-1] hello from 1" in output
    assert "Complete: 0/2 nodes running, 0 ready, 2 succeeded" in output
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("mode", ["host", pytest.param("ns", marks=pytest.mark.ns)])
def test_pods_find_each_other_by_their_headless_service_name(ktrain, train_job, mode):
    program = """
import os, socket, time
rank = int(os.environ["JOB_COMPLETION_INDEX"])
port = int(os.environ["PORT"])
if rank == 0:
    server = socket.create_server(("", port))
    peer, _ = server.accept()
    print("rank 1 said", peer.recv(100).decode())
else:
    deadline = time.time() + 20
    while True:
        try:
            peer = socket.create_connection((os.environ["MASTER_ADDR"], port), timeout=5)
            break
        except OSError:
            if time.time() > deadline:
                raise
            time.sleep(0.05)
    peer.sendall(b"hello")
"""
    file = train_job(program, nodes=2)
    add_env(
        file,
        "{name: MASTER_ADDR, value: job-node-0-0.job}",
        "{name: MASTER_PORT, value: '29500'}",
        "{name: PORT, value: $(MASTER_PORT)}",
    )

    code, output = ktrain("run", file, "--pods", mode)

    assert code == 0, output
    assert "[node-0] rank 1 said hello" in output


def test_a_script_that_exits_3_fails_with_its_name_code_and_last_lines(ktrain, train_job):
    code, output = ktrain("run", train_job("print('the reason is here'); raise SystemExit(3)\n"))

    assert code == 1
    assert "exited with code 3" in output
    assert "  the reason is here" in output
    assert output.splitlines()[-1].startswith("TrainJob job has Failed (")


def test_a_command_that_does_not_exist_fails_and_does_not_hang(ktrain, train_job):
    code, output = ktrain("run", train_job("", command=["no-such-program"]))

    assert code == 1
    assert "could not start" in output
    assert "no-such-program" in output


def test_a_program_killed_by_a_signal_is_named_so(ktrain, train_job):
    code, output = ktrain("run", train_job("import os; os.kill(os.getpid(), 9)\n"))

    assert code == 1
    assert "was killed by SIGKILL (exit code 137)" in output


def test_the_timeout_stops_a_job_that_hangs(ktrain, train_job):
    marker = uuid.uuid4().hex
    file = train_job(f"import time\nprint('{marker}')\ntime.sleep(600)\n")

    code, output = ktrain("run", file, "--timeout", "3s", env={"LC_TEST": marker})

    assert code == 124, output
    assert "timeout" in output
    assert not processes_with(marker)


def test_one_interrupt_stops_gracefully_and_reports(start, train_job, tmp_path):
    program = """
import pathlib, signal, sys, time
def stop(*_):
    pathlib.Path("stopped").write_text("by SIGTERM")
    sys.exit(0)
signal.signal(signal.SIGTERM, stop)
print("started")
time.sleep(600)
"""
    running = start("run", train_job(program))
    running.wait_for("started")

    running.process.send_signal(signal.SIGINT)

    assert running.finish() == 130
    assert (tmp_path / "stopped").read_text() == "by SIGTERM"
    assert "deleted default/job" in running.output


def test_a_second_interrupt_kills_what_ignores_the_first(start, train_job):
    marker = uuid.uuid4().hex
    program = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('started')\ntime.sleep(600)\n"
    running = start("run", train_job(program), env={"LC_TEST": marker})
    running.wait_for("started")

    running.process.send_signal(signal.SIGINT)
    running.wait_for("stopping")
    running.process.send_signal(signal.SIGINT)

    running.wait_for("killed")
    assert running.finish() == 130
    eventually(lambda: not processes_with(marker))


@pytest.mark.parametrize("mode", ["host", pytest.param("ns", marks=pytest.mark.ns)])
def test_nothing_outlives_a_ktrain_that_is_killed(start, train_job, temporary, mode):
    marker = uuid.uuid4().hex
    program = "import os, time\nif os.fork() == 0:\n    os.setsid()\nprint('started')\ntime.sleep(600)\n"
    running = start("run", train_job(program), "--pods", mode, env={"LC_TEST": marker})
    running.wait_for("started")

    running.process.send_signal(signal.SIGKILL)
    running.process.wait()

    eventually(lambda: not processes_with(marker))
    eventually(lambda: list(temporary.iterdir()) == [])


def test_two_runs_at_once_do_not_meet(start, train_job):
    program = "import time\nprint('mine')\ntime.sleep(1)\n"
    first = start("run", train_job(program))
    second = start("run", train_job(program))

    assert (first.finish(), second.finish()) == (0, 0)


def test_the_final_train_job_is_printed_alone_on_stdout(train_job, tmp_path):
    done = subprocess.run(
        [*KTRAIN, "run", train_job("print('hi')\n"), "-o", "json"], cwd=tmp_path, capture_output=True, check=False
    )

    final = json.loads(done.stdout)
    assert final["kind"] == "TrainJob"
    assert [c["type"] for c in final["status"]["conditions"]] == ["Complete"]
    assert b"[node-0] hi" in done.stderr


def test_a_script_runs_without_yaml_with_its_arguments_and_environment(ktrain, tmp_path):
    (tmp_path / "script.py").write_text("import os, sys; print(sys.argv[1:], os.environ['COLOUR'])\n")

    code, output = ktrain("run", "script.py", "--runtime", "plain", "--env", "COLOUR=red", "--", "--epochs", "3")

    assert code == 0, output
    assert "[node-0] ['--epochs', '3'] red" in output


def test_print_shows_the_train_job_and_runs_nothing(ktrain, tmp_path):
    (tmp_path / "script.py").write_text("raise SystemExit(1)\n")

    code, output = ktrain("run", "script.py", "--nodes", "2", "--print")

    assert code == 0
    assert "kind: TrainJob" in output
    assert "numNodes: 2" in output


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("numNodes", "numNode"), 'did you mean "numNodes"'),
        (("numNodes: 1", "numNodes: one"), "spec.trainer.numNodes"),
        (("kind: TrainJob", "kind: TrainJobb"), "TrainJob"),
        (("name: plain", "name: plane"), "plain, torch-distributed, "),
        (("spec:", "spec: ["), "job.yaml"),
    ],
)
def test_bad_input_is_refused_with_its_place_and_exit_code_2(ktrain, train_job, change, says):
    file = train_job("print('ran')\n")
    file.write_text(file.read_text().replace(*change))

    code, output = ktrain("run", file)

    assert code == 2, output
    assert says in output
    assert "ran" not in output.split()


def test_a_huge_file_and_a_yaml_bomb_are_refused_quickly(ktrain, tmp_path):
    (tmp_path / "huge.yaml").write_bytes(b"a: b\n" * (10 << 20))
    bomb = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join([f'*{chr(97 + i)}'] * 9)}]\n" for i in range(12)
    )
    (tmp_path / "bomb.yaml").write_text(bomb)

    assert ktrain("run", "huge.yaml")[0] == 2
    assert ktrain("run", "bomb.yaml")[0] == 2


def test_two_jobs_in_one_file_and_no_job_at_all_are_refused(ktrain, train_job):
    file = train_job("")
    text = file.read_text()
    file.write_text(f"{text}---\n{text}")

    assert "given twice" in ktrain("run", file)[1]
    file.write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")
    assert "no TrainJob" in ktrain("run", file)[1]


def test_config_maps_and_secrets_of_the_file_reach_the_pod(ktrain, train_job):
    file = train_job("import os; print(os.environ['FROM_MAP'], os.environ['FROM_SECRET'])\n")
    add_env(
        file,
        "{name: FROM_MAP, valueFrom: {configMapKeyRef: {name: m, key: k}}}",
        "{name: FROM_SECRET, valueFrom: {secretKeyRef: {name: s, key: k}}}",
    )
    file.write_text(
        file.read_text()
        + "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata: {k: mapped}\n"
        + "---\napiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {k: hidden}\n"
    )

    code, output = ktrain("run", file)

    assert code == 0, output
    assert "[node-0] mapped hidden" in output


def test_without_torchrun_the_missing_extra_is_named(ktrain, train_job, tmp_path):
    empty = tmp_path / "bin"
    empty.mkdir()
    (empty / "torchrun").write_text("#!/bin/sh\necho \"No module named 'torch'\" >&2; exit 1\n")
    (empty / "torchrun").chmod(0o755)
    file = train_job("", command=[str(empty / "torchrun"), "x.py"])

    code, output = ktrain("run", file)

    assert code == 1
    assert "pip install 'ktrain-operator[torch]'" in output


def test_pods_do_not_inherit_the_callers_training_environment(ktrain, train_job):
    file = train_job("import os; print('RANK' in os.environ, 'KUBECONFIG' in os.environ)\n")

    code, output = ktrain("run", file, env={"RANK": "7", "KUBECONFIG": "/nowhere"})

    assert code == 0, output
    assert "[node-0] False False" in output
    assert os.environ.get("RANK") is None


def test_a_reader_that_goes_away_ends_the_run_without_a_word(train_job, tmp_path):
    file = train_job("import time\nfor i in range(10000):\n    print(i)\n    time.sleep(0.001)\n")
    command = " ".join([*KTRAIN, "run", str(file)])

    done = subprocess.run(
        ["bash", "-c", f"{command} | head -3; echo ${{PIPESTATUS[0]}}"], cwd=tmp_path, capture_output=True, check=False
    )

    assert done.stdout.splitlines()[-1] == b"141"
    assert done.stderr == b""


def test_closed_standard_streams_do_no_harm(train_job, tmp_path):
    file = train_job("open('ran', 'w').close()\n")
    command = " ".join([*KTRAIN, "run", str(file)])

    done = subprocess.run(["bash", "-c", f"{command} <&- >&- 2>&-"], cwd=tmp_path, check=False)

    assert done.returncode == 0
    assert (tmp_path / "ran").exists()


def test_why_a_volume_cannot_be_mounted_is_said(ktrain, train_job):
    file = train_job("print('never')\n", name="job")
    patch = (
        "  runtimePatches:\n"
        "    - manager: example.com/me\n"
        "      trainingRuntimeSpec: {template: {spec: {replicatedJobs: [{name: node,\n"
        "        template: {spec: {template: {spec: {\n"
        "        volumes: [{name: v, configMap: {name: nowhere}}],\n"
        "        containers: [{name: node, volumeMounts: [{name: v, mountPath: /v}]}]}}}}}]}}}\n"
    )
    file.write_text(file.read_text() + patch)

    code, output = ktrain("run", file, "--timeout", "4s")

    assert code == 124
    assert "nowhere" in output
