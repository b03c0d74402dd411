"""Addresses of their own for pods that are processes of this machine: a network namespace each, on one bridge."""

import os
import secrets
import shutil
import subprocess
from contextlib import contextmanager


def missing():
    """Return why there can be no such network here, None if there can."""
    if os.geteuid():
        return "needs root: pods are processes in namespaces of their own"
    absent = [name for name in ("ip", "unshare", "chroot", "mount") if shutil.which(name) is None]
    if absent:
        return f"needs {', '.join(absent)}"
    try:
        with network():
            return None
    except subprocess.CalledProcessError as error:
        return f"needs bridges and network namespaces: {error}"


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


class Network:
    """A bridge; pods are in `10.77.N.0/24`, Services in `10.78.N.0/24`, whose first one is the API server's."""

    def __init__(self):
        number = secrets.randbelow(254) + 1
        self.bridge = f"kt{number}"
        self.services = f"10.78.{number}.0/24"
        self.api_server = f"10.78.{number}.1"
        self.gateway = f"10.77.{number}.1"
        self._prefix = f"10.77.{number}"
        self._pods = []

    def open(self):
        ip("link", "add", self.bridge, "type", "bridge")
        ip("address", "add", f"{self.gateway}/24", "dev", self.bridge)
        ip("address", "add", f"{self.api_server}/32", "dev", self.bridge)
        ip("link", "set", self.bridge, "up")

    def close(self):
        for namespace in self._pods:
            subprocess.run(["ip", "netns", "delete", namespace], check=False, capture_output=True)
        subprocess.run(["ip", "link", "delete", self.bridge], check=False, capture_output=True)

    def add(self):
        """Make the network of a pod; returns the name of its namespace, and its address."""
        number = len(self._pods) + 2
        namespace, address = f"{self.bridge}-{number}", f"{self._prefix}.{number}"
        outside = f"{self.bridge}v{number}"
        ip("netns", "add", namespace)
        self._pods.append(namespace)
        ip("link", "add", outside, "master", self.bridge, "type", "veth", "peer", "name", "eth0", "netns", namespace)
        ip("link", "set", outside, "up")
        ip("-n", namespace, "address", "add", f"{address}/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            ip("-n", namespace, "link", "set", device, "up")
        ip("-n", namespace, "route", "add", "default", "via", self.gateway)
        return namespace, address


@contextmanager
def network():
    """Open a network; closes it, and the namespaces of all pods."""
    made = Network()
    try:
        made.open()
        yield made
    finally:
        made.close()
