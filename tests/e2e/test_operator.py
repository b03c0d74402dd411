"""`ktrain operator` as a process that cannot work yet."""

import json
import signal
import socket
import urllib.error
import urllib.request

import pytest

from ..waiting import eventually

pytestmark = pytest.mark.e2e

KUBECONFIG = """
current-context: here
contexts: [{{name: here, context: {{cluster: here, user: me}}}}]
clusters: [{{name: here, cluster: {{server: "http://127.0.0.1:{port}"}}}}]
users: [{{name: me, user: {{token: hunter2}}}}]
"""


def test_against_a_server_that_never_answers_it_lives_says_why_it_waits_and_ends_in_order(
    start, tmp_path, unused_tcp_port
):
    def probe(path):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{unused_tcp_port}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refused:
            return refused.code, refused.read().decode()

    with socket.create_server(("127.0.0.1", 0)) as silent:
        (tmp_path / "kubeconfig").write_text(KUBECONFIG.format(port=silent.getsockname()[1]))
        health = ("--health-probe-bind-address", f"127.0.0.1:{unused_tcp_port}")
        process = start(
            "operator", "--kubeconfig", tmp_path / "kubeconfig", "--metrics-bind-address", "0", "--jobset", *health
        )
        first = json.loads(process.wait_for("operator.starting"))
        alive = eventually(lambda: probe("/healthz"), despite=(OSError,))
        ready = probe("/readyz")
        process.process.send_signal(signal.SIGTERM)
        code = process.finish()

    assert first["settings"]["jobset.enable"] is True
    assert "Torch" in next(
        names for package, names in first["plugins"].items() if package.startswith("ktrain-operator ")
    )
    assert alive == (200, "ok")
    assert ready[0] == 500
    assert "[-]startup failed: the operator starts and waits for the first answer of the API server" in ready[1]
    assert code == 0
    assert all(json.loads(line)["event"] for line in process.lines)
    assert "hunter2" not in process.output
