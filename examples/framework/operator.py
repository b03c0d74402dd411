"""
A complete operator: runs a Job every so often for each `Backup` (crd.yaml), and remembers the last runs in its status.

    kubectl apply -f crd.yaml && python operator.py          # against the cluster of your kubeconfig
"""

from __future__ import annotations

from datetime import datetime

from ktrain.framework.ownership import controller_reference

from ktrain.api.meta import Json, Object, Resource, Struct


class BackupSpec(Struct, frozen=True):
    """What the user wants. Only what is read here is declared; the rest of an object is never decoded."""

    every_seconds: int = 3600
    keep: int = 3
    image: str = ""
    command: tuple[str, ...] = ()


class BackupStatus(Struct, frozen=True):
    """What is so."""

    last_run: datetime | None = None
    succeeded: int = 0
    failed: int = 0


class Backup(Object, frozen=True):
    """A command to run every so often."""

    spec: BackupSpec = BackupSpec()
    status: BackupStatus = BackupStatus()


BACKUPS = Resource("example.dev", "v1", "Backup", "backups", namespaced=True, type=Backup)


def job_for(backup: Backup, now: datetime) -> Json:
    """The Job of one run. Its name is made from the time, so that a run that was started already is not started again."""
    container = {"name": "backup", "image": backup.spec.image, "command": list(backup.spec.command)}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": f"{backup.metadata.name}-{int(now.timestamp())}",
            "namespace": backup.metadata.namespace,
            "ownerReferences": [controller_reference(BACKUPS, backup)],
        },
        "spec": {"backoffLimit": 0, "template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
    }
