"""The rights that plugins ask for cover what they watch and what they build."""

import pytest

from ktrain.pipeline import Registry
from ktrain.pipeline.points import BUILT, WATCHED, Rule

POLICIES = {
    "mpi": "mlPolicy: {mpi: {}}",
    "coscheduling": "podGroupPolicy: {coscheduling: {}}",
    "volcano": "podGroupPolicy: {volcano: {}}",
    "workload": "podGroupPolicy: {workload: {}}",
}
RUNTIME = """
spec:
  %s
  template: {spec: {replicatedJobs: [
    {name: launcher, template: {metadata: {labels: L}, spec: {template: {spec: {containers: [{name: node}]}}}}}]}}
"""
JOB = "{metadata: {name: tj, namespace: n, uid: u}, spec: {runtimeRef: {name: rt}, trainer: {}}}"


def missing(plugin, resource, verbs):
    rules: tuple[Rule, ...] = getattr(plugin, "rbac", ())
    granted = {
        verb
        for rule in rules
        if resource.group in rule.api_groups and resource.plural in rule.resources
        for verb in rule.verbs
    }
    return set(verbs) - granted


def test_every_kind_that_a_plugin_watches_it_may_list_and_watch(kit):
    for plugin in kit.registry.plugins:
        for watch in Registry([plugin]).watches:
            for version in watch.chain:
                assert not missing(plugin, version.resource, WATCHED), (plugin.name, version.resource)


@pytest.mark.parametrize("policy", POLICIES)
def test_every_kind_that_a_plugin_builds_it_may_write(kit, policy):
    components = kit.plan(RUNTIME % POLICIES[policy], JOB).components
    kinds = {component.resource for component in components}
    assert len(kinds) > 1

    for resource in kinds:
        builders = [p for p in kit.registry.builders if any(resource == w.resource for w in watched(p))]
        assert builders
        assert not missing(builders[0], resource, BUILT)


def watched(plugin):
    return [version for watch in plugin.watches() for version in watch.chain]
