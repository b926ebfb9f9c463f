"""Listens for the processes of one Spark application, until it ends or there is nothing left to hold."""

from __future__ import annotations

import logging
import os
import select
import signal
import socket
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, get_args

from compactor.base.errors import BadMessage, CompactorError, Unforeseen
from compactor.rewrite.run.failure import Failure
from compactor.spark_tables.application import Process
from compactor.spark_tables.folder import Folder
from compactor.spark_tables.keeper.dispatch import Desk
from compactor.spark_tables.message_format import decode, encode
from compactor.spark_tables.messages import Request, Taken
from compactor.spark_tables.wire import SEND_WITHIN_S, KeeperConnection, accept

log = logging.getLogger(__name__)
IDLE_S = 60.0  #: that a keeper without a transaction waits for the next one
_TURN_S = 1.0


class Server:
    """The loop of one keeper."""

    def __init__(
        self,
        listening: socket.socket,
        desk: Desk,
        folder: Folder,
        application: Process,
        *,
        idle_s: float = IDLE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._listening, self._desk, self._folder, self._application = listening, desk, folder, application
        self._idle_s, self._clock = idle_s, clock
        self._under_way = 0
        self._counting = threading.Lock()
        self._used = clock()
        self._was_told = False

    def serve(self) -> str:
        """Answers until the application has ended, nothing was asked or held for a while, or a signal says so; returns
        which of them."""
        signal.signal(signal.SIGTERM, self._told)
        descriptor = os.pidfd_open(self._application.pid)
        watched: list[Any] = [self._listening, descriptor]
        try:
            while True:
                ready, _, _ = select.select(watched, [], [], _TURN_S)
                if self._was_told:
                    return "it was told to"
                if descriptor in ready or not self._application.is_alive:
                    return "the application has ended"
                if not self._folder.socket.exists():
                    return "its folder is gone, where it was to be found"
                if self._listening in ready:
                    self._begin()
                elif self._ends_idle():
                    return "there is nothing to hold"
        finally:
            os.close(descriptor)

    def _told(self, _signal: int, _frame: FrameType | None) -> None:
        self._was_told = True

    def _begin(self) -> None:
        connection = accept(self._listening)
        if connection is None:
            log.warning("a process of another user was sent away")
            return
        with self._counting:
            self._under_way += 1
        threading.Thread(target=self._converse, args=[connection], name="request", daemon=True).start()

    def _converse(self, connection: KeeperConnection) -> None:
        try:
            with connection:
                connection.wait_at_most(SEND_WITHIN_S)
                try:
                    request: Request = decode(connection.receive(), get_args(Request))
                except BadMessage as error:
                    log.warning("a request was refused: %s", error)
                    connection.send(encode(Failure.from_error(error)))
                    return
                connection.wait_at_most(None)
                connection.send(encode(Taken()))
                connection.send(self._answered(request))
        except (EOFError, OSError) as error:
            log.warning("a process went away before it had its answer: %s", error)
        finally:
            with self._counting:
                self._under_way -= 1
                self._used = self._clock()

    def _answered(self, request: Request) -> bytes:
        try:
            return encode(self._desk.answer(request))
        except CompactorError as error:
            return encode(Failure.from_error(error))
        except Exception as error:  # one request fails, and not the transactions of others
            log.exception("a request failed")
            return encode(Failure.from_error(Unforeseen(f"{type(error).__name__}: {error}; see {self._folder.log}")))

    def _ends_idle(self) -> bool:
        """Lets go of what is lost; returns true once there is nothing to hold, and nobody can find the socket then."""
        self._desk.let_go_of_lost()
        with self._counting:
            is_idle = self._desk.is_empty and not self._under_way and self._clock() - self._used >= self._idle_s
        if is_idle:
            with self._folder.locked():
                self._folder.socket.unlink(missing_ok=True)
        return is_idle
