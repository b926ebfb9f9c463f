"""Bounds of a request to the page: the length of its body and texts, and the characters of a text."""

from __future__ import annotations

import unicodedata
from typing import Annotated, TypeAlias

from fastapi import HTTPException, status
from pydantic import AfterValidator, StringConstraints
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_BODY = 65_536  #: bytes of an action's body, which FastAPI reads before it authenticates the user
#: Control characters and halves of UTF-16 pairs: no name has them, and some databases refuse them.
_NOT_STORED = ("Cc", "Cs")


def _check_storable(text: str) -> str:
    for place, character in enumerate(text):
        if unicodedata.category(character) in _NOT_STORED:
            raise ValueError(f"character {place} is {character!a}; expected: no control characters")
    return text


_Storable = AfterValidator(_check_storable)
TableName: TypeAlias = Annotated[str, StringConstraints(max_length=400), _Storable]
PartitionName: TypeAlias = Annotated[str, StringConstraints(max_length=767), _Storable]
PoolName: TypeAlias = Annotated[str, StringConstraints(max_length=128), _Storable]
Word: TypeAlias = Annotated[str, StringConstraints(max_length=100), _Storable]
SearchText: TypeAlias = Annotated[str, StringConstraints(max_length=1000), _Storable]
PropertyKey: TypeAlias = Annotated[str, StringConstraints(max_length=256), _Storable]
PropertyValue: TypeAlias = Annotated[str, StringConstraints(max_length=4000), _Storable]


class BoundedBody:
    """Refuses a body of more than ``MOST_BODY`` bytes (413) without reading the rest.

    Paths in ``unbounded`` have no limit.
    """

    def __init__(self, app: ASGIApp, unbounded: str) -> None:
        self._app, self._unbounded = app, unbounded

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        received = 0

        async def receive_some() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > MOST_BODY:
                raise HTTPException(
                    status.HTTP_413_CONTENT_TOO_LARGE,
                    f"The request has more than {MOST_BODY} bytes; nothing was done.",
                )
            return message

        is_bounded = scope["type"] == "http" and not scope["path"].endswith(self._unbounded)
        await self._app(scope, receive_some if is_bounded else receive, send)
