"""Answers of a model, and the sender through which decoupled models give them."""

from __future__ import annotations

import json
import threading

from . import arguments, messages, runtime
from .client_memory import LOST
from .codec import Reader
from .errors import ErrorCode, TritonError, TritonModelException
from .tensor import Tensor

COMPLETE_FINAL = 1
# Responses of one request that may be on their way before `send` waits for the client to take some.
WINDOW = 128
# Lock of all senders, never held for long.
_lock = threading.Lock()


def check_parameters(parameters) -> dict:
    if parameters is None:
        return {}
    if not isinstance(parameters, dict):
        raise TritonModelException("Expect dict, got %s" % type(parameters))
    for name, value in parameters.items():
        if not isinstance(name, str):
            raise TritonModelException("Expect parameters keys to have type str, found type %s" % type(name))
        if not isinstance(value, (bool, int, str)):
            raise TritonModelException("Expect parameters values to have type bool/int/str, found type %s" % type(value))
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise TritonModelException("Expect parameter '%s' to fit 64 bits, found %d" % (name, value))
    return dict(parameters)


class InferenceResponse:
    def __init__(self, output_tensors=(), error=None, parameters=None) -> None:
        self._outputs = arguments.items("output_tensors", output_tensors)
        for output in self._outputs:
            if output is None:
                raise TritonModelException("Output tensor for inference response should not be empty.")
            if not isinstance(output, Tensor):
                raise TypeError("output_tensors must hold Tensor objects, not %s" % type(output).__name__)
        if error is not None and not isinstance(error, TritonError):
            raise TypeError("error must be a TritonError, not %s" % type(error).__name__)
        self._error = error
        self._parameters = check_parameters(parameters)

    @classmethod
    def _read(cls, reader: Reader) -> "InferenceResponse":
        self = cls()
        if reader.u8() == 1:
            code = reader.u8()
            self._error = TritonError(reader.string(), ErrorCode(code))
        else:
            self._outputs = [Tensor._from_wire(*reader.tensor()) for _ in range(reader.u32())]
        self._parameters = reader.parameters()
        return self

    def output_tensors(self) -> list:
        return self._outputs

    def has_error(self) -> bool:
        return self._error is not None

    def error(self):
        return self._error

    def parameters(self) -> str:
        return json.dumps(self._parameters)

    def _prune(self, wanted) -> None:
        self._outputs = [output for output in self._outputs if output.name() in wanted]

    def _write(self, writer) -> None:
        if self._error is not None:
            writer.u8(1)
            writer.u8(int(self._error.code()))
            writer.string(self._error.message())
        else:
            writer.u8(0)
            writer.u32(len(self._outputs))
            for output in self._outputs:
                output._write(writer)
        writer.parameters(self._parameters)


class InferenceResponseSender:
    """Sends the responses of one request, from any thread, also after `execute` has returned."""

    def __init__(self, key: int, decoupled: bool, wanted, cancelled: bool) -> None:
        self._key = key
        self._decoupled = decoupled
        self._wanted = wanted
        self._cancelled = cancelled
        self._closed = False
        self._sent = 0
        self._on_the_way = 0
        # Made when somebody waits: most senders see one response and no wait.
        self._changed = None

    def is_cancelled(self) -> bool:
        return self._cancelled

    def send(self, response=None, flags: int = 0) -> None:
        if flags not in (0, COMPLETE_FINAL):
            raise TritonModelException("Unable to send response. Unsupported flag provided.")
        if flags == 0 and response is None:
            raise TritonModelException(
                "Inference Response object must be provided when the response flags is set to zero."
            )
        if response is not None and not isinstance(response, InferenceResponse):
            raise TypeError("response must be an InferenceResponse, not %s" % type(response).__name__)
        final = flags == COMPLETE_FINAL
        self._count(response, final)
        stub = runtime.stub()
        if not stub.client_memory.settle(self._key) and response is not None:
            response = InferenceResponse(error=TritonError(LOST))
        if response is None:
            stub.send(messages.response(self._key, final, None))
            return
        response._prune(self._wanted)
        handover = stub.handover.of_message()
        stub.send(messages.response(self._key, final, response, handover))
        # From here on the model may change what it has sent.
        stub.wait_for(handover)

    def _count(self, response, final: bool) -> None:
        """Books one response, or raises when it is against the rules. Waits while too many are on their way."""
        with _lock:
            if not self._decoupled:
                self._check_single(response)
            if self._closed:
                raise TritonModelException("Unable to send response. Response sender has been closed.")
            while self._on_the_way >= WINDOW and not self._cancelled and not final:
                self._wait()
            self._closed = final
            self._sent += 1
            self._on_the_way += 1

    def _wait(self) -> None:
        if self._changed is None:
            self._changed = threading.Condition(_lock)
        runtime.stub().needs_answer()
        self._changed.wait()

    def _notify(self) -> None:
        if self._changed is not None:
            self._changed.notify_all()

    def _check_single(self, response) -> None:
        if response is not None and self._sent > 0:
            raise TritonModelException(
                "Unable to send response. Non-decoupled model cannot send more than one response."
            )
        if response is None and self._sent == 0:
            raise TritonModelException(
                "Unable to send response. Non-decoupled model cannot send complete final before sending a response."
            )

    def _return(self, response) -> None:
        """Books a response that `execute` returns instead of sending it."""
        self._count(response, True)
        response._prune(self._wanted)

    def _close(self) -> bool:
        """Ends the sender; False when it had ended."""
        with _lock:
            was_open = not self._closed
            self._closed = True
            return was_open

    def _cancel(self) -> None:
        with _lock:
            self._cancelled = True
            self._notify()

    def _credit(self, count: int) -> None:
        with _lock:
            self._on_the_way -= count
            self._notify()

    def __del__(self) -> None:
        # May run in any thread at any point: only hands the key over.
        if not getattr(self, "_closed", True) and (self._decoupled or self._sent == 0):
            runtime.stub().dropped(self._key)
