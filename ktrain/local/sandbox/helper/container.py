"""
One started program and the process above it.

The supervisor reaps orphans, forwards signals to the program, and ends with it: exit code 0 to 255, or 128+n for signal
n. What the program left behind ends, too, as in a container: in ns mode because the supervisor is PID 1 of a PID
namespace, else because it kills what is below it. With an init above it, a program without a handler dies of SIGTERM
(143), whereas as PID 1 of a real container it would ignore it until SIGKILL (137).
"""

from __future__ import annotations

import errno
import os
import signal

from ktrain.local.sandbox.helper import linux, mounts, tree

TYPE_CHECKING = False  # Not imported: `typing` would cost the helper a quarter of its start.
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from ktrain.local.sandbox.helper.mounts import View

_HANDLEABLE = frozenset(signal.valid_signals()) - {signal.SIGKILL, signal.SIGSTOP}
_FORWARDED = _HANDLEABLE - {
    signal.SIGCHLD,
    signal.SIGSEGV,
    signal.SIGBUS,
    signal.SIGFPE,
    signal.SIGILL,
}


def supervise(spec: dict[str, Any], stdio: tuple[int, ...], report: int, host_proc: int, view: View | None) -> int:
    """
    Start the program that `spec` describes, wait for its end, and return its exit code. Runs in a process of its own.

    `stdio` are its standard input, output and error, or one descriptor of its log. What happened goes to `report`: the
    program's PID (by the /proc that `host_proc` is open on), then end-of-file once it runs; or an error as a sentence,
    and if it is about the program itself its number, behind a NUL.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, _FORWARDED)
    try:
        if view is None:
            linux.adopt_orphans()
        else:
            linux.unshare(linux.CLONE_NEWNS)
            view.show([tuple(mount) for mount in spec["mounts"]], spec["cwd"])
            mounts.mount_proc()
        program = os.fork()
    except OSError as error:
        _tell(report, f"E{describe(error)}")
        return 128
    if program == 0:
        _become(spec, stdio, report, host_proc, namespaces=view is not None)
    for fd in (report, *stdio):
        os.close(fd)
    for signum in _FORWARDED:
        signal.signal(signum, lambda number, _frame: _pass_on(program, number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _FORWARDED)
    code = _wait_for(program)
    if view is None:
        tree.kill_below(os.getpid())
    return code


def join(spec: dict[str, Any], stdio: tuple[int, ...], report: int, host_proc: int, host: int) -> NoReturn:
    """
    Become the program that `spec` describes, in the container of another process (a pidfd). Never returns.

    The caller is in the PID namespace of that container already; whatever it leaves behind is the container's.
    """
    try:
        linux.setns(host, linux.CLONE_NEWNS)
        os.close(host)
    except OSError as error:
        _tell(report, f"E{describe(error)}")
        os._exit(128)
    _become(spec, stdio, report, host_proc, namespaces=True)


def describe(error: OSError) -> str:
    """Return an OSError as a sentence that names its file."""
    reason = error.strerror or str(error)
    return f"{error.filename}: {reason}" if error.filename else reason


def _pass_on(program: int, signum: int) -> None:
    try:
        os.kill(program, signum)
    except ProcessLookupError:
        return


def _wait_for(program: int) -> int:
    while True:
        pid, status = os.wait()
        if pid == program:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def _become(spec: dict[str, Any], stdio: tuple[int, ...], report: int, host_proc: int, *, namespaces: bool) -> NoReturn:
    """Turn this forked process into the program. Never returns."""
    try:
        os.setsid()
        if not namespaces:
            linux.die_with_parent()
        _set_stdio(stdio, terminal=spec["terminal"])
        _tell(report, f"P{os.readlink('self', dir_fd=host_proc) if host_proc >= 0 else os.getpid()}\n")
        _enter_directory(spec["cwd"])
        if namespaces:
            _change_user(spec["uid"], spec["gid"], spec["groups"])
        os.umask(0o022)
        for signum in _HANDLEABLE:  # exec keeps what is ignored: SIGPIPE by Python, SIGHUP by `nohup ktrain up`
            signal.signal(signum, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        try:
            _execute(spec["argv"], spec["env"])
        except OSError as error:
            _tell(report, f"E{describe(error)}\0{error.errno}")
    except (OSError, ValueError) as error:
        _tell(report, f"E{describe(error) if isinstance(error, OSError) else error}")
    finally:
        os._exit(128)


def _set_stdio(stdio: tuple[int, ...], *, terminal: bool) -> None:
    if len(stdio) == 1:
        stdio = (os.open(os.devnull, os.O_RDONLY), *stdio, *stdio)
    for source, target in zip(stdio, range(3), strict=True):
        os.dup2(source, target)
    if terminal:
        import fcntl  # Here: most programs have none.
        import termios

        fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _tell(report: int, text: str) -> None:
    os.write(report, text.encode(errors="surrogateescape"))


def _enter_directory(path: str) -> None:
    try:
        os.chdir(path)
    except OSError as error:
        raise OSError(error.errno, f"cannot work in it (workingDir): {error.strerror}", path) from None


def _change_user(uid: int | None, gid: int | None, groups: list[int]) -> None:
    """Take the ids of runAsUser and runAsGroup: for real as root, else in a user namespace of the program's own."""
    own_uid, own_gid = os.geteuid(), os.getegid()
    uid, gid = own_uid if uid is None else uid, own_gid if gid is None else gid
    if (uid, gid) == (own_uid, own_gid) and not (groups and own_uid == 0):
        return
    if own_uid == 0:
        os.setgroups([gid, *groups])
        os.setgid(gid)
        os.setuid(uid)
        return
    linux.unshare(linux.CLONE_NEWUSER)
    map_ids((uid, own_uid), (gid, own_gid))


def map_ids(uid: tuple[int, int], gid: tuple[int, int]) -> None:
    """In a new user namespace: show one uid and one gid of the parent namespace, each as (inside, outside)."""
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid[0]} {uid[1]} 1"), ("gid_map", f"{gid[0]} {gid[1]} 1")):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)


def _execute(argv: list[str], env: dict[str, str]) -> None:
    program = argv[0]
    try:
        _search_and_execute(program, argv, env)
    except FileNotFoundError:
        found = "/" in program and os.path.exists(program)
        where = "" if "/" in program else f" in PATH ({env.get('PATH', os.defpath)})"
        reason = "the interpreter in its first line (#!) does not exist" if found else f"no such program{where}"
        raise OSError(errno.ENOENT, reason, program) from None
    except PermissionError:
        raise OSError(errno.EACCES, f"not executable by user {os.geteuid()}", program) from None
    except OSError as error:
        if error.errno != errno.ENOEXEC:
            raise OSError(error.errno, error.strerror, program) from None
        reason = f"not a program for {os.uname().machine} and no script with a first line (#!)"
        raise OSError(errno.ENOEXEC, reason, program) from None


def _search_and_execute(program: str, argv: list[str], env: dict[str, str]) -> None:
    """
    Do what os.execvpe does without its imports: the user that this process has become may not read the interpreter's.

    Raises:
        OSError: Why it could not be run: of several candidates that of the first that is there.
    """
    if "/" in program:
        os.execve(program, argv, env)  # noqa: S606 - no shell unless the pod asks for one
    refusal: OSError | None = None
    for directory in env.get("PATH", os.defpath).split(":"):
        try:
            os.execve(f"{directory or '.'}/{program}", argv, env)  # noqa: S606 - as above
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            refusal = refusal or error
    raise refusal or FileNotFoundError
