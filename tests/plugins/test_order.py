"""Plugins may be found in any order; what they build is the same to the byte."""

import random

import msgspec
import pytest

from ktrain.pipeline import Registry

RUNTIME = """
spec:
  mlPolicy: {numNodes: 2, %s}
  template:
    spec:
      replicatedJobs:
      - {name: node, template: {spec: {template: {spec: {containers: [{name: node, image: i}]}}}}}
      - {name: launcher, template: {metadata: {labels: L}, spec: {template: {spec: {containers: [{name: node}]}}}}}
"""
JOB = """
metadata: {name: job, namespace: ns, uid: u}
spec: {runtimeRef: {name: rt}, trainer: {numNodes: 3, env: [{name: A, value: a}]}}
"""
SHUFFLES = 1000


@pytest.mark.parametrize("policy", ["torch: {}", "jax: {}", "xgboost: {}", "mpi: {runLauncherAsNode: true}"])
def test_the_order_in_which_plugins_are_found_changes_nothing(kit, policy):
    plugins, generator = list(kit.registry.plugins), random.Random(policy)
    runtime, job = kit.runtime(RUNTIME % policy), kit.job(JOB)
    orders, built = set(), set()
    for number in range(SHUFFLES):
        generator.shuffle(plugins)
        kit.registry = Registry(plugins)
        orders.add(tuple(plugin.name for plugin in kit.registry.plugins))
        if number % 50 == 0:
            plan = kit.plan_of(job, runtime)
            built.add(msgspec.json.encode([component.body for component in plan.components]))

    assert len(orders) == 1
    assert len(built) == 1
