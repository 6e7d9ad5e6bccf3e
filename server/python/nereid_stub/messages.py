"""The messages between server and stub. The counterpart is `server/src/backend/python/messages.ts`."""

from __future__ import annotations

from .codec import Reader, Writer

# Both sides refuse to talk to another version.
PROTOCOL_VERSION = 5

# Server to stub.
INITIALIZE, EXECUTE, CANCEL, CREDIT, CALL_RESPONSE, FINALIZE, ANSWER, CHECK_READY, COPIED, PING, RETURNED = range(1, 12)
# Stub to server.
HELLO, INITIALIZED, EXECUTED, RESPONSE, CALL, CALL_CANCEL, LOG, FINALIZED, ASK, READINESS, RELEASED, PONG, RESCHEDULE = range(
    65, 78
)

MODE_DESCRIBE = 0
MODE_SERVE = 1

# Outcome of each request of a batch.
BY_SENDER, ANSWERED, RESCHEDULED = range(3)
# Results of the model's `is_ready`.
READY, NOT_READY, READY_FAILED = range(3)


class Initialize:
    """The model to load, and its options."""

    def __init__(self, reader: Reader) -> None:
        self.mode = reader.u8()
        self.name = reader.string()
        self.version = reader.string()
        self.version_folder = reader.string()
        self.file = reader.string()
        self.model_folder = reader.string()
        self.config = reader.string()
        self.decoupled = reader.u8() == 1
        self.may_lease = reader.u8() == 1
        self.answer_bytes = reader.i64()
        self.arguments = {reader.string(): reader.string() for _ in range(reader.u32())}


def hello(python_version: str, probe_address: int, may_open: bool) -> list:
    writer = Writer(HELLO)
    writer.u32(PROTOCOL_VERSION)
    writer.string(python_version)
    writer.u64(probe_address)
    writer.u8(1 if may_open else 0)
    return writer.frame()


def initialized(error: str | None, config: str) -> list:
    writer = Writer(INITIALIZED)
    writer.u8(0 if error is None else 1)
    writer.string(config if error is None else error)
    return writer.frame()


def finalized(error: str | None) -> list:
    writer = Writer(FINALIZED)
    writer.u8(0 if error is None else 1)
    writer.string(error or "")
    return writer.frame()


def executed(batch_id: int, responses: list, handover) -> list:
    """`responses` holds one entry a request: an InferenceResponse, BY_SENDER or RESCHEDULED."""
    writer = Writer(EXECUTED, handover)
    writer.u32(batch_id)
    writer.u8(0)
    writer.u32(len(responses))
    for response in responses:
        if isinstance(response, int):
            writer.u8(response)
        else:
            writer.u8(ANSWERED)
            response._write(writer)
    return writer.frame()


def executed_with_error(batch_id: int, error: str) -> list:
    writer = Writer(EXECUTED)
    writer.u32(batch_id)
    writer.u8(1)
    writer.string(error)
    return writer.frame()


def response(key: int, final: bool, answer, handover=None) -> list:
    writer = Writer(RESPONSE, handover)
    writer.u32(key)
    writer.u8(1 if final else 0)
    _write_optional(writer, answer)
    return writer.frame()


def call(call_id: int, decoupled: bool, request, handover) -> list:
    writer = Writer(CALL, handover)
    writer.u32(call_id)
    writer.u8(1 if decoupled else 0)
    request._write(writer)
    return writer.frame()


def call_cancel(call_id: int) -> list:
    writer = Writer(CALL_CANCEL)
    writer.u32(call_id)
    return writer.frame()


def ask(number: int, what: int, write) -> list:
    """A question, or with number 0 a statement; `write` adds what belongs to it."""
    writer = Writer(ASK)
    writer.u32(number)
    writer.u8(what)
    write(writer)
    return writer.frame()


def readiness(number: int, state: int, text: str) -> list:
    writer = Writer(READINESS)
    writer.u32(number)
    writer.u8(state)
    writer.string(text)
    return writer.frame()


def released(offsets: list) -> list:
    writer = Writer(RELEASED)
    writer.u32(len(offsets))
    for offset in offsets:
        writer.u64(offset)
    return writer.frame()


def reschedule(key: int) -> list:
    writer = Writer(RESCHEDULE)
    writer.u32(key)
    return writer.frame()


def pong() -> list:
    return Writer(PONG).frame()


def log(level: int, file: str, line: int, message: str) -> list:
    writer = Writer(LOG)
    writer.u8(level)
    writer.string(file)
    writer.u32(line)
    writer.string(message)
    return writer.frame()


def _write_optional(writer: Writer, answer) -> None:
    writer.u8(0 if answer is None else 1)
    if answer is not None:
        answer._write(writer)
