"""The binary form of messages between server and stub: little-endian fields, lengths in front. Knows no message.

The counterpart is `server/src/backend/python/wire-codec.ts`; the two change together.
"""

from __future__ import annotations

import struct

_U32 = struct.Struct("<I")
_I64 = struct.Struct("<q")
_U64 = struct.Struct("<Q")
_F64 = struct.Struct("<d")

# Tensor data starts at a multiple of this in a message, so that arrays over it are aligned.
DATA_ALIGNMENT = 8

# Data up to this size is copied into the part that grows: cheaper than one more part to send.
COPY_BYTES = 32 * 1024

BOOL, INT, STRING, DOUBLE = range(4)

# Places of a tensor's data: behind its head, in memory shared with the server, in the stub's memory, or in a client's.
INLINE, SHARED, LEASED, CLIENT = range(4)


def text_of(value):
    """Models give names as `bytes`, too: straight out of arrays. Anything else is left to the later checks."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


class Writer:
    """Collects the parts of one message; big data is referred to and not copied."""

    def __init__(self, kind: int, handover=None) -> None:
        """`handover.hand_over(data)` may take large data over: it gives where it is and three numbers, or None."""
        self._parts: list = []
        self._parts_size = 0
        # The part that grows; the first begins with room for the length of the message.
        self._part = bytearray(_U32.size)
        self._part.append(kind)
        self._handover = handover

    @property
    def _size(self) -> int:
        """Size of the message so far, without its length."""
        return self._parts_size + len(self._part) - _U32.size

    def u8(self, value: int) -> None:
        self._part.append(value)

    def u32(self, value: int) -> None:
        self._part += _U32.pack(value)

    def i64(self, value: int) -> None:
        self._part += _I64.pack(value)

    def u64(self, value: int) -> None:
        self._part += _U64.pack(value)

    def f64(self, value: float) -> None:
        self._part += _F64.pack(value)

    def data(self, data) -> None:
        self.u32(len(data))
        self._bytes(data)

    def _bytes(self, data) -> None:
        if len(data) <= COPY_BYTES:
            self._part += data
            return
        self._parts += (self._part, data)
        self._parts_size += len(self._part) + len(data)
        self._part = bytearray()

    def string(self, value: str) -> None:
        data = value if isinstance(value, bytes) else value.encode("utf-8", "replace")
        self._part += _U32.pack(len(data))
        self._part += data

    def strings(self, values) -> None:
        self.u32(len(values))
        for value in values:
            self.string(value)

    def tensor(self, name: str, datatype: int, shape, data) -> None:
        self.string(name)
        part = self._part
        part.append(datatype)
        part += _U32.pack(len(shape))
        for dim in shape:
            part += _I64.pack(dim)
        place = None if self._handover is None else self._handover.hand_over(data)
        if place is not None:
            part.append(place[0])
            for number in place[1:]:
                part += _U64.pack(number)
            return
        part.append(INLINE)
        part += _U32.pack(len(data))
        part += b"\0" * (-self._size % DATA_ALIGNMENT)
        self._bytes(data)

    def parameters(self, values: dict) -> None:
        self.u32(len(values))
        for name, value in values.items():
            self.string(name)
            if isinstance(value, bool):
                self.u8(BOOL)
                self.u8(int(value))
            elif isinstance(value, int):
                self.u8(INT)
                self.i64(value)
            else:
                self.u8(STRING)
                self.string(value)

    def correlation(self, value) -> None:
        if isinstance(value, str):
            self.u8(1)
            self.string(value)
        else:
            self.u8(0)
            self.u64(value)

    def frame(self) -> list:
        """The parts to send, length of the message first."""
        size = self._size
        parts = [*self._parts, self._part]
        _U32.pack_into(parts[0], 0, size)
        return parts


class Reader:
    """Takes the fields of one message out in order; tensor data stays a view of the message."""

    def __init__(self, body: bytearray, blocks=None, clients=None) -> None:
        """`view` of `blocks` and `clients` gives the data of tensors that lie there, by the numbers of the message."""
        self._clients = clients
        self._blocks = blocks
        self._body = body
        self._view = memoryview(body)
        self._at = 0

    def _take(self, size: int) -> int:
        start = self._at
        if start + size > len(self._body):
            raise ValueError("message of %d bytes ends inside a field" % len(self._body))
        self._at = start + size
        return start

    # Numbers that are not there are errors of `struct`.

    def u8(self) -> int:
        at = self._at
        self._at = at + 1
        return self._body[at]

    def u32(self) -> int:
        at = self._at
        self._at = at + 4
        return _U32.unpack_from(self._body, at)[0]

    def i64(self) -> int:
        at = self._at
        self._at = at + 8
        return _I64.unpack_from(self._body, at)[0]

    def u64(self) -> int:
        at = self._at
        self._at = at + 8
        return _U64.unpack_from(self._body, at)[0]

    def f64(self) -> float:
        at = self._at
        self._at = at + 8
        return _F64.unpack_from(self._body, at)[0]

    def string(self) -> str:
        size = self.u32()
        if size == 0:
            return ""
        start = self._take(size)
        return self._body[start : start + size].decode("utf-8", "replace")

    def strings(self) -> list:
        return [self.string() for _ in range(self.u32())]

    def tensor(self) -> tuple:
        name = self.string()
        datatype = self.u8()
        shape = [self.i64() for _ in range(self.u32())]
        place = self.u8()
        if place == CLIENT:
            return name, datatype, shape, self._clients.view(*(self.u64() for _ in range(5)))
        if place == SHARED:
            return name, datatype, shape, self._blocks.view(self.u64(), self.u64(), self.u64())
        size = self.u32()
        self._take(-self._at % DATA_ALIGNMENT)
        start = self._take(size)
        return name, datatype, shape, self._view[start : start + size]

    def parameters(self) -> dict:
        return {self.string(): self._parameter() for _ in range(self.u32())}

    def _parameter(self):
        tag = self.u8()
        if tag == BOOL:
            return self.u8() != 0
        if tag == INT:
            return self.i64()
        return self.string() if tag == STRING else self.f64()

    def correlation(self):
        return self.string() if self.u8() == 1 else self.u64()
