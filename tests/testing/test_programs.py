import os
import sys

import pytest

from ktrain.testing.programs import Program, StartFailed, free_ports

SERVES = """
import signal, socket, sys

{signals}
print("serving", flush=True)
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while True:
    asker, _ = server.accept()
    ready = asker.recv(1000).startswith(b"GET /readyz ")
    asker.sendall(b"HTTP/1.0 %d \\r\\n\\r\\n" % (200 if ready else 404))
    asker.close()
"""
DEAF = "signal.signal(signal.SIGTERM, signal.SIG_IGN)"


@pytest.fixture
def program(tmp_path):
    made = []

    def make(source, **limits):
        (port,) = free_ports(1)
        command = [sys.executable, "-IS", "-c", source, str(port)]
        made.append(Program(command, log=tmp_path / "log", health_port=port, **limits))
        return made[-1]

    yield make
    for one in made:
        one.stop()


def test_a_program_is_ready_when_started_gone_when_stopped_and_can_be_started_again(program):
    serving = program(SERVES.format(signals=""))
    for _ in range(2):
        serving.start()
        pid = serving._process.pid
        serving.stop()
    serving.stop()

    assert serving.last_words() == 2 * "serving\n"
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_one_that_does_not_end_when_asked_is_killed(program):
    serving = program(SERVES.format(signals=DEAF), stop_within_s=0.05)
    serving.start()
    pid = serving._process.pid
    serving.stop()

    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_one_that_ends_is_not_waited_for_and_its_last_words_are_told(program):
    with pytest.raises(StartFailed, match=r"is not ready \(exit code 3\):\nsaid before"):
        program("print('said before', flush=True); raise SystemExit(3)").start()


def test_one_that_is_not_ready_in_time_is_told_of(program):
    with pytest.raises(StartFailed, match="is not ready"):
        program("import time; time.sleep(60)", ready_within_s=0.2).start()


def test_free_ports_differ():
    assert len(set(free_ports(20))) == 20
