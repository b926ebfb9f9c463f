"""Reads Hadoop's delegation tokens for this process (``HADOOP_TOKEN_FILE_LOCATION``).

YARN gives such a file to every container. An application there has no ticket; only these tokens prove who it is.

``Credentials.writeTokenStorageToOutputStream`` and ``Token.write`` define the format, ``Token.encodeToUrlString`` the text
of a token.
"""

from __future__ import annotations

import base64
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from compactor.base.errors import BadSetting
from compactor.base.private_files import read_secret

VARIABLE = "HADOOP_TOKEN_FILE_LOCATION"
_MAGIC = b"HDTS\x00"  #: with the version that Java writes; 1 is protobuf's
_KINDS = (b"HDFS_DELEGATION_TOKEN", b"WEBHDFS delegation", b"SWEBHDFS delegation")
_HIGH_AVAILABILITY = "ha-hdfs:"  #: before the name of a name service
_PORT = ":8020"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class HadoopToken:
    """A token of the service ``service``, such as ``10.0.0.1:8020``.

    It is secret: whoever has it is its user.
    """

    identifier: bytes
    password: bytes
    kind: bytes
    service: str

    @property
    def text(self) -> str:
        """The token as WebHDFS takes it."""
        parts = (self.identifier, self.password, self.kind, self.service.encode())
        return base64.urlsafe_b64encode(b"".join(map(_with_length, parts))).decode().rstrip("=")


def token_for(authority: str, environment: Mapping[str, str]) -> str | None:
    """Returns the text of this process's token for a cluster, or None.

    Raises:
        BadSetting: the file cannot be read, or others may read or replace it.
    """
    file = environment.get(VARIABLE)
    if not file:
        return None
    try:
        # a NodeManager without container-executor copies it with mode 0644 into a directory with mode 0710
        tokens = parse_tokens(read_secret(Path(file), VARIABLE, by_directory=True))
    except (ValueError, IndexError) as error:
        raise BadSetting(f"{VARIABLE}={file}: is not a file with tokens of Hadoop ({error})") from error
    names = _names(authority)
    return next((token.text for token in tokens if token.kind in _KINDS and token.service.lower() in names), None)


def parse_tokens(content: bytes) -> list[HadoopToken]:
    """Parses the tokens in a file's content.

    Raises:
        ValueError: the format is another one, or the content ends too early.
        IndexError: the content ends too early.
    """
    if not content.startswith(_MAGIC):
        raise ValueError(f"expected {_MAGIC!r} at its beginning, found {content[: len(_MAGIC)]!r}")
    rest = _Reader(content, len(_MAGIC))
    tokens = []
    for _ in range(rest.number()):
        rest.bytes()  # the name under which the application keeps it
        identifier, password, kind, service = (rest.bytes() for _ in range(4))
        tokens.append(HadoopToken(identifier=identifier, password=password, kind=kind, service=service.decode()))
    return tokens


def _names(authority: str) -> set[str]:
    """Returns the names that a token may use for the cluster.

    For ``nn:8020`` these are ``nn:8020``, its addresses as in ``10.0.0.1:8020`` (``use_ip``), and ``ha-hdfs:nn``.
    """
    place = authority.rpartition("@")[2].lower()
    host, _, port = place.removesuffix(_PORT).partition(":")
    port = f":{port}" if port else _PORT
    return {
        place,
        f"{host}{port}",
        f"{_HIGH_AVAILABILITY}{host}",
        *(f"{address}{port}" for address in _addresses(host)),
    }


def _addresses(host: str) -> Iterable[str]:
    try:
        return {str(address[4][0]) for address in socket.getaddrinfo(host, None, socket.AF_INET)}
    except OSError:  # a name service, not a host
        return ()


class _Reader:
    """Reads Hadoop's numbers and byte strings one after the other."""

    def __init__(self, content: bytes, at: int) -> None:
        self._content, self._at = content, at

    def number(self) -> int:
        """Reads a number that ``WritableUtils.writeVInt`` wrote; refuses a negative one."""
        first = int.from_bytes(self._content[self._at : self._at + 1], signed=True)
        length = 0 if first >= -112 else -112 - first
        if first < -120:
            raise ValueError("a length below zero")
        encoded = self._content[self._at : self._at + 1 + length]
        if len(encoded) != 1 + length:
            raise ValueError("it ends too early")
        self._at += 1 + length
        return int.from_bytes(encoded[1:]) if length else first

    def bytes(self) -> bytes:
        length = self.number()
        content = self._content[self._at : self._at + length]
        if length < 0 or len(content) != length:
            raise ValueError("it ends too early")
        self._at += length
        return content


def _with_length(value: bytes) -> bytes:
    """Returns a byte string after its length."""
    length = len(value)
    if length <= 127:
        return bytes([length]) + value
    number = length.to_bytes((length.bit_length() + 7) // 8)
    return bytes([256 - 112 - len(number)]) + number + value
