"""
Metrics of pods in the form of the kubelet's cAdvisor (Kubernetes 1.36) and NVIDIA's DCGM exporter (3.3), made up.

A machine of tests has neither kubelet nor GPU. What is real is the form: names, labels and types, and the pods.
"""

import math
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

GPUS = 2
_COUNTERS = {
    "container_cpu_usage_seconds_total": 3.2,
    "container_network_receive_bytes_total": 5e6,
    "container_network_transmit_bytes_total": 4e6,
}
"""How much each grows in a second."""


def _lines(pods, now_s):
    for name, rate in _COUNTERS.items():
        yield f"# TYPE {name} counter"
        for number, (namespace, pod) in enumerate(pods):
            grown = rate * (1 + number / 10) * now_s
            labels = f'namespace="{namespace}",pod="{pod}"'
            if name.startswith("container_network"):
                yield f'{name}{{container="",interface="eth0",{labels}}} {grown}'
            else:
                yield f'{name}{{container="node",cpu="total",image="i",{labels}}} {grown}'
    yield "# TYPE container_memory_working_set_bytes gauge"
    for number, (namespace, pod) in enumerate(pods):
        used = (6 + number) * 2**30
        yield f'container_memory_working_set_bytes{{container="node",namespace="{namespace}",pod="{pod}"}} {used}'
    for name, scale in (
        ("DCGM_FI_DEV_GPU_UTIL", 90),
        ("DCGM_FI_DEV_FB_USED", 60_000),
        ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", 0.4),
    ):
        yield f"# TYPE {name} gauge"
        for number, (namespace, pod) in enumerate(pods):
            for gpu in range(GPUS):
                value = scale * (0.9 + 0.1 * math.sin(now_s / 20 + number + gpu))
                labels = f'gpu="{gpu}",UUID="GPU-{number}-{gpu}",container="node",namespace="{namespace}",pod="{pod}"'
                yield f"{name}{{{labels}}} {value}"


@contextmanager
def exporter(pods):
    """Serve the metrics of the pods that `pods()` returns, as (namespace, name); yields the port."""
    begin_s = time.monotonic()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            body = "\n".join([*_lines(pods(), time.monotonic() - begin_s), ""]).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments):
            """Keep quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
