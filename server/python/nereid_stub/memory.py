"""Large tensors without the socket, through memory files that both sides have open and nobody can name.

The server puts inputs into blocks of one, and this process its answers into places of the other: one copy each, by the side
that has the data. Answers that find no place stay where they are: the server copies them out of this process by address.
"""

from __future__ import annotations

import bisect
import functools
import mmap
import os
import threading
import weakref

from . import datatypes
from .client_memory import own
from .codec import LEASED, SHARED

# Smaller data travels in the message: its copies cost less than the bookkeeping. As on the server's side.
SHARE_BYTES = 32 * 1024
# Places up to here keep their memory when they are free; what lies beyond goes back to the system.
KEEP_BYTES = 64 * 1024 * 1024
# Bytes that the server reads to test whether it may read this process's memory.
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


class AnswerPlaces:
    """Which parts of the memory for answers are free. First fit: low places are used again and again. Knows no memory."""

    def __init__(self, size: int) -> None:
        # Disjoint and in order, never side by side.
        self._free = [(0, size)] if size > 0 else []
        self._used: dict = {}

    def take(self, capacity: int):
        """An offset, or None when there is no room."""
        for index, (start, end) in enumerate(self._free):
            if end - start >= capacity:
                self._free[index : index + 1] = [(start + capacity, end)] if end - start > capacity else []
                self._used[start] = capacity
                return start
        return None

    def give_back(self, offset: int) -> int:
        """Returns the capacity that is free again."""
        capacity = self._used.pop(offset)
        start, end = offset, offset + capacity
        index = bisect.bisect(self._free, (start, end))
        if index < len(self._free) and self._free[index][0] == end:
            end = self._free.pop(index)[1]
        if index > 0 and self._free[index - 1][1] == start:
            index -= 1
            start = self._free.pop(index)[0]
        self._free.insert(index, (start, end))
        return capacity


class AnswerMemory:
    """Copies large answers to where the server sees them. It says when a place may be used again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._places = AnswerPlaces(0)
        self._map = None
        self._bytes = memoryview(b"")

    def open(self, descriptor: int, size: int) -> None:
        """Size 0: there is none."""
        if size == 0:
            return
        os.set_inheritable(descriptor, False)
        self._map = mmap.mmap(descriptor, size)
        self._bytes = memoryview(self._map)
        self._places = AnswerPlaces(size)

    def place(self, data):
        """Offset, capacity and size of a copy, or None when there is no room."""
        size = len(data)
        capacity = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        with self._lock:
            offset = self._places.take(capacity)
        if offset is None:
            return None
        _copy(self._bytes[offset : offset + size], data)
        return offset, capacity, size

    def returned(self, offsets: list) -> None:
        for offset in offsets:
            with self._lock:
                end = offset + self._places.give_back(offset)
                start = max(offset, KEEP_BYTES)
                if start < end:
                    self._discard(start, end - start)

    def _discard(self, start: int, size: int) -> None:
        try:
            self._map.madvise(mmap.MADV_REMOVE, start, size)
        except OSError:
            pass  # the memory is kept


def _copy(target, data) -> None:
    """Without holding up other threads, where numpy is there."""
    try:
        np = datatypes.numpy()
    except ImportError:
        target[:] = data
    else:
        np.copyto(np.frombuffer(target, dtype=np.uint8), np.frombuffer(data, dtype=np.uint8))


class Handover:
    """How large tensors reach the server."""

    def __init__(self) -> None:
        self.answers = AnswerMemory()
        self.may_lease = False
        self._lock = threading.Lock()
        self._next = 0
        self._loans: dict = {}

    def of_message(self) -> "HandoverOfMessage":
        return HandoverOfMessage(self)

    def lease(self, array, message: "HandoverOfMessage") -> int:
        with self._lock:
            self._next = (self._next + 1) % 2**32
            self._loans[self._next] = (array, message)
            return self._next

    def copied(self, numbers: list) -> None:
        """The server has copied leased memory."""
        for number in numbers:
            with self._lock:
                _array, message = self._loans.pop(number)
            message.one_copied()


class HandoverOfMessage:
    def __init__(self, handover: Handover) -> None:
        self._handover = handover
        self._count = 0
        # Made for the first lease.
        self._copied = None

    def hand_over(self, data):
        """The place of data, and three numbers for it; None when it has to travel in the message."""
        if len(data) < SHARE_BYTES:
            return None
        place = self._handover.answers.place(data)
        if place is not None:
            return (SHARED, *place)
        if not self._handover.may_lease:
            return None
        np = datatypes.numpy()
        array = np.frombuffer(data, dtype=np.uint8)
        address = array.__array_interface__["data"][0]
        own(address)
        if self._copied is None:
            self._copied = threading.Semaphore(0)
        self._count += 1
        return LEASED, self._handover.lease(array, self), address, len(data)

    @property
    def is_lending(self) -> bool:
        return self._count > 0

    def one_copied(self) -> None:
        self._copied.release()

    def wait(self) -> None:
        """Returns when the server has copied leased memory: then the model may change its arrays."""
        for _ in range(self._count):
            self._copied.acquire()


def probe_address() -> tuple:
    """Address of PROBE in this process, and the object that keeps it there."""
    import ctypes

    buffer = ctypes.create_string_buffer(PROBE, len(PROBE))
    return ctypes.addressof(buffer), buffer
