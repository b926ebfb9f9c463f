"""The route of an entry: where its Spark application runs. Only entries of equal routes share an application."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from compactor.compaction.entry import Entry
from compactor.settings.precedence import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Pool, Spark queue, user and Spark configuration of an application.

    ``pool`` None is the default pool, ``queue`` None lets the cluster choose, ``run_as`` None is the process's user.
    ``conf`` holds sorted pairs of ``spark.*`` keys and values that may be seen, so that routes compare and hash. Secret ones
    are the same for all applications of a site; each launcher reads them again.
    """

    pool: str | None = None
    queue: str | None = None
    run_as: str | None = None
    conf: tuple[tuple[str, str], ...] = ()

    @property
    def digest(self) -> str:
        """A hash of the route in 64 characters."""
        parts = [self.pool, self.queue, self.run_as, self.conf]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def route(entry: Entry, settings: Settings, *, run_as: str | None) -> Route:
    """Returns the route of ``entry``.

    Args:
        settings: including those of the entry's table and request.
        run_as: the user as ``site.run_as`` has decided; the entry's own only records who compacted.
    """
    return Route(
        pool=entry.pool or None,
        queue=settings.text("hive.compactor.job.queue") or None,
        run_as=run_as,
        conf=tuple(sorted(settings.public_spark_conf.items())),
    )
