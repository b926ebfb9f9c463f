"""Requests to HDFS: which host is asked, and what is sent to it."""

from __future__ import annotations

import base64
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
import requests

from compactor.base.errors import AccessDenied, NotSupported, StorageError
from compactor.storage.hdfs import HdfsStorage
from compactor.storage.hdfs_client import RemoteError, _error_in, hdfs_errors, host_of
from compactor.storage.kerberos_errors import UNPROVEN
from compactor.storage.store_options import StoreOptions


@pytest.mark.parametrize(
    ("authority", "host"),
    [("nn:8020", "nn"), ("ann@nn", "nn"), ("[::1]:8020", "[::1]"), ("[::1]", "[::1]"), ("10.0.0.1:1", "10.0.0.1")],
)
def test_the_host_of_an_authority(authority: str, host: str) -> None:
    assert host_of(authority) == host


class Node:
    """An HTTP server on loopback that keeps each request's method, path and Authorization."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, str | None]] = []
        self.location: str | None = None
        node = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                node.seen.append((self.command, self.path, self.headers.get("Authorization")))
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                body = b'{"FileStatus": {"length": 3, "type": "FILE"}}'
                is_moved = node.location is not None and ("op=CREATE" in self.path or "op=OPEN" in self.path)
                self.send_response(307 if is_moved else 200)
                if is_moved:
                    self.send_header("Location", f"{node.location}/webhdfs/v1/t/f?op=X&delegation=of-the-node")
                self.send_header("Content-Length", str(0 if is_moved else len(body)))
                self.end_headers()
                if not is_moved:
                    self.wfile.write(body)

            def do_PUT(self) -> None:
                self.do_GET()

            def log_message(self, *_: object) -> None:
                """Prints nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})

    def __enter__(self) -> Node:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def name_node() -> Iterator[Node]:
    with Node() as found:
        yield found


@pytest.fixture
def data_node() -> Iterator[Node]:
    with Node() as found:
        yield found


def test_a_data_node_gets_no_password(name_node: Node, data_node: Node) -> None:
    """A NameNode names the data node; the token for it is in the address."""
    name_node.location = data_node.url
    store = HdfsStorage(StoreOptions.from_tables({"hdfs": {"url": name_node.url, "user": "ann", "password": "hush"}}))
    store.write("hdfs://nn/t/f", b"123")
    store.read("hdfs://nn/t/f")
    password = f"Basic {base64.b64encode(b'ann:hush').decode()}"
    assert {authorization for _, _, authorization in name_node.seen} == {password}
    assert [(method, authorization) for method, _, authorization in data_node.seen] == [("PUT", None), ("GET", None)]


def test_a_gateway_that_names_itself_gets_it_again(name_node: Node) -> None:
    """It redirects to another path of its own, to which all bytes go."""
    name_node.location = f"{name_node.url}/data"
    store = HdfsStorage(StoreOptions.from_tables({"hdfs": {"url": name_node.url, "user": "ann", "password": "hush"}}))
    store.write("hdfs://nn/t/f", b"123")
    store.read("hdfs://nn/t/f")
    assert [path for _, path, _ in name_node.seen if path.startswith("/data/")]
    assert [authorization is not None for _, _, authorization in name_node.seen] == [True] * len(name_node.seen)


def test_the_authority_that_is_configured_goes_before_that_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """``requests`` prefers REQUESTS_CA_BUNDLE to what a session says."""
    seen: list[object] = []

    def send(self: object, request: object, *, verify: object, **_: object) -> None:
        seen.append(verify)
        raise requests.ConnectionError("enough")

    monkeypatch.setattr(requests.Session, "send", send)
    for options in ({"ca_file": "/ca.pem"}, {}):
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/of-the-environment.pem")
        with pytest.raises(StorageError, match="no answer"):
            HdfsStorage(StoreOptions.from_tables({"hdfs": {"url": "https://nn:9871", **options}})).length("hdfs://nn/f")
    assert seen == ["/ca.pem", "/of-the-environment.pem"]


def test_a_missing_module_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "compactor.storage.hdfs_kerberos", None)
    store = HdfsStorage(StoreOptions.from_tables({"hdfs": {"url": "http://nn:9870", "kerberos": True}}))
    with pytest.raises(
        NotSupported, match=r"hdfs://nn: Kerberos needs the extra: pip install .hive-compactor\[hdfs,ker"
    ):
        store.length("hdfs://nn/f")


def test_an_error_that_is_not_proven_to_be_the_name_nodes_says_nothing_about_files() -> None:
    """Somebody in between could answer so; that a file is gone is concluded from a NameNode's own word alone."""
    answer = requests.Response()
    answer.status_code = 404
    answer._content = (
        b'{"RemoteException": {"exception": "FileNotFoundException", "message": "File does not exist: /t"}}'
    )
    assert _error_in(answer).kind == "FileNotFoundException"
    setattr(answer, UNPROVEN, True)
    error = _error_in(answer)
    assert (error.kind, str(error)) == ("Http", "File does not exist: /t")


@pytest.mark.parametrize(
    ("kind", "is_denial"),
    [("AccessControlException", True), ("SecurityException", False), ("StandbyException", False), ("Http", False)],
)
def test_only_the_name_nodes_word_about_rights_is_a_denial(kind: str, is_denial: bool) -> None:
    with pytest.raises(StorageError) as caught, hdfs_errors("list", "hdfs://nn/w"):
        raise RemoteError(kind, "no")
    assert isinstance(caught.value, AccessDenied) is is_denial
