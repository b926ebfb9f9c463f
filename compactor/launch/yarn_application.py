"""An application as YARN's ResourceManager lists it, and why it was refused or failed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_ENDED = frozenset({"FINISHED", "FAILED", "KILLED"})
_TAG_LENGTH = 100  #: YARN refuses longer tags
_POD = re.compile(r"submission ID (\S+:\S+-driver)\b")
_ID = re.compile(r"application_\d+_\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class YarnApplication:
    """An application.

    ``queue`` is the path of its queue, or the requested queue if the application was refused.
    """

    id: str
    state: str
    final: str
    queue: str
    user: str
    name: str
    tags: frozenset[str] = frozenset()
    diagnostics: str = ""
    tracking_url: str | None = None  #: the ResourceManager's proxy, or its page of the application
    log_url: str | None = None  #: the output of the last master's container

    @property
    def has_ended(self) -> bool:
        return self.state in _ENDED

    @property
    def waits(self) -> bool:
        """True until its master registers: it waits for its queue, or its first container is starting."""
        return self.state in ("NEW", "NEW_SAVING", "SUBMITTED", "ACCEPTED")

    @property
    def verdict(self) -> str:
        """Its state in YARN's words, such as ``KILLED`` or ``FINISHED, FAILED``."""
        return self.state if self.final in ("UNDEFINED", self.state) else f"{self.state}, {self.final}"


def read_application(row: Mapping[str, Any]) -> YarnApplication:
    """Returns the application that a ResourceManager's REST interface describes as ``row``."""
    return YarnApplication(
        id=row["id"],
        state=row["state"],
        final=row.get("finalStatus", "UNDEFINED"),
        queue=row.get("queue", ""),
        user=row.get("user", ""),
        name=row.get("name", ""),
        tags=frozenset(filter(None, row.get("applicationTags", "").split(","))),
        diagnostics=row.get("diagnostics") or "",
        tracking_url=row.get("trackingUrl") or None,
        log_url=row.get("amContainerLogs") or None,
    )


def is_application(name: str | None) -> bool:
    """Returns true if ``name`` is the id of an application of YARN."""
    return name is not None and _ID.fullmatch(name) is not None


def find_application_id(text: str) -> str | None:
    """Returns the last application that a text, such as the output of spark-submit, names.

    Examples: ``application_1700000000000_0042`` on YARN, ``spark:fleet-driver`` (NAMESPACE:POD) on Kubernetes.
    """
    ids = _ID.findall(text) or _POD.findall(text)
    return ids[-1] if ids else None


def make_tag(metastore: str, batch_id: int, planned_at: int) -> str:
    """Returns the tag of a batch's applications on YARN, such as ``compactor-default-7-1700000000000``.

    YARN keeps tags in lower case. The time of planning distinguishes installations that share a cluster.
    """
    name = re.sub(r"[^a-z0-9_-]", "-", metastore.lower())
    suffix = f"-{batch_id}-{planned_at}"
    return f"compactor-{name}"[: _TAG_LENGTH - len(suffix)] + suffix


#: Sentences of CapacityScheduler and FairScheduler about a queue, whatever exceptions they are wrapped in.
_OF_A_QUEUE = re.compile(
    r"(?:Application \S+ submitted by user \S+ to (?:unknown|non-leaf)[^\n]*"
    r"|User \S+ does not have permission to submit [^\n]*"
    r"|User \S+ cannot submit applications? to queue [^\n]*"
    r"|Queue \S+ already has \d+ applications[^\n]*"
    r"|[^\n]*Cannot accept submission of application[^\n]*"
    r"|[^\n:]*queue \S+ is STOPPED[^\n]*)"
)
#: What our driver logs before it ends with an error.
_OF_THE_DRIVER = re.compile(r"^\S+ \S+ ERROR compactor: (?P<reason>[^\n]*)$", re.MULTILINE)
_OF_JAVA = re.compile(r"^(?:Caused by: |Exception in thread \S+ )(?P<reason>[^\n]*)$", re.MULTILINE)
_OF_PYTHON = re.compile(r"^(?P<reason>(?:[a-z_]+\.)*[A-Z]\w*(?:Error|Exception): [^\n]*)$", re.MULTILINE)
_EXCEPTION_CLASS = re.compile(r"^(?:(?:[a-z_]\w*\.)+[A-Z]\w*(?:\([^)]*\))?: )+")


def find_reason(text: str) -> str | None:
    """Returns the sentence that says why an application was refused or failed; None without one."""
    refusal = _OF_A_QUEUE.search(text)
    if refusal is not None:
        return refusal[0].strip()
    for pattern in (_OF_THE_DRIVER, _OF_PYTHON, _OF_JAVA):
        matches = list(pattern.finditer(text))
        if matches:
            return _EXCEPTION_CLASS.sub("", matches[-1]["reason"]).strip() or matches[-1]["reason"]
    return None
