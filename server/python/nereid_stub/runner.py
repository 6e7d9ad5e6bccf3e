"""Runs a model: loads its file, gives it batches, sends what it returns. One message of the server after another."""

from __future__ import annotations

import collections.abc
import importlib
import json
import os
import signal
import sys
import threading
import traceback
import types
import weakref

from . import messages, runtime
from .asking import Questions
from .channel import Channel
from .client_memory import LOST, ClientMemory
from .codec import Reader
from .errors import ContractError, TritonError, TritonModelException, describe
from .memory import Handover, SharedBlocks, probe_address
from .model_config import ModelConfig
from .readiness import ReadinessChecks
from .reading import Reading
from .request import RELEASE_RESCHEDULE, InferenceRequest
from .response import InferenceResponse

SERVER_SOCKET = 3
SERVER_MEMORY = 4
ANSWER_MEMORY = 5


class Stub:
    """One loaded model, which the main thread runs."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._reading = Reading(self._receive, self._take)
        # Weak: a sender that the model lets go of without an answer must be noticed.
        self._senders = weakref.WeakValueDictionary()
        self._calls: dict = {}
        self._calls_made = 0
        self._lock = threading.Lock()
        self._model = None
        self._name = ""
        self._path = ""
        self._decoupled = False
        self._executing_allowed = False
        self._loop = None
        self.version_folder = ""
        self.handover = Handover()
        self.questions = Questions(self.send, self._reading.needed)
        # Blocks of the server that nobody looks at any more, until a message takes their offsets along.
        self._released: collections.deque = collections.deque()
        self._blocks = SharedBlocks(SERVER_MEMORY, self._block_released)
        self.client_memory = ClientMemory(channel.server_pid())
        self._readiness = ReadinessChecks(self.send)

    def send(self, frame: list) -> None:
        self._channel.send([*self._release_frame(), *frame] if self._released else frame)

    def later(self, action) -> None:
        """Has another thread do it soon: for callers that may not send, such as the garbage collector."""
        self._reading.later(action)

    def dropped(self, key: int) -> None:
        """The model has let go of a request that it has not answered."""
        self.later(lambda: self._fail_dropped(key))

    def wait_for(self, handover) -> None:
        """Until the server has copied the memory that a message leases to it."""
        if handover.is_lending:
            self._reading.needed()
            handover.wait()

    def needs_answer(self) -> None:
        """The caller waits for the server, and the model with it."""
        self._reading.needed()

    def _block_released(self, offset: int) -> None:
        self._released.append(offset)
        self._reading.when_there_is_time(self._send_released)

    def _send_released(self) -> None:
        frame = self._release_frame()
        if frame:
            self._channel.send(frame)

    def _release_frame(self) -> list:
        offsets = []
        while self._released:
            try:
                offsets.append(self._released.popleft())
            except IndexError:
                break  # another thread was faster
        return messages.released(offsets) if offsets else []

    def call(self, request: InferenceRequest, decoupled: bool, deliver) -> int:
        """Asks the server to run a request on another model; `deliver(response, final)` gets the answers."""
        if not self._executing_allowed:
            raise TritonModelException("BLS is only supported during the 'execute' function.")
        with self._lock:
            self._calls_made += 1
            call_id = self._calls_made % 2**32
            self._calls[call_id] = deliver
        try:
            handover = self.handover.of_message()
            self.send(messages.call(call_id, decoupled, request, handover))
            self._reading.needed()
            handover.wait()
        except BaseException:
            self._calls.pop(call_id, None)
            raise
        return call_id

    def cancel_call(self, call_id: int) -> None:
        if call_id in self._calls:
            self.send(messages.call_cancel(call_id))

    def serve(self) -> None:
        address, _probe = probe_address()
        self.send(messages.hello(sys.version.split()[0], address, self.client_memory.may_open()))
        self._reading.start()
        while True:
            kind, payload = self._reading.next_command()
            if kind == messages.INITIALIZE:
                self._initialize(messages.Initialize(payload))
            elif kind == messages.EXECUTE:
                self._execute(payload)
            elif kind == messages.FINALIZE:
                self._finalize()
                return
            # Blocks of the server are free before it waits for the next.
            del payload

    def _receive(self) -> Reader:
        try:
            body = self._channel.receive()
            if body is not None:
                return Reader(body, self._blocks, self.client_memory)
        except OSError:
            pass
        end_all()

    def _take(self, reader: Reader):
        """Handles a message of the server, or returns it for the main thread: what it is, and its content."""
        try:
            return self._handle(reader.u8(), reader)
        except BaseException:
            # The two sides no longer understand each other: the server learns it from the end of this process.
            traceback.print_exc()
            end_all()

    def _handle(self, kind: int, reader: Reader):
        if kind == messages.EXECUTE:
            return kind, self._read_batch(reader)
        if kind in (messages.INITIALIZE, messages.FINALIZE):
            return kind, reader
        if kind == messages.RETURNED:
            self.handover.answers.returned([reader.i64() for _ in range(reader.u32())])
        elif kind == messages.CANCEL:
            sender = self._senders.get(reader.u32())
            if sender is not None:
                sender._cancel()
        elif kind == messages.CREDIT:
            sender = self._senders.get(reader.u32())
            if sender is not None:
                sender._credit(reader.u32())
        elif kind == messages.CALL_RESPONSE:
            self._take_call_response(reader)
        elif kind == messages.PING:
            self.send(messages.pong())
        elif kind == messages.COPIED:
            self.handover.copied([reader.u32() for _ in range(reader.u32())])
        elif kind == messages.ANSWER:
            self.questions.answered(reader)
        elif kind == messages.CHECK_READY:
            self._readiness.start(reader.u32(), self._model, self._event_loop)
        else:
            raise ValueError("unknown message kind %d" % kind)
        return None

    def _take_call_response(self, reader: Reader) -> None:
        call_id = reader.u32()
        final = reader.u8() == 1
        answer = InferenceResponse._read(reader) if reader.u8() == 1 else None
        deliver = self._calls.pop(call_id, None) if final else self._calls.get(call_id)
        if deliver is not None:
            deliver(answer, final)

    def _read_batch(self, reader: Reader) -> list:
        batch_id = reader.u32()
        requests = []
        for _ in range(reader.u32()):
            request = InferenceRequest._read(reader, self._decoupled)
            sender = request._sender
            self._senders[sender._key] = sender
            self.client_memory.belongs_to(sender._key)
            requests.append(request)
        return [batch_id, requests]

    def _initialize(self, what: messages.Initialize) -> None:
        self._name = what.name
        self._path = os.path.join(what.version_folder, what.file)
        self._decoupled = what.decoupled
        self.version_folder = what.version_folder
        self.handover.may_lease = what.may_lease
        self.handover.answers.open(ANSWER_MEMORY, what.answer_bytes)
        config = ""
        error = None
        try:
            model_class = load_model_class(what)
            if what.mode == messages.MODE_DESCRIBE:
                config = auto_complete(model_class, what)
            else:
                self._model = model_class()
                if hasattr(self._model, "initialize"):
                    self._model.initialize(what.arguments)
                self._executing_allowed = True
        except BaseException as failure:
            error = describe(failure)
        self.send(messages.initialized(error, config))

    def _execute(self, payload: list) -> None:
        """Takes the requests out of `payload`: what is looked at after they have gone was kept by the model."""
        requests = payload.pop()
        batch_id = payload.pop()
        senders = [request._sender for request in requests]
        handover = self.handover.of_message()
        try:
            if any(self.client_memory.is_lost(sender._key) for sender in senders):
                raise TritonModelException(LOST)
            responses = self._responses(requests)
            del requests
            for sender, response in zip(senders, responses):
                if response != messages.BY_SENDER and not self.client_memory.settle(sender._key):
                    raise TritonModelException(LOST)
            frame = messages.executed(batch_id, responses, handover)
        except BaseException as failure:
            for sender in senders:
                sender._close()
                self.client_memory.settle(sender._key)
            text = "Failed to process the request(s) for model '%s', message: %s" % (self._name, describe(failure))
            frame = messages.executed_with_error(batch_id, text)
        self.send(frame)

    def _responses(self, requests: list) -> list:
        if not hasattr(self._model, "execute"):
            raise ContractError("Python model %s does not implement `execute` method." % self._path)
        result = self._model.execute(requests)
        if isinstance(result, collections.abc.Coroutine):
            import asyncio

            future = asyncio.run_coroutine_threadsafe(result, self._event_loop())
            if self._decoupled:
                future.add_done_callback(lambda done: self._after_coroutine(requests, done))
                return [messages.BY_SENDER for _ in requests]
            result = future.result()
        return check_responses(result, requests, self._name, self._decoupled)

    def _event_loop(self):
        """The loop of coroutines, in a thread of its own; batches of decoupled models overlap in it."""
        with self._lock:
            if self._loop is None:
                # Here, because it takes long to load and few models need it.
                import asyncio

                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="coroutines", daemon=True).start()
            return self._loop

    def _after_coroutine(self, requests: list, done) -> None:
        """Ended by an exception: the requests that it left without a final response fail. Else it may give some back."""
        failure = RuntimeError("the coroutine was cancelled") if done.cancelled() else done.exception()
        if failure is None:
            given_back = [request for request in requests if request._release_flags == RELEASE_RESCHEDULE]
        else:
            given_back = []
            text = "Failed to process the request(s) for model '%s', message: %s" % (self._name, describe(failure))
            for request in requests:
                if request._sender._close():
                    self._fail(request._sender._key, text)
        for request in given_back:
            if request._sender._close():
                self.send(messages.reschedule(request._sender._key))

    def _fail_dropped(self, key: int) -> None:
        text = (
            "Python model '%s' has dropped a request without its final response: `execute` must return a response, or "
            "the response sender must send one with the flag TRITONSERVER_RESPONSE_COMPLETE_FINAL" % self._name
        )
        self._fail(key, text)

    def _fail(self, key: int, text: str) -> None:
        self.client_memory.settle(key)
        self.send(messages.response(key, True, InferenceResponse(error=TritonError(text))))

    def _finalize(self) -> None:
        self._executing_allowed = False
        error = None
        try:
            if hasattr(self._model, "finalize"):
                self._model.finalize()
        except BaseException as failure:
            error = describe(failure)
        self.send(messages.finalized(error))


def load_model_class(what: messages.Initialize):
    """Imports the model's file as `<version>.<file>`, so that its own relative imports work."""
    path = os.path.join(what.version_folder, what.file)
    if not os.path.isfile(path):
        raise ContractError("Python model file not found in '%s'" % path)
    if not what.file.endswith(".py"):
        raise ContractError("Model name must end with '.py'. Model name is \"%s\"." % what.file)
    folder, file = os.path.split(path)
    sys.path.extend([folder, what.model_folder])
    package = types.ModuleType(what.version)
    package.__path__ = [folder]
    sys.modules[what.version] = package
    module = importlib.import_module("%s.%s" % (what.version, file[:-3]))
    return module.TritonPythonModel


def auto_complete(model_class, what: messages.Initialize) -> str:
    """The configuration as the model completes it, or "" when it has nothing to say."""
    if not hasattr(model_class, "auto_complete_config"):
        return ""
    config = model_class.auto_complete_config(ModelConfig(what.config))
    if not isinstance(config, ModelConfig):
        raise ContractError(
            "auto_complete_config function in model '%s' must return a valid pb.ModelConfig object." % what.name
        )
    return json.dumps(config.as_dict())


def check_responses(result, requests: list, name: str, decoupled: bool) -> list:
    """Result of `execute`, one entry a request; raises when the server cannot take it."""
    if result is None:
        return [_unanswered(request) for request in requests]
    if decoupled:
        raise ContractError(
            "Python model '%s' is using the decoupled mode and the execute function must return None." % name
        )
    if not isinstance(result, list):
        raise ContractError("Expected a list in the execute return, found type '%s'." % type(result))
    if len(result) != len(requests):
        raise ContractError(
            "Number of InferenceResponse objects do not match the number of InferenceRequest objects. "
            "InferenceRequest(s) size is:%d, and InferenceResponse(s) size is:%d\n" % (len(requests), len(result))
        )
    entries = []
    for request, response in zip(requests, result):
        if response is None:
            entries.append(_unanswered(request))
            continue
        if not isinstance(response, InferenceResponse):
            raise ContractError(
                "Expected an 'InferenceResponse' object in the execute function return list, found type '%s'."
                % type(response)
            )
        if request._release_flags == RELEASE_RESCHEDULE:
            raise ContractError("A request that is released with TRITONSERVER_REQUEST_RELEASE_RESCHEDULE gets no response.")
        request._sender._return(response)
        entries.append(response)
    return entries


def _unanswered(request) -> int:
    if request._release_flags != RELEASE_RESCHEDULE:
        return messages.BY_SENDER
    # The server gives it to `execute` again, as a new request.
    request._sender._close()
    return messages.RESCHEDULED


def end_all() -> None:
    """The server has gone: nobody is left to answer to, and the processes that the model started have no owner."""
    os.killpg(os.getpgrp(), signal.SIGKILL)


def main() -> None:
    # A terminal's Ctrl-C is the server's to handle: it lets requests finish first.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    stub = Stub(Channel(SERVER_SOCKET))
    runtime.install(stub)
    stub.serve()
    sys.stdout.flush()
    sys.stderr.flush()
    # Threads of the model that never end must not keep the process: the server waits for its end.
    os._exit(0)
