"""Delays of a database and a store that are far away, added to those of this machine."""

from __future__ import annotations

import asyncio
import multiprocessing
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from pathlib import Path
from typing import Any

from compactor.rewrite.run.execute import TaskInput, TaskResult
from compactor.rewrite.run.failure import Failure
from compactor.rewrite.run.runner import ProcessRunner, attempt_parcels
from compactor.storage.local import LocalStorage
from tests.support.counted_storage import CALLS

_SOCKET = ".s.PGSQL.5432"


class SlowRunner(ProcessRunner):
    """Runs units in processes of this machine, in which each call of the local store takes ``seconds`` longer."""

    def __init__(self, width: int, seconds: float) -> None:
        super().__init__(width)
        self._seconds = seconds

    def _attempt(self) -> Callable[[list[list[TaskInput]]], list[TaskResult | Failure]]:
        return partial(_attempted, self._seconds)


def _attempted(seconds: float, parcels: list[list[TaskInput]]) -> list[TaskResult | Failure]:
    with slow_storage(seconds):
        return attempt_parcels(parcels)


@contextmanager
def slow_storage(seconds: float) -> Iterator[dict[str, int]]:
    """Lets every call of the local store take ``seconds`` longer, on whichever thread; yields the number of calls of each
    kind. A call within another one counts, too."""
    counts: dict[str, int] = {}
    before = {name: LocalStorage.__dict__[name] for name in CALLS if name in LocalStorage.__dict__}
    for name, method in before.items():
        setattr(LocalStorage, name, _delayed(name, method, seconds, counts))
    try:
        yield counts
    finally:
        for name, method in before.items():
            setattr(LocalStorage, name, method)


def _delayed(name: str, method: Callable[..., Any], seconds: float, counts: dict[str, int]) -> Callable[..., Any]:
    @wraps(method)
    def delayed(*arguments: Any, **more: Any) -> Any:
        counts[name] = counts.get(name, 0) + 1
        time.sleep(seconds)
        return method(*arguments, **more)

    return delayed


@contextmanager
def slow_socket(server: Path, seconds: float) -> Iterator[Path]:
    """Yields a folder with a socket that leads to that of a PostgreSQL server in the folder ``server``, through a proxy in a
    process of its own: what the server answers arrives ``seconds`` later, so each round trip takes that much longer."""
    here, there = multiprocessing.Pipe()
    with tempfile.TemporaryDirectory() as name:
        arguments = (there, str(server / _SOCKET), str(Path(name) / _SOCKET), seconds)
        process = multiprocessing.get_context("spawn").Process(target=_serve, args=arguments, daemon=True)
        process.start()
        try:
            here.recv()
            yield Path(name)
        finally:
            process.kill()
            process.join()


def _serve(ready: Any, server: str, place: str, seconds: float) -> None:
    async def serve() -> None:
        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            answers, asks = await asyncio.open_unix_connection(server)
            await asyncio.gather(_pass_on(reader, asks, 0.0), _pass_on(answers, writer, seconds))

        async with await asyncio.start_unix_server(connected, place) as listening:
            ready.send(True)
            await listening.serve_forever()

    asyncio.run(serve())


async def _pass_on(source: asyncio.StreamReader, target: asyncio.StreamWriter, seconds: float) -> None:
    """Passes on whatever comes, each part ``seconds`` after it came."""
    waiting: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

    async def arrive() -> None:
        while True:
            part = await source.read(65_536)
            await waiting.put((time.monotonic() + seconds, part))
            if not part:
                return

    arriving = asyncio.create_task(arrive())
    while True:
        due, part = await waiting.get()
        if (left := due - time.monotonic()) > 0:
            await asyncio.sleep(left)
        if not part:
            break
        target.write(part)
        await target.drain()
    await arriving
    target.close()
