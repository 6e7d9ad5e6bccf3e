"""Runs every function check_* of a script, in order, and prints one JSON line each. Coroutines run in a loop of their own."""

import asyncio
import contextlib
import inspect
import json
import sys
import traceback

import numpy as np

HOST = "127.0.0.1"
HTTP, GRPC, METRICS = (f"{HOST}:{port}" for port in sys.argv[1:4])


def run_all(names):
    for name, function in list(names.items()):
        if not name.startswith("check_"):
            continue
        error = None
        try:
            if inspect.iscoroutinefunction(function):
                asyncio.run(function())
            else:
                function()
        except Exception:  # a failed check is a result, the next ones still run
            error = traceback.format_exc()
        title = (function.__doc__ or name).strip()
        # On a line of its own, whatever a library has printed.
        print("\n" + json.dumps({"check": title, "error": error}), flush=True)


@contextlib.contextmanager
def refused(kind, status, *parts):
    """The body must raise `kind` with this status and these parts of a message."""
    try:
        yield
    except kind as error:
        assert error.status() == status, f"status {error.status()}, expected {status}: {error.message()}"
        for part in parts:
            assert part in error.message(), f"{part!r} is not in {error.message()!r}"
        return
    raise AssertionError("the server accepted what it has to refuse")


def make_input(client, name, datatype, values, **options):
    """`client` is the module of the protocol: both have the same class."""
    tensor = client.InferInput(name, list(values.shape), datatype)
    tensor.set_data_from_numpy(values, **options)
    return tensor


def add_sub_inputs(client, rows=1, model_width=16, **options):
    left = np.arange(rows * model_width, dtype=np.int32).reshape(rows, model_width)
    right = np.full((rows, model_width), 3, dtype=np.int32)
    inputs = [make_input(client, "INPUT0", "INT32", left, **options), make_input(client, "INPUT1", "INT32", right, **options)]
    return inputs, left, right


def expect_add_sub(result, left, right):
    np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), left + right)
    np.testing.assert_array_equal(result.as_numpy("OUTPUT1"), left - right)
