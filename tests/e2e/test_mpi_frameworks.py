"""DeepSpeed and MLX on the shipped runtimes, on CPU: two ranks, a loss that falls, the same weights on each."""

import re
from importlib.util import find_spec

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.examples, pytest.mark.slow]

PATIENCE_S = 300
"""DeepSpeed compiles its communication for CPUs at the first start, which takes minutes on a busy machine."""


@pytest.mark.parametrize("framework", ["deepspeed", "mlx"])
def test_two_ranks_on_two_nodes_fit_one_network(start, example, framework):
    pytest.importorskip("mpi4py", reason="mpi4py is not installed: pip install '.[examples-mpi]'")
    if find_spec(framework) is None:  # DeepSpeed is not imported here: that warns, compiles and takes seconds
        pytest.skip(f"{framework} is not installed: pip install '.[examples-mpi]'")
    # The runtimes' user 1000 cannot read a Python below /root, which pods in namespaces would have to.
    running = start("run", "--pods", "host", example(f"{framework}/trainjob.yaml"))
    code = running.finish(PATIENCE_S)
    found = re.findall(r"\[launcher-0\] step (\d+): loss ([\d.]+)", running.output)
    weights = re.findall(r"\[launcher-0\] rank (\d) has weights of ([\d.]+)", running.output)

    assert code == 0, running.output
    assert {rank for rank, _ in weights} == {"0", "1"}, running.output
    assert len({weight for _, weight in weights}) == 1, running.output
    assert [step for step, _ in found] == ["0", "50", "100", "150", "199"]
    assert float(found[-1][1]) < float(found[0][1]) / 10
