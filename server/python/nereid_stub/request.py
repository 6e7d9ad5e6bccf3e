"""Requests: those the server gives to `execute`, and those a model makes to call other models."""

from __future__ import annotations

import enum
import json
import queue

from . import arguments, runtime
from .codec import Reader
from .errors import TritonModelException
from .response import InferenceResponse, InferenceResponseSender, check_parameters
from .tensor import Tensor

RELEASE_ALL = 1
RELEASE_RESCHEDULE = 2


class MemoryType(enum.IntEnum):
    TRITONSERVER_MEMORY_CPU = 0
    TRITONSERVER_MEMORY_GPU = 1


class PreferredMemory:
    """Preferred memory for outputs of a called model. All tensors of this process are in host memory."""

    def __init__(self, preferred_memory_type, preferred_device_id: int = 0) -> None:
        self.preferred_memory_type = arguments.member("preferred_memory_type", preferred_memory_type, MemoryType)
        self.preferred_device_id = arguments.integer("preferred_device_id", preferred_device_id)


class InferenceTrace:
    """The trace of a request. A call that is given it becomes a part of it."""

    def __init__(self, context: str | None = None, key: int = 0) -> None:
        self._context = context
        # The request it belongs to, as the server knows it; 0: none.
        self._key = key

    def get_context(self):
        return self._context


class InferenceRequest:
    def __init__(
        self,
        request_id="",
        correlation_id=0,
        inputs=None,
        requested_output_names=None,
        model_name=None,
        model_version=-1,
        flags=0,
        timeout=0,
        preferred_memory=None,
        trace=None,
        parameters=None,
    ) -> None:
        if correlation_id is None:
            raise TypeError("correlation_id must be an integer or a string, not NoneType")
        if isinstance(correlation_id, bool) or not isinstance(correlation_id, (int, str)):
            raise TritonModelException("Correlation ID must be integer or string")
        self._id = arguments.text("request_id", request_id)
        self._correlation = correlation_id
        self._inputs = arguments.items("inputs", inputs)
        names = arguments.items("requested_output_names", requested_output_names)
        self._wanted = {arguments.text("requested_output_names", name) for name in names}
        self._model_name = arguments.text("model_name", model_name)
        where = "for request with id '%s' and model name '%s' should not be empty." % (self._id, self._model_name)
        for tensor in self._inputs:
            if tensor is None:
                raise TritonModelException("Input tensor " + where)
            if not isinstance(tensor, Tensor):
                raise TypeError("inputs must hold Tensor objects, not %s" % type(tensor).__name__)
        if "" in self._wanted:
            raise TritonModelException("Requested output name " + where)
        self._model_version = arguments.integer("model_version", model_version)
        self._flags = arguments.integer("flags", flags)
        self._timeout = arguments.integer("timeout", timeout)
        if preferred_memory is not None:
            arguments.member("preferred_memory", preferred_memory, PreferredMemory)
        self._parameters = check_parameters(parameters)
        if trace is not None and not isinstance(trace, InferenceTrace):
            raise TypeError("trace must be an InferenceTrace, not %s" % type(trace).__name__)
        self._trace = InferenceTrace() if trace is None else trace
        self._release_flags = RELEASE_ALL
        self._sender = None

    @classmethod
    def _read(cls, reader: Reader, decoupled: bool) -> "InferenceRequest":
        """A request of the server, field by field as it is on the wire."""
        self = cls.__new__(cls)
        key = reader.u32()
        self._flags = reader.u32()
        self._timeout = reader.u64()
        self._correlation = reader.correlation()
        self._id = reader.string()
        self._parameters = reader.string()
        self._wanted = set(reader.strings())
        self._inputs = [Tensor._from_wire(*reader.tensor()) for _ in range(reader.u32())]
        self._sender = InferenceResponseSender(key, decoupled, self._wanted, reader.u8() == 1)
        self._model_name = ""
        self._model_version = -1
        self._trace = InferenceTrace(reader.string() or None, key)
        self._release_flags = RELEASE_ALL
        return self

    def inputs(self) -> list:
        return self._inputs

    def request_id(self) -> str:
        return self._id

    def correlation_id(self):
        return self._correlation

    def requested_output_names(self) -> set:
        return self._wanted

    def flags(self) -> int:
        return self._flags

    def set_flags(self, flags: int) -> None:
        self._flags = flags

    def timeout(self) -> int:
        return self._timeout

    def parameters(self) -> str:
        return self._parameters if isinstance(self._parameters, str) else json.dumps(self._parameters)

    def trace(self) -> InferenceTrace:
        return self._trace

    def set_release_flags(self, flags: int) -> None:
        if flags not in (RELEASE_ALL, RELEASE_RESCHEDULE):
            raise TritonModelException("Unable to set the release flags of the request. Unsupported flag provided: %s" % flags)
        self._release_flags = flags

    def get_response_sender(self):
        return self._sender

    def is_cancelled(self) -> bool:
        return self._sender is not None and self._sender.is_cancelled()

    def exec(self, decoupled: bool = False):
        """Runs the request on another model and waits: a response, or with `decoupled` an iterator of responses."""
        if decoupled:
            return self._stream()
        answers: queue.SimpleQueue = queue.SimpleQueue()
        runtime.stub().call(self, False, lambda answer, _final: answers.put(answer))
        return answers.get()

    def async_exec(self, decoupled: bool = False):
        """`exec` for coroutines: awaitable."""
        import asyncio

        loop = asyncio.get_running_loop()
        future = loop.create_future()
        if decoupled:
            # With the first response: a plain `for` over a stream that has none yet would block the loop.
            self._stream((loop, future))
        else:
            runtime.stub().call(self, False, lambda answer, _final: _settle_from_outside(loop, future, answer))
        return future

    def _stream(self, awaiting=None) -> "ResponseIterator":
        responses = ResponseIterator(awaiting)
        responses._call_id = runtime.stub().call(self, True, responses._deliver)
        return responses

    def _write(self, writer) -> None:
        writer.string(self._model_name)
        writer.i64(self._model_version)
        writer.string(self._id)
        writer.correlation(self._correlation)
        writer.u32(self._flags)
        writer.u64(self._timeout)
        writer.strings(sorted(self._wanted))
        writer.u32(len(self._inputs))
        for tensor in self._inputs:
            tensor._write(writer)
        writer.parameters(self._parameters if isinstance(self._parameters, dict) else {})
        writer.u32(self._trace._key)


def _settle_from_outside(loop, future, answer) -> None:
    """From the thread that reads the socket. A loop that the model has closed has nobody who waits."""
    try:
        loop.call_soon_threadsafe(_settle, future, answer)
    except RuntimeError:
        pass


def _settle(future, answer) -> None:
    if not future.done():
        future.set_result(answer)


class ResponseIterator:
    """The responses of a decoupled call, as they come, for `for` and `async for`.

    The last one may have no outputs: it only says that no more come. A second loop begins with the first response again.
    """

    def __init__(self, awaiting=None) -> None:
        self._call_id = 0
        # The event loop and the future of the coroutine that waits for the iterator itself.
        self._awaiting = awaiting
        self._seen: list = []
        self._next = 0
        self._answers: queue.SimpleQueue = queue.SimpleQueue()
        # The event loop and the future of a coroutine that waits for an answer.
        self._waiter = None
        self._ended = False

    def _deliver(self, answer, final: bool) -> None:
        self._answers.put((answer, final))
        awaiting, self._awaiting = self._awaiting, None
        if awaiting is not None:
            _settle_from_outside(*awaiting, self)
        waiter, self._waiter = self._waiter, None
        if waiter is not None:
            _settle_from_outside(*waiter, None)

    def _take(self, arrival: tuple) -> InferenceResponse:
        answer, self._ended = arrival
        self._seen.append(InferenceResponse() if answer is None else answer)
        return self._again()

    def _again(self) -> InferenceResponse:
        self._next += 1
        return self._seen[self._next - 1]

    def __iter__(self) -> "ResponseIterator":
        self._next = 0
        return self

    def __next__(self) -> InferenceResponse:
        if self._next < len(self._seen):
            return self._again()
        if self._ended:
            raise StopIteration
        return self._take(self._answers.get())

    def __aiter__(self) -> "ResponseIterator":
        self._next = 0
        return self

    async def __anext__(self) -> InferenceResponse:
        import asyncio

        if self._next < len(self._seen):
            return self._again()
        if self._ended:
            raise StopAsyncIteration
        loop = asyncio.get_running_loop()
        while True:
            try:
                return self._take(self._answers.get_nowait())
            except queue.Empty:
                future = loop.create_future()
                self._waiter = (loop, future)
                # Answers from before the waiter was set have not woken it.
                if self._answers.empty():
                    await future

    def cancel(self) -> None:
        runtime.stub().cancel_call(self._call_id)
