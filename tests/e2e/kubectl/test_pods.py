"""Pods that run, which only `ktrain up` has: logs, exec, port-forward, their end, and nodes."""

import json
import urllib.request

import pytest

from ...programs import needs_kubectl_of
from ...waiting import eventually

pytestmark = pytest.mark.e2e

COUNTING = "for i in 1 2 3; do echo line $i; done; sleep 600"


def wait_for(up, condition, name="pod/p"):
    up("wait", f"--for={condition}", name, "--timeout=30s")


def test_logs_are_cut_stamped_and_prefixed(up, pod):
    up.apply(pod("p", script=COUNTING))
    wait_for(up, "condition=Ready")
    eventually(lambda: up("logs", "p") == "line 1\nline 2\nline 3\n")

    assert up("logs", "p", "--tail=1") == "line 3\n"
    assert up("logs", "p", "--limit-bytes=6") == "line 1"
    assert up("logs", "p", "--since=1h") == "line 1\nline 2\nline 3\n"
    assert all(line.split()[0].endswith("Z") for line in up("logs", "p", "--timestamps").splitlines())
    assert up("logs", "-l", "app=p", "--prefix").startswith("[pod/p/main] line 1\n")
    assert 'pods "nope" not found' in up.fails("logs", "nope")
    assert "container nope is not valid for pod p" in up.fails("logs", "p", "-c", "nope")


def test_logs_follow_until_the_container_ends(up, pod):
    up.apply(pod("p", script="echo early; sleep 1; echo late"))

    eventually(lambda: up.run("logs", "-f", "p").stdout == "early\nlate\n", within_s=30)


def test_logs_of_several_containers_and_of_the_one_before(up, pod):
    containers = [
        {"name": name, "image": "none", "command": ["sh", "-c", f"echo from {name}; {then}"]}
        for name, then in (("a", "sleep 600"), ("b", "exit 1"))
    ]
    manifest = pod("p", containers=containers)
    manifest["spec"]["restartPolicy"] = "OnFailure"
    up.apply(manifest)
    restarted = "jsonpath={.status.containerStatuses[1].restartCount}=1"
    wait_for(up, restarted)

    assert up("logs", "p", "-c", "b", "--previous") == "from b\n"
    eventually(lambda: set(up("logs", "p", "--all-containers").split("\n")) == {"from a", "from b", ""})
    done = up.run("logs", "p")
    assert "Defaulted container" in done.stderr


def test_logs_of_a_job(up, job):
    up.apply(job("j", script="echo from the job", suspend=False))
    wait_for(up, "condition=Complete", "job/j")

    assert up("logs", "job/j") == "from the job\n"


def test_exec_runs_a_command_in_the_container(up, pod):
    up.apply(pod("p", script="export X=1; sleep 600"))
    wait_for(up, "condition=Ready")

    assert up("exec", "p", "--", "sh", "-c", "echo $HOSTNAME; echo two words") == "p\ntwo words\n"
    assert up("exec", "-i", "p", "--", "cat", stdin="to and fro") == "to and fro"
    done = up.run("exec", "p", "--", "sh", "-c", "echo trouble >&2; exit 3")
    assert (done.returncode, "trouble" in done.stderr) == (3, True)
    assert "container nope is not valid for pod p" in up.fails("exec", "p", "-c", "nope", "--", "true")
    complaint = up.fails("exec", "p", "--", "no-such-program", code=127)
    assert 'exec: "no-such-program": executable file not found in $PATH' in complaint
    assert "command terminated with exit code 127" in complaint


def test_debug_adds_a_container_to_a_running_pod(up, pod):
    up.apply(pod("p"))
    wait_for(up, "condition=Ready")
    script = "read line; echo got $line; exit 3"
    done = up.run(
        "debug", "-i", "p", "--image=none", "-c", "look", "--target=main", "--", "sh", "-c", script, stdin="it\n"
    )

    assert "got it" in done.stdout, done.stderr
    (status,) = up.object("pod", "p")["status"]["ephemeralContainerStatuses"]
    assert (status["name"], status["restartCount"]) == ("look", 0)
    eventually(lambda: up("logs", "p", "-c", "look") == "got it\n")
    ended = "jsonpath={.status.ephemeralContainerStatuses[0].state.terminated.exitCode}"
    eventually(lambda: up("get", "pod", "p", "-o", ended) == "3")
    assert up("get", "pod", "p", "--no-headers").split()[1:4] == ["1/1", "Running", "0"]


def test_port_forward_leads_into_the_pod(up, pod):
    needs_kubectl_of(30, "port-forward over WebSockets")
    server = "import http.server as h; h.HTTPServer(('127.0.0.1', {port}), h.SimpleHTTPRequestHandler).serve_forever()"
    port = _free_port()
    command = ["python3", "-c", server.format(port=port)]
    # kubectl ends when the first connection is refused, so the pod is ready when somebody listens.
    listens = {"tcpSocket": {"port": port}, "periodSeconds": 1}
    up.apply(pod("p", containers=[{"name": "main", "image": "none", "command": command, "readinessProbe": listens}]))
    wait_for(up, "condition=Ready")

    forward = up.start("port-forward", "pod/p", f":{port}")
    try:
        local = forward.stdout.readline().split("127.0.0.1:")[1].split()[0]

        def answered():
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{local}/", timeout=5) as answer:
                    return answer.status == 200
            except OSError:
                return False

        eventually(answered)
    finally:
        forward.kill()
        forward.communicate()


def _free_port():
    import socket

    with socket.create_server(("127.0.0.1", 0)) as one:
        return one.getsockname()[1]


def test_run_waits_for_what_it_started(up):
    done = up.run("run", "p", "--image=none", "--restart=Never", "--attach", "--rm", "--", "echo", "hello")
    assert done.returncode == 0, done.stderr

    assert "hello" in done.stdout


def test_describe_tells_the_story_of_a_pod(up, pod):
    up.apply(pod("p", script=COUNTING))
    wait_for(up, "condition=Ready")
    found = up("describe", "pod", "p")

    for words in ("Node:", "local", "State:          Running", "Restart Count:  0", "Conditions:", "QoS Class:"):
        assert words in found
    eventually(lambda: "Events:" in up("describe", "pod", "p"))


def test_delete_gives_a_pod_its_grace(up, pod):
    up.apply(pod("p", script="trap 'exit 0' TERM; while :; do sleep 0.1; done"))
    wait_for(up, "condition=Ready")
    up("delete", "pod", "p", "--timeout=30s")

    assert 'pods "p" not found' in up.fails("get", "pod", "p")


def test_a_job_runs_to_its_end_and_its_pods_follow_the_cascade(up, job):
    up.apply(job("a", suspend=False), job("b", suspend=False))
    for name in ("a", "b"):
        wait_for(up, "condition=Complete", f"job/{name}")
    assert "1/1" in up("get", "job", "a")
    up("delete", "job", "a", "--cascade=orphan")
    up("delete", "job", "b", "--cascade=foreground", "--timeout=30s")

    pods = up("get", "pods", "-L", "job-name", "--no-headers").splitlines()
    assert [line.split()[-1] for line in pods] == ["a"]


def test_nodes_are_described_cordoned_tainted_and_drained(up, pod):
    (node,) = up("get", "nodes", "-o", "jsonpath={.items[*].metadata.name}").split()
    up.apply(pod("p", script=COUNTING))
    wait_for(up, "condition=Ready")
    for words in ("Capacity:", "Conditions:", "KubeletReady"):
        assert words in up("describe", "node", node)
    try:
        up("cordon", node)
        assert "SchedulingDisabled" in up("get", "node", node)
        up.apply(pod("q"))
        eventually(lambda: "Pending" in up("get", "pod", "q"))
        up("uncordon", node)
        wait_for(up, "condition=Ready", "pod/q")
        up("taint", "node", node, "kubectl.test/no=way:NoSchedule")
        taints = json.loads(up("get", "node", node, "-o", "json"))["spec"]["taints"]
        assert [taint["key"] for taint in taints] == ["kubectl.test/no"]
        up("taint", "node", node, "kubectl.test/no-")
        drain = ("--force", "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=60s", "--grace-period=1")
        out = up("drain", node, *drain, "--pod-selector=app in (p,q)")
        assert "pod/p evicted" in out
    finally:
        up.run("uncordon", node)
        up.run("taint", "node", node, "kubectl.test/no-")


def test_cp_moves_files_both_ways(up, pod, tmp_path):
    up.apply(pod("p", script=COUNTING))
    wait_for(up, "condition=Ready")
    (tmp_path / "sent").write_text("words\n")
    remote = tmp_path / "remote"
    remote.mkdir()
    up("cp", tmp_path / "sent", f"p:{remote}/here")
    up("cp", f"p:{remote}/here", tmp_path / "back")

    assert (tmp_path / "back").read_text() == "words\n"
