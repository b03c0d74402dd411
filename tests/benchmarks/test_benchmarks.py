"""The benchmarks run, and their table says what it should. What they measure is no test's business."""

import platform
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.__main__ import BENCHMARKS, machine
from benchmarks.figures import Figure, Goal, render
from benchmarks.processes import in_turns

ROOT = Path(__file__).parents[2]


def benchmarks(*arguments):
    command = [sys.executable, "-m", "benchmarks", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=600)


@pytest.mark.e2e
def test_the_list_names_every_benchmark():
    done = benchmarks("--list")

    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()] == list(BENCHMARKS)


@pytest.mark.e2e
def test_every_benchmark_runs():
    done = benchmarks("--smoke")

    assert done.returncode == 0, done.stderr
    assert [line.split()[1] for line in done.stdout.splitlines() if line.startswith("==")] == list(BENCHMARKS)
    assert "JobSets exist" in done.stdout
    assert "embedded, torch: writes" in done.stdout


@pytest.mark.e2e
def test_an_unknown_benchmark_is_refused_with_those_there_are():
    done = benchmarks("speed")

    assert done.returncode == 2
    assert "no benchmark speed; there are: help," in done.stderr


def test_the_header_says_which_interpreter_of_the_machine_it_is():
    assert machine().endswith(f" cores, Python {platform.python_version()} ({sys.base_prefix})")
    assert sys.base_prefix in machine(), "that of a virtual environment would say nothing of how Python was built"


def test_a_goal_is_kept_or_missed_by_the_median_and_a_ratio_is_of_medians():
    baseline = Figure("bare", "ms", [1, 2, 30])
    kept = Figure("ours", "ms", [2, 5, 900], Goal(5), baseline)
    missed = Figure("rate", "jobs/s", [50, 60, 70], Goal(100, at_least=True))

    assert not kept.misses_goal
    assert kept.cells() == ("ours", "2", "5", "900", "ms", "2.50", "bare", "<= 5", "met")
    assert missed.misses_goal
    assert "MISSED" in render([kept, missed]).splitlines()[2]


def test_subjects_take_turns_and_every_other_round_goes_backwards():
    order = []

    def subject(name):
        return lambda: order.append(name) or float(len(order))

    values = in_turns(2, subject("a"), subject("b"))

    assert order == ["a", "b", "b", "a"]
    assert values == [[1.0, 4.0], [2.0, 3.0]]
