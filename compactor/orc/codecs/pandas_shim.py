"""What pyarrow does the first time it is asked for a scalar: it looks for pandas, which takes longer than many a unit."""

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
            raise ModuleNotFoundError("this process runs units only, which have no use for pandas", name=fullname)
        return None


def leave_pandas_out() -> None:
    """Has pandas not be found in this process. For those that run our units only: others may have a use for it."""
    sys.meta_path.insert(0, _NoPandas())
