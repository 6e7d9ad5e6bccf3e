"""Tensors as models see them: numpy arrays outside, the layout of the protocol inside."""

from __future__ import annotations

import struct

from . import arguments, datatypes, dlpack
from .errors import TritonModelException

_LENGTH = struct.Struct("<I")


def serialize_byte_tensor(input_tensor):
    """Elements back to back, each with its length in front; () for no elements, None for other types of array."""
    np = datatypes.numpy()
    if input_tensor.size == 0:
        return ()
    if input_tensor.dtype != np.object_ and input_tensor.dtype.type != np.bytes_:
        return None
    parts = []
    for element in input_tensor.ravel(order="C").tolist():
        data = element if isinstance(element, bytes) else str(element).encode("utf-8")
        parts.append(_LENGTH.pack(len(data)))
        parts.append(data)
    return b"".join(parts)


def deserialize_bytes_tensor(encoded_tensor):
    """The elements of a serialized BYTES tensor as a flat array of `bytes`."""
    elements = _elements(bytes(encoded_tensor))
    array = datatypes.numpy().empty(len(elements), dtype=object)
    array[:] = elements
    return array


def _count_elements(data) -> int:
    return len(_elements(bytes(data)))


def _elements(data: bytes) -> list:
    elements = []
    at = 0
    while at < len(data):
        if at + _LENGTH.size > len(data):
            raise TritonModelException("Invalid bytes tensor data: incomplete length field")
        (size,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size
        if at + size > len(data):
            raise TritonModelException("Invalid bytes tensor data: string extends beyond buffer")
        elements.append(data[at : at + size])
        at += size
    return elements


class Tensor:
    """A named tensor in host memory."""

    def __init__(self, name: str, numpy_array) -> None:
        np = datatypes.numpy()
        if numpy_array is None:
            raise TypeError("numpy_array must be an array, not NoneType")
        if not isinstance(numpy_array, np.ndarray):
            numpy_array = np.asarray(numpy_array)
        datatype = datatypes.numpy_to_triton_type(numpy_array.dtype)
        if datatype is None:
            raise TritonModelException(
                "Tensor '%s' has the numpy type %s, which no tensor type matches" % (name, numpy_array.dtype)
            )
        self._set(name, datatype, list(numpy_array.shape))
        self._array = numpy_array if numpy_array.flags.c_contiguous else numpy_array.copy(order="C")
        self._data = None

    def _set(self, name: str, datatype: int, shape: list) -> None:
        name = arguments.text("Tensor name", name)
        if name == "":
            raise TritonModelException("Tensor name cannot be an empty string.")
        self._name = name
        self._datatype = datatype
        self._shape = shape

    @classmethod
    def _from_wire(cls, name: str, datatype: int, shape: list, data) -> "Tensor":
        self = cls.__new__(cls)
        self._set(name, datatype, shape)
        self._array = None
        self._data = data
        return self

    @classmethod
    def from_bytes(cls, name: str, data_type: str, shape, data) -> "Tensor":
        """A tensor from its raw little-endian bytes. `data_type` is e.g. "TYPE_BF16"; the way for types that numpy lacks."""
        short = data_type[5:] if data_type.startswith("TYPE_") else data_type
        if short not in datatypes.NAMES[1:]:
            raise TritonModelException("Tensor '%s' has the unknown data type '%s'" % (name, data_type))
        number = datatypes.NAMES.index(short)
        count = 1
        for dim in shape:
            count *= dim
        view = memoryview(data).cast("B") if len(data) > 0 else memoryview(b"")
        if number != datatypes.BYTES and len(view) != count * datatypes.SIZES[number]:
            raise TritonModelException(
                "Tensor '%s' of type %s and shape %s needs %d bytes, got %d"
                % (name, data_type, list(shape), count * datatypes.SIZES[number], len(view))
            )
        if number == datatypes.BYTES and _count_elements(view) != count:
            raise TritonModelException(
                "Tensor '%s' of shape %s needs %d elements, got %d" % (name, list(shape), count, _count_elements(view))
            )
        return cls._from_wire(name, number, list(shape), view)

    @staticmethod
    def from_dlpack(name: str, tensor) -> "Tensor":
        datatype, shape, data = dlpack.take(tensor)
        return Tensor._from_wire(name, datatype, shape, memoryview(data))

    def name(self) -> str:
        return self._name

    def shape(self) -> list:
        return list(self._shape)

    def triton_dtype(self) -> int:
        return self._datatype

    def is_cpu(self) -> bool:
        return True

    def as_numpy(self):
        if self._array is None:
            self._array = self._make_array()
        return self._array

    def as_bytes(self) -> bytes:
        """The raw little-endian bytes; those of BYTES tensors as `serialize_byte_tensor` gives them."""
        return bytes(self._wire_data())

    def to_dlpack(self):
        return self.__dlpack__()

    def __dlpack__(self, stream=None, **_options):
        if self._datatype == datatypes.BYTES:
            raise TritonModelException("DLPack does not have support for string tensors.")
        return dlpack.export(self._datatype, self._shape, self._wire_data())

    def __dlpack_device__(self):
        return (dlpack.CPU, 0)

    def _make_array(self):
        np = datatypes.numpy()
        if self._datatype == datatypes.BYTES:
            return deserialize_bytes_tensor(self._data).reshape(self._shape)
        if self._datatype == datatypes.BF16:
            raise TritonModelException(
                "Tensor dtype is BF16 and cannot be converted to NumPy. Use to_dlpack() and from_dlpack() instead."
            )
        kind = datatypes.triton_to_numpy_type(self._datatype)
        if len(self._data) == 0:
            return np.empty(self._shape, dtype=kind)
        return np.frombuffer(self._data, dtype=kind).reshape(self._shape)

    def _wire_data(self):
        if self._data is not None:
            return self._data
        if self._datatype == datatypes.BYTES:
            return serialize_byte_tensor(self._array) or b""
        return memoryview(self._array.reshape(-1).view(datatypes.numpy().uint8))

    def _write(self, writer) -> None:
        writer.tensor(self._name, self._datatype, self._shape, self._wire_data())
