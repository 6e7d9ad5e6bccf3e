"""Questions of the model to the server that wait for an answer: other models' loading, metrics. One call, one answer."""

from __future__ import annotations

import queue
import threading

from . import messages
from .errors import TritonModelException

LOAD_MODEL, UNLOAD_MODEL, MODEL_READY, NEW_FAMILY, NEW_METRIC, METRIC_VALUE = range(1, 7)
# Told, without an answer.
DROP_FAMILY, DROP_METRIC, INCREMENT_METRIC, SET_METRIC, OBSERVE_METRIC = range(65, 70)


class Questions:
    def __init__(self, send, before_wait) -> None:
        """`before_wait()`: somebody has to read the answer."""
        self._send = send
        self._before_wait = before_wait
        self._lock = threading.Lock()
        self._asked = 0
        self._open: dict = {}

    def ask(self, what: int, write) -> float:
        """`write` puts the details into the message. The answer, or the server's refusal as TritonModelException."""
        answer: queue.SimpleQueue = queue.SimpleQueue()
        with self._lock:
            self._asked = self._asked % (2**32 - 1) + 1
            number = self._asked
            self._open[number] = answer
        try:
            self._send(messages.ask(number, what, write))
        except BaseException:
            self._open.pop(number, None)
            raise
        self._before_wait()
        error, value = answer.get()
        if error is not None:
            raise TritonModelException(error)
        return value

    def tell(self, what: int, write) -> None:
        self._send(messages.ask(0, what, write))

    def answered(self, reader) -> None:
        """Takes an answer out of a message of the server. Called by the thread that reads the socket."""
        number = reader.u32()
        error = reader.string() if reader.u8() == 1 else None
        value = 0.0 if error is not None else reader.f64()
        answer = self._open.pop(number, None)
        if answer is not None:
            answer.put((error, value))
