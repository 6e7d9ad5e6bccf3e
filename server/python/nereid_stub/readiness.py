"""`is_ready` of a model: asked by the server, at any time, also while `execute` runs."""

from __future__ import annotations

import collections.abc
import queue
import threading

from . import messages
from .errors import describe


class ReadinessChecks:
    """Runs the checks one after another in a thread of their own, which exists once the server has asked."""

    def __init__(self, send) -> None:
        self._send = send
        self._wanted: queue.SimpleQueue = queue.SimpleQueue()
        self._thread = None

    def start(self, number: int, model, event_loop) -> None:
        if not hasattr(model, "is_ready"):
            self._send(messages.readiness(number, messages.READY, ""))
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="readiness", daemon=True)
            self._thread.start()
        self._wanted.put((number, model, event_loop))

    def _run(self) -> None:
        while True:
            number, model, event_loop = self._wanted.get()
            state, text = _check(model, event_loop)
            self._send(messages.readiness(number, state, text))


def _check(model, event_loop) -> tuple:
    try:
        result = model.is_ready()
        if isinstance(result, collections.abc.Coroutine):
            import asyncio

            result = asyncio.run_coroutine_threadsafe(result, event_loop()).result()
        if not isinstance(result, bool):
            raise TypeError("is_ready() must return a bool, not %s" % type(result).__name__)
        return (messages.READY if result else messages.NOT_READY), ""
    except BaseException as failure:
        return messages.READY_FAILED, describe(failure)
