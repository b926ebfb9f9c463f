"""A process that runs only units does not need pandas."""

from __future__ import annotations

import subprocess
import sys

import pytest

#: Makes pyarrow scan, which needs a scalar, and prints whether pandas was imported.
SCAN = "import sys; from pyarrow import dataset; sys.stdout.write(str('pandas' in sys.modules))"
EXCLUDED = "from compactor.orc.codecs.without_pandas import exclude_pandas; exclude_pandas(); "


@pytest.mark.parametrize(("before", "is_there"), [("", True), (EXCLUDED, False)])
def test_pyarrow_imports_pandas_unless_it_is_excluded(before: str, is_there: bool) -> None:
    done = subprocess.run([sys.executable, "-c", before + SCAN], check=True, capture_output=True, text=True)
    assert done.stdout == str(is_there)
