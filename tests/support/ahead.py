"""Starts the downloads that tests will need in a separate process, before they are needed.

They take minutes, nearly all of them waiting; meanwhile other tests run. A test that needs one still under way waits for
it. ``python -m tests.support.ahead FOLDER...``
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Collection, Mapping, Sequence

from tests.judges import iceberg_java, orc_java, orc_trino
from tests.support import azurite, hadoop, kerberos, ozone, servers, trino
from tests.support.downloads import ROOT
from tests.support.hive3 import HIVE_3_1
from tests.support.hive4 import HIVE_4_1
from tests.support.hive42 import HIVE_4_2
from tests.support.sizes import WHOLE

#: The downloads that the tests of a folder need, in the order in which they need them.
NEEDED: Mapping[str, Sequence[Callable[[], object]]] = {
    "tests/judges": (orc_java.jars, orc_trino.classpath, iceberg_java.classpath),
    "tests/contract": (servers.hive_schemas,),
    "tests/crash": (servers.hive_schemas,),
    "tests/storage": (hadoop.hadoop_jars, azurite.modules, *((ozone.ozone_jars,) if WHOLE else ())),
    "tests/cluster": (hadoop.yarn_jars, hadoop.hadoop_jars, kerberos.kerberos_libraries),
    "tests/live": (
        *(servers.hive_schemas, HIVE_4_1.classpath, trino.server, trino.java),
        trino.TRINO_483.download,
        *(HIVE_3_1.classpath, HIVE_4_2.classpath, HIVE_4_2.run_time),
    ),
}


def begin(folders: Collection[str]) -> Callable[[], None]:
    """Starts downloading what the tests of ``folders`` need; returns a function that stops it."""
    command = [sys.executable, "-m", "tests.support.ahead", *(folder for folder in NEEDED if folder in folders)]
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )

    def stop() -> None:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
        process.wait()

    return stop


def main(folders: Sequence[str]) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that nothing half done is left
    for folder in folders:
        for download in NEEDED[folder]:
            download()


if __name__ == "__main__":
    main(sys.argv[1:])
