"""What the shared host needs instead: rewritten names, ports and paths."""

from __future__ import annotations

import pytest

from ktrain.local.sandbox.channel import Refused
from ktrain.local.sandbox.executor import Mount, StartError


async def test_peers_meet_on_a_port_of_their_attempt(host_pod) -> None:
    env = {
        "PATH": "/usr/bin:/bin",
        "MASTER_ADDR": "tj-node-0-0.tj",
        "MASTER_PORT": "29500",
        "URL": "tcp://tj-node-0-0.tj.default:29500",
    }
    show = ("sh", "-c", "echo $MASTER_ADDR $MASTER_PORT $URL $0", "--master-port=29500")
    seen = []
    for attempt in ("uid/0", "uid/0", "uid/1"):
        pod = await host_pod(attempt=attempt)
        _, log = await pod.run(*show, env=env)
        seen.append(log)
    address, port, url, flag = seen[0].split()

    assert (address, url, flag) == ("127.0.0.1", f"tcp://127.0.0.1:{port}", f"--master-port={port}")
    assert port != "29500"
    assert seen[0] == seen[1]
    assert seen[2].split()[1] not in (port, "29500")


async def test_text_files_are_rewritten_on_request(host_pod) -> None:
    pod = await host_pod()

    assert pod.sandbox.rewrite("tj-node-0-1.tj slots=2\nother.example:80\n") == "127.0.0.1 slots=2\nother.example:80\n"


async def test_interfaces_are_the_loopback_unless_the_user_says_otherwise(host_pod) -> None:
    pod = await host_pod()
    env = {"PATH": "/usr/bin:/bin", "NCCL_SOCKET_IFNAME": "eth7"}
    _, log = await pod.run("sh", "-c", "echo $GLOO_SOCKET_IFNAME $TP_SOCKET_IFNAME $NCCL_SOCKET_IFNAME", env=env)

    assert log == "lo lo eth7\n"


async def test_a_mount_that_can_be_linked_is_and_goes_with_the_last_pod_that_uses_it(host_pod, tmp_path) -> None:
    target = tmp_path / "data"
    volume = host_pod.executor.directory / "volume"
    volume.mkdir()
    (volume / "file").write_text("content")
    pods = [await host_pod(f"tj-node-0-{n}") for n in range(2)]
    for pod in pods:
        assert (await pod.run("cat", f"{target}/file", mounts=(Mount(volume, str(target)),)))[1] == "content"
    await pods[0].sandbox.kill()
    assert target.is_symlink()
    await pods[1].sandbox.kill()
    assert not target.is_symlink()


async def test_a_mount_path_that_is_taken_is_rewritten_where_it_is_mentioned(host_pod, tmp_path) -> None:
    pod = await host_pod()
    volume, taken = pod.root / "volume", tmp_path / "taken"
    volume.mkdir()
    taken.mkdir()
    mounts = (Mount(volume, str(taken)),)
    env = {"PATH": "/usr/bin:/bin", "DATA": f"{taken}/data", "OTHER": f"{taken}-other", "DEEP": f"/x{taken}"}
    _, log = await pod.run(
        "sh", "-c", "pwd; echo $0 $DATA $OTHER $DEEP", f"--dir={taken}", env=env, cwd=str(taken), mounts=mounts
    )

    assert log == f"{volume}\n--dir={volume} {volume}/data {taken}-other /x{taken}\n"


async def test_a_mount_that_can_neither_be_linked_nor_rewritten_is_refused_with_advice(host_pod, tmp_path) -> None:
    pod = await host_pod()
    with pytest.raises(StartError, match=r"cannot mount .*: .*exists.*--pods ns") as caught:
        await pod.start("true", mounts=(Mount(pod.root, str(tmp_path)),))

    assert str(tmp_path) in caught.value.message


async def test_two_pods_with_different_volumes_at_one_path_each_get_their_own(host_pod, tmp_path) -> None:
    target, logs = tmp_path / "data", []
    for name in ("a", "b"):
        pod = await host_pod(name)
        (pod.root / "volume").mkdir()
        (pod.root / "volume" / "who").write_text(name)
        logs.append((await pod.run("cat", f"{target}/who", mounts=(Mount(pod.root / "volume", str(target)),)))[1])

    assert logs == ["a", "b"]


async def test_the_termination_path_is_rewritten(host_pod, machine) -> None:
    pod = await host_pod()
    message = pod.root / "message"
    message.touch()
    await pod.run("sh", "-c", "echo bye > /dev/termination-log", termination_log=message)

    assert message.read_text() == "bye\n"
    assert not machine.has("/dev/termination-log")


async def test_closing_takes_links_away(host_pod, tmp_path) -> None:
    pod = await host_pod()
    (pod.root / "volume").mkdir()
    await pod.start("sleep", "1000", mounts=(Mount(pod.root / "volume", str(tmp_path / "data")),))
    assert (tmp_path / "data").is_symlink()
    await host_pod.executor.aclose()

    assert not (tmp_path / "data").is_symlink()


async def test_what_the_helper_refuses_to_clear_away_is_left_and_the_rest_is_not(
    host_pod, tmp_path, monkeypatch
) -> None:
    volume = host_pod.executor.directory / "volume"
    volume.mkdir()
    targets = [tmp_path / name for name in ("stays", "goes")]
    pod = await host_pod()
    await pod.run("true", mounts=tuple(Mount(volume, str(target)) for target in targets))
    process = await pod.start("sleep", "60")
    channel = host_pod.executor._helper.channel
    request = channel.request

    async def refusing(frame, fds=()):
        if frame["op"] == "kill" or frame.get("target") == str(targets[0]):
            raise Refused("operation not permitted")
        return await request(frame, fds)

    monkeypatch.setattr(channel, "request", refusing)
    await pod.sandbox.kill()

    assert [target.is_symlink() for target in targets] == [True, False]
    assert await process.wait() == 137


async def test_directories_made_for_a_link_go_with_it(host_pod, tmp_path):
    place = await host_pod()
    (tmp_path / "source").mkdir()
    target = tmp_path / "a" / "b" / "c"

    await place.run("ls", str(target), mounts=(Mount(tmp_path / "source", str(target)),))
    assert target.is_symlink()
    await place.sandbox.kill()

    assert not (tmp_path / "a").exists()


async def test_a_mount_that_the_program_can_do_without_does_not_stop_it(host_pod, tmp_path):
    place, other = await host_pod(), await host_pod()
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    target = str(tmp_path / "target")
    await place.run("true", mounts=(Mount(tmp_path / "one", target),))

    code, _ = await other.run("true", mounts=(Mount(tmp_path / "two", target, optional=True),))

    assert code == 0
