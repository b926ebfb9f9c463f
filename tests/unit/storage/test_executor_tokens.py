"""Tokens in place of tickets, over a NameNode that answers operations on tokens alone."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from urllib.parse import parse_qs, urlsplit

import pytest

from compactor.base.errors import StorageError, UnnamedPlace
from compactor.storage import executor_tokens
from compactor.storage.executor_tokens import ExecutorTokens
from compactor.storage.store_options import StoreOptions
from tests.support.patience import until
from tests.unit.storage.test_hadoop_tokens import stored, write_private

TICKET = {"kerberos": True, "principal": "compactor", "keytab": "/k", "proxy_to": "hive"}


class NameNode:
    """Gives tokens t1, t2 …, each valid for ``life`` seconds; ``seen`` has what was asked."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []
        self.life, self.gives = 1000.0, True
        node = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked = parse_qs(urlsplit(self.path).query)
                node.seen.append((asked["op"][0].removesuffix("DELEGATIONTOKEN"), asked.get("token", [""])[0]))
                body = json.dumps(node.answer(*node.seen[-1])).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_PUT = do_GET  # noqa: N815

            def log_message(self, *_: object) -> None:
                """Prints nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})

    def answer(self, operation: str, token: str) -> object:
        if operation == "RENEW":
            return {"long": int(1000 * (time.time() + self.life))}
        fetched = sum(operation == "GET" for operation, _ in self.seen)
        return {"Token": {"urlString": f"t{fetched}"} if self.gives else None} if operation == "GET" else {}

    def __enter__(self) -> NameNode:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Iterator[NameNode]:
    monkeypatch.setitem(sys.modules, "compactor.storage.hdfs_kerberos", SimpleNamespace(Negotiate=lambda options: None))
    monkeypatch.delenv("HADOOP_TOKEN_FILE_LOCATION", raising=False)
    with NameNode() as found:
        yield found


def options_of(node: NameNode, **more: object) -> StoreOptions:
    return StoreOptions.from_tables(
        {"hdfs": {"authorities": ["nn", "nn2"], "url": node.url, **TICKET, **more}, "s3": {"key": "k"}}
    )


def test_executors_get_a_token_and_nothing_of_the_log_in(node: NameNode) -> None:
    options = options_of(node)
    with ExecutorTokens() as tokens:
        found = tokens.standing_in(options, "hdfs://NN:8020/t")
        assert found.admitted("hdfs", "nn") == {"url": node.url, "token": "t1"}
        assert found.of_place("hdfs", "nn2") == {"url": node.url}
        assert found.of_place("s3", "b") == {"key": "k"}
        assert tokens.standing_in(options, "hdfs://NN:8020/other") == found
        assert tokens.standing_in(found, "hdfs://NN:8020/t") is found
        assert "t1" not in repr(found)
    assert node.seen == [("GET", ""), ("RENEW", "t1"), ("CANCEL", "t1")]


def test_each_cluster_has_its_own(node: NameNode) -> None:
    options = options_of(node)
    with ExecutorTokens() as tokens:
        found = [tokens.standing_in(options, f"hdfs://{name}/t").admitted("hdfs", name) for name in ("nn", "nn2")]
    assert [options["token"] for options in found] == ["t1", "t2"]
    assert node.seen[-2:] == [("CANCEL", "t1"), ("CANCEL", "t2")]


def test_without_kerberos_nothing_is_asked(node: NameNode) -> None:
    options = StoreOptions.from_tables({"hdfs": {"url": node.url, "user": "hive"}})
    with ExecutorTokens() as tokens:
        for location in ("hdfs://nn/t", "s3://b/t", "/t", "file:/t"):
            assert tokens.standing_in(options, location) is options
    assert node.seen == []


def test_it_is_renewed_before_it_expires(node: NameNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor_tokens, "_LEAST_S", 0.001)
    node.life = 0.02
    with ExecutorTokens() as tokens:
        tokens.standing_in(options_of(node), "hdfs://nn/t")
        until("it is renewed again and again", lambda: node.seen.count(("RENEW", "t1")) > 3)


def test_one_at_the_end_of_its_life_is_followed_by_another(node: NameNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor_tokens, "_LEAST_S", 0.001)
    options = options_of(node)
    node.life = 0.05
    with ExecutorTokens() as tokens:
        tokens.standing_in(options, "hdfs://nn/t")
        node.life = 0.01  # no renewal gives as much as the first one
        until("it is spent", lambda: tokens._tokens[0].spent)
        node.life = 1000.0
        assert tokens.standing_in(options, "hdfs://nn/t").of_place("hdfs", "nn")["token"] == "t2"
    assert ("CANCEL", "t2") in node.seen


def test_a_cluster_without_kerberos_gives_none(node: NameNode) -> None:
    node.gives = False
    with (
        ExecutorTokens() as tokens,
        pytest.raises(StorageError, match=r"hdfs://nn: it gives none, so it does not use"),
    ):
        tokens.standing_in(options_of(node), "hdfs://nn/t")


def test_one_that_cannot_be_cancelled_is_reported(
    node: NameNode, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tokens = ExecutorTokens()
    tokens.standing_in(options_of(node), "hdfs://nn/t")
    monkeypatch.setattr(tokens._tokens[0], "options", options_of(node, url="http://127.0.0.1:1"))
    tokens.cancel()
    assert "cannot cancel the delegation token of hdfs://nn: Connection: no answer" in caplog.text
    assert "t1" not in caplog.text


def test_a_token_of_yarn_is_passed_on(node: NameNode, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A container has no ticket, and may fetch no token."""
    write_private(tmp_path / "tokens", stored("nn:8020"))
    monkeypatch.setenv("HADOOP_TOKEN_FILE_LOCATION", str(tmp_path / "tokens"))
    options = StoreOptions.from_tables({"hdfs": {"authorities": ["nn"], "kerberos": True}})
    with ExecutorTokens() as tokens:
        assert list(tokens.standing_in(options, "hdfs://nn/t").of_place("hdfs", "nn")) == ["token"]
    assert node.seen == []


def test_a_place_that_is_not_named_is_not_asked(node: NameNode) -> None:
    options = StoreOptions.from_tables({"hdfs": {"authorities": ["nn"], "kerberos": True}})
    with ExecutorTokens() as tokens, pytest.raises(UnnamedPlace):
        tokens.standing_in(options, "hdfs://elsewhere/t")
