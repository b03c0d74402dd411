"""What only namespaces give: names, ports, mounts and users as in a cluster."""

from __future__ import annotations

import asyncio
import os
import time

import pytest

from ktrain.local.sandbox.executor import Mount, StartError

pytestmark = pytest.mark.ns

LISTEN = """
import socket
server = socket.create_server(("", {port}))
print("up", flush=True)
print(server.accept()[1][0], flush=True)
"""
CONNECT = "import socket; socket.create_connection(('{host}', {port}), 5)"


async def test_pods_find_each_other_by_name_on_a_port_that_others_use_too(ns_pod) -> None:
    """Two jobs of one name in two namespaces, each with a server on 29500, and nobody meets the wrong one."""
    for namespace in ("team-a", "team-b"):
        server = await ns_pod("tj-node-0-0", namespace=namespace)
        client = await ns_pod("tj-node-0-1", namespace=namespace)
        listening = await server.start("python", "-ISc", LISTEN.format(port=29500))
        await server.until_logged("up")
        for_all_names = CONNECT.format(host="tj-node-0-0.tj", port=29500)

        assert await client.run("python", "-ISc", for_all_names) == (0, "")
        assert await listening.wait() == 0
        assert server.log == f"up\n{client.sandbox.ip}\n"


async def test_every_name_resolves_both_ways_without_a_name_server(ns_pod) -> None:
    first, second = await ns_pod("tj-node-0-0"), await ns_pod("tj-node-0-1")
    names = [*first.sandbox.spec.names, "tj-node-0-0"]
    forward = (
        f"import socket; print(*sorted({{a[4][0] for n in {names} for a in socket.getaddrinfo(n, 1)}}, reverse=True))"
    )
    addresses = [first.sandbox.ip, f"::ffff:{first.sandbox.ip}"]
    reverse = f"import socket; print(*[socket.getnameinfo((a, 1), 0)[0] for a in {addresses}])"

    assert await second.run("python", "-ISc", forward) == (0, " ".join(addresses[::-1]) + "\n")
    assert (await second.run("python", "-ISc", reverse))[1].endswith("\ntj-node-0-0.tj tj-node-0-0.tj\n")


async def test_a_running_process_sees_peers_come_and_go(ns_pod) -> None:
    first = await ns_pod("tj-node-0-0")
    look = "grep -q tj-node-0-1.tj /etc/hosts"
    process = await first.start("sh", "-c", f"while ! {look}; do :; done; echo came; while {look}; do :; done")
    second = await ns_pod("tj-node-0-1")
    await first.until_logged("came")
    await second.sandbox.kill()

    assert await process.wait() == 0


async def test_the_newest_pod_has_the_name(ns_pod) -> None:
    first, old = await ns_pod("tj-node-0-0"), await ns_pod("tj-node-0-1")
    new = await ns_pod("tj-node-0-1")
    ask = ("python", "-ISc", "import socket; print(socket.gethostbyname('tj-node-0-1.tj'))")

    assert (await first.run(*ask))[1] == f"{new.sandbox.ip}\n"
    await new.sandbox.kill()
    assert (await first.run(*ask))[1] == f"{new.sandbox.ip}\n{old.sandbox.ip}\n"


async def test_the_hostname_is_the_pods_and_resolves_to_its_address(ns_pod) -> None:
    first = await ns_pod("worker-3", subdomain="")
    ask = "import socket; print(socket.gethostname(), socket.gethostbyname(socket.gethostname()))"

    assert await first.run("python", "-ISc", ask) == (0, f"worker-3 {first.sandbox.ip}\n")


async def test_unknown_names_and_addresses_fail_at_once(ns_pod) -> None:
    first = await ns_pod()
    started = time.monotonic()
    await first.run("python", "-ISc", CONNECT.format(host="192.0.2.1", port=80))

    assert "unreachable" in first.log.lower()
    assert time.monotonic() - started < 3


async def test_the_hosts_network_is_out_of_sight_unless_asked_for(ns_pod) -> None:
    inside, outside = await ns_pod(), await ns_pod("downloader", subdomain="", host_network=True)
    show = ("readlink", "/proc/self/ns/net")
    mine = os.readlink("/proc/self/ns/net")  # noqa: PTH115 - what this process is in, and takes no time

    assert (await inside.run(*show))[1].strip() != mine
    assert (await outside.run(*show))[1].strip() == mine


async def test_missing_mount_points_appear_for_the_pod_only(ns_pod, machine) -> None:
    first = await ns_pod()
    for name in ("work", "conf", "home"):
        (first.root / name).mkdir()
        (first.root / name / "file").write_text(name)
    mounts = (
        Mount(first.root / "work", "/ktrain-test/deep/workspace"),
        Mount(first.root / "home", "/ktrain-test/deep/workspace/nested"),
        Mount(first.root / "conf", "/etc/ktrain-test-conf", read_only=True),
        Mount(first.root / "conf" / "file", "/usr/ktrain-test-file"),
    )
    look = (
        "cat /ktrain-test/deep/workspace/file /ktrain-test/deep/workspace/nested/file /etc/ktrain-test-conf/file "
        "/usr/ktrain-test-file; echo more > /ktrain-test/deep/workspace/made; touch /etc/ktrain-test-conf/x; "
        "test -d /etc/ssl && grep -q localhost /etc/hosts && echo the rest is there"
    )
    code, log = await first.run("sh", "-c", look, mounts=mounts)

    assert code == 0
    assert log.startswith("workhomeconfconf")
    assert "Read-only" in log
    assert "the rest is there" in log
    assert (first.root / "work" / "made").read_text() == "more\n"
    for path in ("/ktrain-test", "/etc/ktrain-test-conf", "/usr/ktrain-test-file"):
        assert not machine.has(path)


async def test_a_mount_may_hide_the_source_of_another(ns_pod) -> None:
    first = await ns_pod()
    data = first.root / "data"
    (data / "inner").mkdir(parents=True)
    (data / "inner" / "file").write_text("found")
    (first.root / "empty").mkdir()
    mounts = (Mount(first.root / "empty", str(data)), Mount(data / "inner", "/mnt"))

    assert (await first.run("cat", "/mnt/file", mounts=mounts))[1] == "found"


async def test_mounts_that_all_containers_share_are_there_for_each(ns_pod) -> None:
    volume = ns_pod.executor.directory / "shared"
    volume.mkdir()
    first = await ns_pod(mounts=(Mount(volume, "/ktrain-shared"),))
    await first.run("sh", "-c", "echo one > /ktrain-shared/file")

    assert (await first.run("cat", "/ktrain-shared/file"))[1] == "one\n"


async def test_a_mount_of_the_wrong_kind_is_refused_by_name(ns_pod) -> None:
    first = await ns_pod()
    with pytest.raises(StartError, match="/etc/passwd: a file is there"):
        await first.start("true", mounts=(Mount(first.root, "/etc/passwd"),))


async def test_the_working_directory_is_never_replaced_by_a_copy_that_loses_new_files(ns_pod) -> None:
    first = await ns_pod()
    (first.root / "volume").mkdir()
    mount = Mount(first.root / "volume", str(first.root / "not-there"))
    with pytest.raises(StartError, match="inside the working directory"):
        await first.start("true", cwd=str(first.root), mounts=(mount,))


@pytest.mark.parametrize("path", ["/dev/termination-log", "/ktrain-messages/last"])
async def test_the_termination_message_is_written_to_the_pods_own_file(ns_pod, path) -> None:
    first = await ns_pod()
    message = first.root / "message"
    message.touch()
    await first.run("sh", "-c", f"echo bye > {path}", termination_log=message, termination_path=path)

    assert message.read_text() == "bye\n"


async def test_shared_memory_belongs_to_one_pod(ns_pod, machine) -> None:
    first, second = await ns_pod("a"), await ns_pod("b")
    await first.run("sh", "-c", "echo mine > /dev/shm/ktrain-test")

    assert (await first.run("cat", "/dev/shm/ktrain-test"))[1] == "mine\n"
    assert (await second.run("ls", "/dev/shm")) == (0, "")
    assert not machine.has("/dev/shm/ktrain-test")


async def test_a_pod_sees_its_own_processes_only(ns_pod) -> None:
    first = await ns_pod()
    _, log = await first.run("sh", "-c", "echo /proc/[0-9]*")

    assert len(log.split()) <= 4


async def test_any_user_may_bind_low_ports_and_has_the_id_that_was_asked_for(ns_pod, machine) -> None:
    first = await ns_pod()
    program = "import os, socket; socket.create_server(('', 22)); print(os.getuid(), os.getgid())"
    interpreter = "/usr/bin/python3"  # The one of the virtual environment may be closed to other users.
    if not machine.has(interpreter):
        pytest.skip("needs an interpreter that everybody may run")

    assert await first.run(interpreter, "-ISc", program, uid=4321, gid=4321) == (0, "4321 4321\n")


async def test_without_run_as_user_the_user_stays_who_runs_ktrain(ns_pod) -> None:
    first = await ns_pod()

    assert (await first.run("id", "-u"))[1] == f"{os.geteuid()}\n"


async def test_thirty_two_pods_at_once_have_addresses_of_their_own(ns_pod) -> None:
    pods = await asyncio.gather(*(ns_pod(f"many-{n}") for n in range(32)))

    assert len({each.sandbox.ip for each in pods}) == 32
