"""Readers of the socket: the main thread while it is idle, a second thread while the model runs. Knows no message.

A thread that only reads would cost every request two changes of threads. So the main thread reads, runs what it was told, and
reads again. The background thread looks from time to time. It reads in its place when a command takes long or waits for
the server.
"""

from __future__ import annotations

import collections
import queue
import threading

# How soon the background thread notices that the main thread is busy.
TICK_S = 0.005
# Ticks without a command after which the background thread sleeps until there is one.
QUIET_TICKS = 20

_READ = object()
_LOOK = object()


class Reading:
    def __init__(self, receive, take) -> None:
        """`receive()` blocks for a message; `take(message)` handles it, or returns it as a command for the main thread."""
        self._receive = receive
        self._take = take
        # Held by the thread that reads.
        self._turn = threading.Lock()
        # Read by the background thread, for the main thread.
        self._commands: queue.SimpleQueue = queue.SimpleQueue()
        # Wakes the background thread.
        self._calls: queue.SimpleQueue = queue.SimpleQueue()
        # Work that any thread, also the garbage collector, wants done: soon, or when there is time.
        self._errands: collections.deque = collections.deque()
        self._chores: collections.deque = collections.deque()
        self._is_busy = False
        self._num_commands = 0
        self._background_sleeps = False
        self._background_reads = False

    def start(self) -> None:
        threading.Thread(target=self._help, name="server-socket", daemon=True).start()

    def next_command(self):
        """For the main thread: what to do next."""
        self._is_busy = False
        run_all(self._errands)
        command = self._read_or_wait()
        self._num_commands += 1
        # In this order: the background thread sets that it sleeps, then looks whether this is set.
        self._is_busy = True
        if self._background_sleeps:
            self._calls.put(_LOOK)
        return command

    def needed(self) -> None:
        """The caller is about to wait for a message of the server."""
        if not self._turn.locked():
            self._calls.put(_READ)

    def later(self, errand) -> None:
        """Has another thread run it soon. May be called at any point, also by the garbage collector."""
        self._errands.append(errand)
        self._nudge()

    def when_there_is_time(self, chore) -> None:
        """As `later`, but not between two commands."""
        self._chores.append(chore)
        self._nudge()

    def _nudge(self) -> None:
        if self._background_reads:
            self._commands.put(_LOOK)
        elif self._background_sleeps:
            self._calls.put(_LOOK)

    def _read_or_wait(self):
        while True:
            if self._turn.acquire(blocking=False):
                try:
                    left = self._next_left()
                    return self._read() if left is None else left
                finally:
                    self._turn.release()
            # The background thread reads, and goes on until it has a command.
            command = self._commands.get()
            if command is not _LOOK:
                return command
            self._tidy()

    def _next_left(self):
        """A command that the background thread has left for the main thread, or None."""
        while True:
            try:
                command = self._commands.get_nowait()
            except queue.Empty:
                return None
            if command is not _LOOK:
                return command

    def _read(self):
        """The next command from the socket."""
        while True:
            command = self._take(self._receive())
            if command is not None:
                return command
            run_all(self._errands)

    def _tidy(self) -> None:
        run_all(self._errands)
        run_all(self._chores)

    def _help(self) -> None:
        seen = quiet = 0
        while True:
            self._background_sleeps = quiet >= QUIET_TICKS
            may_sleep = self._background_sleeps and not (self._is_busy or self._errands or self._chores)
            try:
                call = self._calls.get(timeout=None if may_sleep else TICK_S)
            except queue.Empty:
                call = None
            self._background_sleeps = False
            is_new = self._num_commands != seen
            seen = self._num_commands
            quiet = 0 if is_new or self._is_busy else quiet + 1
            self._tidy()
            if call is _READ or (self._is_busy and not is_new):
                self._read_for_main()

    def _read_for_main(self) -> None:
        if not self._turn.acquire(blocking=False):
            return
        try:
            self._background_reads = True
            self._tidy()
            self._commands.put(self._read())
        finally:
            self._background_reads = False
            self._turn.release()


def run_all(work: collections.deque) -> None:
    while work:
        try:
            job = work.popleft()
        except IndexError:
            return  # another thread was faster
        job()
