"""The reason for which an application was refused or ended, found in what spark-submit or YARN wrote."""

from __future__ import annotations

import re

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
_OF_THE_DRIVER = re.compile(r"^\S+ \S+ ERROR compactor: (?P<said>[^\n]*)$", re.MULTILINE)
_OF_JAVA = re.compile(r"^(?:Caused by: |Exception in thread \S+ )(?P<said>[^\n]*)$", re.MULTILINE)
_OF_PYTHON = re.compile(r"^(?P<said>(?:[a-z_]+\.)*[A-Z]\w*(?:Error|Exception): [^\n]*)$", re.MULTILINE)
_CLASS = re.compile(r"^(?:(?:[a-z_]\w*\.)+[A-Z]\w*(?:\([^)]*\))?: )+")


def reason_in(text: str) -> str | None:
    """Returns the sentence of ``text`` that says why an application was refused or ended; None if there is none."""
    of_a_queue = _OF_A_QUEUE.search(text)
    if of_a_queue is not None:
        return of_a_queue[0].strip()
    for pattern in (_OF_THE_DRIVER, _OF_PYTHON, _OF_JAVA):
        found = list(pattern.finditer(text))
        if found:
            return _CLASS.sub("", found[-1]["said"]).strip() or found[-1]["said"]
    return None
