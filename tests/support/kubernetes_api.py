"""An API server of Kubernetes that starts nothing: it records what a client makes, and answers as if it had made it."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import yaml

_NOT_FOUND = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}


@dataclass(slots=True, kw_only=True)
class KubernetesApi:
    """A recording server; ``made`` has each object with its path, in order."""

    url: str = ""
    made: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def of_kind(self, kind: str) -> list[dict[str, Any]]:
        return [made for _, made in self.made if made["kind"] == kind]


@contextmanager
def kubernetes_api() -> Iterator[KubernetesApi]:
    """Serves on loopback until the block ends."""
    api = KubernetesApi()
    with ThreadingHTTPServer(("127.0.0.1", 0), _handler(api)) as server:
        api.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield api
        finally:
            server.shutdown()
            thread.join()


def _handler(api: KubernetesApi) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _made(self) -> None:
            body = yaml.safe_load(self.rfile.read(int(self.headers.get("Content-Length") or 0)))
            path = self.path.partition("?")[0]
            api.asked.append(f"{self.command} {path}")
            api.made.append((path, body))
            metadata = {**body["metadata"], "uid": str(uuid.uuid4()), "resourceVersion": "1"}
            self._answer(201 if self.command == "POST" else 200, {**body, "metadata": metadata})

        def _nothing(self) -> None:
            api.asked.append(f"{self.command} {self.path.partition('?')[0]}")
            self._answer(404, _NOT_FOUND)

        def _answer(self, status: int, content: Mapping[str, Any]) -> None:
            text = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: object) -> None:
            """Logs nothing: ``asked`` records what came."""

        do_POST = do_PUT = do_PATCH = _made  # noqa: N815
        do_GET = do_DELETE = _nothing  # noqa: N815

    return Handler
