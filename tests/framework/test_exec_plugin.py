import asyncio
import base64
import json
import os
import shutil
import stat
import sys
import time
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from aiohttp import web

from ktrain.framework.client import exec_plugin
from ktrain.framework.client.credentials import Endpoint
from ktrain.framework.client.exec_plugin import ExecPlugin, Plugin
from ktrain.framework.client.finding import find_endpoint
from ktrain.framework.client.http import HttpTransport
from ktrain.framework.client.renewal import RETRY_S
from ktrain.framework.errors import ConfigError, TransportError
from ktrain.testing.time import simulate

V1, BETA = exec_plugin.VERSIONS


def credential(version=V1, **status):
    return json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": status})


@pytest.fixture
def script(tmp_path):
    """Write a plugin in sh; each run leaves a line in `runs`."""

    def write(text):
        path = tmp_path / "plugin"
        path.write_text(f"#!/bin/sh\nset -e\necho run >> {tmp_path}/runs\n{text}\n")
        path.chmod(0o755)
        return str(path)

    return write


@pytest.fixture
def runs(tmp_path):
    return lambda: len((tmp_path / "runs").read_text().splitlines()) if (tmp_path / "runs").exists() else 0


async def until(condition):
    """Wait for something outside of this process."""
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110 - nothing tells us
            await asyncio.sleep(0.001)


def numbered(tmp_path, **status):
    """A token that counts the runs."""
    text = credential(token="t%s", **status)
    return f"printf '{text}' $(wc -l < {tmp_path}/runs)"


def kubeconfig(tmp_path, plugin, cluster=None, url="https://api.example:6443"):
    path = tmp_path / "config"
    user = {"command": plugin, "apiVersion": V1, **({} if cluster is None else {"provideClusterInfo": True})}
    path.write_bytes(
        msgspec.json.encode(
            {
                "current-context": "one",
                "clusters": [{"name": "c", "cluster": {"server": url, **(cluster or {})}}],
                "users": [{"name": "u", "user": {"exec": user}}],
                "contexts": [{"name": "one", "context": {"cluster": "c", "user": "u"}}],
            }
        )
    )
    return str(path)


async def test_a_plugin_is_run_once_for_all_who_wait_and_its_answer_is_kept(script, runs, tmp_path):
    credentials = ExecPlugin(Plugin(script(numbered(tmp_path))))

    answers = await asyncio.gather(*(credentials.headers() for _ in range(20)))

    assert answers == [{"Authorization": "Bearer t1"}] * 20
    assert (await credentials.headers(), runs()) == (answers[0], 1)


async def test_a_storm_of_401s_is_one_run_and_a_token_that_is_newer_already_is_none(script, runs, tmp_path):
    credentials = ExecPlugin(Plugin(script(numbered(tmp_path))))
    old = await credentials.headers()

    answers = await asyncio.gather(*(credentials.headers(refused=old) for _ in range(20)))
    late = await credentials.headers(refused=old)

    assert [*answers, late] == [{"Authorization": "Bearer t2"}] * 21
    # The server goes on refusing: the plugin is not run for each call.
    assert await credentials.headers(refused=late) is late
    assert runs() == 2


async def test_a_storm_of_401s_reaches_the_callers_as_401_and_costs_two_runs(script, runs, tmp_path, transport):
    seen = []

    async def handler(request):
        seen.append(request.headers["Authorization"])
        return web.Response(status=401)

    async with transport(handler, credentials=ExecPlugin(Plugin(script(numbered(tmp_path))))) as http:
        answers = [(await http.request("GET", "/")).status for _ in range(20)]

    assert answers == [401] * 20
    assert runs() == 2
    assert seen == ["Bearer t1"] + ["Bearer t2"] * 20


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
    await until(lambda: not _is_running(child))


def _is_running(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().split()[2] != "Z"
    except FileNotFoundError:
        return False


async def test_closing_ends_a_plugin_and_those_who_wait_for_it_are_told(script, runs):
    credentials = ExecPlugin(Plugin(script("exec sleep 60")))
    call = asyncio.create_task(credentials.headers())
    await until(runs)

    await credentials.aclose()
    await credentials.aclose()

    with pytest.raises(ConfigError, match="closed while"):
        await call


async def test_a_plugin_that_hangs_is_waited_for_in_the_time_of_each_call_and_started_once(transport, script, runs):
    async def handler(request):
        return web.Response()

    async with transport(handler, credentials=ExecPlugin(Plugin(script("exec sleep 60")))) as http:
        calls = [http.request("GET", "/", timeout_s=0.3) for _ in range(3)]
        errors = await asyncio.gather(*calls, return_exceptions=True)
        errors += await asyncio.gather(http.request("GET", "/", timeout_s=0.3), return_exceptions=True)

    assert [type(error) for error in errors] == [TransportError] * 4
    assert all("no credentials" in str(error) for error in errors)
    assert runs() == 1


class Counted(ExecPlugin):
    """A plugin that is no program, for virtual time: each answer takes `takes_s` and lasts an hour."""

    def __init__(self, env, takes_s=1.0):
        super().__init__(Plugin("none"), env)
        self.asked_at_s = []
        self.takes_s = takes_s
        self.fails = False

    async def _answer(self):
        self.asked_at_s.append(self._env.clock.monotonic())
        await self._env.clock.sleep(self.takes_s)
        if self.fails:
            raise ConfigError("it broke")
        end = self._env.clock.now().timestamp() + 3600
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(end))
        return credential(token=f"t{len(self.asked_at_s)}", expirationTimestamp=stamp).encode()


def test_a_token_is_renewed_before_its_end_while_the_old_one_serves():
    async def body(env):
        credentials = Counted(env)
        waited_s, tokens = 0.0, []
        for _ in range(3 * 3600):
            before_s = env.clock.monotonic()
            tokens.append((await credentials.headers())["Authorization"])
            waited_s += env.clock.monotonic() - before_s
            await env.clock.sleep(1)
        await credentials.aclose()
        return waited_s, tokens, [later - earlier for earlier, later in pairwise(credentials.asked_at_s)]

    waited_s, tokens, between_s = simulate(body, seed=1)

    assert waited_s == 1  # for the first only
    assert len(set(tokens)) == len(between_s) + 1
    assert all(0.74 * 3600 < gap_s < 0.86 * 3600 for gap_s in between_s)
    assert len(set(between_s)) == len(between_s)


def test_a_plugin_that_breaks_is_asked_again_now_and_then_and_its_last_answer_serves_to_its_end():
    async def body(env):
        credentials = Counted(env, takes_s=0.0)
        await credentials.headers()
        credentials.fails = True
        good, failed, ended_at_s = 0, 0, 0
        for second in range(3600 + 100):
            try:
                await credentials.headers()
                good += 1
            except ConfigError:
                failed, ended_at_s = failed + 1, ended_at_s or second
            await env.clock.sleep(1)
        credentials.fails = False
        await env.clock.sleep(RETRY_S)
        return good, failed, credentials.asked_at_s, await credentials.headers()

    good, failed, asked_at_s, last = simulate(body, seed=1)

    assert (good, failed) == pytest.approx((3600, 100), abs=2)
    assert all(later - earlier >= RETRY_S for earlier, later in pairwise(asked_at_s))
    assert last["Authorization"].startswith("Bearer t")


async def test_an_answer_that_is_over_already_is_used_all_the_same_for_a_moment(script, runs):
    credentials = ExecPlugin(
        Plugin(script(f"echo '{credential(token='t', expirationTimestamp='2001-01-01T00:00:00Z')}'"))
    )

    for _ in range(5):
        await credentials.headers()

    assert runs() == 1


async def test_a_plugins_new_certificate_means_new_connections(script, tmp_path, issue, transport, mutual_tls):
    for name in ("server", "one", "two"):
        issue(tmp_path / name, name)
    for name in ("one", "two"):
        pair = {"clientCertificateData": "tls.crt", "clientKeyData": "tls.key"}
        status = {field: (tmp_path / name / file).read_text() for field, file in pair.items()}
        (tmp_path / f"{name}.json").write_text(credential(**status))
    shutil.copy(tmp_path / "one.json", tmp_path / "now.json")
    valid = "one"

    async def handler(request):
        name = request.transport.get_extra_info("peercert")["subject"][0][0][1]
        return web.Response(text=name, status=200 if name == valid else 401)

    tls = mutual_tls(tmp_path / "server", tmp_path / "one", tmp_path / "two")
    credentials = ExecPlugin(Plugin(script(f"cat {tmp_path}/now.json")))
    async with transport(handler, tls=tls, verify=False, credentials=credentials) as http:
        first = await http.request("GET", "/")
        shutil.copy(tmp_path / "two.json", tmp_path / "now.json")
        valid = "two"
        second = await http.request("GET", "/")

    assert (first.body, second.body, second.status) == (b"one", b"two", 200)
    assert "PRIVATE" not in repr(credentials.__dict__)
    assert not [path for path in tmp_path.iterdir() if path.is_file() and stat.S_IMODE(path.stat().st_mode) == 0o600]


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


async def test_the_call_that_meets_the_rotation_of_its_token_succeeds(script, tmp_path, server):
    """The old token stops being accepted while calls are running; none of them fails."""
    valid = "Bearer t1"

    async def handler(request):
        return web.Response(status=200 if request.headers["Authorization"] == valid else 401)

    async with server(handler) as url:
        http = HttpTransport(Endpoint(url, ExecPlugin(Plugin(script(numbered(tmp_path))))))
        statuses = []

        async def call():
            for _ in range(50):
                statuses.append((await http.request("GET", "/")).status)  # noqa: PERF401 - one after the other

        async with asyncio.TaskGroup() as tasks:
            for _ in range(4):
                tasks.create_task(call())
            await until(lambda: len(statuses) >= 50)
            valid = "Bearer t2"
        await http.aclose()

    assert statuses == [200] * 200


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
