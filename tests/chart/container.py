"""A container that is a process of this machine: it sees its image, its mounts and its own network, read-only."""

import os
import signal
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from ktrain.testing.realserver import _die_with_parent

# Arguments: a directory for the file system, the image's root, the host name, then pairs of a source and its place
# until `--`, then the command. All is done in namespaces of mounts, names and processes that end with the process.
START = r"""
set -e
path=$PATH; PATH=/usr/sbin:/usr/bin:/sbin:/bin; chroot=$(command -v chroot)
fs=$1 image=$2; hostname "$3"; shift 3
mount -t tmpfs tmpfs "$fs"
mkdir "$fs/upper" "$fs/work" "$fs/root"
mount -t overlay overlay -o "lowerdir=$image,upperdir=$fs/upper,workdir=$fs/work" "$fs/root"
root=$fs/root
mkdir -p "$root/proc" "$root/dev"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
if [ -d "$root/root" ]; then chmod a+x "$root/root"; fi
while [ "$1" != -- ]; do
  place=$root$2
  # An absolute link would lead out of the image.
  case $2 in /var/run/*) if [ -L "$root/var/run" ]; then place=$root${2#/var}; fi ;; esac
  if [ -d "$1" ]; then mkdir -p "$place"; else mkdir -p "$(dirname "$place")"; : >"$place"; fi
  mount --bind "$1" "$place"; mount -o remount,ro,bind "$place"
  shift 2
done
shift
mount -o remount,ro "$root"
export PATH=$path
exec "$chroot" --userspec=65532:65532 "$root" "$@"
"""


@dataclass(frozen=True)
class Image:
    """A program as an image has it: its entry point, its environment, and the root of its file system."""

    entrypoint: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)
    root: Path = Path("/")


class Container:
    """
    A running container.

    Args:
        namespace: The network namespace.
        directory: A directory of its own.
        mounts: What it sees besides its image, and where: pairs of a path here and a path there.
    """

    def __init__(self, image, command, *, name, namespace, directory, environment, mounts, log):
        root = directory / "filesystem"
        root.mkdir(exist_ok=True)
        pairs = [str(part) for pair in mounts for part in pair]
        # No network namespace of `ip netns exec`: that mounts /sys anew.
        isolated = [
            "nsenter",
            f"--net=/run/netns/{namespace}",
            "unshare",
            "--mount",
            "--uts",
            "--pid",
            "--fork",
            "--kill-child",
        ]
        start = ["sh", "-c", START, "start", root, image.root, name, *pairs, "--"]
        variables = {**image.environment, **environment}
        command = [*isolated, *start, *command]
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [str(part) for part in command],
                env={"PATH": os.environ["PATH"], **variables},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd="/",
                preexec_fn=_die_with_parent,  # noqa: PLW1509 -- only a prctl call
            )

    def terminate(self):
        """Send SIGTERM to the first process inside."""
        self._signal(signal.SIGTERM)

    def kill(self):
        """End all processes inside. The first one has changed its user, so it does not end with `unshare`."""
        self._signal(signal.SIGKILL)
        self.process.kill()
        self.process.wait()

    def _signal(self, number):
        pid = self.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children")
        for child in children.read_text().split() if children.exists() else ():
            os.kill(int(child), number)
