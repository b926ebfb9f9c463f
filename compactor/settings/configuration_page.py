"""Generates docs/configuration.md from the catalogue.

``python -m compactor.settings.configuration_page`` prints it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

from compactor.settings.catalogue import CATALOGUE
from compactor.settings.setting import Scope, Setting, SettingUnit

_HEAD = """\
# Configuration

This page is generated from the catalogue of settings: `python -m compactor.settings.configuration_page >
docs/configuration.md`. `compactor show settings` prints the same keys with the values in force and their sources.

## Where a value comes from

The first of these sources that has a setting wins:

1. the request: `compactor compact … --property compactor.KEY=VALUE`, or `WITH OVERWRITE TBLPROPERTIES` in Hive
2. the table: a table parameter `compactorthreshold.KEY` or `compactor.KEY`
3. the database: the same keys among its parameters
4. a flag: `--set KEY=VALUE`
5. the environment
6. `compactor.toml`, or the Airflow connection
7. `metastore-site.xml`, then `hive-site.xml`, read as they are; `${...}` in them is not resolved
8. the default

`compactor.mode` and `compactor.readers` are exceptions: the tightest value among site, database, table and request
counts, so that nobody below the site can loosen them. The site itself may give databases other modes (`database_modes`
below). A mode from a flag or from the environment applies to all databases.

Old and new names of a setting (`hive.txn.timeout`, `metastore.txn.timeout`) are one setting; if a file has both, the
newer name wins, as in Hive. Unknown keys are refused by name in `compactor.toml`, in flags and in requests; in Hive's
files they are ignored.

## What a table or a request may set

Anybody who may `ALTER TABLE` can write table and database parameters. Compactor therefore takes only the following from
them. `compactor explain DB.TABLE`, `compactor show settings DB.TABLE --changed` and the page list what has no effect, with
the reason: refused values, unknown `compactor…` keys, names in another case, and values that another source overrides.

* `compactor.KEY` and `compactorthreshold.KEY` for the settings marked *table* below. If both are set, the second wins.
* `compactor.spark.KEY` for the keys of Spark in `compactor.allowed.spark.conf`, which may list sizes, counts, times and
  switches of Spark's resources ([all of them](spark.md#entries-that-run-together)). Other keys are never taken.
* `hive.compactor.worker.pool`, as in Hive.
* in a request only, for the output of a full ACID table: `tblprops.orc.compress` (`NONE`, `ZLIB`,
  `SNAPPY`, `LZ4`, `ZSTD`, the last not for Hive 3.1), `tblprops.orc.compress.size` (a multiple of 65536 bytes),
  `tblprops.orc.row.index.stride`, `tblprops.orc.stripe.size`,
  `tblprops.orc.bloom.filter.columns` (names of columns, or `*`) and
  `tblprops.orc.bloom.filter.fpp`. Stripes of another class are then re-encoded. With one of the last three, which files do
  not record, every stripe is. `compactor plan DB.T --property tblprops.orc.compress=ZSTD` shows how many.
  A column gets no bloom filter that would make some reader miss rows: `boolean`, `tinyint` and `timestamp` never get one;
  `char`, `float` and `double` get one in files without NaNs and without texts that are shorter than the type.
  Other `tblprops.KEY` are refused.

Some properties for Hive's own jobs have a meaning here. `compactor.mapreduce.job.queuename` and
`compactor.mapred.job.queue.name` name the queue. `compactor.mapreduce.map.memory.mb` is the memory of Spark's executors, if
`spark.executor.memory` is allowed; a worker `--in-process` has no executors, and its processes keep to
`compactor.unit.memory`. Other `compactor.mapreduce.*`, `compactor.tez.*` and unknown `compactor.hive.*` do nothing here: a
request with one is refused, and `compactor explain` lists those of tables and of requests in Hive.

## compactor.toml

```toml
[metastore.default]
url = "sqlite:////srv/compactor/metastore.db"
state_url = "sqlite:////srv/compactor/state.db"
hive_conf = "/etc/hive/conf"
warehouse = "/srv/warehouse"
mode = "observe"

[metastore.default.database_modes]
pilot = "clean"
"team_*" = "compact"

[metastore.default.settings]
"hive.compactor.delta.num.threshold" = 20
"compactor.lock.wait" = "2min"
```

In `database_modes` a database's name takes precedence over patterns (`*`, `?`, `[...]`). If several patterns match, the
tightest mode counts. Any other database has the metastore's `mode`.

### Which file counts

`--config FILE`, `COMPACTOR_CONFIG`, or `[compactor] config` in Airflow names the file. Without them, `compactor.toml`
in the current directory counts. The file, its directory, and the target of a link in its place must belong to the user or
to root, and nobody else may write them; otherwise every command ends with the path, the owner or mode, and what to do.
`compactor -v …` says which files were read.

A group may write them (modes 0664 and 0775, as with a umask of 002) if it is the owner's primary group and has no other
member. Compactor looks that up among the users and groups of this machine. It cannot know it where `nsswitch.conf` names
a source that need not list everybody, such as LDAP or SSSD, or where the file has an access control list: then use
`chmod g-w` ([why](adr/0056-private-groups.md)).

Files with secrets (`password_file`, Hadoop's credential store and its password file, `compactor.reads.token.file`;
`keytab`, `session_cert` and a `token` that is a file in `[storage.…]`; keys that end in `_file` in `[catalog.…]`
([mirrors](mirror.md#catalogs)); `compactor.spark.kerberos.keytab` and `keytab`
of Airflow's `[compactor]` or Spark connection; `HADOOP_TOKEN_FILE_LOCATION` and `KRB5_CLIENT_KTNAME`) are used only
if they belong to the user or to root and have mode 0600 or 0640, or a narrower one. Hadoop's tokens are also used where
a directory above keeps others out. A password from a file is sent to another machine only if the URL asks for TLS, and a
`password` or `token` of `[storage.hdfs]` only by `https`. `compactor doctor` names each file whose mode is too
wide.

Several `[metastore.NAME]` know each other: no role writes into a directory in which another metastore has a table, or
removes anything from it ([why](adr/0052-claims.md)).

## How values are written

| unit | written as |
|---|---|
| count | a whole number |
| ratio | `0.1` |
| boolean | `true` or `false` |
| bytes | a number, or one with `KB`, `MB`, `GB`, `TB` (powers of 1024) |
| ms, s, min, h, d | a duration: `300s`, `12h`, `5000ms`; a bare number is in this unit |
| text | as it is |
"""


def render() -> str:
    """Returns the text of docs/configuration.md."""
    settings = CATALOGUE.values()
    own = [s for s in settings if s.key.startswith("compactor.")]
    hive = [s for s in settings if s.honoured and s not in own]
    unused = [s for s in settings if not s.honoured]
    return "\n".join(
        (
            _HEAD,
            "## Compactor's own settings\n",
            *_table(own),
            "\n## Hive's settings that Compactor honours\n",
            *_table(hive),
            "\n## Hive's settings that Compactor knows but does not use\n",
            "`hive-site.xml` may have them; nothing in Compactor depends on them.\n",
            *_table(unused),
            "",
        )
    )


def _table(settings: Iterable[Setting]) -> list[str]:
    rows = ["| key | other names | default | unit | who | effect |", "|---|---|---|---|---|---|"]
    for setting in settings:
        aliases = ", ".join(f"`{name}`" for name in setting.aliases)
        who = "table" if setting.scope is Scope.TABLE else "site"
        unit = " / ".join(f"`{choice}`" for choice in setting.choices) or setting.unit.value
        default = f"`{setting.default}`" if setting.default or setting.unit is not SettingUnit.TEXT else ""
        within = f" A database, table or request may set {' to '.join(setting.of_tables)}." if setting.of_tables else ""
        rows.append(f"| `{setting.key}` | {aliases} | {default} | {unit} | {who} | {setting.effect}{within} |")
    return rows


if __name__ == "__main__":
    sys.stdout.write(render())
