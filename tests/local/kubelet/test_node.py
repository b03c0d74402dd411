"""What the nodes of this machine say that they have."""

import os
from datetime import UTC, datetime

import msgspec

from ktrain.local.kubelet.node import ADVISORY, divide
from ktrain.local.kubelet.spec import Pod

GPU = "nvidia.com/gpu"


def a_pod(gpus):
    container = {"name": "c", "resources": {"limits": {GPU: str(gpus)}}}
    return msgspec.convert({"metadata": {"uid": "a"}, "spec": {"containers": [container]}}, Pod)


def test_one_node_has_all_that_was_measured_and_counts_neither_cpu_nor_memory():
    [node] = divide(["0", "1"], name="local")

    assert (node.name, node.allocatable["cpu"], node.allocatable[GPU]) == ("local", str(os.cpu_count()), "2")
    assert node.advisory == ("cpu", "memory")


def test_devices_are_dealt_out_in_equal_blocks():
    nodes = divide(["0", "1", "2", "3", "4"], name="local", count=2)

    assert [node.devices for node in nodes] == [("0", "1"), ("2", "3")]
    assert [node.allocatable[GPU] for node in nodes] == ["2", "2"]


def test_what_was_said_is_counted_and_the_rest_is_measured():
    nodes = divide((), name="n", count=2, resources={"cpu": "8", "example.com/x": "1"}, labels=[{"a": "b"}, {}])
    manifest = nodes[0].manifest(host_ip="127.0.0.1", executor="sim", now=datetime.now(UTC))

    assert [node.name for node in nodes] == ["n-0", "n-1"]
    assert nodes[0].advisory == ("memory",)
    assert manifest["status"]["capacity"]["cpu"] == "8"
    assert manifest["metadata"]["annotations"] == {ADVISORY: "memory"}
    assert manifest["metadata"]["labels"]["a"] == "b"
    assert manifest["metadata"]["labels"]["kubernetes.io/hostname"] == "n-0"


def test_more_gpus_than_there_are_give_pods_no_device_and_tell_them_so():
    [node] = divide(["0"], name="local", resources={GPU: "8"})

    assert node.allocatable[GPU] == "8"
    assert node.gpu_slots().take(a_pod(8)) == {}
    assert node.has_gpus


def test_fewer_gpus_than_there_are_give_the_first_of_them():
    [node] = divide(["5", "6"], name="local", resources={GPU: "1"})

    assert node.gpu_slots().take(a_pod(1)) == {"c": ["5"]}
