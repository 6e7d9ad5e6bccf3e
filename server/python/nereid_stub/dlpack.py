"""DLPack by its C structures: the exchange of host tensors with torch, jax, cupy, numpy, BF16 included. Knows no server."""

from __future__ import annotations

import ctypes
import sys

from . import datatypes
from .errors import TritonModelException

CPU, CUDA_HOST = 1, 3
_INT, _UINT, _FLOAT, _BFLOAT, _BOOL = 0, 1, 2, 4, 6
# (code, bits) by Triton's number, and back.
_CODES = {
    1: (_BOOL, 8),
    2: (_UINT, 8),
    3: (_UINT, 16),
    4: (_UINT, 32),
    5: (_UINT, 64),
    6: (_INT, 8),
    7: (_INT, 16),
    8: (_INT, 32),
    9: (_INT, 64),
    10: (_FLOAT, 16),
    11: (_FLOAT, 32),
    12: (_FLOAT, 64),
    datatypes.BF16: (_BFLOAT, 16),
}
_NUMBERS = {code: number for number, code in _CODES.items()}


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _Managed(ctypes.Structure):
    pass


_Deleter = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Managed))
_Managed._fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", _Deleter)]

_api = ctypes.pythonapi
_api.PyCapsule_New.restype = ctypes.py_object
_api.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_api.PyCapsule_IsValid.restype = ctypes.c_int
_api.PyCapsule_IsValid.argtypes = [ctypes.py_object, ctypes.c_char_p]
_api.PyCapsule_GetPointer.restype = ctypes.c_void_p
_api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_api.PyCapsule_SetName.restype = ctypes.c_int
_api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
# Names must live as long as capsules do.
_NAME = ctypes.c_char_p(b"dltensor")
_USED_NAME = ctypes.c_char_p(b"used_dltensor")

# Data of leased tensors until their deleters run, by address.
_leased: dict = {}


@_Deleter
def _delete(managed) -> None:
    _leased.pop(ctypes.addressof(managed.contents), None)


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def _destroy_capsule(capsule) -> None:
    # Runs while the capsule is being freed: only its address may be used.
    if _raw_is_valid(capsule, _NAME):
        _leased.pop(_raw_pointer(capsule, _NAME), None)


_raw_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", _api))
_raw_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_GetPointer", _api))


def export(datatype: int, shape: list, data):
    """A capsule over `data`, bytes in row-major order, which it keeps alive."""
    if datatype not in _CODES:
        raise TritonModelException("DLPack does not have support for string tensors.")
    np = datatypes.numpy()
    array = np.frombuffer(data, dtype=np.uint8) if len(data) > 0 else np.empty(1, dtype=np.uint8)
    managed = _Managed()
    tensor = managed.tensor
    dims = (ctypes.c_int64 * max(1, len(shape)))(*shape)
    tensor.data = array.__array_interface__["data"][0]
    tensor.device_type, tensor.device_id = CPU, 0
    tensor.ndim = len(shape)
    tensor.code, tensor.bits = _CODES[datatype]
    tensor.lanes = 1
    tensor.shape = dims
    tensor.strides = None
    tensor.byte_offset = 0
    managed.deleter = _delete
    address = ctypes.addressof(managed)
    _leased[address] = (managed, array, dims)
    return _api.PyCapsule_New(address, _NAME, ctypes.cast(_destroy_capsule, ctypes.c_void_p))


def _to_host(source):
    """A tensor on an accelerator, by the library that knows it; itself when it is in host memory."""
    device = source.__dlpack_device__()[0] if hasattr(source, "__dlpack_device__") else CPU
    if int(device) in (CPU, CUDA_HOST):
        return source
    if hasattr(source, "cpu"):
        return source.cpu()
    if "torch" in sys.modules:
        return sys.modules["torch"].from_dlpack(source).cpu()
    raise TritonModelException("from_dlpack takes tensors in host memory; copy this one of device type %d first" % device)


def _capsule_of(source):
    if not hasattr(source, "__dlpack__"):
        return source
    source = _to_host(source)
    if getattr(source, "requires_grad", False):
        source = source.detach()
    return source.__dlpack__()


class _Owner:
    """Keeps a foreign tensor alive; its deleter runs when the last array over it is gone."""

    def __init__(self, managed) -> None:
        self._managed = managed

    def __del__(self) -> None:
        if self._managed.contents.deleter:
            self._managed.contents.deleter(self._managed)


def take(source) -> tuple:
    """(Triton's number, shape, flat array of bytes in row-major order) of a capsule or an object with `__dlpack__`."""
    capsule = _capsule_of(source)
    if not _api.PyCapsule_IsValid(capsule, _NAME):
        raise TritonModelException("from_dlpack needs a DLPack capsule that nobody has used, got %s" % type(source).__name__)
    managed = ctypes.cast(_api.PyCapsule_GetPointer(capsule, _NAME), ctypes.POINTER(_Managed))
    tensor = managed.contents.tensor
    if tensor.device_type not in (CPU, CUDA_HOST):
        raise TritonModelException("from_dlpack takes tensors in host memory, got device type %d" % tensor.device_type)
    datatype = _NUMBERS.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None
    if datatype is None:
        raise TritonModelException(
            "DLPack type with code %d, %d bits and %d lanes matches no tensor type" % (tensor.code, tensor.bits, tensor.lanes)
        )
    _api.PyCapsule_SetName(capsule, _USED_NAME)
    owner = _Owner(managed)
    shape = [tensor.shape[axis] for axis in range(tensor.ndim)]
    return datatype, shape, _bytes_of(tensor, shape, owner)


def _bytes_of(tensor, shape: list, owner):
    np = datatypes.numpy()
    size = tensor.bits // 8
    if 0 in shape:
        return np.empty(0, dtype=np.uint8)
    strides = _strides(tensor, shape)
    extent = sum((dim - 1) * step for dim, step in zip(shape, strides)) + 1
    if any(step < 0 for step in strides):
        raise TritonModelException("from_dlpack takes no tensor with negative strides")
    memory = (ctypes.c_uint8 * (extent * size)).from_address(tensor.data + tensor.byte_offset)
    memory._owner = owner
    # Elements as integers of their width: only the layout matters.
    flat = np.frombuffer(memory, dtype="u%d" % size)
    array = np.lib.stride_tricks.as_strided(flat, shape, [step * size for step in strides])
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _strides(tensor, shape: list) -> list:
    """In elements."""
    if tensor.strides:
        return [tensor.strides[axis] for axis in range(len(shape))]
    strides = []
    step = 1
    for dim in reversed(shape):
        strides.append(step)
        step *= dim
    return strides[::-1]
