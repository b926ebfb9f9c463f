"""The keys of section ``[compactor]`` in Airflow's configuration, as data: no Airflow is imported to read them."""

from __future__ import annotations

from dataclasses import dataclass

SECTION = "compactor"
CONNECTION_TYPE = "hive_compactor"


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One key of the section: what ``airflow config list`` and ``provider_info`` say of it."""

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
        description="Path of compactor.toml. Empty: the environment variables COMPACTOR_* say it all.",
    ),
    "conn_id": Option(
        type="string",
        default="",
        example="compactor_{metastore}",
        description="Airflow connection of type hive_compactor that says where a metastore is; {metastore} stands for its "
        "name. Empty: compactor.toml and the environment say it.",
    ),
    "pool": Option(
        type="string",
        default="default_pool",
        example="compaction",
        description="Airflow pool of the tasks that submit to Spark: its slots bound the applications at one time.",
    ),
    "airflow_pools": Option(
        type="string",
        default="",
        example="night=compaction_night,etl=compaction_etl",
        description="Compaction pool = Airflow pool, separated by commas: requests of these pools are submitted by tasks "
        "of their own, which wait for slots of that Airflow pool. Empty: all are in the pool above.",
    ),
    "approval_bytes": Option(
        type="string",
        default="",
        example="1TB",
        description="Above this size of what compact_table would read, a person has to approve it. Empty: nobody is asked.",
    ),
    "linger": Option(
        type="string",
        default="",
        example="600",
        description="Seconds that an application without a slot waits for further batches after its own, so that a start "
        "is paid once. Empty: it ends.",
    ),
    "spark_conn_id": Option(
        type="string",
        default="spark_default",
        description="Airflow connection of the cluster. Where there is no such connection Spark runs as local[*].",
    ),
    "spark_binary": Option(
        type="string",
        default="spark-submit",
        example="/opt/spark/bin/spark-submit",
        description="The command that submits: a name on PATH (or beside the running python), or an absolute path.",
    ),
    "deploy_mode": Option(
        type="string",
        default="",
        example="cluster",
        description="Where drivers run: client or cluster. Empty: as the connection of the cluster says.",
    ),
    "launcher": Option(
        type="string",
        default="spark-submit",
        example="process",
        description="How a driver in client mode is started. With spark-submit it is a child of its task and holds a "
        "slot; with process it is a process of its own on the worker's machine, for which the task waits without a slot. "
        "In cluster mode on YARN and Kubernetes no slot is held either way.",
    ),
    "driver_logs": Option(
        type="string",
        default="",
        example="/var/log/compactor",
        description="Folder for the output of drivers that are processes of their own. Empty: compactor-drivers beside "
        "Airflow's logs.",
    ),
    "principal": Option(
        type="string",
        default="",
        example="compactor/host@EXAMPLE.COM",
        description="Kerberos principal of applications that run as nobody else. Empty: the connection's.",
    ),
    "keytab": Option(
        type="string",
        default="",
        example="/etc/security/keytabs/compactor.keytab",
        description="Path of the principal's keytab. Empty: the connection's.",
    ),
    "table_assets": Option(
        type="boolean",
        default="False",
        description="Whether a batch that has ended tells Airflow of each table that it compacted, as an event of asset "
        "hive://METASTORE/DATABASE/TABLE, for DAGs that wait for one. A batch of which an entry failed tells nothing.",
    ),
    "notifier": Option(
        type="string",
        default="",
        example="site_alerts.compaction",
        description="Dotted name of a notifier that is made already, in a module of the site: it is called with the "
        "task's context and the alarms that are new. Empty: they are logged and measured only.",
    ),
    "poll_seconds": Option(
        type="float",
        default="5",
        description="Seconds between two looks at the change marker, so also the least time between two scans.",
    ),
    "worker_interval": Option(
        type="integer",
        default="300",
        description="Seconds after which the worker looks at the queue though no event told it to.",
    ),
    "cleaner_interval": Option(
        type="integer",
        default="60",
        description="Seconds after which the cleaner looks again, for readers that were in its way may have ended.",
    ),
    "housekeeper_interval": Option(
        type="integer",
        default="180",
        description="Seconds between two passes of the housekeeper: time-outs, history and write-set retention.",
    ),
}
