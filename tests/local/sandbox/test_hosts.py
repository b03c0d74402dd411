from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ktrain.local.sandbox.hosts import HostsFile


def test_each_address_has_a_line_as_ipv4_and_one_as_ipv4_in_ipv6(tmp_path) -> None:
    hosts = HostsFile(tmp_path / "hosts", {})
    hosts.add("10.88.1.1", ("a.tj", "a"))

    assert hosts.path.read_text().endswith("\n10.88.1.1 a.tj a\n::ffff:10.88.1.1 a.tj a\n")


def test_the_file_is_changed_in_place(tmp_path) -> None:
    """A bind mount shows the file it was made with, not the one that has its name later."""
    hosts = HostsFile(tmp_path / "hosts", {})
    with hosts.path.open() as mounted:
        hosts.add("10.88.1.1", ("a",))
        assert "10.88.1.1 a\n" in mounted.read()
        hosts.remove("10.88.1.1")
        mounted.seek(0)
        assert "10.88" not in mounted.read()


@given(st.lists(st.tuples(st.sampled_from("ARM"), st.integers(1, 6), st.sampled_from("abc"))))
def test_a_name_means_the_newest_pod_that_is_left(tmp_path_factory, steps) -> None:
    hosts = HostsFile(tmp_path_factory.mktemp("hosts") / "hosts", {})
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


def test_a_pod_with_names_of_its_own_has_a_copy_that_follows_its_peers(tmp_path) -> None:
    hosts = HostsFile(tmp_path / "hosts", {"10.88.0.1": ("kubernetes",)})
    hosts.add("10.88.1.1", ("a",))
    hosts.copy("10.88.1.1", tmp_path / "copy", {"192.0.2.7": ("printer", "printer.office")})
    hosts.add("10.88.1.2", ("b",))

    copy = (tmp_path / "copy").read_text()
    assert "192.0.2.7 printer printer.office\n" in copy
    assert "10.88.1.2 b\n" in copy
    assert "10.88.0.1 kubernetes\n" in copy
    assert "printer" not in (tmp_path / "hosts").read_text()
    hosts.remove("10.88.1.1")
    hosts.remove("10.88.1.2")
