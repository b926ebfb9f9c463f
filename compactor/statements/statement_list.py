"""The closed list of statements: how each one runs, or why it is refused. docs/sql.md shows the list."""

from __future__ import annotations

from dataclasses import dataclass

from compactor.statements.parsed_actions import NotRun

EMBEDDED = "only in an embedded metastore; where Hive is, Hive does it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """A form of statement.

    Attributes:
        name: equals ``Statement.name``.
        syntax: the syntax that the parser accepts.
        how: how the statement runs; empty if it does not run.
        refused: why the statement is refused; empty if it runs. EXPLAIN LOCKS explains refused statements too.
        spark: true if only a Spark session runs it.
    """

    name: str
    syntax: str
    how: str = ""
    refused: str = ""
    spark: bool = False


FORMS: tuple[Form, ...] = (
    Form(
        name="SHOW COMPACTIONS",
        syntax="SHOW COMPACTIONS [COMPACTIONID = n | SCHEMA db | DATABASE db | [db.]t [PARTITION (…)]] [POOL 'p'] "
        "[TYPE 't'] [STATUS 's'] [ORDER BY …] [LIMIT n]",
        how="`compactor show compactions`",
    ),
    Form(name="SHOW TRANSACTIONS", syntax="SHOW TRANSACTIONS", how="`compactor show transactions`"),
    Form(
        name="SHOW LOCKS",
        syntax="SHOW LOCKS [SCHEMA db | DATABASE db | [db.]t [PARTITION (…)]] [EXTENDED]",
        how="`compactor show locks`",
    ),
    Form(name="ABORT TRANSACTIONS", syntax="ABORT TRANSACTIONS id …", how="`compactor abort transaction`"),
    Form(name="ABORT COMPACTIONS", syntax="ABORT COMPACTIONS id …", how="`compactor abort compaction`"),
    Form(
        name="ALTER TABLE COMPACT",
        syntax="ALTER TABLE t [PARTITION (…)] COMPACT 'type' [CLUSTERED INTO n BUCKETS] [AND WAIT] [ORDER BY …] [POOL 'p'] "
        "[WITH OVERWRITE TBLPROPERTIES ('k'='v', …)]",
        how="`compactor compact`; without a partition every partition is requested, whatever its thresholds",
    ),
    Form(name="EXPLAIN LOCKS", syntax="EXPLAIN LOCKS statement", how="`compactor explain-locks`"),
    Form(name="USE", syntax="USE db", how="the current database of what follows in the same text"),
    Form(name="SHOW DATABASES", syntax="SHOW DATABASES|SCHEMAS [[LIKE] 'pattern']", how="from the catalog"),
    Form(
        name="SHOW TABLES", syntax="SHOW TABLES [IN|FROM db] [[LIKE] 'pattern']", how="from the catalog, without views"
    ),
    Form(name="SHOW PARTITIONS", syntax="SHOW PARTITIONS t [PARTITION (…)]", how="from the catalog"),
    Form(name="SHOW CREATE TABLE", syntax="SHOW CREATE TABLE t", how="from the catalog"),
    Form(name="DESCRIBE", syntax="DESCRIBE|DESC [EXTENDED|FORMATTED] t", how="from the catalog"),
    Form(name="CREATE DATABASE", syntax="CREATE DATABASE|SCHEMA [IF NOT EXISTS] db [LOCATION '…']", how=EMBEDDED),
    Form(
        name="DROP DATABASE", syntax="DROP DATABASE|SCHEMA [IF EXISTS] db [RESTRICT]", how=f"an empty one; {EMBEDDED}"
    ),
    Form(
        name="CREATE TABLE",
        syntax="CREATE [MANAGED|TRANSACTIONAL] TABLE [IF NOT EXISTS] t (c type, …) | LIKE u [PARTITIONED BY (c type, …)] "
        "[CLUSTERED BY (c, …) INTO n BUCKETS] [STORED AS ORC] [LOCATION '…'] [TBLPROPERTIES (…)]",
        how=f"a full ACID table, also where `transactional` is not said; {EMBEDDED}",
    ),
    Form(
        name="CREATE TABLE AS",
        syntax="CREATE [MANAGED|TRANSACTIONAL] TABLE [IF NOT EXISTS] t [PARTITIONED BY (c, …)] [CLUSTERED BY (c, …) INTO n "
        "BUCKETS] [STORED AS ORC] [LOCATION '…'] [TBLPROPERTIES (…)] AS query",
        how=f"the table is there from the commit on, with its rows; in a session of Spark any query; {EMBEDDED}",
    ),
    Form(
        name="DROP TABLE",
        syntax="DROP TABLE [IF EXISTS] t [PURGE]",
        how=f"its files stay unless PURGE is said; {EMBEDDED}",
    ),
    Form(
        name="TRUNCATE TABLE",
        syntax="TRUNCATE [TABLE] t [PARTITION (…)]",
        how="an INSERT OVERWRITE of no rows, which readers honour from its commit on",
    ),
    Form(
        name="ALTER TABLE ADD PARTITION",
        syntax="ALTER TABLE t ADD [IF NOT EXISTS] PARTITION (…) [LOCATION '…'] [PARTITION (…) …]",
        how=EMBEDDED,
    ),
    Form(
        name="ALTER TABLE DROP PARTITION",
        syntax="ALTER TABLE t DROP [IF EXISTS] PARTITION (…) [, PARTITION (…)] [PURGE]",
        how=f"partitions with these values; their files stay unless PURGE is said; {EMBEDDED}",
    ),
    Form(name="ALTER TABLE ADD COLUMNS", syntax="ALTER TABLE t ADD COLUMNS (c type, …)", how=EMBEDDED),
    Form(name="ALTER TABLE RENAME TO", syntax="ALTER TABLE t RENAME TO u", how=f"its directory stays; {EMBEDDED}"),
    Form(
        name="ALTER TABLE SET TBLPROPERTIES",
        syntax="ALTER TABLE t SET TBLPROPERTIES ('k'='v', …)",
        how=f"but what makes it another kind of table; {EMBEDDED}",
    ),
    Form(
        name="ALTER TABLE UNSET TBLPROPERTIES",
        syntax="ALTER TABLE t UNSET TBLPROPERTIES [IF EXISTS] ('k', …)",
        how=f"but what makes it another kind of table; {EMBEDDED}",
    ),
    Form(
        name="INSERT INTO … VALUES",
        syntax="INSERT INTO [TABLE] t [PARTITION (k='v', k2)] [(c, …)] VALUES (literal, …), …",
        how="`Table.append`",
    ),
    Form(
        name="INSERT OVERWRITE … VALUES",
        syntax="INSERT OVERWRITE [TABLE] t [PARTITION (k='v', k2)] [(c, …)] VALUES (literal, …), …",
        how="`Table.overwrite`",
    ),
    Form(
        name="LOAD DATA LOCAL",
        syntax="LOAD DATA LOCAL INPATH 'path' [OVERWRITE] INTO TABLE t [PARTITION (k='v', …)]",
        how="`Table.append` or `Table.overwrite` of the rows of files of ORC that have the table's columns; the files stay",
    ),
    Form(
        name="UPDATE",
        syntax="UPDATE t SET c = literal | c2 | NULL, … [WHERE filter]",
        how="`Table.update`; `AcidTable.update` in a session of Spark, whose expressions it takes; its condition may have "
        "queries there",
    ),
    Form(
        name="DELETE",
        syntax="DELETE FROM t [WHERE filter]",
        how="`Table.delete`; `AcidTable.delete` in a session of Spark; its condition may have queries there",
    ),
    Form(
        name="SELECT",
        syntax="SELECT * | count(*) | c, … FROM t [FOR SYSTEM_VERSION AS OF n] [WHERE filter] [LIMIT n]",
        how="`Table.scan`; any other query is Spark's",
    ),
    Form(
        name="START TRANSACTION",
        syntax="START TRANSACTION",
        how="up to COMMIT or ROLLBACK in the same text",
    ),
    Form(name="COMMIT", syntax="COMMIT [WORK]", how="ends it: all of it is there, or nothing"),
    Form(name="ROLLBACK", syntax="ROLLBACK [WORK]", how="ends it: nothing of it is there"),
    Form(name="INSERT INTO … SELECT", syntax="INSERT INTO t [PARTITION (…)] [(c, …)] query", spark=True),
    Form(name="INSERT OVERWRITE … SELECT", syntax="INSERT OVERWRITE t [PARTITION (…)] [(c, …)] query", spark=True),
    Form(
        name="MERGE",
        syntax="MERGE INTO t [AS a] USING u [AS b] | (query) AS b ON condition WHEN MATCHED [AND condition] THEN UPDATE SET "
        "c = value, … | DELETE … WHEN NOT MATCHED [AND condition] THEN INSERT [(c, …)] VALUES (value, …)",
        spark=True,
    ),
    Form(
        name="MULTI INSERT",
        syntax="FROM t, … | (query) AS a INSERT INTO u [PARTITION (…)] [(c, …)] SELECT … INSERT INTO v … SELECT …",
        spark=True,
    ),
    Form(
        name="LOAD DATA",
        syntax="LOAD DATA INPATH …",
        refused="LOAD DATA without LOCAL takes files away, which no transaction gives back: use LOAD DATA LOCAL INPATH",
    ),
    Form(
        name="INSERT OVERWRITE … IF NOT EXISTS",
        syntax="INSERT OVERWRITE t PARTITION (…) IF NOT EXISTS …",
        refused="IF NOT EXISTS would look at partitions before the lock on them is there: ask SHOW PARTITIONS first",
    ),
    Form(
        name="CREATE EXTERNAL TABLE",
        syntax="CREATE EXTERNAL TABLE …",
        refused="external tables cannot be ACID tables: changes of them are beyond the compactor's control (HIVE-13175)",
    ),
    Form(
        name="CREATE TEMPORARY TABLE",
        syntax="CREATE TEMPORARY TABLE …",
        refused="temporary tables belong to a session of Hive",
    ),
    Form(
        name="DROP DATABASE CASCADE",
        syntax="DROP DATABASE db CASCADE",
        refused="DROP DATABASE … CASCADE would drop tables that it does not name: drop each, then the database",
    ),
    Form(
        name="ALTER TABLE …",
        syntax="ALTER TABLE t REPLACE COLUMNS, CHANGE, EXCHANGE PARTITION, SET LOCATION and all others that Hive has",
        refused="this form of ALTER TABLE is Hive's alone",
    ),
    Form(name="ANALYZE TABLE", syntax="ANALYZE TABLE …", refused="statistics are written by compactions, and by Hive"),
    Form(name="MSCK", syntax="MSCK [REPAIR] TABLE …", refused="MSCK is Hive's: it takes directories for partitions"),
    Form(name="CREATE VIEW", syntax="CREATE [MATERIALIZED] VIEW …", refused="views are Hive's"),
    Form(name="DROP VIEW", syntax="DROP VIEW …", refused="views are Hive's"),
    Form(name="DROP MATERIALIZED VIEW", syntax="DROP MATERIALIZED VIEW …", refused="views are Hive's"),
    Form(name="CREATE CONNECTOR", syntax="CREATE CONNECTOR …", refused="connectors are Hive's"),
    Form(name="DROP CONNECTOR", syntax="DROP CONNECTOR …", refused="connectors are Hive's"),
    Form(
        name="ALTER OTHER",
        syntax="ALTER DATABASE, SCHEMA, CONNECTOR, VIEW and MATERIALIZED VIEW … REWRITE",
        refused="ALTER of anything but a table is Hive's",
    ),
    Form(name="SHOW", syntax="SHOW of anything else", refused="this form of SHOW is Hive's"),
    Form(
        name="DESCRIBE OTHER",
        syntax="DESCRIBE DATABASE, FUNCTION, CONNECTOR …",
        refused="only tables are described; see SHOW DATABASES",
    ),
    Form(name="EXPLAIN", syntax="EXPLAIN …", refused="there is no plan of Hive to show; EXPLAIN LOCKS lists the locks"),
)

_BY_NAME = {form.name: form for form in FORMS}


def not_run(name: str) -> NotRun:
    """Returns the action of a statement that is not run: it carries the reason of its form."""
    return NotRun(because=_BY_NAME[name].refused)
