"""A process that runs units only has no use for pandas."""

from __future__ import annotations

import subprocess
import sys

import pytest

#: A scan of pyarrow's asks for a scalar, and says what is there of pandas then.
SCAN = "import sys; from pyarrow import dataset; sys.stdout.write(str('pandas' in sys.modules))"
LEFT_OUT = "from compactor.orc.codecs.pandas_shim import leave_pandas_out; leave_pandas_out(); "


@pytest.mark.parametrize(("before", "is_there"), [("", True), (LEFT_OUT, False)])
def test_pyarrow_imports_it_unless_it_is_left_out(before: str, is_there: bool) -> None:
    told = subprocess.run([sys.executable, "-c", before + SCAN], check=True, capture_output=True, text=True)
    assert told.stdout == str(is_there)
