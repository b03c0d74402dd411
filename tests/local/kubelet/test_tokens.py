"""Tokens of service accounts in projected volumes: bound to the pod, and renewed in time."""

import base64
import json

from ktrain.api.core import PODS
from ktrain.api.meta import Key
from ktrain.local.kubelet import worker
from ktrain.local.sandbox.sim import Act

TOKEN = {"serviceAccountToken": {"path": "token", "expirationSeconds": 600, "audience": "vault"}}
VOLUME = {"name": "t", "projected": {"sources": [TOKEN]}}
MAIN = {"name": "main", "image": "i", "command": ["run"], "volumeMounts": [{"name": "t", "mountPath": "/t"}]}


def claims(token):
    body = token.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))


async def shown(world):
    [(_, process)] = world.executor.started
    return (process.mounts[0].source / "token").read_text()


async def with_account(world):
    await world.client.raw("POST", "/api/v1/namespaces/default/serviceaccounts", body={"metadata": {"name": "trainer"}})
    await world.create(containers=[MAIN], volumes=[VOLUME], serviceAccountName="trainer")
    return await world.phase("Running")


def test_a_token_says_whose_it_is_for_whom_and_for_which_pod(simulate):
    async def scenario(world):
        pod = await with_account(world)
        said = claims(await shown(world))

        assert said["sub"] == "system:serviceaccount:default:trainer"
        assert said["aud"] == ["vault"]
        assert said["kubernetes.io"]["pod"] == {"name": "p", "uid": pod.metadata.uid}
        assert said["exp"] - said["iat"] == 600

    simulate(scenario, Act())


def test_a_token_is_renewed_when_four_fifths_of_its_life_are_over(simulate):
    async def scenario(world):
        await with_account(world)
        first = await shown(world)
        clock = world.kubelet._env.clock
        await clock.sleep(480 - 2 * worker.REFRESH_S)
        early = await shown(world)
        await clock.sleep(4 * worker.REFRESH_S)

        assert early == first
        assert claims(await shown(world))["exp"] > claims(first)["exp"]

    simulate(scenario, Act())


def test_without_an_account_the_pod_waits_and_says_why(simulate):
    async def scenario(world):
        await world.create(containers=[MAIN], volumes=[VOLUME], serviceAccountName="missing")
        assert "FailedMount" in await world.reasons()
        await world.client.raw(
            "POST", "/api/v1/namespaces/default/serviceaccounts", body={"metadata": {"name": "missing"}}
        )
        await world.phase("Running")
        await world.client.delete(PODS, Key("default", "p"), grace_period_s=0)

    simulate(scenario, Act())
