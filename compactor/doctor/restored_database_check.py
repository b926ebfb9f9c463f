"""The doctor's check of what is remembered of the metastore outside of its database (PROTOCOL 11.2)."""

from __future__ import annotations

from collections.abc import Iterator

from compactor.base.errors import StorageError
from compactor.base.utc import utc_text
from compactor.site.finding import Finding, Level, first_few, ok
from compactor.site.mode import Mode, may_somewhere
from compactor.site.restored_database import behind, doubt_of
from compactor.site.site import Site


def check_memory(site: Site) -> Iterator[Finding]:
    acting = may_somewhere(site.settings, Mode.COMPACT)
    memory = site.memory
    if memory is None:
        yield Finding(
            level=Level.WARN if acting else Level.OK,
            subject="memory",
            found="nothing is remembered of this metastore outside of its database, so one that is restored from a backup "
            "is not noticed",
            wanted="a folder that every process sees and that is not restored together with the database",
            fix="set compactor.memory, or warehouse under the metastore in compactor.toml",
        )
        return
    try:
        found, files = doubt_of(site), memory.newest()
    except StorageError as error:
        yield Finding(
            level=Level.FAIL,
            subject="memory",
            found=str(error),
            wanted=f"{memory.place}, readable; until then nothing is removed, timed out or forgotten",
            fix="make the store answer, or name another folder in compactor.memory",
        )
        return
    if found is not None:
        yield Finding(
            level=Level.FAIL,
            subject="restored metastore",
            found=f"the database is older than what is remembered of it{behind(found)}: "
            + first_few([str(one) for one in found.contradictions]),
            wanted="a database that holds at least what is remembered; until then nothing is timed out, compacted, removed "
            "or forgotten here",
            fix="stop Hive's own compactor and cleaner; put the right database back, or `compactor metastore agree`",
        )
    elif not files:
        yield ok("memory", f"nothing is remembered yet in {memory.place}; the next pass begins" if acting else _UNUSED)
    else:
        at = utc_text(max(file.token.at for file in files))
        yield ok("memory", f"{memory.place} agrees with the database; its newest file is of {at}")


_UNUSED = "nothing is remembered outside of the database in modes below compact"
