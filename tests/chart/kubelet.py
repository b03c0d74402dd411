"""
A kubelet for tests of the deployed operator.

Pods whose image it knows become processes with exactly the arguments, environment, files and service account of their
spec; readiness follows their probe, and they end as pods do: preStop, SIGTERM, grace period. All other pods are those
of jobs: they run, and succeed once `finish` says so.
"""

import asyncio
import base64
import time
from contextlib import suppress
from datetime import UTC, datetime

import aiohttp

from ktrain.api.core import CONFIG_MAPS, PODS, SECRETS, untyped
from ktrain.api.meta import Key, Resource
from ktrain.framework.errors import ApiError, NotFound, TransportError

from ..waiting import until
from .container import Container

NODES = Resource("", "v1", "Node", "nodes", namespaced=False, type=dict)
NODE = "node"
ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
LOOK_S = 0.2
STARTING_PROBE_S = 0.5
BACKOFF_S = 5


class Kubelet:
    """The one of the only node."""

    def __init__(self, client, network, server, kubectl, directory):
        self.client = client
        self.network = network
        self.server = server
        self.kubectl = kubectl
        self.directory = directory
        self.images = {}
        """Images by a part of their name."""
        self.finish = True
        """Whether pods of jobs succeed; otherwise they run."""
        self.pods = {}
        """Running pods that are processes, by uid."""

    async def run(self):
        """Work until cancelled."""
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}}
        await self.client.create(untyped(NODES), node)
        async with asyncio.TaskGroup() as tasks:
            try:
                while True:
                    for pod in (await self.client.list(untyped(PODS))).items:
                        with suppress(ApiError, TransportError):  # changed or gone meanwhile
                            await self._sync(pod, tasks)
                    await asyncio.sleep(LOOK_S)
            finally:
                for one in self.pods.values():
                    one.container.kill()

    async def _sync(self, pod, tasks):
        if not pod["spec"].get("nodeName"):
            where = {key: pod["metadata"][key] for key in ("name", "namespace")}
            target = {"apiVersion": "v1", "kind": "Node", "name": NODE}
            binding = {"apiVersion": "v1", "kind": "Binding", "metadata": where, "target": target}
            if not pod["spec"].get("schedulingGates"):
                await self.client.create(untyped(PODS), binding, subresource="binding")
            return
        image = pod["spec"]["containers"][0]["image"]
        known = next((found for name, found in self.images.items() if name in image), None)
        if known is None:
            await self._sync_job(pod)
        elif pod["metadata"]["uid"] not in self.pods:
            running = self.pods[pod["metadata"]["uid"]] = OperatorPod(self, pod, known)
            await running.start()
            tasks.create_task(running.probe())
        elif "deletionTimestamp" in pod["metadata"]:
            running = self.pods[pod["metadata"]["uid"]]
            if not running.ending:
                running.ending = True
                tasks.create_task(running.end())

    async def _sync_job(self, pod):
        key = Key(pod["metadata"]["namespace"], pod["metadata"]["name"])
        phase = pod["status"].get("phase")
        if "deletionTimestamp" in pod["metadata"]:
            await self.client.delete(untyped(PODS), key, grace_period_s=0)
        elif phase == "Pending":
            await self.report(key, "Running", pod["spec"], ready=True)
        elif phase == "Running" and self.finish:
            await self.report(key, "Succeeded", pod["spec"], ready=False)

    async def report(self, key, phase, spec, *, ready, address="192.0.2.9"):
        """Write a pod's status."""
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        said = {"PodScheduled": True, "Initialized": True, "ContainersReady": ready, "Ready": ready}
        conditions = [{"type": kind, "status": str(status), "lastTransitionTime": now} for kind, status in said.items()]
        ended = {"terminated": {"exitCode": 0, "startedAt": now, "finishedAt": now}}
        state = {"running": {"startedAt": now}} if phase == "Running" else ended
        containers = [
            {
                "name": one["name"],
                "image": one["image"],
                "imageID": "",
                "restartCount": 0,
                "ready": ready,
                "state": state,
            }
            for one in spec["containers"]
        ]
        status = {"phase": phase, "podIP": address, "podIPs": [{"ip": address}], "conditions": conditions}
        status |= {"startTime": now, "containerStatuses": containers}
        await self.client.patch(untyped(PODS), key, {"status": status}, subresource="status")


class OperatorPod:
    """A pod that is a process."""

    def __init__(self, kubelet, pod, image):
        self.kubelet = kubelet
        self.pod = pod
        self.spec = pod["spec"]
        (self.described,) = pod["spec"]["containers"]
        self.image = image
        self.key = Key(pod["metadata"]["namespace"], pod["metadata"]["name"])
        self.ready = False
        self.ending = False
        self.exits = 0
        """How often the process ended without having been asked to."""
        self.directory = kubelet.directory / self.key.name
        self.directory.mkdir()
        self.log = self.directory / "log"
        self.network, self.address = kubelet.network.add()

    async def start(self):
        hosts = self.directory / "hosts"
        hosts.write_text(f"127.0.0.1 localhost\n::1 localhost\n{self.address} {self.key.name}\n")
        self._mounts = [(hosts, "/etc/hosts"), *await self._account(), *await self._volumes()]
        environment = {one["name"]: self._value(one) for one in self.described.get("env", ())}
        port = self.kubelet.server.url.rpartition(":")[2]
        environment |= {"KUBERNETES_SERVICE_HOST": self.kubelet.network.api_server, "KUBERNETES_SERVICE_PORT": port}
        self._environment = environment
        self._start_container()
        await self.kubelet.report(self.key, "Running", self.spec, ready=False, address=self.address)

    def _start_container(self):
        # An image of these tests has one program, whatever path it is called by.
        self.container = Container(
            self.image,
            [*self.image.entrypoint, *self.described.get("args", ())],
            name=self.key.name,
            namespace=self.network,
            directory=self.directory,
            environment=self._environment,
            mounts=self._mounts,
            log=self.log,
        )

    def _value(self, variable):
        path = variable.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
        known = {"metadata.namespace": self.key.namespace, "metadata.name": self.key.name, "status.podIP": self.address}
        return known[path] if path else variable.get("value", "")

    async def _account(self):
        """Mount the token of the service account, bound to the pod, where pods find it."""
        if not self.spec.get("automountServiceAccountToken", True):
            return []
        bound = ["--bound-object-kind", "Pod", "--bound-object-name", self.key.name]
        command = ["create", "token", self.spec["serviceAccountName"], "--namespace", self.key.namespace, *bound]
        token = await asyncio.to_thread(self.kubelet.kubectl, *command)
        directory = self.directory / "account"
        directory.mkdir()
        (directory / "token").write_text(token.strip())
        (directory / "namespace").write_text(self.key.namespace)
        (directory / "ca.crt").write_bytes(self.kubelet.server.ca_file.read_bytes())
        return [(directory, ACCOUNT)]

    async def _volumes(self):
        mounts = []
        for volume in self.spec.get("volumes", ()):
            directory = self.directory / "volumes" / volume["name"]
            directory.mkdir(parents=True)
            await self._fill(volume, directory)
            mounts += [
                (directory / mount.get("subPath", ""), mount["mountPath"])
                for mount in self.described.get("volumeMounts", ())
                if mount["name"] == volume["name"]
            ]
        return mounts

    async def _fill(self, volume, directory):
        """Write the files of a ConfigMap or of a Secret, as they are now."""
        client, namespace = self.kubelet.client, self.key.namespace
        if "configMap" in volume:
            found = await client.get(untyped(CONFIG_MAPS), volume["configMap"]["name"], namespace)
            files = {name: text.encode() for name, text in found.get("data", {}).items()}
        else:
            found = await client.get(untyped(SECRETS), volume["secret"]["secretName"], namespace)
            files = {name: base64.b64decode(text) for name, text in (found.get("data") or {}).items()}
        for name, content in files.items():
            if not (directory / name).exists() or (directory / name).read_bytes() != content:
                unfinished = self.directory / "unfinished"
                unfinished.write_bytes(content)
                unfinished.rename(directory / name)

    async def probe(self):
        """Follow the readiness probe until the pod ends; start the container again when it has ended by itself."""
        probe = self.described["readinessProbe"]
        get, ports = probe["httpGet"], {one["name"]: one["containerPort"] for one in self.described["ports"]}
        url = f"http://{self.address}:{ports.get(get['port'], get['port'])}{get['path']}"
        failures, probed = 0, 0.0
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(probe.get("timeoutSeconds", 1))) as session:
            while not self.ending:
                for volume in self.spec.get("volumes", ()):
                    if "secret" in volume:
                        with suppress(ApiError):
                            await self._fill(volume, self.directory / "volumes" / volume["name"])
                if self.container.process.poll() is not None:
                    self.exits += 1
                    await asyncio.sleep(BACKOFF_S)
                    self._start_container()
                period = probe.get("periodSeconds", 10) if self.ready else STARTING_PROBE_S
                if time.monotonic() - probed >= period:
                    probed = time.monotonic()
                    failures = 0 if await self._answers(session, url) else failures + 1
                    ready = failures < probe.get("failureThreshold", 3) if self.ready else failures == 0
                    if ready != self.ready and not self.ending:
                        self.ready = ready
                        with suppress(ApiError):
                            await self.kubelet.report(self.key, "Running", self.spec, ready=ready, address=self.address)
                await asyncio.sleep(LOOK_S)

    async def _answers(self, session, url):
        try:
            async with session.get(url) as response:
                return response.status < 400
        except (OSError, aiohttp.ClientError, TimeoutError):
            return False

    async def end(self):
        """End the process as a kubelet does, and then the pod."""
        grace_s = self.pod["spec"].get("terminationGracePeriodSeconds", 30)
        begun = time.monotonic()
        sleep = self.described.get("lifecycle", {}).get("preStop", {}).get("sleep", {})
        await asyncio.sleep(sleep.get("seconds", 0))
        self.container.terminate()
        with suppress(TimeoutError):
            await until(
                lambda: self.container.process.poll() is not None, within_s=grace_s - (time.monotonic() - begun)
            )
        self.container.kill()
        with suppress(NotFound):
            await self.kubelet.client.delete(untyped(PODS), self.key, grace_period_s=0)
