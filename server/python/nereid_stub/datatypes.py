"""Triton's datatypes and the numpy ones they match. Imports numpy only when an array is really needed."""

from __future__ import annotations

import functools

NAMES = (
    "INVALID",
    "BOOL",
    "UINT8",
    "UINT16",
    "UINT32",
    "UINT64",
    "INT8",
    "INT16",
    "INT32",
    "INT64",
    "FP16",
    "FP32",
    "FP64",
    "STRING",
    "BF16",
)
BYTES = 13
BF16 = 14
SIZES = (0, 1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 4, 8, 0, 2)


@functools.lru_cache(maxsize=None)
def numpy():
    import numpy as np

    return np


@functools.lru_cache(maxsize=None)
def numpy_types() -> tuple:
    """By Triton's number; None where numpy has no such type."""
    np = numpy()
    return (
        None,
        np.bool_,
        np.uint8,
        np.uint16,
        np.uint32,
        np.uint64,
        np.int8,
        np.int16,
        np.int32,
        np.int64,
        np.float16,
        np.float32,
        np.float64,
        np.object_,
        None,
    )


@functools.lru_cache(maxsize=None)
def _numbers() -> dict:
    np = numpy()
    return {np.dtype(kind): number for number, kind in enumerate(numpy_types()) if kind is not None}


def triton_to_numpy_type(data_type: int):
    return numpy_types()[data_type] if 0 < data_type < len(NAMES) else None


def numpy_to_triton_type(data_type):
    """Triton's number of a numpy type, None when there is none."""
    np = numpy()
    if data_type == np.bytes_ or np.dtype(data_type).kind == "S":
        return BYTES
    return _numbers().get(np.dtype(data_type))


def triton_string_to_numpy(triton_type_string: str):
    return string_types()[triton_type_string]


@functools.lru_cache(maxsize=None)
def string_types() -> dict:
    pairs = zip(NAMES, numpy_types())
    return {"TYPE_" + name: (bool if name == "BOOL" else kind) for name, kind in pairs if kind is not None}
