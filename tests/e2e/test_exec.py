"""kubectl in containers: exec, attach, cp and run, against `ktrain up`, in both ways pods run."""

import os
import pty
import socket
import subprocess

import pytest

from ..programs import needs_kubectl, needs_kubectl_of

pytestmark = [pytest.mark.e2e, needs_kubectl]


SLEEPER = {"name": "main", "image": "i", "command": ["sleep", "1000"], "env": [{"name": "WHO", "value": "me"}]}


def test_exec_passes_output_input_and_exit_codes(cluster):
    cluster.create("p", SLEEPER, SLEEPER | {"name": "other"})

    assert cluster.run("exec", "p", "-c", "main", "--", "sh", "-c", "echo $WHO; exit 3") == (
        3,
        "me\ncommand terminated with exit code 3\n",
    )
    assert cluster.run("exec", "-i", "p", "-c", "other", "--", "cat", stdin="hello\n" * 5000) == (0, "hello\n" * 5000)
    code, said = cluster.run("exec", "p", "-c", "main", "--", "no-such-program")
    assert code == 127
    assert "no-such-program" in said
    assert "container nix is not valid" in cluster.run("exec", "p", "-c", "nix", "--", "true")[1]


SIZED = "until [ \"$(stty size)\" = '33 77' ]; do sleep 0.05; done; stty size; exit 4"


def test_exec_with_a_terminal_has_its_size(cluster):
    cluster.create("p", SLEEPER)
    ours, theirs = pty.openpty()
    subprocess.run(["stty", "rows", "33", "cols", "77"], stdin=theirs, check=True)

    kubectl = subprocess.Popen(
        [*cluster.command, "exec", "-it", "p", "--", "sh", "-c", SIZED],
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.DEVNULL,
        env=cluster.env,
    )
    os.close(theirs)
    try:
        assert kubectl.wait(30) == 4
        assert b"33 77" in os.read(ours, 4096)
    finally:
        kubectl.kill()
        kubectl.wait()
        os.close(ours)


def test_files_are_copied_in_and_out(cluster, tmp_path):
    cluster.create("p", SLEEPER)
    (tmp_path / "in").write_bytes(os.urandom(300_000))

    assert cluster.run("cp", str(tmp_path / "in"), f"p:{tmp_path}/inside")[0] == 0
    code, said = cluster.run("cp", f"p:{tmp_path}/inside", str(tmp_path / "out"))

    assert code == 0, said
    assert (tmp_path / "out").read_bytes() == (tmp_path / "in").read_bytes()


def test_run_with_input_attaches_and_ends_with_the_pod(cluster):
    code, said = cluster.run(
        "run", "once", "-i", "--rm", "--restart=Never", "--image=i", "--command", "--",
        "sh", "-c", "read line; echo got $line; exit 2", stdin="word\n",
    )  # fmt: skip

    assert "got word" in said
    assert code == 2
    assert "not found" in cluster.run("get", "pod", "once")[1]


SERVER = """
import socketserver

class Echo(socketserver.StreamRequestHandler):
    def handle(self):
        self.wfile.write(b"you said " + self.rfile.read())

class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True

print("up", flush=True)
Server(("127.0.0.1", PORT), Echo).serve_forever()
"""


def forwarded(cluster, *ports):
    """Start kubectl port-forward; returns the process and the local port."""
    needs_kubectl_of(30, "port-forward over WebSockets")
    forward = subprocess.Popen(
        [*cluster.command, "port-forward", "pod/p", *ports],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=cluster.env,
    )
    line = forward.stdout.readline()
    assert line.startswith("Forwarding from 127.0.0.1:"), line
    return forward, int(line.split(":")[1].split()[0])


def test_ports_are_forwarded_both_ways_and_a_refusal_ends_only_its_connection(cluster):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    cluster.create("p", {"name": "main", "image": "i", "command": ["python", "-c", SERVER.replace("PORT", str(port))]})
    forward, local = forwarded(cluster, f":{port}")
    try:
        said = []
        for text in (b"hello", b"x" * 1_000_000):
            with socket.create_connection(("127.0.0.1", local), 10) as connection:
                connection.sendall(text)
                connection.shutdown(socket.SHUT_WR)
                said.append(b"".join(iter(lambda: connection.recv(65536), b"")))

        assert said == [b"you said hello", b"you said " + b"x" * 1_000_000]
    finally:
        forward.kill()
        forward.communicate()


def test_a_port_nobody_listens_on_is_told(cluster):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    cluster.create("p", SLEEPER)
    forward, local = forwarded(cluster, f":{port}")
    with socket.create_connection(("127.0.0.1", local), 10) as connection:
        assert connection.recv(10) == b""
    forward.terminate()

    assert f"nothing listens on port {port} of pod p" in forward.communicate(timeout=10)[0]
