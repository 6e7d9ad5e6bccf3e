"""The one stub of this process. Classes that models construct themselves reach the server through it."""

from __future__ import annotations

_stub = None


def install(stub) -> None:
    global _stub
    _stub = stub


def stub():
    if _stub is None:
        raise RuntimeError("triton_python_backend_utils works only inside a model that the server runs")
    return _stub
