"""What people write about nodes."""

import click
import pytest
from click.testing import CliRunner

from ktrain.cli.node_options import node_options
from ktrain.local.node_options import NodeOptions


def parse(*arguments):
    seen = {}

    @click.command
    @node_options
    def command(**given):
        seen.update(given)

    result = CliRunner().invoke(command, arguments)
    return seen, result.output


def test_resources_are_quantities_by_name():
    seen, _ = parse("--node-resources", "cpu=500m,memory=32Gi,nvidia.com/gpu=8")

    assert seen["node_resources"] == {"cpu": "500m", "memory": "32Gi", "nvidia.com/gpu": "8"}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("cpu", "'cpu' is not NAME=VALUE"),
        ("cpu=many", "cpu: "),
        ("cpu=-1", "less than nothing"),
        ("nvidia.com/gpu=0.5", "not a whole number"),
    ],
)
def test_what_is_no_amount_is_refused_with_its_name(text, problem):
    _, output = parse("--node-resources", text)

    assert problem in output


def test_labels_are_of_all_nodes_or_of_those_numbered_and_the_later_wins():
    seen, _ = parse("--node-labels", "rack=a,x=", "--node-labels", "2-3:rack=b", "--node-labels", "3:rack=c")
    options = NodeOptions(4, {}, seen["node_labels"])

    assert [options.labels_of(n)["rack"] for n in range(4)] == ["a", "a", "b", "c"]


def test_a_label_that_the_server_would_refuse_is_refused_at_once():
    _, output = parse("--node-labels", "a b=c")

    assert "a b=c: name part must consist of" in output
