"""Every setting of compaction, transactions and locks as data: Hive's own, and ``compactor.*``.

Facts about Hive's keys: MetastoreConf (``metastore.*``, with its older ``hive.*`` name as the same setting) and
HiveConf of Hive 4. ``lookup`` takes any of a setting's names.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from compactor.base.errors import BadSetting
from compactor.settings.setting import Scope, Setting, SettingUnit, Value, parse

__all__ = ["CATALOGUE", "Scope", "Setting", "SettingUnit", "Value", "find", "lookup", "parse"]

_C, _R, _B, _T = SettingUnit.COUNT, SettingUnit.RATIO, SettingUnit.BOOLEAN, SettingUnit.TEXT
_MS, _S, _M, _H, _D = (
    SettingUnit.MILLISECONDS,
    SettingUnit.SECONDS,
    SettingUnit.MINUTES,
    SettingUnit.HOURS,
    SettingUnit.DAYS,
)
_ROWS_OF_TABLES = ("0", "1000")  #: rows of the history that a table may have kept


def _metastore(key: str, default: str, unit: SettingUnit, effect: str, *, minimum: int | None = 0) -> Setting:
    """Returns a site-wide setting of MetastoreConf.

    ``hive.<rest>`` is the old name, ``metastore.<rest>`` the new one.
    """
    new = "metastore." + key.removeprefix("hive.").removeprefix("metastore.")
    return Setting(key=key, aliases=(new,), default=default, unit=unit, effect=effect, minimum=minimum)


def _hive(key: str, default: str, unit: SettingUnit, effect: str, *, minimum: int | None = 0) -> Setting:
    """Returns a site-wide setting of HiveConf, under one name."""
    return Setting(key=key, default=default, unit=unit, effect=effect, minimum=minimum)


def _unused(key: str, default: str, unit: SettingUnit, effect: str, *aliases: str) -> Setting:
    """Returns a setting of Hive that Compactor knows but does not act on."""
    return Setting(key=key, aliases=aliases, default=default, unit=unit, effect=effect, honoured=False, minimum=None)


def _unused_metastore(key: str, default: str, unit: SettingUnit, effect: str) -> Setting:
    return _unused(key, default, unit, effect, "metastore." + key.removeprefix("hive.").removeprefix("metastore."))


def _history(key: str, default: str, effect: str) -> Setting:
    """Returns a number of rows of the history, which a database or a table may also set."""
    return replace(_metastore(key, default, _C, effect), scope=Scope.TABLE, of_tables=_ROWS_OF_TABLES)


def _table(key: str, default: str, unit: SettingUnit, effect: str, *aliases: str, minimum: int | None = 0) -> Setting:
    """Returns a setting that a database, a table or a request may also set."""
    return Setting(
        key=key, aliases=aliases, default=default, unit=unit, effect=effect, scope=Scope.TABLE, minimum=minimum
    )


_OWN = (
    Setting(
        key="compactor.mode",
        default="observe",
        unit=_T,
        choices=("observe", "request", "compact", "clean"),
        tightest=True,
        scope=Scope.TABLE,
        effect="How far Compactor goes: observe only reports what it would do, request also enqueues, compact also "
        "compacts, clean also cleans. The tightest of metastore, database and table wins. An embedded metastore starts "
        "with clean.",
    ),
    Setting(
        key="compactor.readers",
        default="any",
        unit=_T,
        choices=("strict", "trino", "any", "visibility"),
        tightest=True,
        scope=Scope.TABLE,
        effect="Which readers the tables have. visibility: only readers that honour visibility (Hive 4, Compactor); for "
        "them a minor compaction's two directories are named without a lock. any: other readers, too. strict: any "
        "reader may read, and no result is published that takes two renames; such a minor becomes a major, and a "
        "rebalance is refused. With strict and trino, delete deltas of Hive 4 that Trino does not apply make a minor "
        "compaction due at once.",
    ),
    _table(
        "compactor.naming.delay",
        "false",
        _B,
        "Whether a compaction takes only data that every open transaction sees, so that running queries of a reader without "
        "visibility (Trino) do not fail. The rest waits in the queue until older transactions have ended.",
    ),
    Setting(
        key="compactor.paused",
        default="false",
        unit=_B,
        scope=Scope.TABLE,
        effect="Whether Compactor's initiator stops requesting compactions. Queued and manual requests go on, and so does "
        "Hive's own initiator, which only knows no_auto_compaction.",
    ),
    _hive(
        "compactor.memory",
        "",
        _T,
        "Existing folder (an absolute path or a URI on any supported store) that keeps the metastore's counters outside of "
        "its database, so that a restore of an older database is noticed. Every process must see the same folder. Empty: "
        "the folder of an embedded metastore's file, otherwise `.compactor/memory` in the warehouse if one is configured.",
    ),
    _hive("compactor.lock.wait", "60s", _S, "How long Compactor retries a lock for which readers must not queue."),
    _hive(
        "compactor.lost.workers",
        "3",
        _C,
        "Number of workers that a request may lose (killed, out of memory, silent for hive.txn.timeout). Then it fails "
        "instead of being queued again, since it may be the cause.",
        minimum=1,
    ),
    _hive(
        "compactor.forget.grace",
        "1h",
        _H,
        "How long Compactor keeps the files of an aborted transaction after it first saw the abort, and how long after "
        "their removal it waits before it forgets the transaction. A task may still write late, and a metastore "
        "restored from a backup may call a committed INSERT aborted.",
    ),
    _table(
        "compactor.quarantine",
        "0s",
        _S,
        "How long an obsolete directory stays hidden in the table's or partition's own directory before its files are "
        "erased. Meanwhile `compactor restore` can undo the compaction. 0 erases at once. A store without directory rename "
        "cannot keep directories: with a value other than 0 nothing is cleaned there.",
    ),
    Setting(
        key="compactor.quarantine.bytes",
        default="0",
        unit=SettingUnit.BYTES,
        effect="Maximum bytes in quarantine; 0 means no bound. Beyond it, the oldest directories are erased early.",
    ),
    _table(
        "compactor.mirror.retention",
        "7d",
        _H,
        "How long a mirror keeps its older Iceberg snapshots, and with them the files that only they name. A query in a "
        "reader of Iceberg must not take longer.",
    ),
    Setting(
        key="compactor.batch.bytes",
        default="50GB",
        unit=SettingUnit.BYTES,
        minimum=1,
        effect="Maximum bytes of input of one Spark application.",
    ),
    _table(
        "compactor.max.bytes",
        "0",
        SettingUnit.BYTES,
        "Maximum input bytes of one request; 0 means no bound. Beyond it, deltas are merged in parts, oldest first, and the "
        "rest is requested again. A base that would need more input is not written.",
    ),
    _table(
        "compactor.max.time",
        "0s",
        _S,
        "How long one request may merge deltas; 0 means no bound. After that, or when its worker has to stop, the finished "
        "part is published and the rest requested again. A major that takes longer is refused.",
    ),
    _table(
        "compactor.chunk.bytes",
        "1GB",
        SettingUnit.BYTES,
        "Maximum bytes of deltas that one merge reads where compactor.max.time bounds a request. A merge that has begun "
        "always finishes.",
        minimum=1,
    ),
    _hive(
        "compactor.copy.within.store",
        "true",
        _B,
        "Whether the file system or store may copy unchanged stripes itself, if it can, without passing them through the "
        "worker.",
    ),
    _hive(
        "compactor.listing.entries",
        "1000000",
        _C,
        "Maximum number of files and directories, at all levels, in the directory of a table or partition. Compactor leaves "
        "a larger one alone. A listing needs about 300 bytes of memory for each.",
        minimum=1,
    ),
    _hive(
        "compactor.listing.depth",
        "64",
        _C,
        "Maximum number of directory levels below the directory of a table or partition. Compactor leaves a deeper one "
        "alone.",
        minimum=1,
    ),
    Setting(
        key="compactor.file.footer.bytes",
        default="64MB",
        unit=SettingUnit.BYTES,
        minimum=1,
        effect="Maximum decompressed bytes of a file's footer, of its statistics, and of a footer or index inside it. "
        "A file with more is refused. Reading one takes up to thirty times as much memory.",
    ),
    _hive(
        "compactor.file.stripes",
        "100000",
        _C,
        "Maximum number of stripes (ORC) or row groups (Parquet) of a file. A file with more is refused.",
        minimum=1,
    ),
    _hive(
        "compactor.file.columns",
        "50000",
        _C,
        "Maximum number of columns of a file, nested ones included. A file with more is refused.",
        minimum=1,
    ),
    Setting(
        key="compactor.file.depth",
        default="100",
        unit=_C,
        minimum=1,
        maximum=200,
        effect="Maximum nesting depth of a file's types, such as lists in structs in lists. A deeper file is refused.",
    ),
    Setting(
        key="compactor.stripe.bytes",
        default="8GB",
        unit=SettingUnit.BYTES,
        minimum=1,
        effect="Maximum decompressed bytes of a stripe whose rows are decoded. A file with a larger one is refused.",
    ),
    Setting(
        key="compactor.unit.memory",
        default="8GB",
        unit=SettingUnit.BYTES,
        effect="Maximum memory of each process in which `compactor run worker` rewrites files; 0 means no bound. A request "
        "that needs more fails with a message. Spark's executors have the cluster's limits instead. Use 1 GB or more.",
    ),
    _hive(
        "compactor.unit.processes",
        "0",
        _C,
        "Number of processes in which `compactor run worker` rewrites files without Spark; 0 means one for each core. More "
        "help if the store answers slowly.",
    ),
    _hive(
        "compactor.store.threads",
        "32",
        _C,
        "Number of tables and partitions that an initiator or a worker lists at once, and that a worker stages, verifies or "
        "publishes at once. For every 16, a worker without Spark has one group of up to 64 requests under way, but at least "
        "two groups. The cleaner has hive.compactor.cleaner.threads.num.",
        minimum=1,
    ),
    _hive(
        "compactor.batch.reserved", "600s", _S, "How long a planned batch keeps its entries before a driver starts it."
    ),
    Setting(
        key="compactor.run.as.owner",
        default="false",
        unit=SettingUnit.BOOLEAN,
        effect="Whether applications run as the owner of the table's or partition's directory (spark-submit --proxy-user), "
        "or in a store without owners as the table's owner in the metastore. hive.compactor.run.as.user takes precedence. "
        "Without a known owner no application starts.",
    ),
    _table(
        "compactor.orc.default.timezone",
        "",
        _T,
        "Time zone of timestamps in ORC stripes without a time zone, as Hive before 1.2 wrote them: that of the writing "
        "machine, such as Europe/Berlin. Hive takes the zone of its own JVM. If empty, such timestamps are only copied, and "
        "a compaction or scan that has to decode them is refused.",
    ),
    Setting(
        key="compactor.split.bytes",
        default="64MB",
        unit=SettingUnit.BYTES,
        minimum=1,
        scope=Scope.TABLE,
        effect="Maximum bytes of stripes that one task re-encodes. Several tasks write a file with more than a quarter of "
        "this, and their parts are joined by copying. The default is about one stripe of Hive: a few seconds of one core. "
        "Stripes that are only copied are never split.",
    ),
    Setting(
        key="compactor.full.sweep",
        default="12",
        unit=_C,
        minimum=1,
        effect="Number of check intervals within which the initiator looks again at each unchanged table and partition, for "
        "changes of files that no row records. The looks are spread over the passes. In between it reuses the last decision "
        "without a listing. A full sweep also looks at tables and partitions without recorded writes, which the initiator "
        "has not seen yet; there it only reports.",
    ),
    _hive(
        "compactor.reads.retention",
        "30d",
        _S,
        "How long Compactor keeps the reads that other programs report: queries, their tables and their durations.",
    ),
    Setting(
        key="compactor.reads.own",
        default="false",
        unit=SettingUnit.BOOLEAN,
        effect="Whether scans of compactor.tables report how long they took; each then writes one row into the state. See "
        "docs/production.md.",
    ),
    Setting(
        key="compactor.reads.token.file",
        default="",
        unit=SettingUnit.TEXT,
        effect="File on the API server's machine with the token that lets programs report their reads over HTTP. Empty: "
        "such reports are refused. See docs/http-api.md.",
    ),
    Setting(
        key="compactor.order",
        default="thresholds",
        unit=SettingUnit.TEXT,
        choices=("thresholds", "benefit"),
        effect="Order in which the initiator requests due compactions. thresholds: as it finds them; benefit: those first "
        "that save readers most for each core-second. See docs/production.md.",
    ),
    Setting(
        key="compactor.priority",
        default="0",
        unit=_C,
        scope=Scope.TABLE,
        minimum=-100,
        maximum=100,
        effect="Priority of waiting requests, -100 to 100: those with more points are claimed first, and waiting adds "
        "points. Erasures, and deltas that Trino would read wrongly, come before all of them. Hive's own workers take the "
        "oldest request.",
    ),
    Setting(
        key="compactor.priority.ageing",
        default="10min",
        unit=_S,
        minimum=1,
        effect="Waiting time that is worth one point of compactor.priority, so that no request waits for ever.",
    ),
    Setting(
        key="compactor.budget",
        default="0",
        unit=_C,
        effect="Maximum expected core-seconds of the compactions that the initiator requests within an hour; others "
        "wait for a later pass. 0 means no bound. These never wait: manual requests, aborted transactions, and deltas "
        "that readers would read wrongly.",
    ),
    Setting(
        key="compactor.history.retention.aborted",
        default="3",
        unit=_C,
        scope=Scope.TABLE,
        of_tables=_ROWS_OF_TABLES,
        effect="Number of aborted compactions (taken off the queue by a user) that the history keeps for a table or "
        "partition.",
    ),
    _hive(
        "compactor.decisions.retention",
        "30d",
        _S,
        "How long the initiator's decisions and its latest findings about a table are kept.",
    ),
    _hive(
        "compactor.opening.interval",
        "60s",
        _S,
        "Minimum time between two measurements. After a compaction, a measurement times how long a reader takes to list and "
        "open the input files and the output files, at most a second each. 0 turns measurements off.",
    ),
    _hive(
        "compactor.read.idle.max.age",
        "1h",
        _S,
        "Idle time of a Spark program after which the snapshots of its DataFrames end. Snapshots opened with `snapshot` do "
        "not end.",
        minimum=1,
    ),
    _hive(
        "compactor.read.max.age",
        "24h",
        _S,
        "Age at which a read-only transaction of compactor.tables is ended. Its scans then fail, and cleaners no "
        "longer wait for it.",
        minimum=1,
    ),
    _hive(
        "hive.exec.max.dynamic.partitions",
        "1000",
        _C,
        "Maximum number of dynamic partitions that one statement of compactor.tables may write.",
        minimum=1,
    ),
    _metastore(
        "hive.metastore.partition.name.whitelist.pattern",
        "",
        _T,
        "Regular expression that each whole value of a partition added by compactor.tables must match. Empty: any value is "
        "allowed.",
        minimum=None,
    ),
    _hive("compactor.runs.retention", "400d", _S, "How long the figures of finished compactions are kept."),
    Setting(
        key="compactor.page.readers",
        default="4",
        unit=_C,
        minimum=1,
        maximum=1000,
        effect="Maximum number of concurrent requests in each process of Airflow's API server for each kind of work of the "
        "page: overviews, lists, looks into storage, actions. Further requests get 503.",
    ),
    _hive(
        "compactor.page.timeout",
        "10s",
        _S,
        "How long the page waits for the metastore or its storage before it answers 503. A request that hangs counts "
        "towards compactor.page.readers until it ends.",
        minimum=1,
    ),
    _hive(
        "compactor.allowed.spark.conf",
        "spark.executor.memory,spark.driver.memory,spark.executor.cores,spark.driver.cores,spark.executor.instances",
        _T,
        "Spark keys, separated by commas, that a table or a request may set as compactor.<key>. Only sizes, counts, times "
        "and switches of Spark's resources are possible; any other key is refused even if listed here.",
    ),
)

_DECISION = (
    _table(
        "hive.compactor.delta.num.threshold",
        "10",
        _C,
        "More deltas than this (delete deltas included) trigger a minor compaction, or a major one without a base.",
    ),
    _table(
        "hive.compactor.delta.pct.threshold",
        "0.1",
        _R,
        "Deltas larger than this fraction of the base trigger a major compaction.",
    ),
    _table(
        "hive.compactor.abortedtxn.threshold",
        "1000",
        _C,
        "More aborted transactions than this in a table or partition trigger their removal.",
    ),
    _table(
        "hive.compactor.aborted.txn.time.threshold",
        "12h",
        _H,
        "An aborted transaction older than this triggers its removal; a negative value turns the rule off.",
        minimum=None,
    ),
    _metastore(
        "hive.compactor.clean.aborts.using.cleaner",
        "true",
        _B,
        "Whether aborted transactions are removed by a request of their own, or by a compaction.",
    ),
    _hive("hive.compactor.compact.insert.only", "true", _B, "Whether insert-only tables are compacted automatically."),
    _table(
        "hive.compactor.max.num.delta",
        "500",
        _C,
        "Maximum number of deltas that one task merges. With more, slices of this size are first merged in parallel in the "
        "staging directory. In a request bounded in bytes or time, the maximum number of deltas merged into one.",
        minimum=2,
    ),
    replace(
        _metastore(
            "hive.compactor.initiator.failed.compacts.threshold",
            "2",
            _C,
            "After this many consecutive failures a table or partition is no longer compacted automatically. 0 turns the "
            "rule off.",
        ),
        scope=Scope.TABLE,
        of_tables=("1", "100"),
    ),
    replace(
        _metastore(
            "hive.compactor.initiator.failed.retry.time",
            "7d",
            _D,
            "Time after the last failure when it is tried again nevertheless; 0 or less means never.",
            minimum=None,
        ),
        scope=Scope.TABLE,
        of_tables=("1h", "3650d"),
    ),
)

_QUEUE = (
    _hive(
        "hive.compactor.check.interval", "300s", _S, "Time between two passes of the initiator if nothing has changed."
    ),
    _metastore("hive.compactor.cleaner.on", "false", _B, "Whether Hive itself cleans. Only an explicit value counts."),
    _table("hive.compactor.job.queue", "", _T, "Spark queue of the applications; empty lets the cluster choose."),
    _table("hive.compactor.worker.pool", "", _T, "Pool of the requests of a table or database."),
    _metastore(
        "hive.compactor.run.as.user",
        "",
        _T,
        "User whom applications run as (spark-submit --proxy-user), whoever made the request. Empty: the service's own "
        "user, unless compactor.run.as.owner is true (Hive takes the owner of the directory).",
    ),
    _hive(
        "hive.compactor.worker.timeout",
        "86400s",
        _S,
        "How long a lost worker may keep a request. After that, a request of Hive's worker is queued again and one of ours "
        "fails. 0: never.",
    ),
    _hive("hive.compactor.wait.timeout", "300000", _MS, "How long a blocking request waits for its result."),
)

_CLEANING = (
    _hive("hive.compactor.cleaner.run.interval", "5000ms", _MS, "Time between two passes of the cleaner."),
    _hive(
        "hive.compactor.cleaner.threads.num",
        "32",
        _C,
        "Number of tables and partitions that a cleaner lists or cleans at once, and of directories that it removes at once "
        "(Hive: 1). More help if the store answers slowly.",
        minimum=1,
    ),
    _table(
        "hive.compactor.delayed.cleanup.enabled",
        "false",
        _B,
        "Whether obsolete directories stay for hive.compactor.cleaner.retention.time.seconds after the compaction.",
    ),
    _table(
        "hive.compactor.cleaner.retention.time.seconds",
        "300s",
        _S,
        "How long obsolete directories stay after the compaction where clean-up is delayed.",
    ),
    Setting(
        key="hive.compactor.cleaner.retry.maxattempts",
        default="5",
        unit=_C,
        maximum=10,
        effect="How often the wait after a failed cleaning doubles before it stays the same. Hive gives up instead.",
    ),
    Setting(
        key="hive.compactor.cleaner.retry.retentionTime",
        aliases=("hive.compactor.cleaner.retry.retention.time",),
        default="300s",
        unit=_S,
        minimum=1,
        effect="First wait after a failed cleaning; it doubles with each failure.",
    ),
)

_HISTORY = (
    _history("hive.compactor.history.retention.succeeded", "3", "Succeeded compactions kept in the history."),
    _history(
        "hive.compactor.history.retention.failed",
        "3",
        "Failed compactions kept in the history, at least as many as the failed threshold needs.",
    ),
    Setting(
        key="hive.compactor.history.retention.did.not.initiate",
        aliases=(
            "metastore.compactor.history.retention.did.not.initiate",
            "metastore.compactor.history.retention.attempted",
            "hive.compactor.history.retention.attempted",
        ),
        default="2",
        unit=_C,
        scope=Scope.TABLE,
        of_tables=_ROWS_OF_TABLES,
        effect="Number of 'did not initiate' rows kept in the history.",
    ),
    _history("hive.compactor.history.retention.refused", "3", "Refused compactions kept in the history."),
    replace(
        _metastore(
            "hive.compactor.history.retention.timeout",
            "7d",
            _D,
            "Age at which failed, refused and not initiated compactions leave the history once a later one has succeeded.",
        ),
        scope=Scope.TABLE,
        of_tables=("1h", "3650d"),
    ),
    _metastore("hive.metastore.compaction.housekeeper.interval", "300s", _S, "Time between two purges of the history."),
)

_TRANSACTIONS = (
    _metastore(
        "hive.txn.retryable.sqlex.regex",
        "",
        _T,
        "Regular expression of database errors after which an operation is retried, in addition to the known ones.",
        minimum=None,
    ),
    _metastore("hive.txn.timeout", "300s", _S, "Time without a heartbeat after which a transaction is aborted."),
    _metastore(
        "hive.txn.opentxn.timeout",
        "1000ms",
        _MS,
        "Time for which a newly drawn id counts as open, since its transaction may not have a row yet.",
    ),
    Setting(
        key="hive.max.open.txns",
        aliases=("metastore.max.open.txns",),
        default="100000",
        unit=_C,
        minimum=1,
        effect="Maximum number of open transactions; further ones are refused.",
    ),
    _metastore(
        "hive.count.open.txns.interval",
        "1s",
        _S,
        "Time between two counts of open transactions, for hive.max.open.txns.",
    ),
    Setting(
        key="hive.txn.max.open.batch",
        aliases=("metastore.txn.max.open.batch",),
        default="1000",
        unit=_C,
        minimum=1,
        effect="Maximum number of transactions opened by one call.",
    ),
    _metastore("hive.txn.use.minhistorylevel", "true", _B, "Whether open transactions have rows in MIN_HISTORY_LEVEL."),
    _metastore(
        "hive.txn.use.minhistorywriteid",
        "false",
        _B,
        "Whether open transactions have rows in MIN_HISTORY_WRITE_ID. If not set, it is true on schema 4.2, as in Hive 4.2.",
    ),
    _metastore("hive.metastore.acid.housekeeper.interval", "60s", _S, "Time between two passes of the housekeeper."),
    _metastore("hive.metastore.acid.txn.cleaner.interval", "10s", _S, "Time between two purges of ended transactions."),
    _metastore("hive.repl.txn.timeout", "11d", _D, "Time-out of replication transactions."),
    _hive(
        "hive.txn.xlock.write",
        "false",
        _B,
        "Whether UPDATE and DELETE take an exclusive write lock. Otherwise they take a shared one and detect conflicts at "
        "commit.",
    ),
    _hive(
        "hive.txn.xlock.iow",
        "true",
        _B,
        "Whether INSERT OVERWRITE locks readers out. In Hive 4 this also takes hive.txn.xlock.write; in Hive 3.1 it "
        "does not.",
    ),
    _hive("hive.txn.xlock.ctas", "true", _B, "Whether CREATE TABLE AS locks the table it creates."),
    _hive("hive.txn.xlock.mergeinsert", "false", _B, "Whether the insert branch of MERGE locks like an UPDATE."),
    _hive(
        "hive.merge.cardinality.check",
        "true",
        _B,
        "Whether MERGE fails if a row of the table matches several rows of the source.",
    ),
    _hive("hive.txn.read.locks", "true", _B, "Whether reading takes a lock."),
    _hive("hive.txn.nonacid.read.locks", "true", _B, "Whether reading a non-transactional table takes a lock."),
    _hive("hive.txn.strict.locking.mode", "true", _B, "Whether INSERT into a non-transactional table is exclusive."),
    _hive("hive.txn.ext.locking.enabled", "false", _B, "Whether external tables are locked."),
    _hive("hive.acid.lockless.reads.enabled", "false", _B, "Whether readers take no locks."),
    _hive(
        "hive.locks.max.partitions",
        "-1",
        _C,
        "Number of partition locks above which one table lock replaces them.",
        minimum=-1,
    ),
    Setting(
        key="hive.lock.sleep.between.retries",
        aliases=("metastore.lock.sleep.between.retries",),
        default="60s",
        unit=_S,
        effect="Longest wait between two checks of a lock. The first wait is 100 ms, and each further one is twice as long.",
    ),
)

_WARNINGS = (
    *(
        _metastore(f"hive.compactor.{key}", default, _H, effect)
        for key, default, effect in (
            (
                "oldest.initiated.compaction.time.threshold.warning",
                "1h",
                "Waiting time of a request from which on it is a warning.",
            ),
            (
                "oldest.initiated.compaction.time.threshold.error",
                "12h",
                "Waiting time of a request from which on it is an error.",
            ),
            (
                "oldest.uncleaned.compaction.time.threshold",
                "24h",
                "Time without cleaning from which on a result is a warning.",
            ),
            ("oldest.open.txn.threshold.warning", "24h", "Age of an open transaction from which on it is a warning."),
            ("oldest.open.txn.threshold.error", "72h", "Age of an open transaction from which on it is an error."),
            (
                "oldest.uncleaned.aborted.txn.time.threshold.warning",
                "24h",
                "Age of an uncleaned abort from which on it is a warning.",
            ),
            (
                "oldest.uncleaned.aborted.txn.time.threshold.error",
                "48h",
                "Age of an uncleaned abort from which on it is an error.",
            ),
        )
    ),
    *(
        _metastore(
            f"hive.compactor.{what}.record.threshold.{level}",
            default,
            _C,
            f"Number of rows in {table} above which there is {effect}.",
        )
        for what, table in (
            ("completed.txn.components", "COMPLETED_TXN_COMPONENTS"),
            ("txn.to.writeid", "TXN_TO_WRITE_ID"),
        )
        for level, default, effect in (("warning", "500000", "a warning"), ("error", "1000000", "an error"))
    ),
    _metastore(
        "hive.compactor.failed.compaction.ratio.threshold",
        "0.01",
        _R,
        "Share of failed compactions above which there is a warning.",
    ),
)

_FOREIGN = (
    _unused_metastore(
        "hive.compactor.initiator.on",
        "false",
        _B,
        "Whether Hive itself initiates compactions. Compactor does while Airflow's DAG compaction_initiator is on.",
    ),
    _unused_metastore(
        "hive.compactor.worker.threads",
        "0",
        _C,
        "Number of Hive's own workers. Compactor has as many as Airflow's pool has slots.",
    ),
    _unused_metastore(
        "hive.compactor.worker.pool.timeout",
        "12h",
        _H,
        "When Hive's workers of the default pool take requests of other pools. Ours take those of all pools unless one "
        "is named.",
    ),
    _unused_metastore(
        "hive.compactor.fetch.size",
        "1000",
        _C,
        "Number of rows that Hive's roles read at a time. Compactor's roles have their own page size.",
    ),
    _unused(
        "hive.compactor.active.delta.dir.threshold",
        "200",
        _C,
        "Number of deltas from which on Hive's metrics name a table. `show tables` and the page rank tables by their "
        "health.",
    ),
    _unused(
        "hive.compactor.obsolete.delta.dir.threshold",
        "200",
        _C,
        "The same for obsolete deltas. `show blockers` shows Compactor's.",
    ),
    _unused(
        "hive.compactor.small.delta.dir.threshold",
        "200",
        _C,
        "The same for deltas that are small compared with the base.",
    ),
    _unused(
        "hive.txn.acid.metrics.delta.pct.threshold",
        "0.01",
        _R,
        "Fraction of the base below which a delta counts as small there.",
        "metastore.deltametrics.delta.pct.threshold",
    ),
    _unused_metastore("hive.compactor.initiator.tablecache.on", "true", _B, "Whether Hive's initiator caches tables."),
    _unused_metastore("hive.compactor.cleaner.tablecache.on", "true", _B, "Whether Hive's cleaner caches tables."),
    _unused_metastore("hive.compactor.enable.stats.compression", "true", _B, "Compression of Hive's minor output."),
    _unused_metastore("hive.compactor.connectionPool.maxPoolSize", "5", _C, "Connections of Hive's compactor."),
    _unused_metastore("hive.compactor.use.custom.pool", "false", _B, "Whether Hive's compactor has its own pool."),
    _unused_metastore("hive.compactor.acid.metrics.logger.frequency", "360min", _M, "Hive's log of ACID metrics."),
    _unused_metastore("hive.metastore.acidmetrics.thread.on", "true", _B, "Whether Hive collects ACID metrics."),
    _unused_metastore("hive.metastore.acidmetrics.check.interval", "300s", _S, "Time between Hive's ACID metrics."),
    _unused_metastore("hive.metastore.acidmetrics.ext.on", "true", _B, "Whether Hive collects further ACID metrics."),
    _unused_metastore("hive.metastore.housekeeping.threads.on", "true", _B, "Whether Hive runs its housekeeping."),
    _unused("hive.metastore.runworker.in", "hs2", _T, "Which of Hive's services runs its workers."),
    _hive(
        "hive.support.concurrency",
        "false",
        _B,
        "Whether Hive's sessions take locks. If set to false, explain-locks lists none.",
    ),
    _hive(
        "hive.txn.manager",
        "org.apache.hadoop.hive.ql.lockmgr.DummyTxnManager",
        _T,
        "Hive's transaction manager. The doctor warns if it is set to another one than DbTxnManager.",
    ),
    _unused(
        "hive.lock.manager",
        "org.apache.hadoop.hive.ql.lockmgr.zookeeper.ZooKeeperHiveLockManager",
        _T,
        "Hive's lock manager without transactions.",
    ),
    _unused(
        "hive.txn.store.impl",
        "org.apache.hadoop.hive.metastore.txn.CompactionTxnHandler",
        _T,
        "Hive's class that stores transactions.",
        "metastore.txn.store.impl",
        "hive.metastore.txn.store.impl",
    ),
    _unused_metastore("hive.timedout.txn.reaper.interval", "180s", _S, "Hive 3: time between two time-out passes."),
    _unused_metastore("hive.timedout.txn.reaper.start", "100s", _S, "Hive 3: delay of the first time-out pass."),
    _unused_metastore("hive.writeset.reaper.interval", "60s", _S, "Hive 3: time between two purges of WRITE_SET."),
    _unused_metastore("hive.compactor.history.reaper.interval", "2min", _M, "Hive 3: time between history purges."),
    _unused("hive.compactor.worker.sleep.time", "10800ms", _MS, "Pause of Hive's idle worker."),
    _unused("hive.compactor.worker.max.sleep.time", "320000ms", _MS, "Longest pause of Hive's worker after errors."),
    _unused("hive.compactor.request.queue", "1", _C, "Threads of Hive's initiator."),
    _unused("hive.compactor.cleaner.duration.update.interval", "60s", _S, "Update of one of Hive's metrics."),
    _unused("hive.compactor.initiator.duration.update.interval", "60s", _S, "Update of one of Hive's metrics."),
    _unused("hive.compactor.crud.query.based", "false", _B, "Whether Hive compacts full ACID tables by queries."),
    _unused("hive.compaction.merge.enabled", "false", _B, "Whether Hive compacts by joining stripes."),
    _table(
        "hive.compactor.gather.stats",
        "true",
        _B,
        "Whether a compaction writes the statistics that it gets without a scan (docs/statistics.md).",
    ),
    _unused("hive.mr.compactor.gather.stats", "false", _B, "The same for Hive's MapReduce compactor."),
    _unused("hive.acid.createtable.softdelete", "false", _B, "Whether Hive's DROP TABLE leaves files to the cleaner."),
    _unused("hive.acid.droppartition.usebase", "false", _B, "Whether Hive's DROP PARTITION writes an empty base."),
    _unused("hive.acid.truncate.usebase", "true", _B, "Whether Hive's TRUNCATE writes an empty base."),
    _unused("hive.acid.renamepartition.makecopy", "false", _B, "Whether Hive's RENAME PARTITION copies."),
    _unused("hive.acid.direct.insert.enabled", "true", _B, "Whether Hive's INSERT writes without staging."),
    _unused(
        "hive.create.as.acid", "false", _B, "Whether Hive creates new tables as full ACID.", "metastore.create.as.acid"
    ),
    _unused("hive.create.as.insert.only", "false", _B, "Whether Hive creates new tables as insert-only."),
    _unused("hive.txn.write.acid.version.file", "true", _B, "Whether Hive writes _orc_acid_version files."),
    _unused("hive.txn.readonly.enabled", "false", _B, "Whether Hive opens read-only transactions for SELECT."),
    _unused(
        "hive.txn.retrysnapshot.max.count", "5", _C, "How often Hive takes a new snapshot in place of a stale one."
    ),
    _unused("hive.txn.heartbeat.threadpool.size", "5", _C, "Threads of a Hive session's heartbeats."),
    _unused("hive.txn.filter.delete.events", "true", _B, "Whether Hive's reader filters delete events."),
    _hive(
        "hive.txn.stats.enabled",
        "true",
        _B,
        "Whether Hive keeps exact statistics of transactional tables. If set to false, none are marked as accurate.",
    ),
    _unused("hive.txn.manager.dump.lock.state.on.acquire.timeout", "false", _B, "Whether Hive logs locks on failure."),
    _unused(
        "hive.lock.numretries",
        "100",
        _C,
        "How often Hive checks a lock that was not granted. In Compactor, compactor.lock.wait is the bound.",
        "metastore.lock.numretries",
    ),
    _unused("hive.unlock.numretries", "10", _C, "How often Hive tries to release a lock."),
    _unused("hive.lock.file.move.protect", "all", _T, "When Hive locks a table during moves of files."),
    _unused("hive.lock.query.string.max.length", "1000000", _C, "Longest query text in Hive's ZooKeeper locks."),
)

#: Every setting by its key, ours first, then grouped by subject.
CATALOGUE: Mapping[str, Setting] = MappingProxyType(
    {
        setting.key: setting
        for setting in (
            *_OWN,
            *_DECISION,
            *_QUEUE,
            *_CLEANING,
            *_HISTORY,
            *_TRANSACTIONS,
            *_WARNINGS,
            *_FOREIGN,
        )
    }
)
_BY_NAME: Mapping[str, Setting] = MappingProxyType({name: s for s in CATALOGUE.values() for name in s.names})


def find(key: str) -> Setting | None:
    """Returns the setting with the name ``key``, or None."""
    return _BY_NAME.get(key)


_HIVE_PREFIX = "hive.compactor."


def closest_compaction_setting(key: str) -> str | None:
    """Returns the compaction setting that ``key`` probably misspells, or None."""
    near = difflib.get_close_matches(key, _BY_NAME, n=1, cutoff=0.9) if key.startswith(_HIVE_PREFIX) else []
    return near[0] if near else None


def lookup(key: str) -> Setting:
    """Returns the setting with the name ``key``.

    Raises:
        BadSetting: there is none; the message suggests the closest ones.
    """
    setting = find(key)
    if setting is None:
        near = difflib.get_close_matches(key, _BY_NAME, n=3, cutoff=0.6)
        hint = f"did you mean {' or '.join(near)}?" if near else "`compactor show settings` lists all"
        raise BadSetting(f"setting {key!r} is unknown; {hint}")
    return setting
