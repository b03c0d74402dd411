"""`ktrain operator --jobset` as a process, with the rights of config/jobset/rbac.yaml and no others."""

import asyncio
import re
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from ktrain.api.core import JOBS, LEASES, untyped
from ktrain.api.jobset import JOBSETS
from ktrain.api.meta import Key, format_micro_time
from ktrain.cli.jobsets import UPSTREAM_LEASE
from ktrain.pipeline import Registry

from .processes import end, grant, operating, roles_of

pytestmark = pytest.mark.e2e
RIGHTS = Path(__file__).parents[2] / "config" / "jobset" / "rbac.yaml"
TRAINER = [
    {"apiGroups": ["trainer.kubeflow.org"], "resources": ["*"], "verbs": ["*"]},
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch"]},
]
"""What the rest of the operator needs to start, besides what its plugins watch."""


@pytest.fixture
def operator(control_plane, tmp_path):
    """`async with operator(kubeconfig) as process:` runs it; it is killed if it has not ended by itself."""
    return partial(operating, control_plane, log=tmp_path / "operator.log")


@pytest.fixture
def create(control_plane, pod_template):
    async def create_jobset(**spec):
        template = {"spec": {"parallelism": 1, "completions": 1, "template": pod_template}}
        body = {
            "apiVersion": JOBSETS.api_version,
            "kind": "JobSet",
            "metadata": {"name": "js", "namespace": control_plane.namespace},
            "spec": {
                "network": {"enableDNSHostnames": True},
                "replicatedJobs": [{"name": "a", "replicas": 2, "template": template}],
                **spec,
            },
        }
        return await control_plane.client().create(JOBSETS, body)

    return create_jobset


def watched_by_plugins():
    """Return the rules to list and watch what plugins watch, as they say it; of Jobs and JobSets our manifest does."""
    rules = [rule for plugin in Registry.load().plugins for rule in getattr(plugin, "rbac", ())]
    return [
        {"apiGroups": list(rule.api_groups), "resources": list(rule.resources), "verbs": ["list", "watch"]}
        for rule in rules
        if "watch" in rule.verbs and not {"batch", "jobset.x-k8s.io"} & set(rule.api_groups)
    ]


def rights():
    """What our manifest says, and what the rest of the operator needs."""
    (role,) = roles_of(RIGHTS)
    return {**role, "rules": [*role["rules"], *TRAINER, *watched_by_plugins()]}


async def test_a_jobset_lives_with_the_rights_that_we_ask_for(control_plane, operator, create, tmp_path, real_server):
    if not control_plane.is_real:
        pytest.skip("rights are those of users with certificates, which the real server of the session knows")
    await grant(control_plane.client(), "ktrain-operator", [rights()], control_plane.namespace)
    kubeconfig = real_server.add_user("ktrain-operator")
    async with operator(kubeconfig, "--jobset") as process:
        await create(suspend=True, ttlSecondsAfterFinished=0)
        await control_plane.wait_for(JOBS, "js-a-1", lambda found: found is not None and found.spec.suspend)
        client, key = control_plane.client(), Key(control_plane.namespace, "js")
        await client.patch(JOBSETS, key, {"spec": {"suspend": False}})
        job = await control_plane.wait_for(JOBS, "js-a-1", lambda found: found is not None and not found.spec.suspend)
        await client.delete(JOBS, Key(control_plane.namespace, "js-a-1"), propagation="Background")
        # Made again sooner than anybody may see it gone.
        old = job.metadata.uid
        await control_plane.wait_for(JOBS, "js-a-1", lambda found: found is not None and found.metadata.uid != old)
        await end(process)

    refused = [line for line in (tmp_path / "operator.log").read_text().lower().splitlines() if "forbidden" in line]
    # It has rights in this namespace only, and TrainJobs of other tests' namespaces may be ending on the same server.
    elsewhere = re.compile(rf'"object":"(?!{control_plane.namespace}/)ktrain-[a-z0-9]{{5}}/')
    assert [line for line in refused if not elsewhere.search(line)] == []


async def test_beside_the_jobset_operator_it_does_not_start(control_plane, operator, tmp_path):
    lease = {
        "apiVersion": LEASES.api_version,
        "kind": LEASES.kind,
        "metadata": {"name": UPSTREAM_LEASE, "namespace": control_plane.namespace},
        "spec": {
            "holderIdentity": "jobset-controller-manager-0",
            "leaseDurationSeconds": 600,
            "renewTime": format_micro_time(datetime.now(UTC)),
        },
    }
    await control_plane.client().create(untyped(LEASES), lease)
    async with operator(await control_plane.kubeconfig(), "--jobset") as process:
        assert await asyncio.wait_for(process.wait(), 30) == 1

    said = (tmp_path / "operator.log").read_text()
    assert "another JobSet controller works here: jobset-controller-manager-0 holds the lease" in said
    await control_plane.client().delete(LEASES, Key(control_plane.namespace, UPSTREAM_LEASE))
