"""Serves the processes of one Spark application until it ends or nothing is held any longer."""

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
from compactor.spark_tables.driver_jvm import Process
from compactor.spark_tables.keeper.dispatch import Dispatcher
from compactor.spark_tables.keeper_folder import Folder
from compactor.spark_tables.keeper_requests import Request, Taken
from compactor.spark_tables.local_socket import SEND_WITHIN_S, KeeperConnection, accept
from compactor.spark_tables.message_bytes import decode, encode

log = logging.getLogger(__name__)
IDLE_S = 60.0  #: how long a keeper without transactions waits for the next request
_TURN_S = 1.0  #: how often the loop looks whether it may end


class KeeperServer:
    """The loop of one keeper."""

    def __init__(
        self,
        listening: socket.socket,
        dispatcher: Dispatcher,
        folder: Folder,
        application: Process,
        *,
        idle_s: float = IDLE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._listening, self._dispatcher, self._folder, self._application = listening, dispatcher, folder, application
        self._idle_s, self._clock = idle_s, clock
        self._under_way = 0
        self._counting = threading.Lock()
        self._last_used_at = clock()
        self._got_sigterm = False

    def serve(self) -> str:
        """Answers requests until it has to end; returns the reason.

        It ends with the application, on SIGTERM, when its folder is removed, or after it was idle for a while.
        """
        signal.signal(signal.SIGTERM, self._handle_sigterm)
        descriptor = os.pidfd_open(self._application.pid)
        watched: list[Any] = [self._listening, descriptor]
        try:
            while True:
                ready, _, _ = select.select(watched, [], [], _TURN_S)
                if self._got_sigterm:
                    return "it got SIGTERM"
                if descriptor in ready or not self._application.is_alive:
                    return "the application has ended"
                if not self._folder.socket.exists():
                    return "its folder is gone, so nobody can find it"
                if self._listening in ready:
                    self._accept()
                elif self._end_if_idle():
                    return "there is nothing to hold"
        finally:
            os.close(descriptor)

    def _handle_sigterm(self, _signal: int, _frame: FrameType | None) -> None:
        self._got_sigterm = True

    def _accept(self) -> None:
        connection = accept(self._listening)
        if connection is None:
            log.warning("a connection of another user's process was closed")
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
                connection.send(self._answer(request))
        except (EOFError, OSError) as error:
            log.warning("a process disconnected before it got its answer: %s", error)
        finally:
            with self._counting:
                self._under_way -= 1
                self._last_used_at = self._clock()

    def _answer(self, request: Request) -> bytes:
        try:
            return encode(self._dispatcher.answer(request))
        except CompactorError as error:
            return encode(Failure.from_error(error))
        except Exception as error:  # only this request fails; the transactions of others stay open
            log.exception("a request failed")
            return encode(Failure.from_error(Unforeseen(f"{type(error).__name__}: {error}; see {self._folder.log}")))

    def _end_if_idle(self) -> bool:
        """Releases what is lost; if the keeper is idle then, removes its socket and returns true."""
        self._dispatcher.release_lost()
        with self._counting:
            idle_s = self._clock() - self._last_used_at
            is_idle = self._dispatcher.is_empty and not self._under_way and idle_s >= self._idle_s
        if is_idle:
            with self._folder.locked():
                self._folder.socket.unlink(missing_ok=True)
        return is_idle
