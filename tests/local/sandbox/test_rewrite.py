from __future__ import annotations

import socket
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktrain.local.sandbox.rewrite import Ports, Rewriter, replace_path

RULES = Rewriter("default", "tj", lambda port: port + 1)
SUFFIXES = ["", ".default", ".default.svc", ".default.svc.cluster.local"]


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("frame", ["{}", "tcp://{}/path", "--rdzv={}", "a,{},b", "'{}'", "user@{}", "{}."])
def test_peer_names_become_the_loopback_wherever_they_stand_alone(frame, suffix) -> None:
    assert RULES.text(frame.format(f"tj-node-0-1.tj{suffix}")) == frame.format("127.0.0.1")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_ports_beside_peer_names_are_translated(suffix) -> None:
    assert RULES.text(f"tj-node-0-0.tj{suffix}:29500") == "127.0.0.1:29501"


@pytest.mark.parametrize(
    "text",
    [
        "tj-node-0-0.tjx",
        "tj-node-0-0.tj.other",
        "tj-node-0-0.tj.default.svc.example",
        "/data/x.tj",
        "a/x.tj",
        "29500",
        ".tj",
        "tj-node-0-0",
        "example.com:29500",
        "x_tj-node-0-0.tj-y",
        "sum=29500",
    ],
)
def test_what_only_resembles_a_peer_stays(text) -> None:
    assert RULES.text(text) == text


@pytest.mark.parametrize("argv", [("--master_port", "29500"), ("--master-port=29500",), ("run --master_port 29500 x",)])
def test_known_port_flags_are_translated(argv) -> None:
    assert "29501" in " ".join(RULES.argv(argv))
    assert "29500" not in " ".join(RULES.argv(argv))


def test_known_port_variables_are_translated_and_unknown_ones_are_not() -> None:
    env = {"PET_MASTER_PORT": "29500", "SEED": "29500", "MASTER_PORT": "auto"}

    assert RULES.env(env) == {"PET_MASTER_PORT": "29501", "SEED": "29500", "MASTER_PORT": "auto"}


@given(st.text(alphabet=string.printable))
def test_text_without_the_subdomain_or_a_port_flag_is_untouched(text) -> None:
    if ".tj" not in text and "port" not in text:
        assert RULES.text(text) == text


@given(st.text(alphabet="tj-node.0:295 /=,"))
def test_rewriting_names_twice_changes_nothing_more(text) -> None:
    fixed = Rewriter("default", "tj", lambda port: port)

    assert fixed.text(fixed.text(text)) == fixed.text(text)


def test_without_a_subdomain_no_name_is_a_peer() -> None:
    assert Rewriter("default", "", lambda port: port).text("a.b:1") == "a.b:1"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/data", "/v"),
        ("/data/x", "/v/x"),
        ("--dir=/data", "--dir=/v"),
        ("/data:/data", "/v:/v"),
        ("/database", "/database"),
        ("/x/data", "/x/data"),
        ("a/data", "a/data"),
        ("/data.csv", "/data.csv"),
        ("cd /data; ls", "cd /v; ls"),
    ],
)
def test_paths_are_replaced_as_wholes(text, expected) -> None:
    assert replace_path(text, "/data", "/v") == expected


def test_attempts_get_ports_of_their_own_and_give_them_back() -> None:
    taken: set[int] = set()
    first, second = Ports(taken), Ports(taken)

    assert first.port_of(29500) == first.port_of(29500)
    assert len({first.port_of(29500), first.port_of(29501), second.port_of(29500)}) == 3
    first.release()
    second.release()
    assert taken == set()


def test_a_port_that_somebody_listens_on_is_not_chosen() -> None:
    with socket.socket() as somebody:
        somebody.bind(("", Ports(set()).port_of(1)))
        somebody.listen()

        assert Ports(set()).port_of(1) != somebody.getsockname()[1]
