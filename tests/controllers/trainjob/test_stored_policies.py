"""JobSets to whose lists admission has added something: the next apply repeats that, and the JobSet is resumed."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from ktrain.api import assets, core, jobset
from ktrain.api import trainer as api
from ktrain.api.meta import Key
from ktrain.controllers.jobset import Gates
from ktrain.controllers.trainjob.writing import is_same
from ktrain.framework.client.client import Client
from ktrain.local.server import make_server
from ktrain.pipeline import Registry
from ktrain.testing.time import simulate

from ...peers.jobsets.writing import Chance
from ...peers.jobsets.writing import jobset as random_jobset
from .world import NS, Counting, World, own_seed

JOB_SETS, RUNTIMES = core.untyped(jobset.JOBSETS), core.untyped(api.TRAINING_RUNTIMES)
CLAIM = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1024Mi"}}},
}
MANAGER = "kueue.x-k8s.io/manager"
MOUNT = {"name": "data", "mountPath": "/data"}


def node(**pod) -> dict:
    container = {"name": "node", "image": "i", "volumeMounts": [MOUNT]}
    return {
        "name": "node",
        "template": {
            "metadata": {"labels": {api.ANCESTOR_LABEL: "trainer"}},
            "spec": {"template": {"spec": {"containers": [container], **pod}}},
        },
    }


class Cluster(World):
    """A server with the rules of JobSets, a runtime with this template, and no JobSet controller."""

    def __init__(self, env, template: dict) -> None:
        super().__init__(env)
        self.plugins = Registry.load().plugins
        self.server = make_server(env, Registry(self.plugins), Gates())
        self.user = Client(self.server.transport(), env, field_manager="test")
        self.counting = Counting(self.server.transport())
        self.template = template

    async def runtime(self) -> None:
        head = {"apiVersion": api.API_VERSION, "kind": "TrainingRuntime", "metadata": {"name": "rt", "namespace": NS}}
        await self.user.create(RUNTIMES, head | {"spec": {"template": {"spec": self.template}}})

    async def made_by_another(self, policies: list[dict]) -> None:
        """Have the JobSet made anew, with other claims than ktrain would build."""
        await self.made_anew((await self.stored())["spec"] | {"volumeClaimPolicies": policies})

    async def made_anew(self, spec: dict) -> None:
        """Have the JobSet made anew with another spec."""
        stored = await self.stored()
        await self.user.delete(JOB_SETS, Key(NS, "job"))
        metadata = {key: value for key, value in stored["metadata"].items() if key in ("name", "namespace")}
        metadata["ownerReferences"] = stored["metadata"]["ownerReferences"]
        await self.user.create(JOB_SETS, stored | {"metadata": metadata, "spec": spec})

    async def change(self, **spec) -> None:
        await self.user.patch(api.TRAIN_JOBS, Key(NS, "job"), {"spec": spec})
        await self.settle(5)

    async def stored(self) -> dict:
        return await self.user.get(JOB_SETS, "job", NS)

    async def is_resumed(self) -> None:
        diagnosis = (await self.read()).status.diagnosis
        assert diagnosis is None, diagnosis
        assert not (await self.stored())["spec"]["suspend"]


def play(template: dict, scenario, seed: int | None = None) -> None:
    async def whole(env) -> None:
        world = Cluster(env, template)
        async with world.server.running():
            await world.runtime()
            await scenario(world)

    simulate(whole, seed=own_seed() if seed is None else seed)


TEMPLATES = {
    "a claim": {"volumeClaimPolicies": [{"templates": [CLAIM]}]},
    "a claim that stays": {
        "volumeClaimPolicies": [{"templates": [CLAIM], "retentionPolicy": {"whenDeleted": "Retain"}}]
    },
    "a claim and nothing of how long": {"volumeClaimPolicies": [{"templates": [CLAIM], "retentionPolicy": {}}]},
    "a rule without a name": {
        "volumeClaimPolicies": [{"templates": [CLAIM]}],
        "failurePolicy": {"maxRestarts": 0, "rules": [{"name": "", "action": "FailJobSet"}]},
    },
}


@pytest.mark.parametrize("case", TEMPLATES)
@pytest.mark.parametrize("restarted", [False, True])
def test_a_job_that_was_created_suspended_is_resumed(case, restarted):
    async def scenario(world: Cluster) -> None:
        async with world.operator():
            await world.job(suspend=True)
            if not restarted:
                await world.change(suspend=False)
        if restarted:
            async with world.operator():
                await world.settle(5)
                await world.change(suspend=False)
        await world.is_resumed()

    play({"replicatedJobs": [node()], **TEMPLATES[case]}, scenario)


def test_a_jobset_that_an_earlier_release_built_otherwise_is_resumed_as_it_is():
    """Its Jobs have none of the TrainJob's labels, and their metadata cannot change."""

    async def scenario(world: Cluster) -> None:
        async with world.operator():
            await world.job(suspend=True, labels={"team": "a"})
        stored = await world.stored()
        del stored["spec"]["replicatedJobs"][0]["template"]["metadata"]["labels"]["team"]
        await world.made_anew(stored["spec"])
        async with world.operator():
            await world.settle(5)
            await world.change(suspend=False)
            await world.is_resumed()

        labels = (await world.stored())["spec"]["replicatedJobs"][0]["template"]["metadata"]["labels"]
        assert "team" not in labels

    play({"replicatedJobs": [node()]}, scenario)


@pytest.mark.parametrize("file", [file for file in assets.runtime_files() if "torchtune" in file.name], ids=str)
def test_a_job_of_a_shipped_runtime_with_claims_is_suspended_and_resumed(file):
    template = yaml.safe_load(file.read_text())["spec"]["template"]["spec"]

    async def scenario(world: Cluster) -> None:
        async with world.operator():
            await world.job()
            for _ in range(2):
                await world.change(suspend=True)
                assert (await world.stored())["spec"]["suspend"]
                await world.change(suspend=False)
                await world.is_resumed()

    play(template, scenario)


@pytest.mark.parametrize("form", ["runtimePatches", "podTemplateOverrides", "podSpecOverrides"])
def test_volumes_that_a_job_adds_are_there_after_it_was_resumed(form):
    pod = {
        "volumes": [{"name": "user-123", "persistentVolumeClaim": {"claimName": "user-123"}}],
        "containers": [{"name": "node", "volumeMounts": [{"name": "user-123", "mountPath": "/workspace"}]}],
    }
    targets = {"targetJobs": [{"name": "node"}]}
    jobs = [{"name": "node", "template": {"spec": {"template": {"spec": pod}}}}]
    patch = {"manager": "acme.io/me", "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": jobs}}}}
    forms = {
        "runtimePatches": patch,
        "podTemplateOverrides": targets | {"spec": pod},
        "podSpecOverrides": targets | pod,
    }

    async def scenario(world: Cluster) -> None:
        async with world.operator():
            await world.job(suspend=True, **{form: [forms[form]]})
            await world.change(suspend=False)
        await world.is_resumed()
        found = (await world.stored())["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
        assert found["volumes"] == pod["volumes"]
        assert {"name": "user-123", "mountPath": "/workspace"} in found["containers"][0]["volumeMounts"]
        assert MOUNT in found["containers"][0]["volumeMounts"]

    play({"replicatedJobs": [node()], **TEMPLATES["a claim"]}, scenario)


@pytest.mark.parametrize("restarted", [False, True])
def test_what_another_version_of_jobset_has_added_stays(restarted):
    more = {
        "metadata": CLAIM["metadata"] | {"labels": {"a": "b"}},
        "spec": CLAIM["spec"] | {"volumeMode": "Filesystem"},
    }

    async def scenario(world: Cluster) -> None:
        async with world.operator():
            await world.job(suspend=True)
            if not restarted:
                await world.made_by_another([{"templates": [more]}])
                await world.change(suspend=False)
        if restarted:
            await world.made_by_another([{"templates": [more]}])
            async with world.operator():
                await world.change(suspend=False)
        await world.is_resumed()
        (policy,) = (await world.stored())["spec"]["volumeClaimPolicies"]
        assert policy["templates"][0]["spec"]["volumeMode"] == "Filesystem"

    play({"replicatedJobs": [node()], **TEMPLATES["a claim"]}, scenario)


def test_a_claim_that_is_another_is_a_reason_to_complain():
    other = CLAIM | {"spec": CLAIM["spec"] | {"accessModes": ["ReadWriteMany"]}}

    async def scenario(world: Cluster) -> None:
        async with world.operator():
            await world.job(suspend=True)
        await world.made_by_another([{"templates": [other]}])
        async with world.operator():
            await world.change(suspend=False)
            diagnosis = (await world.read()).status.diagnosis
        assert diagnosis is not None
        assert "spec.volumeClaimPolicies: Invalid value: Value is immutable" in diagnosis.message

    play({"replicatedJobs": [node()], **TEMPLATES["a claim"]}, scenario)


def test_a_jobset_that_was_stopped_as_it_was_is_resumed():
    """Nothing that admission had set is the operator's then, or the next apply would take it away."""

    async def scenario(world: Cluster) -> None:
        async with world.operator():
            await world.job()
            made = await world.stored()
            await world.user.delete(api.TRAINING_RUNTIMES, Key(NS, "rt"))
            await world.user.delete(core.CONFIG_MAPS, Key(NS, "job-runtime-snapshot"))
            await world.change(suspend=True)
            assert (await world.stored())["spec"]["suspend"]
            assert (await world.read()).status.diagnosis is not None
            await world.runtime()
            await world.settle(60)
            await world.change(suspend=False)
            await world.settle(60)
        await world.is_resumed()
        assert is_same(asleep(await world.stored()), asleep(made))

    play({"replicatedJobs": [node()], **TEMPLATES["a rule without a name"]}, scenario)


@pytest.mark.parametrize(("case", "reads"), [("a claim", 1), ("none", 0)])
def test_a_jobset_is_read_before_it_is_resumed_only_if_it_has_such_lists(case, reads):
    more = {**TEMPLATES, "none": {"failurePolicy": {"maxRestarts": 1}, "network": {"subdomain": "sub"}}}

    async def scenario(world: Cluster) -> None:
        async with world.operator():
            await world.job(suspend=True)
            world.counting.calls.clear()
            await world.change(suspend=False)
            assert [path.rsplit("/", 2)[1:] for path in world.counting.reads] == [["jobsets", "job"]] * reads
            assert world.counting.writes.count("PATCH jobsets/job") == 1
        await world.is_resumed()

    play({"replicatedJobs": [node()], **more[case]}, scenario)


def kueues(names: list[str], flavor: str | None = None) -> list[dict]:
    """Kueue's patch of these replicated jobs: empty, or of a flavor that the job was admitted to."""
    pod = {
        "metadata": {"labels": {"flavor": flavor}},
        "spec": {"nodeSelector": {"pool": flavor}, "tolerations": [{"key": flavor, "operator": "Exists"}]},
    }
    jobs = [{"name": name, "template": {"spec": {"template": pod}}} for name in names] if flavor else []
    return [{"manager": MANAGER, "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": jobs}}}}]


def mounting(name: str) -> dict:
    """A user's patch that mounts a claim of theirs."""
    volume = {"name": "mine", "persistentVolumeClaim": {"claimName": "mine"}}
    container = {"name": "node", "volumeMounts": [{"name": "mine", "mountPath": "/mine"}]}
    pod = {"volumes": [volume], "containers": [container]}
    jobs = [{"name": name, "template": {"spec": {"template": {"spec": pod}}}}]
    return {"manager": "acme.io/me", "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": jobs}}}}


def random_template(seed: int) -> dict:
    """A valid template with fields of every kind, whose first replicated job trains."""
    template = random_jobset(Chance(seed))["spec"]
    template.pop("suspend", None)
    for rule in template.get("failurePolicy", {}).get("rules", ()):
        rule.setdefault("name", "")
    template["replicatedJobs"][0]["replicas"] = 1
    template.pop("coordinator", None)  # the sizes are the TrainJob's, so its indexes may be too high
    first = template["replicatedJobs"][0]["template"]
    first["metadata"] = {"labels": {api.ANCESTOR_LABEL: "trainer"}}
    first["spec"]["template"]["spec"]["containers"][0]["name"] = "node"
    return template


def asleep(stored: dict) -> dict:
    """A JobSet as it is while it is suspended."""
    return stored | {"spec": stored["spec"] | {"suspend": True}}


@settings(max_examples=25)
@given(seed=st.integers(0, 2**32 - 1), mounts=st.booleans())
def test_a_job_of_any_template_goes_through_a_queue_and_a_restart_and_stays_what_it_was(seed, mounts):
    """Created suspended; resumed, suspended, admitted, resumed, restarted under, suspended, taken back, resumed."""
    template = random_template(seed)
    names = [each["name"] for each in template["replicatedJobs"]]
    more = [mounting(names[0])] if mounts else []

    async def scenario(world: Cluster) -> None:
        async with world.operator():
            await world.job(suspend=True, runtimePatches=more + kueues(names))
            made = await world.stored()
            await world.change(suspend=False)
            await world.is_resumed()
            await world.change(suspend=True)
            await world.change(runtimePatches=more + kueues(names, "a"))
            await world.change(suspend=False)
            await world.is_resumed()
            admitted = await world.stored()
        async with world.operator():
            await world.settle(5)
            assert world.counting.writes == []
            await world.change(suspend=True)
            await world.change(runtimePatches=more + kueues(names))
            await world.change(suspend=False)
            await world.is_resumed()

        pods = [each["template"]["spec"]["template"] for each in admitted["spec"]["replicatedJobs"]]
        assert {pod["spec"]["nodeSelector"]["pool"] for pod in pods} == {"a"}
        assert {pod["metadata"]["labels"]["flavor"] for pod in pods} == {"a"}
        assert is_same(asleep(await world.stored()), made)

    play(template, scenario, seed)
