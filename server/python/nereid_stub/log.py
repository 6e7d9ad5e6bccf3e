"""`pb_utils.Logger`: lines of the model in the server's log."""

from __future__ import annotations

import enum
import os
import sys

from . import arguments, messages, runtime


class LogLevel(enum.IntEnum):
    INFO = 0
    WARNING = 1
    ERROR = 2
    VERBOSE = 3


def _log(message: str, level: LogLevel) -> None:
    message = arguments.text("message", message)
    arguments.member("level", level, LogLevel)
    caller = sys._getframe(2)
    file = os.path.basename(caller.f_code.co_filename)
    runtime.stub().send(messages.log(level, file, caller.f_lineno, message))


class Logger:
    LogLevel = LogLevel
    INFO = LogLevel.INFO
    WARNING = LogLevel.WARNING
    ERROR = LogLevel.ERROR
    VERBOSE = LogLevel.VERBOSE

    @staticmethod
    def log(message: str, level: LogLevel = LogLevel.INFO) -> None:
        _log(message, level)

    @staticmethod
    def log_info(message: str) -> None:
        _log(message, LogLevel.INFO)

    @staticmethod
    def log_warn(message: str) -> None:
        _log(message, LogLevel.WARNING)

    @staticmethod
    def log_error(message: str) -> None:
        _log(message, LogLevel.ERROR)

    @staticmethod
    def log_verbose(message: str) -> None:
        _log(message, LogLevel.VERBOSE)
