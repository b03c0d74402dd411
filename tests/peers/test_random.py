"""
Random TrainJobs and runtimes on Kubeflow Trainer with the JobSet operator, and on ktrain: the same comes of them.

All follows from seeds, so a failure comes again; it shows the least of one case that still differs. More of them:

    KTRAIN_RANDOM_CASES=3000 KTRAIN_RANDOM_SEED=500000 python -m pytest tests/peers/test_random.py
"""

import os

import pytest
import yaml

from . import rounds

CASES = int(os.environ.get("KTRAIN_RANDOM_CASES", "60"))
SEED = int(os.environ.get("KTRAIN_RANDOM_SEED", "1"))
ROUND = 30


@pytest.mark.parametrize("seed", range(SEED, SEED + CASES, ROUND))
def test_the_same_comes_of_whatever_it_may_be(planes, seed):
    made = [rounds.Case.of(one) for one in range(seed, min(seed + ROUND, SEED + CASES))]
    # Runtimes for TorchTune are called after models, so some have the same name.
    cases = list({case.runtime["metadata"]["name"]: case for case in made}.values())

    found = rounds.play(planes, str(seed), cases)
    again = [case for case in cases if case.name in found]
    # What does not come again was a machine too busy to be as far in time.
    found = rounds.play(planes, f"{seed}-again", again) if again else {}

    assert not found, _shown(planes, cases, found)


def _shown(planes, cases, found):
    name, lines = min(found.items(), key=lambda item: len(item[1]))
    case = next(case for case in cases if case.name == name)
    case, lines = rounds.shrink(planes, f"least-{name}", case, lines)
    least = yaml.safe_dump_all([case.runtime, case.job, *case.changes], sort_keys=False)
    return "\n".join([f"{len(found)} differ: {', '.join(found)}; of {name}:", *lines, least])
