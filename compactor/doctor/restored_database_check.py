"""The doctor's check that the database is not an older copy: marks kept outside of it (PROTOCOL 11.2)."""

from __future__ import annotations

from collections.abc import Iterator

from compactor.base.errors import StorageError
from compactor.base.utc import utc_text
from compactor.site.finding import Finding, Level, first_few, ok
from compactor.site.mode import Mode, may_somewhere
from compactor.site.restored_database import behind, doubt_of
from compactor.site.site import Site


def check_memory(site: Site) -> Iterator[Finding]:
    may_write = may_somewhere(site.settings, Mode.COMPACT)
    memory = site.memory
    if memory is None:
        yield Finding(
            level=Level.WARN if may_write else Level.OK,
            subject="memory",
            found="no marks of this metastore are kept outside of its database, so a restore of an "
            "older one would go unnoticed",
            wanted="a folder that every process sees and that is not restored together with the database",
            fix="set compactor.memory, or warehouse under the metastore in compactor.toml",
        )
        return
    try:
        doubt, files = doubt_of(site), memory.newest()
    except StorageError as error:
        yield Finding(
            level=Level.FAIL,
            subject="memory",
            found=str(error),
            wanted=f"{memory.place}, readable; until then nothing is removed, timed out or forgotten",
            fix="make the store answer, or name another folder in compactor.memory",
        )
        return
    if doubt is not None:
        yield Finding(
            level=Level.FAIL,
            subject="restored metastore",
            found=f"the database is older than the marks that are kept outside of it{behind(doubt)}: "
            + first_few([str(contradiction) for contradiction in doubt.contradictions]),
            wanted="a database at least as new as its marks; until then nothing is timed out, compacted, "
            "removed or forgotten here",
            fix="stop Hive's own compactor and cleaner; put the right database back, or `compactor metastore agree`",
        )
    elif not files:
        yield ok("memory", f"{memory.place} has no marks yet; the next pass writes them" if may_write else _UNUSED)
    else:
        at = utc_text(max(file.token.at for file in files))
        yield ok("memory", f"{memory.place} agrees with the database; its newest file is from {at}")


_UNUSED = "modes below compact keep no marks outside of the database"
