"""The socket to the server: whole frames in, whole frames out. Knows no message."""

from __future__ import annotations

import socket
import struct
import threading

_LENGTH = struct.Struct("<I")
# Frames up to this size leave in one write; larger ones go part by part, without a copy.
_JOIN_BYTES = 64 * 1024


class Channel:
    """Any thread may send; one thread receives."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)
        self._socket.setblocking(True)
        self._socket.set_inheritable(False)
        self._sending = threading.Lock()

    def send(self, frame: list) -> None:
        size = sum(map(len, frame))
        with self._sending:
            if size <= _JOIN_BYTES:
                self._socket.sendall(b"".join(frame))
                return
            for part in frame:
                self._socket.sendall(part)

    def receive(self) -> bytearray | None:
        """The next message, or None when the server has gone."""
        head = self._read(_LENGTH.size)
        return None if head is None else self._read(_LENGTH.unpack(head)[0])

    def _read(self, size: int) -> bytearray | None:
        data = bytearray(size)
        view = memoryview(data)
        filled = 0
        while filled < size:
            count = self._socket.recv_into(view[filled:])
            if count == 0:
                return None
            filled += count
        return data
