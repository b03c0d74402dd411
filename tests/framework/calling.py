"""One call of a client in virtual time, and answers to it."""

from ktrain.framework.client.client import Client
from ktrain.testing.time import simulate

STORED = {"kind": "ConfigMap", "metadata": {"name": "a", "namespace": "ns", "uid": "u", "resourceVersion": "7"}}
BODY = {"metadata": {"name": "a", "namespace": "ns"}}


def refusal(code, headers=None, **status):
    return code, {"kind": "Status", "code": code, "message": f"no {code}", **status}, headers or {}


def call(script, use, **options):
    """Run `use(client)` in virtual time; return its result and how long it took."""

    async def main(env):
        client = Client(script, env, field_manager="me", **options)
        return await use(client), env.clock.monotonic()

    return simulate(main)
