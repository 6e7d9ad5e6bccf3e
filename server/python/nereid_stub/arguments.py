"""Types of arguments, as pybind11 checks them in Triton's stub: a TypeError that names the argument.

Source: triton-inference-server/python_backend, pb_stub.cc, `PYBIND11_EMBEDDED_MODULE`.
"""

from __future__ import annotations

import operator

from .codec import text_of


def text(what: str, value) -> str:
    """A string, also given as bytes."""
    value = text_of(value)
    if not isinstance(value, str):
        raise TypeError("%s must be a string, not %s" % (what, type(value).__name__))
    return value


def integer(what: str, value) -> int:
    """An integer of any type, numpy's too."""
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError("%s must be an integer, not %s" % (what, type(value).__name__)) from None


def items(what: str, value) -> list:
    """The items of a list or another sequence that is no text."""
    if isinstance(value, (list, tuple)):
        return list(value)
    if value is None or isinstance(value, (str, bytes, dict, set)) or not hasattr(value, "__getitem__"):
        raise TypeError("%s must be a list, not %s" % (what, type(value).__name__))
    return list(value)


def member(what: str, value, kind: type):
    """An object of a class, such as a value of an enumeration."""
    if not isinstance(value, kind):
        raise TypeError("%s must be of type %s, not %s" % (what, kind.__name__, type(value).__name__))
    return value
