"""Excludes pandas. Pyarrow imports it with its first scalar, which takes longer than many units."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


class _NoPandas(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == "pandas":
            raise ModuleNotFoundError("this process runs only units, which do not use pandas", name=fullname)
        return None


def exclude_pandas() -> None:
    """Makes pandas unavailable in this process.

    Only for processes that run nothing but units: others may need it.
    """
    sys.meta_path.insert(0, _NoPandas())
