"""Self-managed certificates whose Secret is damaged, gone, outdated or of somebody else."""

import anyio
import pytest

from ktrain.framework.errors import ConfigError
from ktrain.framework.webhook import (
    WebhookAddress,
)
from ktrain.framework.webhook.authority import split_bundle

from .rotating import SECRET, SECRET_RESOURCE, SERVICE, on_a_plane


def test_a_secret_deleted_by_hand_comes_back_renewed_and_no_admission_fails():
    async def scenario(plane):
        for n in range(3):
            await plane.replica(n)
        old = plane.serving[0]
        await plane.client.delete(SECRET_RESOURCE, SECRET)
        for _ in range(60):
            await plane.env.clock.sleep(60)
            assert await plane.trusted()
        assert len(set(plane.serving.values())) == 1
        return old, plane.serving[0]

    old, new = on_a_plane(scenario)
    assert old != new


@pytest.mark.parametrize(
    "damage", [{"tls.key": "bm8="}, {"tls.crt": "bm8="}, {"ca.crt": ""}, {"tls.crt": ""}, {"ca.crt": None}]
)
def test_a_damaged_secret_is_repaired(damage):
    async def scenario(plane):
        await plane.replica("a")
        await plane.client.patch(SECRET_RESOURCE, SECRET, {"data": damage})
        for _ in range(60):
            await plane.env.clock.sleep(60)
            assert await plane.trusted()
        return await plane.secret()

    assert set(on_a_plane(scenario)) == {"tls.crt", "tls.key", "ca.crt"}


def test_another_name_means_another_certificate_at_once():
    async def scenario(plane):
        await plane.replica("a")
        old = plane.serving["a"]
        await plane.replica("b", address=WebhookAddress(("new.example.com", *SERVICE.names), SERVICE.service))
        return old, plane.serving["b"], await plane.trusted()

    old, new, trusted = on_a_plane(scenario)
    assert old != new
    assert trusted


def test_an_expired_certificate_is_replaced_at_the_start():
    async def scenario(plane):
        with anyio.CancelScope() as life:
            async with anyio.create_task_group() as plane.tasks:
                await plane.replica("a")
                life.cancel()
        await plane.env.clock.sleep(10 * 3600)
        async with anyio.create_task_group() as plane.tasks:
            await plane.replica("a")
            assert await plane.trusted()
            assert len(split_bundle((await plane.bundles())["MutatingWebhookConfiguration"])) == 1
            plane.tasks.cancel_scope.cancel()

    on_a_plane(scenario)


def test_a_secret_of_somebody_else_is_left_alone_and_an_empty_one_adopted():
    async def scenario(plane):
        meta = {"name": SECRET.name, "namespace": SECRET.namespace}
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": {"tls.crt": "bm8="}}
        await plane.client.create(SECRET_RESOURCE, body)
        with pytest.raises(ConfigError, match="Secret default/webhook holds something else"):
            await plane.source().run(None)
        assert await plane.secret() == {"tls.crt": "bm8="}
        await plane.client.patch(SECRET_RESOURCE, SECRET, {"data": None})
        await plane.replica("a")
        return await plane.trusted()

    assert on_a_plane(scenario)
