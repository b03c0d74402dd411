"""
Runs a program and tells what it took: `python weigh.py COMMAND...` prints milliseconds by the clock and of CPU time,
and the peak in kilobytes.

A process of its own because Linux counts into a program's peak memory what the process was that turned into it by exec:
started from the benchmarks, every program would seem as large as they are.
"""

import os
import sys
import time


def main() -> int:
    """Run the command with its output thrown away; the exit code is the command's."""
    command = sys.argv[1:]
    quiet = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 1)]
    started = time.perf_counter()
    pid = os.posix_spawn(command[0], command, os.environ, file_actions=quiet)
    _, status, usage = os.wait4(pid, 0)
    wall_s = time.perf_counter() - started
    print(wall_s * 1e3, (usage.ru_utime + usage.ru_stime) * 1e3, usage.ru_maxrss)
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    sys.exit(main())
