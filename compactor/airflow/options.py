"""The keys of section ``[compactor]`` in Airflow's configuration, and the page of docs with them."""

from __future__ import annotations

import sys
from dataclasses import dataclass

SECTION = "compactor"
CONNECTION_TYPE = "hive_compactor"
PREFIX = "/compactor"  #: of the page's URLs, below Airflow's own


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One key of the section, as shown by ``airflow config list`` and ``provider_info``."""

    type: str
    default: str
    description: str
    example: str | None = None


OPTIONS: dict[str, Option] = {
    "metastores": Option(
        type="string",
        default="default",
        example="default,archive",
        description="Names of the metastores to compact, separated by commas. Each gets its own five DAGs.",
    ),
    "config": Option(
        type="string",
        default="",
        example="/etc/compactor/compactor.toml",
        description="Path of compactor.toml. Empty: the environment variables COMPACTOR_* configure everything.",
    ),
    "conn_id": Option(
        type="string",
        default="",
        example="compactor_{metastore}",
        description="Airflow connection of type hive_compactor for a metastore; {metastore} stands for its name. Empty: "
        "compactor.toml and the environment configure the connection.",
    ),
    "pool": Option(
        type="string",
        default="default_pool",
        example="compaction",
        description="Airflow pool of the tasks that submit to Spark; its slots limit the number of applications at a time.",
    ),
    "airflow_pools": Option(
        type="string",
        default="",
        example="night=compaction_night,etl=compaction_etl",
        description="Compaction pool = Airflow pool, separated by commas: requests of these pools are submitted by tasks "
        "of their own, which wait for slots of that Airflow pool. Empty: all use the pool above.",
    ),
    "only_pools": Option(
        type="string",
        default="",
        example="pilot,etl",
        description="Compaction pools whose requests the worker DAG takes, separated by commas; default is the pool of "
        "requests without one. Other requests stay in the queue, for other workers. Empty: all.",
    ),
    "approval_bytes": Option(
        type="string",
        default="",
        example="1TB",
        description="A person must approve a compact_table that would read more than this. Empty: no approval is needed.",
    ),
    "linger": Option(
        type="string",
        default="",
        example="600",
        description="Seconds that an application without a slot waits for further batches after its own, to save "
        "start-ups. Empty: it ends.",
    ),
    "spark_conn_id": Option(
        type="string",
        default="spark_default",
        description="Airflow connection of the cluster. Without such a connection Spark runs as local[*].",
    ),
    "spark_binary": Option(
        type="string",
        default="spark-submit",
        example="/opt/spark/bin/spark-submit",
        description="The command that submits: a name on PATH (or next to the running python), or an absolute path. "
        "Unless it is set, the connection of the cluster may name spark2-submit or spark3-submit.",
    ),
    "deploy_mode": Option(
        type="string",
        default="",
        example="cluster",
        description="Where drivers run: client or cluster. Empty: as configured in the connection of the cluster.",
    ),
    "launcher": Option(
        type="string",
        default="spark-submit",
        example="process",
        description="How the task waits for a driver in client mode, which is a process on the worker's machine. With "
        "spark-submit the task waits in its slot and logs the driver's output; with process it waits without a slot. "
        "In cluster mode on YARN and Kubernetes no slot is held either way.",
    ),
    "driver_logs": Option(
        type="string",
        default="",
        example="/var/log/compactor",
        description="Folder for the output of drivers in client mode. Empty: compactor-drivers next to Airflow's logs. A "
        "driver whose output is in its task's log leaves nothing there.",
    ),
    "principal": Option(
        type="string",
        default="",
        example="compactor/host@EXAMPLE.COM",
        description="Kerberos principal of applications that impersonate no user. Empty: the connection's.",
    ),
    "keytab": Option(
        type="string",
        default="",
        example="/etc/security/keytabs/compactor.keytab",
        description="Path of the principal's keytab. Empty: the connection's.",
    ),
    "table_assets": Option(
        type="boolean",
        default="True",
        description="Whether a finished batch creates an event of asset hive://METASTORE/DATABASE/TABLE for each table it "
        "compacted, for DAGs that wait for one. A batch with a failed entry creates none.",
    ),
    "notifier": Option(
        type="string",
        default="",
        example="site_alerts.compaction",
        description="Dotted name of a notifier instance in a module of the site: it is called with the task's context and "
        "the new alarms. Empty: alarms are only logged and measured.",
    ),
    "poll_seconds": Option(
        type="float",
        default="5",
        description="Seconds between two checks of the change marker, and thus the minimum time between two scans.",
    ),
    "worker_interval": Option(
        type="integer",
        default="300",
        description="Seconds after which the worker checks the queue even without an event.",
    ),
    "cleaner_interval": Option(
        type="integer",
        default="60",
        description="Seconds after which the cleaner tries again, as readers that blocked it may have ended.",
    ),
    "housekeeper_interval": Option(
        type="integer",
        default="180",
        description="Seconds between two passes of the housekeeper: time-outs, history and write-set retention.",
    ),
}


_HEAD = f"""\
# Settings of the Airflow face

This page is generated by `python -m compactor.airflow.options > docs/airflow-settings.md`. [airflow.md](airflow.md)
explains how to use these settings; those of compaction itself are in [configuration.md](configuration.md).

## `[{SECTION}]` in airflow.cfg

Like every option of Airflow, each can be set in the file, or in the environment as `AIRFLOW__{SECTION.upper()}__OPTION`.
Options are read when DAGs are parsed and when tasks run.

| option | default | effect |
|---|---|---|
"""
_POOLS = """
## `[metastore.NAME.pool.POOL]` in compactor.toml

The policy of a compaction pool. `default` is the pool of requests that name none; a pool without a policy has no bounds.

| key | kind | default | effect |
|---|---|---|---|
"""


def render_page() -> str:
    """Renders the page: ``python -m compactor.airflow.options > docs/airflow-settings.md``."""
    from compactor.compaction.pool_policy import KEYS  # Airflow reads OPTIONS without the rest of Compactor

    lines = [_HEAD]
    for key, option in OPTIONS.items():
        example = f" For example `{option.example}`." if option.example else ""
        default = f"`{option.default}`" if option.default else "empty"
        lines.append(f"| `{key}` | {default} | {option.description}{example} |\n")
    lines.append(_POOLS)
    lines += [f"| `{key.key}` | {key.kind} | {key.default or 'none'} | {key.effect} |\n" for key in KEYS]
    return "".join(lines)


if __name__ == "__main__":
    sys.stdout.write(render_page())
