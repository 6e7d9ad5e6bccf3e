"""Large tensors without the socket: blocks that the server lends to this process, and arrays that this process lends to it.

Blocks of the server lie in a memory file that both sides have open and nobody can name. Arrays of the model stay where they
are: the server copies them out of this process by address and then says so.
"""

from __future__ import annotations

import functools
import mmap
import os
import threading
import weakref

from . import datatypes

# Smaller data travels in the message: its copies cost less than the bookkeeping. As on the server's side.
SHARE_BYTES = 32 * 1024
# What the server reads to find out whether it may look into this process.
PROBE = b"nereid-probe"


class SharedBlocks:
    """Views of the server's memory file. A block goes back when the last array over it is gone."""

    def __init__(self, descriptor: int, give_back) -> None:
        os.set_inheritable(descriptor, False)
        self._descriptor = descriptor
        # May be called in any thread at any point: by the garbage collector.
        self._give_back = give_back
        self._maps: dict = {}
        self._owners: dict = {}

    def view(self, offset: int, capacity: int, size: int) -> memoryview:
        block = self._maps.get(offset)
        if block is None:
            block = mmap.mmap(self._descriptor, capacity, offset=offset)
            self._maps[offset] = block
        try:
            np = datatypes.numpy()
        except ImportError:
            # Nothing else tells when the last view is gone.
            copy = memoryview(bytearray(memoryview(block)[:size]))
            self._give_back(offset)
            return copy
        owner = np.frombuffer(block, dtype=np.uint8, count=size)
        self._owners[offset] = weakref.ref(owner, functools.partial(self._released, offset))
        return memoryview(owner)

    def _released(self, offset: int, _owner) -> None:
        self._give_back(offset)


class Loans:
    """Arrays that the server copies out of this process. They are held, and must not change, until it has."""

    def __init__(self) -> None:
        self.enabled = False
        self._lock = threading.Lock()
        self._next = 0
        self._open: dict = {}

    def of_message(self) -> "LoansOfMessage":
        return LoansOfMessage(self)

    def add(self, array, message: "LoansOfMessage") -> int:
        with self._lock:
            self._next = (self._next + 1) % 2**32
            self._open[self._next] = (array, message)
            return self._next

    def returned(self, numbers: list) -> None:
        for number in numbers:
            with self._lock:
                _array, message = self._open.pop(number)
            message.one_returned()


class LoansOfMessage:
    def __init__(self, loans: Loans) -> None:
        self._loans = loans
        self._count = 0
        self._returned = threading.Semaphore(0)

    def lend(self, data):
        """Number, address and size of lent data; None when it has to travel in the message."""
        if len(data) < SHARE_BYTES or not self._loans.enabled:
            return None
        np = datatypes.numpy()
        array = np.frombuffer(data, dtype=np.uint8)
        self._count += 1
        return self._loans.add(array, self), array.__array_interface__["data"][0], len(data)

    def one_returned(self) -> None:
        self._returned.release()

    def wait(self) -> None:
        """Returns when the server has copied everything: then the model may change its arrays."""
        for _ in range(self._count):
            self._returned.acquire()


def probe_address() -> tuple:
    """Where PROBE lies in this process, and the object that keeps it there."""
    import ctypes

    buffer = ctypes.create_string_buffer(PROBE, len(PROBE))
    return ctypes.addressof(buffer), buffer
