"""The stores' endpoints, users and credentials, as one value that travels to executors.

Its text is never shown: everything logged or raised goes through ``scrub``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from compactor.errors import BadSetting

SCHEMES: Mapping[str, str] = {
    "hdfs": "hdfs",
    "webhdfs": "hdfs",
    "swebhdfs": "hdfs",
    "s3": "s3",
    "s3a": "s3",
    "abfs": "abfs",
    "abfss": "abfs",
    "gs": "gs",
    "gcs": "gs",
}  #: scheme of a location -> kind of store
KINDS = tuple(dict.fromkeys(SCHEMES.values()))
_SECRET = re.compile(r"(?i)\b(delegation|token|password|sig|secret|key|x-amz-[a-z-]+)=[^&\s'\")]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOptions:
    """Options by kind of store (``hdfs``, ``s3``, ``abfs``, ``gs``), or by kind and place (``hdfs://cluster``,
    ``s3://bucket``), which take precedence. Options that are absent are left to the client, which reads its own
    environment."""

    text: str = field(default="{}", repr=False)

    @classmethod
    def of(cls, tables: Mapping[str, Mapping[str, Any]]) -> StoreOptions:
        """Returns the options of ``[storage.…]`` tables.

        Raises:
            BadSetting: a table names an unknown store.
        """
        for name, table in tables.items():
            kind = name.partition("://")[0]
            if kind not in KINDS:
                raise BadSetting(
                    f"[storage.{name}]: no such store; known are {', '.join(KINDS)}, each also with a place, as in "
                    '[storage."s3://bucket"]'
                )
            if not isinstance(table, Mapping):
                raise BadSetting(f"[storage.{name}]: is a value; wanted a table of options")
        return cls(text=json.dumps({name: dict(table) for name, table in tables.items()}, sort_keys=True, default=str))

    def of_place(self, kind: str, place: str) -> dict[str, Any]:
        """Returns the options for one host or bucket."""
        tables = json.loads(self.text)
        return {**tables.get(kind, {}), **tables.get(f"{kind}://{place}", {})}

    def of_kind(self, kind: str) -> dict[str, dict[str, Any]]:
        """Returns the options for each host or bucket that has some of its own."""
        tables: dict[str, dict[str, Any]] = json.loads(self.text)
        prefix = f"{kind}://"
        return {name[len(prefix) :]: table for name, table in tables.items() if name.startswith(prefix)}


def scrub(text: object) -> str:
    """Returns ``text`` without values that look like credentials in an address."""
    return _SECRET.sub(lambda found: f"{found[1]}=***", str(text))
