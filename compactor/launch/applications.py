"""Finds, watches and ends applications of batches by their recorded names: processes of this machine, or YARN's.

Of other applications, or if YARN cannot be asked, only the rows of our state tell something.
"""

from __future__ import annotations

import logging
import os

from compactor.base.errors import ClusterUnavailable
from compactor.launch import driver_processes
from compactor.launch.resource_manager import configured_manager
from compactor.launch.yarn_application import YarnApplication, is_application
from compactor.launch.yarn_refusal import find_reason

log = logging.getLogger(__name__)


def find_on_yarn(name: str | None) -> YarnApplication | None:
    """Returns an application as YARN lists it; None if YARN does not know it or cannot be asked from here."""
    manager = configured_manager(os.environ)
    if manager is None or name is None or not is_application(name):
        return None
    try:
        return manager.application(name)
    except ClusterUnavailable as error:
        log.warning("application %s: %s", name, error)
        return None


def find_running(tag: str) -> str | None:
    """Returns the newest running application with this tag on YARN; None if there is none or YARN cannot be asked."""
    manager = configured_manager(os.environ)
    try:
        tagged = manager.tagged(tag) if manager is not None else ()
    except ClusterUnavailable as error:
        log.warning("tag %s: %s", tag, error)
        return None
    return next((application.id for application in reversed(tagged) if not application.has_ended), None)


def describe_end(name: str | None) -> str | None:
    """Returns how the application has ended; None if it runs or if that cannot be known here."""
    if driver_processes.is_gone(name):
        return "its process is gone"
    application = find_on_yarn(name)
    if application is None or not application.has_ended:
        return None
    manager = configured_manager(os.environ)
    was_killed = application.state == "KILLED"
    driver_reason = None if manager is None or was_killed else find_reason(manager.driver_output(application))
    because = driver_reason or application.diagnostics.strip()
    return f"YARN says {application.verdict}" + (f": {because}" if because else "")


def end(name: str | None) -> None:
    """Ends the application, if it is a process of this machine or one of YARN's."""
    if driver_processes.end(name) or name is None or not is_application(name):
        return
    manager = configured_manager(os.environ)
    try:
        if manager is not None and manager.kill(name):
            log.info("application %s: asked YARN to end it", name)
    except ClusterUnavailable as error:
        log.warning("application %s: we cannot end it; its driver ends once it sees our state: %s", name, error)
