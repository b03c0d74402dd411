from pathlib import Path

import msgspec
import pytest

from ktrain.api.meta import Json
from ktrain.local.kubelet.gpus import GpuSlots, find_gpus
from ktrain.local.kubelet.spec import Pod


def pod(uid: str, *counts: int, init: int = 0) -> Pod:
    def container(name: str, count: int) -> Json:
        return {"name": name, "resources": {"limits": {"nvidia.com/gpu": str(count)} if count else {}}}

    return msgspec.convert(
        {
            "metadata": {"uid": uid},
            "spec": {
                "initContainers": [container("init", init)],
                "containers": [container(f"c{number}", count) for number, count in enumerate(counts)],
            },
        },
        Pod,
    )


def test_devices_are_whole_and_exclusive_and_come_back() -> None:
    slots = GpuSlots(["0", "1", "2"])

    assert slots.take(pod("a", 1, 1)) == {"c0": ["0"], "c1": ["1"]}
    assert slots.take(pod("b", 2)) is None
    assert slots.take(pod("c", 1)) == {"c0": ["2"]}
    slots.release("a")
    assert slots.take(pod("b", 2)) == {"c0": ["0", "1"]}


def test_a_pod_that_cannot_have_all_gets_none() -> None:
    slots = GpuSlots(["0", "1"])

    assert slots.take(pod("a", 1, 2)) is None
    assert slots.take(pod("b", 2)) is not None


def test_init_containers_use_the_devices_of_the_main_ones() -> None:
    assert GpuSlots(["0"]).take(pod("a", 1, init=1)) == {"init": ["0"], "c0": ["0"]}


def test_a_pod_without_gpus_takes_nothing() -> None:
    assert GpuSlots([]).take(pod("a", 0)) == {}


@pytest.mark.parametrize(
    ("visible", "expected"),
    [(None, ("0", "1", "10")), ("1,0", ("1", "0")), ("", ()), ("-1", ()), ("GPU-a", ("GPU-a",))],
)
def test_gpus_are_found_by_device_file_and_the_callers_choice(
    tmp_path: Path, visible: str | None, expected: tuple[str, ...]
) -> None:
    for name in ("nvidia0", "nvidia10", "nvidia1", "nvidiactl", "nvidia-uvm"):
        (tmp_path / name).touch()

    assert find_gpus({} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}, tmp_path) == expected


def test_a_machine_without_device_files_has_no_gpus(tmp_path: Path) -> None:
    assert find_gpus({"CUDA_VISIBLE_DEVICES": "0"}, tmp_path) == ()
