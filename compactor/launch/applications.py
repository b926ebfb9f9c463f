"""The applications of batches, by the name under which a launcher recorded them: a process of this machine, or one that YARN
knows. Of any other, and where nobody can be asked, only the rows of our state tell something.
"""

from __future__ import annotations

import logging
import os

from compactor.base.errors import ClusterUnavailable
from compactor.launch import driver_processes
from compactor.launch.resource_manager import resource_manager
from compactor.launch.yarn_application import YarnApplication, is_application
from compactor.launch.yarn_refusal import reason_in

log = logging.getLogger(__name__)


def on_yarn(name: str | None) -> YarnApplication | None:
    """Returns what YARN says of the application; None if it is not one of YARN's, or YARN cannot be asked from here."""
    manager = resource_manager(os.environ)
    if manager is None or name is None or not is_application(name):
        return None
    try:
        return manager.application(name)
    except ClusterUnavailable as error:
        log.warning("application %s: %s", name, error)
        return None


def running(tag: str) -> str | None:
    """Returns the newest application with this tag that has not ended on YARN; None if there is none, or nobody says."""
    manager = resource_manager(os.environ)
    try:
        found = manager.tagged(tag) if manager is not None else ()
    except ClusterUnavailable as error:
        log.warning("tag %s: %s", tag, error)
        return None
    return next((one.id for one in reversed(found) if not one.has_ended), None)


def ended(name: str | None) -> str | None:
    """Returns how the application has ended, if that can be known here."""
    if driver_processes.is_gone(name):
        return "its process is gone"
    found = on_yarn(name)
    if found is None or not found.has_ended:
        return None
    manager = resource_manager(os.environ)
    of_driver = reason_in(manager.driver_output(found)) if manager is not None and found.state != "KILLED" else None
    because = of_driver or found.diagnostics.strip()
    return f"YARN says {found.verdict}" + (f": {because}" if because else "")


def end(name: str | None) -> None:
    """Ends the application, if it is a process of this machine or one of YARN's."""
    if driver_processes.end(name) or name is None or not is_application(name):
        return
    manager = resource_manager(os.environ)
    try:
        if manager is not None and manager.kill(name):
            log.info("application %s: YARN was asked to end it", name)
    except ClusterUnavailable as error:
        log.warning("application %s is not ended by us; its driver does when it hears of it: %s", name, error)
