"""A printable row of an answer, whose fields are its columns."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Something printable; its fields are the columns."""

    def to_json(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in self.columns()}

    @classmethod
    def columns(cls) -> tuple[str, ...]:
        return tuple(cls.__dataclass_fields__)
