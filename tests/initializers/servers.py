"""A few words of the Hub's API, and a line that breaks off."""

from __future__ import annotations

import hashlib
import json
import re
import socket
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

COMMIT = "c0ffee" * 6 + "abcd"


class HubServer:
    """
    Repositories by `KIND/NAME`, each a dict of path to content.

    Files of `large` bytes and more are told with their SHA-256, as from LFS; `told` overrides what is announced of a
    file. `refusals` holds answers given instead, one for each request whose path contains the key; None is no refusal.
    """

    def __init__(self, large=1000):
        self.repositories = {}
        self.large = large
        self.told = {}
        self.refusals = {}
        self.requests = []
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def files_sent(self):
        """Which files were asked for, and from which byte on."""
        return [
            (unquote(path.rpartition(f"/resolve/{COMMIT}/")[2]), span)
            for path, span, _ in self.requests
            if "/resolve/" in path
        ]

    def _handler(hub):  # noqa: N805 -- the handler has a self of its own
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                path = urlsplit(self.path).path
                hub.requests.append((path, self.headers.get("Range"), self.headers.get("Authorization")))
                answers = next((answers for part, answers in hub.refusals.items() if part in path and answers), None)
                if answers and (answer := answers.pop(0)):
                    status, headers = answer
                    self.answer(status, b"", headers)
                else:
                    self.answer(*hub.answer(path, self.headers.get("Range")))

            def answer(self, status, body, headers=()):
                self.send_response(status)
                for name, value in dict(headers).items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                with suppress(OSError):
                    self.wfile.write(body)

        return Handler

    def answer(self, path, span):
        if found := re.fullmatch(rf"/api/(dataset|model)s/(.+)/tree/{COMMIT}", path):
            kind, name = found.groups()
            return self._json([self._told(path, body) for path, body in self.repositories[f"{kind}/{name}"].items()])
        if found := re.fullmatch(r"/api/(dataset|model)s/(.+?)(?:/revision/[^/]+)?", path):
            kind, name = found.groups()
            return self._json({"id": name, "sha": COMMIT}) if f"{kind}/{name}" in self.repositories else (404, b"")
        if found := re.fullmatch(rf"/(datasets/)?(.+)/resolve/{COMMIT}/(.+)", path):
            dataset, name, file = found.groups()
            body = self.repositories[f"{'dataset' if dataset else 'model'}/{name}"].get(unquote(file))
            if body is None:
                return 404, b""
            start = int(re.fullmatch(r"bytes=(\d+)-", span)[1]) if span else 0
            return (206 if span else 200), body[start:]
        return 404, b""

    def _told(self, path, body):
        git = hashlib.sha1(b"blob %d\0" % len(body) + body).hexdigest()
        entry = {"type": "file", "path": path, "size": len(body), "oid": git}
        if len(body) >= self.large:
            sha256 = hashlib.sha256(body).hexdigest()
            entry["lfs"] = {"oid": sha256, "size": len(body), "pointerSize": 130}
        return entry | self.told.get(path, {})

    @staticmethod
    def _json(value):
        return 200, json.dumps(value).encode(), {"Content-Type": "application/json"}


class BadLine:
    """Passes connections on to a server, and cuts the first `times` of them that send more than `after` bytes back."""

    def __init__(self, url, *, after, times):
        self._to = (urlsplit(url).hostname, urlsplit(url).port)
        self._after = after
        self.left = times
        self.bytes = 0
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self):
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        self._listener.close()

    def _accept(self):
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(self._to)
                threading.Thread(target=self._forth, args=(near, far), daemon=True).start()
                threading.Thread(target=self._back, args=(far, near), daemon=True).start()

    def _forth(self, near, far):
        with suppress(OSError):
            while data := near.recv(65536):
                far.sendall(data)
            far.shutdown(socket.SHUT_WR)

    def _back(self, far, near):
        passed = 0
        with suppress(OSError), far, near:
            while data := far.recv(65536):
                with self._lock:
                    cut = self.left > 0 and passed + len(data) > self._after
                    self.left -= cut
                data = data[: self._after - passed] if cut else data
                near.sendall(data)
                passed += len(data)
                self.bytes += len(data)
                if cut:
                    near.shutdown(socket.SHUT_RDWR)
                    return
