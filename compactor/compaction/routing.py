"""Where an entry's Spark application runs: what must be equal for two entries to share one."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from compactor.compaction.entry import Entry
from compactor.settings.precedence import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """``pool`` None is the default pool, ``queue`` None lets the cluster choose, ``run_as`` None is the process's user.

    ``conf`` are sorted pairs of ``spark.*`` keys and values, so that routes compare and hash.
    """

    pool: str | None = None
    queue: str | None = None
    run_as: str | None = None
    conf: tuple[tuple[str, str], ...] = ()

    @property
    def digest(self) -> str:
        """Equal for equal routes, in 64 characters."""
        said = [self.pool, self.queue, self.run_as, self.conf]
        return hashlib.sha256(json.dumps(said).encode()).hexdigest()


def route(entry: Entry, settings: Settings, *, owner: str | None = None) -> Route:
    """The route of ``entry`` under settings with its table and its request in them; ``owner`` of its table.

    Nobody is impersonated unless the site says so: by ``hive.compactor.run.as.user``, or by ``compactor.run.as.owner``.
    """
    user = settings.text("hive.compactor.run.as.user")
    as_owner = settings.boolean("compactor.run.as.owner")
    return Route(
        pool=entry.pool or None,
        queue=settings.text("hive.compactor.job.queue") or None,
        run_as=(entry.run_as or user or owner or None) if user or as_owner else None,
        conf=tuple(sorted(settings.spark_conf.items())),
    )
