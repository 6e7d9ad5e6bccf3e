"""The socket to the server: whole frames in, whole frames out. Knows no message."""

from __future__ import annotations

import socket
import struct
import threading

_LENGTH = struct.Struct("<I")
# Process, user and group of the other end.
_CREDENTIALS = struct.Struct("3i")
# Frames up to this size leave in one write; larger ones go part by part, without a copy.
_JOIN_BYTES = 64 * 1024
# Largest read: small frames come with their length, and several at once.
_READ_BYTES = 64 * 1024


class Channel:
    """Any thread may send; one thread at a time receives."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)
        self._socket.setblocking(True)
        self._socket.set_inheritable(False)
        self._sending = threading.Lock()
        self._read = memoryview(bytearray(_READ_BYTES))
        # The part of it that has not been taken out.
        self._start = 0
        self._end = 0

    def server_pid(self) -> int:
        """0: it is out of sight."""
        if not hasattr(socket, "SO_PEERCRED"):
            return 0
        credentials = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        return _CREDENTIALS.unpack(credentials)[0]

    def send(self, frame: list) -> None:
        size = sum(map(len, frame))
        with self._sending:
            if size <= _JOIN_BYTES:
                self._socket.sendall(frame[0] if len(frame) == 1 else b"".join(frame))
                return
            for part in frame:
                self._socket.sendall(part)

    def receive(self) -> bytearray | None:
        """The next message, or None when the server has gone."""
        while self._end - self._start < _LENGTH.size:
            if not self._fill():
                return None
        body = self._start + _LENGTH.size
        (size,) = _LENGTH.unpack_from(self._read, self._start)
        there = min(size, self._end - body)
        message = bytearray(self._read[body : body + there])
        self._start = body + there
        return message if there == size else self._rest(message, size)

    def _fill(self) -> bool:
        """Reads what is there behind what was not taken out, which is less than a length."""
        left = self._end - self._start
        self._read[:left] = self._read[self._start : self._end]
        count = self._socket.recv_into(self._read[left:])
        self._start = 0
        self._end = left + count
        return count > 0

    def _rest(self, begun: bytearray, size: int) -> bytearray | None:
        message = bytearray(size)
        view = memoryview(message)
        filled = len(begun)
        view[:filled] = begun
        while filled < size:
            count = self._socket.recv_into(view[filled:])
            if count == 0:
                return None
            filled += count
        return message
