"""Finds the reason why an application was refused or failed in the output of spark-submit or YARN."""

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
_OF_THE_DRIVER = re.compile(r"^\S+ \S+ ERROR compactor: (?P<reason>[^\n]*)$", re.MULTILINE)
_OF_JAVA = re.compile(r"^(?:Caused by: |Exception in thread \S+ )(?P<reason>[^\n]*)$", re.MULTILINE)
_OF_PYTHON = re.compile(r"^(?P<reason>(?:[a-z_]+\.)*[A-Z]\w*(?:Error|Exception): [^\n]*)$", re.MULTILINE)
_CLASS = re.compile(r"^(?:(?:[a-z_]\w*\.)+[A-Z]\w*(?:\([^)]*\))?: )+")


def find_reason(text: str) -> str | None:
    """Returns the sentence that says why an application was refused or failed; None if the text has no such sentence."""
    refusal = _OF_A_QUEUE.search(text)
    if refusal is not None:
        return refusal[0].strip()
    for pattern in (_OF_THE_DRIVER, _OF_PYTHON, _OF_JAVA):
        matches = list(pattern.finditer(text))
        if matches:
            return _CLASS.sub("", matches[-1]["reason"]).strip() or matches[-1]["reason"]
    return None
