"""The file in which Hadoop gives a process its tokens."""

from __future__ import annotations

import base64
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from compactor.base.errors import BadSetting
from compactor.storage.hadoop_tokens import HadoopToken, parse_tokens, token_for


def field(value: bytes) -> bytes:
    """As ``WritableUtils`` writes it."""
    length = len(value)
    if length < 128:
        return bytes([length]) + value
    return (bytes([0x8F, length]) if length < 256 else bytes([0x8E]) + length.to_bytes(2)) + value


def stored(*services: str, kind: str = "HDFS_DELEGATION_TOKEN", identifier: bytes = b"who") -> bytes:
    tokens = b"".join(
        b"".join(map(field, (b"alias", identifier, b"hush", kind.encode(), service.encode()))) for service in services
    )
    return b"HDTS\x00" + bytes([len(services)]) + tokens + b"\x00"  # no secret keys


def write_private(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    path.chmod(0o600)


@pytest.mark.parametrize("length", [0, 127, 128, 200, 256, 300])
def test_a_token_is_read_and_written_as_hadoop_does(length: int) -> None:
    (found,) = parse_tokens(stored("nn:8020", identifier=b"x" * length))
    assert found == HadoopToken(
        identifier=b"x" * length, password=b"hush", kind=b"HDFS_DELEGATION_TOKEN", service="nn:8020"
    )
    text = base64.urlsafe_b64decode(found.text + "=" * (-len(found.text) % 4))
    assert text == b"".join(map(field, (b"x" * length, b"hush", b"HDFS_DELEGATION_TOKEN", b"nn:8020")))
    assert "hush" not in repr(found)


@pytest.mark.parametrize(
    ("authority", "service"),
    [
        ("nn", "nn:8020"),
        ("NN:8020", "nn:8020"),
        ("ann@nn:9000", "nn:9000"),
        ("ns1", "ha-hdfs:ns1"),
        ("localhost", "127.0.0.1:8020"),
        ("localhost:9000", "127.0.0.1:9000"),
    ],
)
def test_a_cluster_by_any_name_of_its_service(authority: str, service: str, tmp_path: Path) -> None:
    write_private(tmp_path / "tokens", stored("other:8020", service))
    environment = {"HADOOP_TOKEN_FILE_LOCATION": str(tmp_path / "tokens")}
    found = token_for(authority, environment)
    assert found == parse_tokens(stored(service))[0].text


def test_no_token_of_another_cluster_or_service(tmp_path: Path) -> None:
    environment = {"HADOOP_TOKEN_FILE_LOCATION": str(tmp_path / "tokens")}
    write_private(tmp_path / "tokens", stored("other.invalid:8020"))
    assert token_for("nn.invalid", environment) is None
    assert token_for("other.invalid:9000", environment) is None
    write_private(tmp_path / "tokens", stored("nn.invalid:8020", kind="YARN_AM_RM_TOKEN"))
    assert token_for("nn.invalid", environment) is None
    assert token_for("nn.invalid", {}) is None


@pytest.mark.parametrize("content", [b"", b"HDTS\x01", b"PK", stored("nn:8020")[:20], b"HDTS\x00\x88"])
def test_a_file_that_is_none(content: bytes, tmp_path: Path) -> None:
    write_private(tmp_path / "tokens", content)
    with pytest.raises(BadSetting, match=r"HADOOP_TOKEN_FILE_LOCATION=.*/tokens: is not a file with tokens of Hadoop"):
        token_for("nn", {"HADOOP_TOKEN_FILE_LOCATION": str(tmp_path / "tokens")})


@pytest.fixture
def reachable() -> Iterator[Path]:
    """A directory that anybody may enter, unlike those of pytest."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.parametrize("mode", [0o644, 0o604, 0o660])
def test_a_file_that_others_may_read_is_not_used(mode: int, reachable: Path) -> None:
    write_private(reachable / "tokens", stored("nn:8020"))
    (reachable / "tokens").chmod(mode)
    with pytest.raises(BadSetting, match=rf"HADOOP_TOKEN_FILE_LOCATION .*/tokens: has mode {mode:04o}; expected: 0600"):
        token_for("nn", {"HADOOP_TOKEN_FILE_LOCATION": str(reachable / "tokens")})


def test_a_directory_may_keep_others_out(reachable: Path) -> None:
    """As a NodeManager makes them for an application: mode 0710."""
    folder = reachable / "appcache" / "container"
    folder.mkdir(parents=True)
    write_private(folder / "tokens", stored("nn:8020"))
    (folder / "tokens").chmod(0o644)
    environment = {"HADOOP_TOKEN_FILE_LOCATION": str(folder / "tokens")}
    with pytest.raises(BadSetting, match="has mode 0644"):
        token_for("nn", environment)
    folder.parent.chmod(0o710)
    assert token_for("nn", environment) is not None
    (folder / "tokens").chmod(0o646)
    with pytest.raises(BadSetting, match="has mode 0646"):
        token_for("nn", environment)
