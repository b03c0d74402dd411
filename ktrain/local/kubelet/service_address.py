"""Where pods find what serves them. A module of its own, since a server without pods loads nothing of the kubelet's."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ServiceAddress:
    """Where a service is found, as (host, port)."""

    pods: tuple[str, int]
    """From the network of pods."""
    machine: tuple[str, int]
    """From this machine's own network."""
