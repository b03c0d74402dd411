"""`ktrain up` from outside: a server for kubectl, for `ktrain run --kubeconfig`, and for nobody else."""

import base64
import json
import signal
import ssl
import stat
import subprocess
import sys
import urllib.error
import urllib.request

import pytest
import yaml

from ..programs import KUBECTL, needs_kubectl
from ..waiting import eventually

pytestmark = pytest.mark.e2e


@pytest.fixture
def up(start, tmp_path):
    """Start `ktrain up` with options; returns the process, its URL and its kubeconfig."""

    def run(*options):
        kubeconfig = tmp_path / "kubeconfig"
        server = start("up", "--kubeconfig", kubeconfig, *options)
        url = server.wait_for("ready http").split()[1]
        return server, url, kubeconfig

    return run


def kubectl(kubeconfig, *arguments, check=True, stdin=None):
    done = subprocess.run(
        [KUBECTL, "--kubeconfig", str(kubeconfig), *arguments], capture_output=True, text=True, input=stdin, check=False
    )
    assert not check or done.returncode == 0, done.stderr
    return done.stdout + done.stderr


class Login:
    """What a kubeconfig says, for plain HTTPS requests."""

    def __init__(self, kubeconfig):
        document = yaml.safe_load(kubeconfig.read_text())
        cluster = document["clusters"][0]["cluster"]
        self.url = cluster["server"]
        self.token = document["users"][0]["user"]["token"]
        ca = base64.b64decode(cluster["certificate-authority-data"]).decode()
        self.tls = ssl.create_default_context(cadata=ca)

    def request(self, path, body=None, token=None):
        headers = {"Authorization": f"Bearer {self.token if token is None else token}"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        request = urllib.request.Request(self.url + path, data=body, headers=headers)
        with urllib.request.urlopen(request, timeout=10, context=self.tls) as answer:
            return json.load(answer)


def test_calls_without_the_token_are_refused_and_the_kubeconfig_is_private(up):
    _server, url, kubeconfig = up("--pods", "off")
    login = Login(kubeconfig)

    assert login.url == url
    assert login.request("/version")["gitVersion"].startswith("v1.")
    assert stat.S_IMODE(kubeconfig.stat().st_mode) == 0o600
    # Without any token one is anonymous, who has no rights; a wrong one is nobody's.
    for wrong, code in (("", 403), ("guess", 401), (login.token[:-1], 401)):
        with pytest.raises(urllib.error.HTTPError) as refusal:
            login.request("/api/v1/secrets", token=wrong)
        refusal.value.close()
        assert refusal.value.code == code


def test_it_listens_on_loopback_only(ktrain):
    code, output = ktrain("up", "--listen", "0.0.0.0:0")

    assert code == 2
    assert "not a loopback address" in output


def test_a_port_in_use_is_an_error_that_names_it(up, ktrain):
    _server, url, _kubeconfig = up("--pods", "off")
    port = url.rpartition(":")[2]

    code, output = ktrain("up", "--pods", "off", "--listen", f"127.0.0.1:{port}")

    assert code == 2
    assert f"cannot listen on 127.0.0.1:{port}" in output


def test_it_ends_at_sigterm_and_leaves_nothing(up, temporary):
    server, _url, _kubeconfig = up()

    server.process.send_signal(signal.SIGTERM)

    assert server.finish() == 0
    assert list(temporary.iterdir()) == []


def test_a_killed_server_takes_its_kubeconfig_with_it(start, temporary):
    server = start("up")
    server.wait_for("ready http")
    server.kill()

    eventually(lambda: list(temporary.iterdir()) == [])


def test_what_a_killed_server_without_pods_leaves_goes_at_the_next_start(start, temporary):
    for _ in range(3):
        server = start("up", "--pods", "off")
        server.wait_for("ready http")
        assert len(list(temporary.rglob("kubeconfig"))) == 1
        server.kill()


@needs_kubectl
def test_kubectl_sees_the_life_of_a_train_job(up, train_job):
    _server, _url, kubeconfig = up()
    file = train_job("print('hello from the pod')\n", nodes=2)

    assert "trainjob.trainer.kubeflow.org/job created" in kubectl(kubeconfig, "apply", "-f", str(file))
    kubectl(kubeconfig, "wait", "--for=condition=Complete", "trainjob/job", "--timeout=30s")

    jobs = kubectl(kubeconfig, "get", "trainjobs")
    assert "STATE" in jobs
    assert "Complete" in jobs
    for kind in ("jobsets", "jobs", "pods", "clustertrainingruntimes"):
        assert len(kubectl(kubeconfig, "get", kind).splitlines()) > 1
    pod = kubectl(kubeconfig, "get", "pods", "-o", "name").splitlines()[0]
    assert kubectl(kubeconfig, "logs", pod) == "hello from the pod\n"
    assert "Conditions" in kubectl(kubeconfig, "describe", "trainjob", "job")
    kubectl(kubeconfig, "delete", "trainjob", "job")
    eventually(lambda: "No resources found" in kubectl(kubeconfig, "get", "pods"))


@needs_kubectl
def test_kubectl_watches_a_job_from_creation_to_complete(up, train_job):
    _server, _url, kubeconfig = up()
    watch = subprocess.Popen(
        [KUBECTL, "--kubeconfig", str(kubeconfig), "get", "trainjobs", "-w"], stdout=subprocess.PIPE, text=True
    )
    try:
        kubectl(kubeconfig, "apply", "-f", str(train_job("import time; time.sleep(1)\n")))

        seen = [watch.stdout.readline() for _ in range(2)]
        while "Complete" not in seen[-1]:
            seen.append(watch.stdout.readline())

        assert seen[0].split() == ["NAME", "STATE", "NODES", "RESTARTS", "AGE"]
        assert seen[1].split()[0] == "job"
        name, *shown = seen[-1].split()[:4]
        assert (name, shown) == ("job", ["Complete", "1/1", "0"])
    finally:
        watch.kill()
        watch.wait()
        watch.stdout.close()


def test_pods_stay_pending_without_a_kubelet(up, train_job):
    _server, _url, kubeconfig = up("--pods", "off")
    login = Login(kubeconfig)
    body = json.dumps(yaml.safe_load(train_job("").read_text())).encode()
    login.request("/apis/trainer.kubeflow.org/v1alpha1/namespaces/default/trainjobs", body)

    def phases():
        pods = login.request("/api/v1/namespaces/default/pods")["items"]
        return [(pod["status"]["phase"], pod["spec"].get("nodeName")) for pod in pods]

    eventually(lambda: phases() == [("Pending", None)])


def test_ktrain_run_follows_a_job_on_a_cluster(up, ktrain, train_job):
    _server, _url, kubeconfig = up()
    file = train_job("print('far away')\n")

    code, output = ktrain("run", file, "--kubeconfig", kubeconfig)

    assert code == 0, output
    assert "[node-0] far away" in output
    assert "exists already" in ktrain("run", file, "--kubeconfig", kubeconfig)[1]


def test_an_interrupted_run_on_a_cluster_leaves_the_job_running_when_nobody_can_be_asked(up, start, train_job):
    _server, _url, kubeconfig = up()
    running = start("run", train_job("import time; print('started'); time.sleep(600)\n"), "--kubeconfig", kubeconfig)
    running.wait_for("started")

    running.process.send_signal(signal.SIGINT)

    assert running.finish() == 130
    assert "goes on running" in running.output
    pods = Login(kubeconfig).request("/api/v1/namespaces/default/pods")["items"]
    assert [pod["status"]["phase"] for pod in pods] == ["Running"]


def test_a_server_without_pods_loads_nothing_that_it_does_not_need(tmp_path):
    python = [sys.executable, "-X", "importtime", "-m", "ktrain"]
    command = [*python, "up", "--pods", "off", "--kubeconfig", str(tmp_path / "kubeconfig")]

    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        assert server.stdout.readline().startswith("ready ")
        server.terminate()
        told = server.stderr.read()

    loaded = {line.rpartition("|")[2].strip() for line in told.splitlines() if line.startswith("import time:")}
    assert {"ktrain.local.plane", "structlog.dev"} <= loaded
    needless = {"aiohttp", "kubernetes_asyncio", "ktrain.local.nodes", "ktrain.local.sandbox.executor", "opentelemetry"}
    needless |= {"rich.console", "sqlite3", "zoneinfo"}
    assert loaded & needless == set()
