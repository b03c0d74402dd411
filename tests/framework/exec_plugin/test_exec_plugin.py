"""Credentials from a program: how it is run, what it is told, and what is wrong with it or its answer."""

import asyncio
import base64
import json
import os
import sys
import time
from pathlib import Path

import pytest

from ktrain.framework.client.exec_plugin import ExecPlugin, Plugin
from ktrain.framework.client.finding import find_endpoint
from ktrain.framework.errors import ConfigError

from ...waiting import until
from .plugging import BETA, V1, credential, kubeconfig


async def test_what_a_plugin_is_told(tmp_path, script, issue):
    issue(tmp_path / "ca", "ca")
    told = tmp_path / "told"
    plugin = script(f"printf '%s' \"$KUBERNETES_EXEC_INFO\" > {told}\necho '{credential(token='t')}'")
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "x"}}
    cluster = {"tls-server-name": "n", "certificate-authority": "ca/tls.crt", "extensions": [extension]}

    await find_endpoint(kubeconfig(tmp_path, plugin, cluster))

    ca = base64.b64encode((tmp_path / "ca" / "tls.crt").read_bytes()).decode()
    assert json.loads(told.read_text()) == {
        "apiVersion": V1,
        "kind": "ExecCredential",
        "spec": {
            "interactive": False,
            "cluster": {
                "server": "https://api.example:6443",
                "tls-server-name": "n",
                "certificate-authority-data": ca,
                "config": {"audience": "x"},
            },
        },
    }


async def test_arguments_and_variables_reach_a_plugin_and_the_older_version_is_spoken(script, monkeypatch):
    monkeypatch.setenv("OURS", "ours")
    plugin = Plugin(
        script(f"""printf '{credential(BETA, token="%s-%s-%s")}' "$1" "$OURS" "$THEIRS" """),
        args=("a b",),
        env={"THEIRS": "theirs"},
        api_version=BETA,
    )

    assert await ExecPlugin(plugin).headers() == {"Authorization": "Bearer a b-ours-theirs"}


async def test_a_relative_command_is_relative_to_the_kubeconfig(script, tmp_path):
    script(f"echo '{credential(token='t')}'")

    endpoint = await find_endpoint(kubeconfig(tmp_path, "./plugin"))

    assert await endpoint.credentials.headers() == {"Authorization": "Bearer t"}


WRONG = {
    "code": ("echo 'log in first' >&2; exit 3", "ended with code 3; the end of its stderr: log in first"),
    "silent": ("exit 1", "ended with code 1 without a word on stderr"),
    "killed": ("kill -9 $$", "was killed by signal 9"),
    "garbage": ("echo 'hunter2'", "gave an answer that is no ExecCredential"),
    "bytes": (r"printf '\377\376'", "gave an answer that is no ExecCredential"),
    "nothing": ("true", "gave an answer that is no ExecCredential"),
    "kind": ('echo \'{"apiVersion":"v1","kind":"Pod"}\'', "answered with Pod of v1, not with ExecCredential of"),
    "version": (f"echo '{credential(BETA, token='hunter2')}'", "answered with ExecCredential of client.auth"),
    "empty": (f"echo '{credential()}'", "gave neither a token nor a client certificate"),
    "half": (f"echo '{credential(clientCertificateData='hunter2')}'", "only one of clientCertificateData and"),
    "type": (f"echo '{credential(token=['hunter2'])}'", "at `$.status.token`"),
    "long": ("head -c 2000000 /dev/zero", "wrote more than 1 MiB to stdout and was killed"),
    "hangs": ("sleep 60 & sleep 60", "gave no answer within 0.5 s and was killed"),
}


@pytest.mark.parametrize(("text", "problem"), WRONG.values(), ids=WRONG)
async def test_what_is_wrong_with_a_plugin_is_said_without_its_secrets(script, text, problem):
    credentials = ExecPlugin(Plugin(script(text), named_by="user 'u'"), timeout_s=0.5 if "sleep" in text else 20)
    with pytest.raises(ConfigError, match=r"the exec plugin .*/plugin of user 'u'") as caught:
        await credentials.headers()

    assert problem in str(caught.value)
    assert "hunter2" not in str(caught.value)


async def test_a_plugin_that_is_missing_comes_with_the_hint_how_to_install_it():
    with pytest.raises(ConfigError, match="is not there, or cannot be executed; brew install it"):
        await ExecPlugin(Plugin("no-such-plugin", install_hint=" brew install it\n")).headers()


async def test_a_plugin_that_must_ask_somebody_and_cannot_says_so(monkeypatch, script):
    with pytest.raises(ConfigError, match="interactiveMode: Always"):
        await ExecPlugin(Plugin(script("true"), interactive_mode="Always")).headers()


async def test_a_plugin_that_says_much_on_stderr_is_heard_to_its_end(script):
    noisy = script(f"head -c 1000000 /dev/zero | tr '\\0' x >&2\necho '{credential(token='t')}'")
    assert await ExecPlugin(Plugin(noisy)).headers() == {"Authorization": "Bearer t"}

    with pytest.raises(ConfigError) as caught:
        await ExecPlugin(
            Plugin(script("head -c 1000000 /dev/zero | tr '\\0' x >&2; echo the end >&2; exit 1"))
        ).headers()
    assert str(caught.value).endswith("the end")
    assert len(str(caught.value)) < 3000


async def test_a_plugin_that_leaves_a_process_with_its_pipes_behind_is_not_waited_for(script):
    started = time.monotonic()

    await ExecPlugin(Plugin(script(f"sleep 20 &\necho '{credential(token='t')}'"))).headers()

    assert time.monotonic() - started < 10


async def test_nothing_of_a_plugin_is_left_when_it_is_killed(script, tmp_path):
    credentials = ExecPlugin(Plugin(script(f"sleep 60 & echo $! > {tmp_path}/child\nwait")), timeout_s=0.5)
    with pytest.raises(ConfigError):
        await credentials.headers()

    child = int((tmp_path / "child").read_text())
    await until(lambda: not _is_running(child), within_s=5)


def _is_running(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().split()[2] != "Z"
    except FileNotFoundError:
        return False


async def test_a_plugin_does_not_hold_up_the_event_loop(script):
    slow = script(f"head -c 500000 /dev/zero | tr '\\0' x >&2; sleep 0.3; echo '{credential(token='t')}'")
    longest_s, beats = 0.0, 0
    call = asyncio.create_task(ExecPlugin(Plugin(slow)).headers())

    while not call.done():
        before_s = time.monotonic()
        await asyncio.sleep(0.001)
        longest_s, beats = max(longest_s, time.monotonic() - before_s), beats + 1

    assert beats > 50
    assert longest_s < 0.2


async def test_a_plugin_that_may_ask_somebody_has_the_terminal_and_what_it_says_is_shown(script, monkeypatch, capfd):
    """Stdin is a terminal: the plugin reads it, and its prompt is seen."""
    ours, theirs = os.openpty()
    monkeypatch.setattr(sys, "stdin", os.fdopen(os.dup(theirs), closefd=True))
    kept = os.dup(0)
    os.dup2(theirs, 0)
    os.write(ours, b"answer\n")
    text = credential(token="%s-%s")
    told = """case "$KUBERNETES_EXEC_INFO" in *'"interactive":true'*) told=1;; esac"""
    plugin = script(f"""echo 'Password:' >&2\nread said\n{told}\nprintf '{text}' "$said" "$told" """)
    try:
        headers = await ExecPlugin(Plugin(plugin, interactive_mode="Always")).headers()
        never = ExecPlugin(Plugin(plugin, interactive_mode="Never"), timeout_s=5)
        with pytest.raises(ConfigError, match="ended with code 1; the end of its stderr: Password:"):
            await never.headers()
    finally:
        os.dup2(kept, 0)
        for one in (kept, ours, theirs):
            os.close(one)
        sys.stdin.close()

    assert headers == {"Authorization": "Bearer answer-1"}
    assert capfd.readouterr().err.count("Password:") == 1
