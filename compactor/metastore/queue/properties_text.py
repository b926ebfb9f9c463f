"""CQ_TBLPROPERTIES: a map as text, ``<n>:`` and per entry ``<length>:<key><length>:<value>`` (Hive's StringableMap).

Lengths count UTF-16 units, as Java's ``String.length`` does; -1 is null and reads as an empty text.
"""

from __future__ import annotations

from collections.abc import Mapping

from compactor.base.errors import BadName


def encode(properties: Mapping[str, str]) -> str:
    """The text for ``properties``, in their order."""
    entries = (f"{_length(key)}:{key}{_length(value)}:{value}" for key, value in properties.items())
    return f"{len(properties)}:" + "".join(entries)


def decode(text: str | None) -> dict[str, str]:
    """Returns the map that ``text`` encodes; an empty one for None or an empty text.

    Raises:
        BadName: the text ends early or a length is no number.
    """
    if not text:
        return {}
    reader = _TextReader(text)
    try:
        count = reader.number()
        pairs = [(reader.item(), reader.item()) for _ in range(count)]
    except ValueError as error:
        raise BadName(
            f"properties {text!r} of a compaction: expected <n>: and then <length>:<key><length>:<value> n times "
            f"({error}); repair the row's CQ_TBLPROPERTIES"
        ) from error
    return dict(pairs)


class _TextReader:
    def __init__(self, text: str) -> None:
        self._units = text.encode("utf-16-le", "surrogatepass")
        self._at = 0

    def number(self) -> int:
        end = self._units.find(b":\0", self._at)
        while end != -1 and end % 2:
            end = self._units.find(b":\0", end + 1)
        if end == -1:
            raise ValueError("a length without ':'")
        digits = self._units[self._at : end].decode("utf-16-le")
        self._at = end + 2
        return int(digits)

    def item(self) -> str:
        length = self.number()
        if length < 0:
            return ""
        end = self._at + 2 * length
        if end > len(self._units):
            raise ValueError(f"{length} characters announced, fewer are left")
        part = self._units[self._at : end].decode("utf-16-le", "surrogatepass")
        self._at = end
        return part


def _length(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
