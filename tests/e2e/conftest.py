"""The command `ktrain` as a user runs it: a process, its output, its exit code, and what it leaves behind."""

import contextlib
import itertools
import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest
import yaml

from ..programs import KUBECTL, WEBSOCKETS

KTRAIN = [sys.executable, "-m", "ktrain"]
PATIENCE_S = 60
ROOT = Path(__file__).parents[2]
BOTH_WAYS = ["host", pytest.param("ns", marks=pytest.mark.ns)]
_numbers = itertools.count(1)


class Running:
    """A `ktrain` process whose output is read line by line."""

    def __init__(self, args, cwd, env=None):
        self.process = subprocess.Popen(
            [*KTRAIN, *args],
            cwd=cwd,
            env={**os.environ, **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.lines = []

    def _watched(self, patience_s=PATIENCE_S):
        """Kill what does not end: reading its output would wait for ever."""
        watchdog = threading.Timer(patience_s, self.process.kill)
        watchdog.daemon = True
        watchdog.start()
        return watchdog

    def wait_for(self, text):
        """Read until a line contains the text; return that line."""
        watchdog = self._watched()
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))
            if text in line:
                watchdog.cancel()
                return line.rstrip("\n")
        raise AssertionError(f"{text!r} never came; output:\n" + "\n".join(self.lines))

    def finish(self, patience_s=PATIENCE_S):
        """Read to the end; return the exit code."""
        watchdog = self._watched(patience_s)
        self.lines += [line.rstrip("\n") for line in self.process.stdout]
        watchdog.cancel()
        return self.process.wait(PATIENCE_S)

    @property
    def output(self):
        return "\n".join(self.lines)

    def kill(self):
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGKILL)
        self.process.wait(PATIENCE_S)
        self.process.stdout.close()


class Cluster:
    """kubectl in a namespace of a running `ktrain up`."""

    def __init__(self, kubeconfig, namespace="default"):
        self.namespace = namespace
        self.command = [KUBECTL, "--kubeconfig", str(kubeconfig), "--namespace", namespace]
        self.env = {**os.environ, **WEBSOCKETS}

    def run(self, *arguments, stdin=None):
        """Run kubectl; returns exit code and all it said."""
        done = subprocess.run(
            [*self.command, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env=self.env,
        )
        return done.returncode, done.stdout + done.stderr

    def create(self, name, *containers, **spec):
        """Create a pod and wait until it is ready."""
        spec = {"containers": list(containers), "terminationGracePeriodSeconds": 1, **spec}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        assert self.run("apply", "-f", "-", stdin=yaml.safe_dump(pod))[0] == 0
        code, said = self.run("wait", "--for=condition=Ready", f"pod/{name}", "--timeout=30s")
        assert code == 0, said


@contextlib.contextmanager
def serving(directory, *options):
    """Run `ktrain up` with these options for several tests; yields its kubeconfig."""
    temporary, kubeconfig = directory / "tmp", directory / "kubeconfig"
    temporary.mkdir()
    running = Running(["up", "--kubeconfig", str(kubeconfig), *options], directory, {"TMPDIR": str(temporary)})
    try:
        running.wait_for("ready http")
        # What it logs is read all the time: it stands still when nobody does.
        reader = threading.Thread(target=running.lines.extend, args=(running.process.stdout,), daemon=True)
        reader.start()
        yield kubeconfig
        assert "Traceback" not in running.output, running.output
    finally:
        running.process.kill()
        running.process.wait(PATIENCE_S)
        reader.join()
        running.kill()


@pytest.fixture(scope="session")
def shared_up(tmp_path_factory):
    """`shared_up("--pods", "ns")`: the kubeconfig of the session's `ktrain up` with these options, started once."""
    with contextlib.ExitStack() as stack:
        found = {}

        def kubeconfig(*options):
            if options not in found:
                found[options] = stack.enter_context(serving(tmp_path_factory.mktemp("up"), *options))
            return found[options]

        yield kubeconfig


@pytest.fixture(params=BOTH_WAYS)
def cluster(request, shared_up):
    """kubectl in a namespace of the test's own, in both ways pods run; its pods are gone when the next test begins."""
    found = Cluster(shared_up("--pods", request.param), f"test-{next(_numbers)}")
    code, said = found.run("create", "namespace", found.namespace)
    assert code == 0, said
    yield found
    # Pods on a shared host have one place for their credentials: the next one's would not be its own.
    code, said = found.run("delete", "namespace", found.namespace, "--timeout=60s")
    assert code == 0, said


@pytest.fixture
def temporary(tmp_path):
    """The directory for temporary files of the `ktrain` processes of one test."""
    directory = tmp_path / "tmp"
    directory.mkdir()
    return directory


@pytest.fixture
def start(tmp_path, temporary):
    """Start `ktrain` with these arguments in a directory of its own; it is killed at the end of the test."""
    started = []

    def run(*args, env=None):
        running = Running([str(arg) for arg in args], tmp_path, {"TMPDIR": str(temporary), **(env or {})})
        started.append(running)
        return running

    yield run
    for running in started:
        running.kill()


@pytest.fixture
def ktrain(start):
    """Run `ktrain` to its end; returns (exit code, output)."""

    def run(*args, env=None):
        running = start(*args, env=env)
        code = running.finish()
        return code, running.output

    return run


@pytest.fixture
def train_job(tmp_path):
    """Write a TrainJob of the plain runtime that runs a Python program; returns the file."""

    def write(program, *, nodes=1, name="job", runtime="plain", pod="", **trainer):
        (tmp_path / f"{name}.py").write_text(program)
        command = trainer.pop("command", ["python", f"{name}.py"])
        file = tmp_path / f"{name}.yaml"
        file.write_text(
            "apiVersion: trainer.kubeflow.org/v1alpha1\n"
            "kind: TrainJob\n"
            f"metadata: {{name: {name}}}\n"
            "spec:\n"
            f"  runtimeRef: {{name: {runtime}}}\n"
            f"  trainer: {{numNodes: {nodes}, command: {command!r}}}\n{pod}"
        )
        return file

    return write


@pytest.fixture
def example(tmp_path):
    """A file of the examples in a directory that looks like the repository, with texts replaced."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")

    def write(name, *replacements):
        text = (ROOT / "examples" / name).read_text()
        for old, new in replacements:
            assert old in text
            text = text.replace(old, new)
        file = tmp_path / "job.yaml"
        file.write_text(text)
        return file

    return write


@pytest.fixture
def s3(request):
    """The address of an S3 server with the example's dataset."""
    for library in ("boto3", "moto", "sklearn"):
        pytest.importorskip(library, reason=f"{library} is not installed: pip install '.[examples]'")
    url = request.getfixturevalue("moto")
    subprocess.run([sys.executable, ROOT / "examples/initializer/upload.py", url], check=True)
    return url


SDK_PROGRAM = """
import json, sys
from kubeflow.common.types import KubernetesBackendConfig
from kubeflow.trainer import *
from kubeflow.trainer.options import *

namespace = sys.argv[2]
client = TrainerClient(KubernetesBackendConfig(config_file=sys.argv[1], namespace=namespace))
if namespace != "default":
    client.backend.core_api.create_namespace({"metadata": {"name": namespace}})
"""


@pytest.fixture
def sdk_on(start, tmp_path):
    """Start `ktrain up` with options; what comes back runs a program with a `client`: (its stdout, its stderr)."""
    pytest.importorskip("kubeflow", reason="the SDK is not installed: pip install '.[sdk]'")
    kubeconfig = tmp_path / "kubeconfig"

    def up(*options):
        start("up", "--kubeconfig", kubeconfig, *options).wait_for("ready http")
        return lambda program: run_sdk(tmp_path, kubeconfig, "default", program)

    return up


def run_sdk(directory, kubeconfig, namespace, program):
    # From a file, because the SDK reads the source of the function that it sends.
    file = directory / "program.py"
    file.write_text(SDK_PROGRAM + textwrap.dedent(program))
    done = subprocess.run(
        [sys.executable, file, kubeconfig, namespace],
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE_S,
        check=False,
        cwd=directory,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


@pytest.fixture
def sdk_in(shared_up, tmp_path):
    """As `sdk_on`, on a `ktrain up` that tests share, in a namespace of this test's own."""
    pytest.importorskip("kubeflow", reason="the SDK is not installed: pip install '.[sdk]'")

    def up(*options):
        kubeconfig = shared_up(*options)
        return lambda program: run_sdk(tmp_path, kubeconfig, f"test-{next(_numbers)}", program)

    return up


@pytest.fixture
def sdk(sdk_in):
    """Run a program that has a `client` of a `ktrain up`; returns what it said on stdout and on stderr."""
    return sdk_in("--pods", "host")


def processes_with(marker):
    """PIDs of living processes whose command line or environment contains the marker."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            text = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
            if marker.encode() in text and state != "Z":
                found.append(int(entry.name))
    return found
