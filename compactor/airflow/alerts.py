"""Sends a metastore's readings to Airflow's metrics, and new alarms to a notifier. Imported when a task runs.

Gauges are ``compactor.<metastore>.<reading>`` and ``compactor.<metastore>.alarms``, by statsd or OpenTelemetry as Airflow
is configured.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from typing import Any

from airflow.sdk import Variable
from airflow.sdk.module_loading import import_string
from airflow.sdk.observability import stats

from compactor.airflow.configuration import text
from compactor.airflow.hooks import CompactorHook
from compactor.answers.alarms import Alarm, raised_alarms
from compactor.answers.readings import Readings, take_readings
from compactor.base.errors import BadSetting
from compactor.site.finding import Level

log = logging.getLogger(__name__)


def variable(metastore: str) -> str:
    """Returns the name of the Airflow variable that lists the alarms already notified."""
    return f"compactor_alarms__{metastore}"


def watch(metastore: str, context: Mapping[str, Any]) -> list[dict[str, object]]:
    """Checks a metastore once: sends metrics, logs every alarm and notifies of the new ones.

    Raises:
        BadSetting: the configured notifier does not exist.
    """
    with CompactorHook(metastore).get_conn() as site:
        found = take_readings(site)
        holding = raised_alarms(found, site.settings)
    measure(metastore, found, holding)
    for alarm in holding:
        log.log(logging.ERROR if alarm.level is Level.FAIL else logging.WARNING, "%s; %s", alarm.message, alarm.fix)
    notified = set(json.loads(Variable.get(variable(metastore), default="[]")))
    now = {f"{alarm.name}:{alarm.level.value}" for alarm in holding}
    fresh = [alarm for alarm in holding if f"{alarm.name}:{alarm.level.value}" not in notified]
    notifier = configured_notifier()
    if fresh and notifier is not None:
        notifier({**context, "metastore": metastore, "alarms": [alarm.to_json() for alarm in fresh]})
    if now != notified:
        Variable.set(variable(metastore), json.dumps(sorted(now)))
    return [alarm.to_json() for alarm in holding]


def measure(metastore: str, found: Readings, holding: tuple[Alarm, ...]) -> None:
    """Sends a gauge for each reading and for the number of alarms."""
    for name, value in found.to_json().items():
        stats.gauge(f"compactor.{metastore}.{name}", value)
    stats.gauge(f"compactor.{metastore}.alarms", len(holding))


def configured_notifier() -> Callable[[Mapping[str, Any]], object] | None:
    """Returns the object named by ``[compactor] notifier``, called with a context like every notifier of Airflow.

    Raises:
        BadSetting: there is no such object, or it cannot be called.
    """
    path = text("notifier")
    if not path:
        return None
    try:
        found: object = import_string(path)
    except ImportError as error:
        raise BadSetting(
            f"[compactor] notifier of Airflow's configuration: {path!r} cannot be imported: {error}"
        ) from error
    if not callable(found) or isinstance(found, type):
        raise BadSetting(
            f"[compactor] notifier of Airflow's configuration: {path!r} is {found!r}; wanted: an instance of a notifier, "
            "such as an SmtpNotifier(...) in a module of yours"
        )
    return found
