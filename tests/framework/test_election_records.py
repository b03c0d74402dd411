"""Elections when the Lease itself is deleted, emptied, given away or shared, and when clocks jump."""

import pytest

from ktrain.api.core import LEASES, untyped
from ktrain.framework.env import Env
from ktrain.framework.errors import LeadershipLost
from ktrain.testing.time import VirtualClock, simulate

from .electing import LEASE, world


@pytest.mark.parametrize("how", ["deleted", "emptied"])
def test_a_lease_that_loses_its_leader_and_its_record_at_once_is_taken_one_duration_later(how):
    async def scenario(env):
        async with world(env) as w:
            a = await w.led("b")
            a.process.stop()
            edited = env.clock.monotonic()
            if how == "deleted":
                await w.client.delete(LEASES, LEASE)
            else:
                await w.edit(holderIdentity="")
            await env.clock.sleep(40)
            return w.first("write", "b") - edited

    assert 15 <= simulate(scenario) <= 15 + 2


def test_a_lease_that_is_given_to_another_by_hand_ends_the_leader_at_its_next_renewal_and_nobody_overlaps():
    async def scenario(env):
        async with world(env) as w:
            a = await w.led("b")
            edited = env.clock.monotonic()
            await w.edit(holderIdentity="b")
            await env.clock.sleep(40)
            last = max(when for when, what, name in w.journal if (what, name) == ("write", "a"))
            return type(a.error), last - edited, w.first("write", "b") - edited

    kind, last, first = simulate(scenario)
    assert kind is LeadershipLost
    assert last <= 2.1
    assert first >= 15


def test_two_installs_under_one_name_share_one_leader_even_if_they_share_the_identity():
    async def scenario(env):
        async with world(env) as w:
            a = w.candidate("a", identity="one")
            await env.clock.sleep(1)
            w.candidate("b", identity="one")
            await env.clock.sleep(120)
            a.process.stop()
            paused = env.clock.monotonic()

            await env.clock.sleep(30)
            writers = w.writers(), w.writers(paused + 5)
            # Their names are not the identity that the Lease has, so the journal cannot tell them apart.
            w.journal.clear()
            return writers

    both, later = simulate(scenario)
    assert later == {"b"}
    assert both == {"a", "b"}


def test_wall_clocks_that_jump_by_a_day_while_leading_and_waiting_change_nothing():
    async def scenario(env):
        clocks = [VirtualClock(), VirtualClock()]
        async with world(env) as w:
            a = w.candidate("a", env=Env(clocks[0], env.random))
            await env.clock.sleep(1)
            w.candidate("b", env=Env(clocks[1], env.random))
            for skew_s in (86400, -86400, 0, 3e9, -9e8):
                for clock in clocks:
                    clock.skew_s = skew_s
                    await env.clock.sleep(20)
            return w.writers(), a.error

    assert simulate(scenario) == ({"a"}, None)


def test_whoever_may_update_the_lease_and_not_patch_it_leads_and_hands_over_all_the_same():
    """Roles that were made for operators in Go say so."""

    async def scenario(env):
        async with world(env) as w:
            first = w.candidate("a")
            await env.clock.sleep(1)
            await w.client.patch(LEASES, LEASE, {"metadata": {"labels": {"x": "y"}}})
            first.weather.on("patch", LEASES).answer(403)
            second = w.candidate("b")
            second.weather.on("patch", LEASES).answer(403)
            await env.clock.sleep(60)
            held = await w.client.get(untyped(LEASES), LEASE.name, LEASE.namespace)
            given_up_s = env.clock.monotonic()
            first.work.cancel()
            await env.clock.sleep(5)
            refused = second.weather.count("patch", LEASES)
            return held, w.first("write", "b", given_up_s) - given_up_s, refused

    held, handed_over_s, refused = simulate(scenario)
    assert (held["spec"]["holderIdentity"], held["metadata"]["labels"]) == ("a", {"x": "y"})
    assert handed_over_s < 1
    assert refused == 1


def test_an_account_without_rights_is_told_which_one_and_leads_as_soon_as_it_has_it():
    async def scenario(env):
        async with world(env) as w:
            first = w.candidate("a")
            await env.clock.sleep(1)
            first.process.stop()
            second = w.candidate("b")
            refusals = [second.weather.on(verb, LEASES).answer(403) for verb in ("patch", "update")]
            await env.clock.sleep(60)
            told = second.election.describe()
            refusals[0].remove()
            await env.clock.sleep(10)
            return told, w.writers(), w.first("write", "b") > 60

    told, writers, late = simulate(scenario)
    assert "the last attempt failed: PATCH" in told
    assert writers == {"a", "b"}
    assert late
