"""What an API server was asked to write, from its own log."""

import msgspec
import yaml

ACCOUNT = "kubeflow-trainer-controller-manager"


class Audit:
    """What the API server was asked to write."""

    POLICY = {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived", "ResponseStarted", "Panic"],
        "rules": [{"level": "None", "verbs": ["get", "list", "watch"]}, {"level": "Metadata"}],
    }
    UNCOUNTED = ("events", "leases", "tokenreviews", "subjectaccessreviews")

    def __init__(self, file):
        self.file = file
        self.policy = file.with_suffix(".policy")
        self.policy.write_text(yaml.safe_dump(self.POLICY))

    @property
    def options(self):
        return [f"--audit-policy-file={self.policy}", f"--audit-log-path={self.file}"]

    def now(self):
        """Return a mark for `writes`."""
        return self.file.stat().st_size

    def writes(self, since=0, agent="", user=ACCOUNT):
        """
        Return the writes of a service account, as (verb, kind, name); events, leases and dry runs are nothing.

        `agent` is part of the program's name for itself.
        """
        with self.file.open("rb") as log:
            log.seek(since)
            events = [msgspec.json.decode(line) for line in log if line.endswith(b"\n")]
        return [
            (one["verb"], "/".join(filter(None, (ref["resource"], ref.get("subresource")))), ref.get("name", ""))
            for one in events
            if one["user"]["username"].endswith(f":{user}")
            and (ref := one.get("objectRef"))
            and ref["resource"] not in self.UNCOUNTED
            and "dryRun" not in one["requestURI"]
            and agent in one.get("userAgent", "")
        ]
