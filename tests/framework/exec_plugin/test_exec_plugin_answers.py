"""How long the answer of a plugin serves, and who asks for the next: one run for all who wait."""

import asyncio
import shutil
import stat
import time
from itertools import pairwise

import pytest
from aiohttp import web

from ktrain.framework.client.credentials import Endpoint
from ktrain.framework.client.exec_plugin import ExecPlugin, Plugin
from ktrain.framework.client.http import HttpTransport
from ktrain.framework.client.renewal import RETRY_S
from ktrain.framework.errors import ConfigError, TransportError
from ktrain.testing.time import simulate

from ...waiting import until
from .plugging import credential, numbered


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


async def test_closing_ends_a_plugin_and_those_who_wait_for_it_are_told(script, runs):
    credentials = ExecPlugin(Plugin(script("exec sleep 60")))
    call = asyncio.create_task(credentials.headers())
    await until(runs, within_s=5)

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
            await until(lambda: len(statuses) >= 50, within_s=5, every_s=0.001)
            valid = "Bearer t2"
        await http.aclose()

    assert statuses == [200] * 200
