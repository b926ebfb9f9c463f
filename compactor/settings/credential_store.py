"""Reads secrets from Hadoop's credential store, a ``.jceks`` file with a password.

The format is Java's JCEKS key store, in which Hadoop's ``LocalJavaKeyStoreProvider`` keeps each secret as a key sealed
with PBEWithMD5AndTripleDES: entries of a tag, an alias, a time and a serialised ``SealedObjectForKeyProtector``, then a
digest of all of it with the password.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import struct

from compactor.base.errors import BadSetting, NotSupported

#: Hadoop's default if neither HADOOP_CREDSTORE_PASSWORD nor a password file is set.
DEFAULT_PASSWORD = "none"
_MAGIC, _SECRET_KEY, _DIGEST = 0xCECECECE, 3, 20
_WHITENER = b"Mighty Aphrodite"  # of Java's key stores
_NEW_ARRAY = re.compile(rb"ur\x00\x02\[B.{8}\x02\x00\x00xp(.{4})", re.DOTALL)
_NEXT_ARRAY = re.compile(rb"uq\x00\x7e..(.{4})", re.DOTALL)
_PARAMETERS = re.compile(rb"\x30.\x04\x08(.{8})\x02(.)", re.DOTALL)


def read_stored_secret(store: bytes, alias: str, password: str, name: str) -> str | None:
    """Returns the secret stored under ``alias`` (Hadoop stores aliases in lower case); None without one.

    Args:
        name: of the store, for messages.

    Raises:
        BadSetting: the bytes are not a store of this kind, or the password is wrong.
        NotSupported: the library for its cipher is not installed.
    """
    body, digest = store[:-_DIGEST], store[-_DIGEST:]
    if len(body) < 12 or struct.unpack_from(">I", body)[0] != _MAGIC:
        raise BadSetting(
            f"{name}: not a credential store of Hadoop (JCEKS); create one with `hadoop credential create`"
        )
    if not hmac.compare_digest(hashlib.sha1(password.encode("utf-16-be") + _WHITENER + body).digest(), digest):
        raise BadSetting(
            f"{name}: the password is wrong, or the file is damaged; set HADOOP_CREDSTORE_PASSWORD as for Hadoop"
        )
    sealed = _find_entry(body, alias.lower(), name)
    return None if sealed is None else _parse_key(_unseal(sealed, password, name), name).decode("utf-8")


def _find_entry(body: bytes, alias: str, name: str) -> bytes | None:
    """Returns the serialised object of ``alias``, which ends where the next entry begins."""
    _, _, count = struct.unpack_from(">III", body)
    heads = [m.start() for m in re.finditer(rb"\x00\x00\x00\x03\x00.(?=[\x20-\x7e]+\x00\x00)", body, re.DOTALL)]
    starts = [at for at in heads if _is_head(body, at)]
    if len(starts) != count:
        raise BadSetting(f"{name}: holds {count} entries and {len(starts)} secrets; expected secrets only")
    for start, end in zip(starts, [*starts[1:], len(body)], strict=True):
        (length,) = struct.unpack_from(">H", body, start + 4)
        if body[start + 6 : start + 6 + length].decode("utf-8") == alias:
            return body[start + 14 + length : end]
    return None


def _is_head(body: bytes, at: int) -> bool:
    """Returns true if an entry begins at ``at``.

    An entry begins with a tag, an alias and a time, then the magic number of Java's serialisation.
    """
    (length,) = struct.unpack_from(">H", body, at + 4)
    return body[at + 14 + length : at + 18 + length] == b"\xac\xed\x00\x05"


def _unseal(sealed: bytes, password: str, name: str) -> bytes:
    try:
        from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
        from cryptography.hazmat.primitives.ciphers import Cipher, modes
        from cryptography.hazmat.primitives.padding import PKCS7
    except ImportError as error:
        raise NotSupported(
            f"{name}: reading it needs cryptography; install it with `pip install 'hive-compactor[jceks]'`"
        ) from error
    first = _NEW_ARRAY.search(sealed)
    parameters = _PARAMETERS.match(_read_array(sealed, first)) if first else None
    second = _NEXT_ARRAY.search(sealed, first.end() + len(_read_array(sealed, first))) if first else None
    if parameters is None or second is None:
        raise BadSetting(f"{name}: a secret is sealed in an unknown way; expected PBEWithMD5AndTripleDES")
    size = parameters.group(2)[0]
    iterations = int.from_bytes(_read_array(sealed, first)[parameters.end() : parameters.end() + size], "big")
    key, vector = _derive_key(password, parameters.group(1), iterations)
    cipher = Cipher(TripleDES(key), modes.CBC(vector)).decryptor()
    plain = cipher.update(_read_array(sealed, second)) + cipher.finalize()
    unpadder = PKCS7(64).unpadder()
    return unpadder.update(plain) + unpadder.finalize()


def _derive_key(password: str, salt: bytes, iterations: int) -> tuple[bytes, bytes]:
    """Derives key and initial vector as Java's ``PBES1Core`` does.

    Each half of the salt is digested separately.
    """
    derived = b""
    for digest in (salt[:4], salt[4:]):
        for _ in range(iterations):
            digest = hashlib.md5(digest + password.encode("ascii")).digest()
        derived += digest
    return derived[:24], derived[24:]


def _parse_key(key: bytes, name: str) -> bytes:
    """Returns the bytes of a serialised ``SecretKeySpec``."""
    match = _NEW_ARRAY.search(key)
    if match is None:
        raise BadSetting(f"{name}: it holds a secret that Hadoop did not store; expected a SecretKeySpec")
    return _read_array(key, match)


def _read_array(data: bytes, at: re.Match[bytes] | None) -> bytes:
    assert at is not None
    (length,) = struct.unpack(">I", at.group(1))
    return data[at.end() : at.end() + length]
