"""
A cluster as users of Kubeflow Trainer 2.3 have it: a real API server with the controllers of Jobs and of garbage, and
the Go managers of Trainer and of JobSet, with the definitions, rights, webhooks and Services of their own manifests.

Managers run beside the API server instead of in pods: an EndpointSlice leads a Service to the one that is called. Their
certificates are made here; Go's managers find them below TMPDIR.
"""

import asyncio
import base64
import os
import socket
import subprocess
import sys
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import trustme
import yaml

from ktrain.api import assets
from ktrain.api.core import SECRETS, untyped
from ktrain.testing.programs import Program, free_ports

from ..waiting import until
from .audit import ACCOUNT

ROOT = Path(__file__).parents[2]
PATIENCE_S = 90
SYSTEM = "kubeflow-system"
SERVICE = ACCOUNT
RBAC = "rbac.authorization.k8s.io"
LEASE = "trainer.kubeflow.org"
CERTIFICATES = "kubeflow-trainer-webhook-cert"
BIND = 'mkdir -p /tmp/k8s-webhook-server && mount --bind "$0" /tmp/k8s-webhook-server && exec "$@"'
JOBSET_SYSTEM, JOBSET_SERVICE = "jobset-system", "jobset-webhook-service"
CRDS = ("trainjobs", "trainingruntimes", "clustertrainingruntimes")


class Stack:
    """What is installed, and what of it runs."""

    def __init__(self, server, client, peers, directory, audit):
        self.server = server
        self.client = client
        self.peers = peers
        self.directory = directory
        self.audit = audit
        self._authority = trustme.CA()

    # What an administrator does

    def kubectl(self, *arguments):
        """Run kubectl as administrator; returns what it printed."""
        kubectl = Path(os.environ["KUBEBUILDER_ASSETS"]) / "kubectl"
        command = [kubectl, "--kubeconfig", self.server.kubeconfig, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def apply(self, *paths):
        """Apply files, or directories of them, as docs/operator.md says."""
        files = [part for path in paths for part in ("-f", path)]
        return self.kubectl("apply", "--server-side", "--force-conflicts", *files)

    def apply_objects(self, *objects):
        file = self.directory / "objects.yaml"
        file.write_text(yaml.safe_dump_all(objects))
        return self.apply(file)

    def install_definitions(self):
        """Before any controller runs: the garbage collector looks for new kinds only now and then."""
        self.apply(*sorted((self.peers.trainer / "manifests/base/crds").glob("trainer.*.yaml")))
        self.apply(self.peers.jobset / "config/components/crd/bases")
        self.apply_objects(*assets.pod_group_crds())

    def install_kubeflow(self):
        """Do what `kubectl apply -k manifests/overlays/manager` does, and the same for JobSet."""
        trainer, jobset = self.peers.trainer / "manifests" / "base", self.peers.jobset / "config" / "components"
        for name in (SYSTEM, JOBSET_SYSTEM):
            self.apply_objects(body("v1", "Namespace", name))
        rights = [
            one
            for file in ("service_account", "role", "role_binding")
            for one in read(trainer / "rbac" / f"{file}.yaml")
        ]
        for one in rights:
            if one["kind"] == "ServiceAccount":
                one["metadata"]["namespace"] = SYSTEM
            for subject in one.get("subjects", ()):
                subject["namespace"] = SYSTEM
        callers = self._callers(trainer / "webhook", SYSTEM, SERVICE, TRAINER_NAMES)
        callers += self._callers(jobset / "webhook", JOBSET_SYSTEM, JOBSET_SERVICE, JOBSET_NAMES)
        services = [
            body("v1", "Secret", CERTIFICATES, SYSTEM),
            service(SYSTEM, SERVICE),
            service(JOBSET_SYSTEM, JOBSET_SERVICE),
        ]
        self.apply_objects(*rights, *services, *callers)

    def install_ktrain(self):
        """Follow docs/operator.md, "Coming from Kubeflow Trainer"."""
        config = ROOT / "config"
        self.apply(*(config / "crd" / f"{plural}.trainer.kubeflow.org.yaml" for plural in CRDS))
        roles = read(config / "trainer" / "rbac.yaml")
        for role in roles:
            if role["kind"] == "Role":
                role["metadata"]["namespace"] = SYSTEM
        self.apply_objects(*roles, *map(binding, roles))

    def install_jobsets_of_ktrain(self):
        """Have ktrain in the place of the JobSet operator, too."""
        for kind, name in JOBSET_NAMES.items():
            self.kubectl("delete", kind, name)
        (role,) = read(ROOT / "config/jobset/rbac.yaml")
        callers = read(ROOT / "config/jobset/webhooks.yaml")
        for caller in callers:
            self._lead(caller, SYSTEM, SERVICE)
        self.apply_objects(role, binding(role), *callers)

    def uninstall_ktrain(self):
        """Go back: Kubeflow's definitions again."""
        self.apply(*sorted((self.peers.trainer / "manifests/base/crds").glob("trainer.*.yaml")))

    def _callers(self, directory, namespace, name, names):
        """Return webhook configurations as kustomize would make them, but with our authority."""
        callers = read(directory / "manifests.yaml")
        for caller in callers:
            caller["metadata"]["name"] = names[caller["kind"]]
            self._lead(caller, namespace, name)
            for webhook in caller["webhooks"]:
                if selector := SELECTORS.get(webhook["rules"][0]["resources"][0]):
                    webhook["objectSelector"] = {"matchExpressions": [selector]}
        return callers

    def _lead(self, caller, namespace, name):
        """Have webhooks called by a Service."""
        authority = base64.b64encode(self._authority.cert_pem.bytes()).decode()
        for webhook in caller["webhooks"]:
            webhook["clientConfig"]["service"] |= {"namespace": namespace, "name": name}
            webhook["clientConfig"]["caBundle"] = authority

    # What runs

    def user(self, account=ACCOUNT, namespace=SYSTEM):
        """Return a kubeconfig of a service account, with the rights that are bound to it."""
        token = self.kubectl("create", "token", account, "--namespace", namespace, "--duration", "10h").strip()
        found = yaml.safe_load(self.server.kubeconfig.read_text())
        found["users"][0]["user"] = {"token": token}
        return self._write(f"{account}.kubeconfig", found)

    def certificates(self, namespace, name):
        """Return the directory with the certificate of a Service, below one that can be TMPDIR."""
        directory = self.directory / name / "k8s-webhook-server" / "serving-certs"
        if not directory.exists():
            directory.mkdir(parents=True)
            pair = self._authority.issue_cert(f"{name}.{namespace}.svc")
            pair.private_key_pem.write_to_path(directory / "tls.key")
            pair.cert_chain_pems[0].write_to_path(directory / "tls.crt")
        return directory

    def configuration(self, health, port, *, manages=False):
        """Return the file that Kubeflow ships, changed where programs on one machine would meet, and for no pod."""
        shipped = yaml.safe_load(
            (self.peers.trainer / "manifests/base/manager/controller_manager_config.yaml").read_text()
        )
        shipped["health"]["healthProbeBindAddress"] = f"127.0.0.1:{health}"
        shipped["metrics"] = {"bindAddress": "0"}
        shipped["webhook"]["port"] = port
        shipped["leaderElection"]["resourceNamespace"] = SYSTEM
        shipped["certManagement"]["enable"] = manages
        return shipped

    @asynccontextmanager
    async def kubeflow(self, *, manages=False):
        """Run Go's Trainer. If it `manages` its certificates, it wants its Secret mounted at a place in /tmp."""
        health, port = free_ports(2, host="")
        file = self._write("kubeflow.yaml", self.configuration(health, port, manages=manages))
        command = [self.peers.trainer_manager, "--config", file, "--kubeconfig", self.user()]
        environment = {"TMPDIR": str(self.certificates(SYSTEM, SERVICE).parents[1])}
        async with AsyncExitStack() as exits:
            if manages:
                mounted = self.directory / "mounted"
                await exits.enter_async_context(self._mounting(CERTIFICATES, mounted))
                command = ["unshare", "--mount", "sh", "-c", BIND, str(mounted), *command]
                environment = {"TMPDIR": "/tmp"}
            running = self._run("kubeflow", command, health, environment, (SYSTEM, SERVICE, port))
            yield await exits.enter_async_context(running)

    @asynccontextmanager
    async def ktrain(self, *, manages=False, leads=True, **more):
        """Run `ktrain operator` with Kubeflow's file, and what it says `more`; wait until it `leads`."""
        health, port = free_ports(2, host="")
        configuration = self.configuration(health, port, manages=manages) | more
        configuration["webhook"] |= {"certDir": str(self.certificates(SYSTEM, SERVICE))}
        file = self._write("ktrain.yaml", configuration)
        command = [sys.executable, "-m", "ktrain", "operator", "--config", file, "--zap-log-level=2"]
        command += ["--zap-encoder=json", "--kubeconfig", self.user()]
        environment = {"POD_NAMESPACE": SYSTEM, "PYTHONPATH": str(ROOT)}
        async with self._run("ktrain", command, health, environment, (SYSTEM, SERVICE, port)) as program:
            if leads:
                await until(program.log.read_text, lambda log: "election.won" in log, within_s=PATIENCE_S)
            yield program

    @asynccontextmanager
    async def jobsets(self):
        """Run Go's JobSet controller."""
        health, port = free_ports(2, host="")
        configuration = {
            "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
            "kind": "Configuration",
            "health": {"healthProbeBindAddress": f"127.0.0.1:{health}"},
            "metrics": {"bindAddress": "0"},
            "webhook": {"port": port},
            "leaderElection": {"leaderElect": False},
            "internalCertManagement": {"enable": False},
        }
        command = [self.peers.jobset_manager, "--config", self._write("jobsets.yaml", configuration)]
        command += ["--kubeconfig", self.server.kubeconfig]
        environment = {"TMPDIR": str(self.certificates(JOBSET_SYSTEM, JOBSET_SERVICE).parents[1])}
        called = (JOBSET_SYSTEM, JOBSET_SERVICE, port)
        async with self._run("jobsets", command, health, environment, called) as program:
            yield program

    @asynccontextmanager
    async def _mounting(self, secret, directory):
        """Write a Secret to files, as a kubelet does."""
        (directory / "serving-certs").mkdir(parents=True, exist_ok=True)

        async def mount():
            while True:
                found = await self.client.get(untyped(SECRETS), secret, SYSTEM)
                for name, content in found.get("data", {}).items():
                    unfinished = directory / name
                    unfinished.write_bytes(base64.b64decode(content))
                    unfinished.rename(directory / "serving-certs" / name)
                await asyncio.sleep(0.5)

        async with asyncio.TaskGroup() as tasks:
            mounting = tasks.create_task(mount())
            yield
            mounting.cancel()

    @asynccontextmanager
    async def _run(self, name, command, health, environment, called):
        program = Program(
            [str(part) for part in command],
            log=self.directory / f"{name}.log",
            health_port=health,
            environment={**os.environ, **environment},
        )
        self.apply_objects(endpoints(*called))
        try:
            await asyncio.to_thread(program.start)
            yield program
        finally:
            await asyncio.to_thread(program.stop)

    def _write(self, name, document):
        file = self.directory / name
        file.write_text(yaml.safe_dump(document))
        return file


TRAINER_NAMES = {
    "MutatingWebhookConfiguration": "defaulter.trainer.kubeflow.org",
    "ValidatingWebhookConfiguration": "validator.trainer.kubeflow.org",
}
JOBSET_NAMES = {
    "MutatingWebhookConfiguration": "jobset-mutating-webhook-configuration",
    "ValidatingWebhookConfiguration": "jobset-validating-webhook-configuration",
}
_UNCHECKED = {"key": "trainer.kubeflow.org/webhook-validation", "operator": "NotIn", "values": ["disabled"]}
SELECTORS = {
    "trainingruntimes": _UNCHECKED,
    "clustertrainingruntimes": _UNCHECKED,
    "pods": {"key": "jobset.sigs.k8s.io/jobset-name", "operator": "Exists"},
}
"""What kustomize's patches add."""


def read(file):
    return [one for one in yaml.safe_load_all(file.read_text()) if one]


def body(api_version, kind, name, namespace="", **parts):
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **parts}


def binding(role):
    """Bind a role to the account of the operator."""
    kind, name = role["kind"], role["metadata"]["name"]
    subjects = [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": SYSTEM}]
    reference = {"apiGroup": RBAC, "kind": kind, "name": name}
    namespace = role["metadata"].get("namespace", "")
    return body(f"{RBAC}/v1", f"{kind}Binding", name, namespace, roleRef=reference, subjects=subjects)


def service(namespace, name):
    return body("v1", "Service", name, namespace, spec={"ports": [{"name": "webhook", "port": 443}]})


def endpoints(namespace, name, port):
    """Lead a Service to a port of this machine."""
    found = body("discovery.k8s.io/v1", "EndpointSlice", name, namespace, addressType="IPv4")
    found["metadata"]["labels"] = {"kubernetes.io/service-name": name}
    ports = [{"name": "webhook", "port": port, "protocol": "TCP"}]
    return found | {"ports": ports, "endpoints": [{"addresses": [own_address()], "conditions": {"ready": True}}]}


def own_address():
    """Return an address of this machine that is not the loopback's, which EndpointSlices may not have."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # nothing is sent
        return probe.getsockname()[0]
