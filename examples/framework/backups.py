"""A complete operator: for each `Backup` (crd.yaml) it runs a Job every so often and keeps the last ones."""

import anyio

from ktrain.api.core import JOBS
from ktrain.api.meta import Json, Key, Object, Resource, Struct
from ktrain.framework import AdmissionRequest, Allowed, Denied, Operator, Registrations, Result, Settings
from ktrain.framework.helpers import set_controller_reference


class BackupSpec(Struct, frozen=True):
    """What the user wants. What is not declared here is never decoded."""

    every_seconds: int = 3600
    timeout_seconds: int = 600
    keep: int = 3
    image: str = ""
    command: tuple[str, ...] = ()


class BackupStatus(Struct, frozen=True):
    """How the runs went that are kept."""

    succeeded: int = 0
    failed: int = 0


class Backup(Object, frozen=True):
    spec: BackupSpec = BackupSpec()
    status: BackupStatus = BackupStatus()


BACKUPS = Resource("example.dev", "v1", "Backup", "backups", namespaced=True, type=Backup)


class Reconciler:
    """Reads caches, writes through the client, and asks to be called again when the next run is due."""

    def __init__(self, op: Operator) -> None:
        self.op, self.backups, self.jobs = op, op.cache.informer(BACKUPS), op.cache.informer(JOBS)
        self.jobs.add_index("owner", lambda job: [owner.uid for owner in job.metadata.owner_references])

    async def reconcile(self, key: Key) -> Result | None:
        """One pass over one Backup. A Backup that is gone takes its Jobs with it: they have an owner reference."""
        backup = self.backups.get(key)
        if backup is None or backup.metadata.deletion_timestamp is not None:
            return None
        every_s, now_s = backup.spec.every_seconds, self.op.env.clock.now().timestamp()
        runs = sorted(self.jobs.by_index("owner", backup.metadata.uid), key=lambda job: job.metadata.creation_timestamp)
        # Runs have numbers, so that a pass that is repeated starts nothing twice.
        due = f"{key.name}-{int(now_s // every_s)}"
        if due not in [job.metadata.name for job in runs]:
            await self.op.client.apply(JOBS, job_of(backup, due))
            self.op.recorder.event(BACKUPS, backup, reason="Started", message=f"run {due} started")
        for job in [job for job in runs if job.status.succeeded or job.status.failed][: -backup.spec.keep]:
            await self.op.client.delete(JOBS, job.key, uid=job.metadata.uid, propagation="Background")
        status = {name: sum(getattr(job.status, name) for job in runs) for name in ("succeeded", "failed")}
        if BackupStatus(**status) != backup.status:
            await self.op.client.patch(BACKUPS, key, {"status": status}, subresource="status")
        return Result(requeue_after_s=every_s - now_s % every_s)


def job_of(backup: Backup, name: str) -> Json:
    """The Job of one run."""
    container = {"name": "backup", "image": backup.spec.image, "command": backup.spec.command}
    pod = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    spec = {"backoffLimit": 0, "activeDeadlineSeconds": backup.spec.timeout_seconds, "template": pod}
    meta = {"name": name, "namespace": backup.metadata.namespace}
    job: Json = {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec}
    set_controller_reference(job, backup, BACKUPS)
    return job


def check(request: AdmissionRequest) -> Allowed | Denied:
    """Refuse what the schema cannot: runs that overlap."""
    spec = (request.object or {})["spec"]
    fits = spec["timeoutSeconds"] < spec["everySeconds"]
    return Allowed() if fits else Denied("spec.timeoutSeconds must be less than spec.everySeconds", code=422)


def build(op: Operator) -> None:
    """Say what the operator does."""
    reconciler = Reconciler(op)
    controller = op.controller("backup", reconciler.reconcile, max_concurrent_reconciles=8)
    controller.for_(reconciler.backups)
    controller.owns(reconciler.jobs, owner=BACKUPS)
    op.admission("/validate", check)
    op.manage_certificates(service="backup-operator", registrations=Registrations(validating=("backups.example.dev",)))


async def main() -> None:
    settings = Settings(leader_election="backups", metrics_address=":8080", health_address=":8081")
    async with Operator("backup-operator", settings) as op:
        build(op)
        await op.run()


if __name__ == "__main__":
    anyio.run(main)
