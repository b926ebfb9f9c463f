"""``python -m compactor.spark_tables.keeper <pid of the driver> <folder> <descriptor>``.

``client`` starts it.
"""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

from compactor.spark_tables.driver_jvm import find_process
from compactor.spark_tables.keeper.dispatch import Dispatcher
from compactor.spark_tables.keeper.server import KeeperServer
from compactor.spark_tables.keeper_folder import Folder
from compactor.spark_tables.local_socket import listen

log = logging.getLogger("compactor.spark_tables.keeper")


def main(pid: int, root: Path, descriptor: int) -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    application = find_process(pid)
    folder = Folder(application, root)
    folder.check()
    folder.remove_old()
    with Dispatcher() as dispatcher, listen(folder.socket) as listening:
        # The starting process waits for this byte: requests may come from now on.
        os.write(descriptor, b"1")
        os.close(descriptor)
        log.info("keeper %d of the application in process %d is ready", os.getpid(), pid)
        reason = KeeperServer(listening, dispatcher, folder, application).serve()
        log.info("the keeper ends: %s", reason)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
