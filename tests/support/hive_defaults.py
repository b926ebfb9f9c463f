"""Hive's own defaults beside those of the catalogue."""

from __future__ import annotations

from collections.abc import Iterable

from compactor.settings.catalogue import CATALOGUE, parse

#: Settings of ours whose default is none of Hive 4.1's, with Hive's: its metastore cleans by default, but not every one
#: belongs to a running Hive. Only an explicit value, and the traces of Hive's threads in the database, show that its
#: cleaner works beside ours. Its cleaner looks at one entry at a time.
OTHERWISE_4_1 = {"hive.compactor.cleaner.on": {"true"}, "hive.compactor.cleaner.threads.num": {"1"}}
#: The same of Hive 4.2; what it has otherwise than 4.1 follows the schema (``Site.goes_by_write_ids``).
OTHERWISE_4_2 = OTHERWISE_4_1 | {"hive.txn.use.minhistorywriteid": {"true"}}


def compared(lines: Iterable[str]) -> tuple[dict[str, set[str]], int]:
    """Returns the settings whose default is none of Hive's, with Hive's, and how many Hive has at all.

    Args:
        lines: ``key=default``; clients and metastore may have different ones.
    """
    hives: dict[str, set[str]] = {}
    for line in lines:
        key, _, default = line.partition("=")
        hives.setdefault(key, set()).add(default)
    known = {s.key: (s, set().union(*(hives.get(name, set()) for name in s.names))) for s in CATALOGUE.values()}
    other = {
        key: texts
        for key, (setting, texts) in known.items()
        if texts and parse(setting, setting.default) not in [parse(setting, text) for text in texts]
    }
    return other, sum(bool(texts) for _, texts in known.values())
