"""A Secret that cert-controller of Open Policy Agent filled, as Kubeflow Trainer's operator has it fill one."""

import base64
from datetime import timedelta

import pytest

from ktrain.framework.errors import ConfigError
from ktrain.framework.webhook.authority import issue

from .rotating import SECRET, SECRET_RESOURCE, SERVICE, on_a_plane


async def keep(plane, names, *parts):
    """Store a certificate for names under some keys; returns its CA."""
    made = issue(names, now=plane.env.clock.now(), lifetime=timedelta(days=3650))
    values = {"ca.crt": made.ca, "ca.key": made.pair.key, "tls.crt": made.pair.certificate, "tls.key": made.pair.key}
    data = {part: base64.b64encode(values.get(part, b"x")).decode() for part in parts}
    metadata = {"name": SECRET.name, "namespace": SECRET.namespace}
    await plane.client.create(
        SECRET_RESOURCE, {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}
    )
    return made.ca


FOUR = ("ca.crt", "ca.key", "tls.crt", "tls.key")


def test_it_is_taken_over_when_told_to_with_its_authority_still_trusted_and_without_its_key():
    async def scenario(plane):
        authority = await keep(plane, [SERVICE.names[2]], *FOUR)
        await plane.replica("a", adopt=True)
        bundles = await plane.bundles()
        assert all(authority in bundle for bundle in bundles.values())
        assert await plane.trusted()
        assert set(await plane.secret()) == {"tls.crt", "tls.key", "ca.crt"}

    on_a_plane(scenario)


@pytest.mark.parametrize(
    ("adopt", "parts"), [(False, FOUR), (True, ("ca.crt", "tls.crt", "tls.key")), (True, (*FOUR, "password"))]
)
def test_what_is_anothers_is_left_alone(adopt, parts):
    async def scenario(plane):
        await keep(plane, [SERVICE.names[2]], *parts)
        with pytest.raises(ConfigError, match="holds something else"):
            await plane.source(adopt=adopt).run(None)
        assert set(await plane.secret()) == set(parts)

    on_a_plane(scenario)
