from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ktrain.local.sandbox.hosts import HostsFile


def test_each_address_has_a_line_as_ipv4_and_one_as_ipv4_in_ipv6(tmp_path) -> None:
    hosts = HostsFile(tmp_path / "hosts")
    hosts.add("10.88.1.1", ("a.tj", "a"))

    assert hosts.path.read_text().endswith("\n10.88.1.1 a.tj a\n::ffff:10.88.1.1 a.tj a\n")


def test_the_file_is_changed_in_place(tmp_path) -> None:
    """A bind mount shows the file it was made with, not the one that has its name later."""
    hosts = HostsFile(tmp_path / "hosts")
    with hosts.path.open() as mounted:
        hosts.add("10.88.1.1", ("a",))
        assert "10.88.1.1 a\n" in mounted.read()
        hosts.remove("10.88.1.1")
        mounted.seek(0)
        assert "10.88" not in mounted.read()


@given(st.lists(st.tuples(st.sampled_from("ARM"), st.integers(1, 6), st.sampled_from("abc"))))
def test_a_name_means_the_newest_pod_that_is_left(tmp_path_factory, steps) -> None:
    hosts = HostsFile(tmp_path_factory.mktemp("hosts") / "hosts")
    alive: dict[str, str] = {}
    for step, number, name in steps:
        ip = f"10.88.1.{number}"
        if step == "A" and ip not in alive:
            hosts.add(ip, (name,))
            alive[ip] = name
        elif step == "R":
            hosts.remove(ip)
            alive.pop(ip, None)
    lines = [line.split() for line in hosts.path.read_text().splitlines() if line.startswith("10.88")]

    assert {name: ip for ip, *names in lines for name in names} == {name: ip for ip, name in alive.items()}
    assert len({name for _, name in lines}) == len(lines)
