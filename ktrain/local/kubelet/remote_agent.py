"""
What an MPI launcher calls instead of ssh: `agent [ssh options] HOST COMMAND...`.

A copy of this file lies beside a socket of the kubelet (`remote`). It hands over its own standard streams, waits, and
ends with the command's exit code; when it is killed, so is the command. Run by a bare interpreter: standard library
only, and little of it.
"""

import array
import json
import os
import socket
import struct
import sys

WITH_VALUE = frozenset("BbcDEeFIiJLlmOopQRSWw")
"""Options of ssh that take a value (ssh(1))."""
FAILED = 255
"""The exit code of ssh when the command could not be run."""


def parse(words: "list[str]") -> "tuple[str, str]":
    """Return host and command line; ssh's options are skipped, `user@` is dropped."""
    rest = iter(words)
    for word in rest:
        if word == "--":
            continue
        if not word.startswith("-"):
            return word.rpartition("@")[2], " ".join(rest)
        if len(word) == 2 and word[1] in WITH_VALUE:
            next(rest, None)
    return "", ""


def run(host: str, command: str, directory: str) -> int:
    """Have the command run on the host; return its exit code."""
    # Not by its whole path: addresses of sockets have 107 characters at most.
    os.chdir(directory)
    body = json.dumps({"host": host, "command": command}).encode()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as kubelet:
        kubelet.connect("socket")
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", (0, 1, 2)))]
        kubelet.sendmsg([struct.pack("=II", len(body), 3) + body], rights)
        answer = b""
        while part := kubelet.recv(65536):
            answer += part
    if len(answer) < 8:
        sys.stderr.write(f"{host}: the connection was lost\n")
        return FAILED
    outcome = json.loads(answer[8:])
    if "error" in outcome:
        sys.stderr.write(f"{outcome['error']}\n")
    return int(outcome.get("code", FAILED))


def main() -> int:
    """Run the command line of this process."""
    host, command = parse(sys.argv[1:])
    if not command:
        sys.stderr.write("usage: agent [ssh options] HOST COMMAND...\n")
        return FAILED
    return run(host, command, __file__.rpartition("/")[0])


if __name__ == "__main__":
    sys.exit(main())
