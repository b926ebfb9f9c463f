"""Chooses between the codecs: the fast one, or the lossless one if the fast one would lose something."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TypeVar

from compactor.orc.codecs import arrow_codec, pyorc_codec
from compactor.orc.codecs.codec import Codec, Unfit
from compactor.orc.format.types import Types

log = logging.getLogger(__name__)
ARROW: Codec = arrow_codec
PYORC: Codec = pyorc_codec
T = TypeVar("T")


def with_codec(types: Sequence[Types], work: Callable[[Codec], T]) -> T:
    """Returns the result of ``work`` with the fast codec, or the lossless one if the fast one is unfit.

    ``work`` starts from scratch with the second codec, so it must leave nothing behind when it fails.
    """
    if all(item.is_encodable for item in types):
        try:
            return work(ARROW)
        except Unfit as reason:
            log.info("rows are re-encoded one by one, because Arrow would lose something: %s", reason)
    return work(PYORC)
