"""Errors that models give and get, and the text of an exception that clients see."""

from __future__ import annotations

import enum
import os
import sys
import traceback

from . import arguments

_STUB_FOLDER = os.path.dirname(os.path.abspath(__file__)) + os.sep


class ErrorCode(enum.IntEnum):
    UNKNOWN = 0
    INTERNAL = 1
    NOT_FOUND = 2
    INVALID_ARG = 3
    UNAVAILABLE = 4
    UNSUPPORTED = 5
    ALREADY_EXISTS = 6
    CANCELLED = 7


class TritonError:
    """An error of one request."""

    UNKNOWN = ErrorCode.UNKNOWN
    INTERNAL = ErrorCode.INTERNAL
    NOT_FOUND = ErrorCode.NOT_FOUND
    INVALID_ARG = ErrorCode.INVALID_ARG
    UNAVAILABLE = ErrorCode.UNAVAILABLE
    UNSUPPORTED = ErrorCode.UNSUPPORTED
    ALREADY_EXISTS = ErrorCode.ALREADY_EXISTS
    CANCELLED = ErrorCode.CANCELLED

    def __init__(self, message: str, code: ErrorCode = ErrorCode.INTERNAL) -> None:
        self._message = arguments.text("TritonError message", message)
        self._code = arguments.member("TritonError code", code, ErrorCode)

    def message(self) -> str:
        return self._message

    def code(self) -> ErrorCode:
        return self._code


class TritonModelException(Exception):
    """Raised by models, and by these utilities when they are misused."""


class ContractError(Exception):
    """The model broke the rules of `execute`: the message speaks for itself, a traceback would not help."""


def describe(error: BaseException) -> str:
    """`Type: message`, then the model's frames, innermost first. Frames of this stub are left out."""
    if isinstance(error, ContractError):
        return str(error)
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(_STUB_FOLDER)]
    text = "%s: %s" % (type(error).__name__, error)
    if frames:
        text += "\n\nAt:\n" + "".join("  %s(%s): %s\n" % (f.filename, f.lineno, f.name) for f in reversed(frames))
    return text + _numpy_hint(error)


def _numpy_hint(error: BaseException) -> str:
    if not isinstance(error, ModuleNotFoundError) or error.name != "numpy":
        return ""
    return (
        "\nThe Python interpreter %s has no numpy. Install it with `%s -m pip install numpy`, or name an interpreter that "
        "has it with --backend-config=python,interpreter=<path>\n" % (sys.executable, sys.executable)
    )
