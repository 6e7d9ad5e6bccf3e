"""Regions on a GPU through the blocking clients of both protocols. With "fake" as last argument memory is objects of
/dev/shm, for a driver that takes their names as handles; otherwise it is that of the clients' own module."""

import base64
import contextlib
import mmap
import os
import sys

import numpy as np
import tritonclient.http as http_client
from tritonclient.utils import InferenceServerException

from checks import make_input, refused, run_all
from protocols import on_both

ROW_BYTES = 64
HANDLE_BYTES = 64


class FakeMemory:
    def __init__(self, name, byte_size):
        self.path = f"/dev/shm/nereid_cuda_{os.getpid()}_{name}"
        self.file = os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600)
        os.ftruncate(self.file, byte_size)
        self.bytes = mmap.mmap(self.file, byte_size)

    def handle(self):
        return base64.b64encode(os.path.basename(self.path).encode().ljust(HANDLE_BYTES, b"\0"))

    def set(self, arrays):
        self.bytes[:] = b"".join(array.tobytes() for array in arrays).ljust(len(self.bytes), b"\0")

    def get(self, shape):
        return np.frombuffer(self.bytes[: 4 * int(np.prod(shape))], dtype=np.int32).reshape(shape)

    def free(self):
        os.close(self.file)
        os.unlink(self.path)


class GpuMemory:
    def __init__(self, name, byte_size):
        import tritonclient.utils.cuda_shared_memory as cuda

        self.cuda = cuda
        self.region = cuda.create_shared_memory_region(name, byte_size, 0)

    def handle(self):
        return self.cuda.get_raw_handle(self.region)

    def set(self, arrays):
        self.cuda.set_shared_memory_region(self.region, arrays)

    def get(self, shape):
        return self.cuda.get_contents_as_numpy(self.region, np.int32, shape)

    def free(self):
        self.cuda.destroy_shared_memory_region(self.region)


Memory = FakeMemory if sys.argv[4:] == ["fake"] else GpuMemory


@contextlib.contextmanager
def region(triton, name, byte_size):
    """Memory and a region of one name."""
    memory = Memory(name, byte_size)
    try:
        triton.register_cuda_shared_memory(name, memory.handle(), 0, byte_size)
        yield memory
    finally:
        triton.unregister_cuda_shared_memory(name)
        memory.free()


def placed(tensor, *place):
    tensor.set_shared_memory(*place)
    return tensor


def names_of(client, status):
    return sorted(one["name"] for one in status) if client is http_client else sorted(status.regions)


@on_both
def check_both_ways(client, triton, _):
    """inputs and outputs of a model in one region on a GPU"""
    left, right = np.arange(16, dtype=np.int32), np.full(16, 5, dtype=np.int32)
    with region(triton, "rows", 4 * ROW_BYTES) as memory:
        memory.set([left, right])
        inputs = [
            placed(client.InferInput("INPUT0", [1, 16], "INT32"), "rows", ROW_BYTES),
            placed(client.InferInput("INPUT1", [1, 16], "INT32"), "rows", ROW_BYTES, ROW_BYTES),
        ]
        outputs = [
            placed(client.InferRequestedOutput("OUTPUT0"), "rows", ROW_BYTES, 2 * ROW_BYTES),
            placed(client.InferRequestedOutput("OUTPUT1"), "rows", ROW_BYTES, 3 * ROW_BYTES),
        ]
        for _ in range(3):
            triton.infer("simple", inputs, outputs=outputs)
            np.testing.assert_array_equal(memory.get([4, 16]), [left, right, left + right, left - right])
            left = left + 100
            memory.set([left, right])


@on_both
def check_mixed(client, triton, _):
    """an input on a GPU beside one in the request, an output there beside one in the answer"""
    left = np.arange(16, dtype=np.int32).reshape(1, 16)
    with region(triton, "mixed", ROW_BYTES) as memory:
        memory.set([left])
        inputs = [
            placed(client.InferInput("INPUT0", [1, 16], "INT32"), "mixed", ROW_BYTES),
            make_input(client, "INPUT1", "INT32", np.ones((1, 16), dtype=np.int32)),
        ]
        outputs = [
            client.InferRequestedOutput("OUTPUT0"),
            placed(client.InferRequestedOutput("OUTPUT1"), "mixed", ROW_BYTES),
        ]
        result = triton.infer("simple", inputs, outputs=outputs)
        np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), left + 1)
        np.testing.assert_array_equal(memory.get([1, 16]), left - 1)


@on_both
def check_status(client, triton, codes):
    """regions are listed by kind and taken off the list"""
    with region(triton, "one", 8), region(triton, "two", 16):
        status = triton.get_cuda_shared_memory_status()
        assert names_of(client, status) == ["one", "two"], status
        own = triton.get_cuda_shared_memory_status("two")
        if client is http_client:
            assert own == [{"name": "two", "device_id": 0, "byte_size": 16}], own
        else:
            assert (own.regions["two"].device_id, own.regions["two"].byte_size) == (0, 16), own
        assert names_of(client, triton.get_system_shared_memory_status()) == []
        with refused(InferenceServerException, codes["missing"], "is registered as CUDA shared memory, not system"):
            triton.get_system_shared_memory_status("two")
        triton.unregister_cuda_shared_memory("one")
        assert names_of(client, triton.get_cuda_shared_memory_status()) == ["two"]
        triton.unregister_cuda_shared_memory()
        assert names_of(client, triton.get_cuda_shared_memory_status()) == []
        with refused(InferenceServerException, codes["missing"], "Unable to find cuda shared memory region: 'one'"):
            triton.get_cuda_shared_memory_status("one")


@on_both
def check_refusals(client, triton, codes):
    """names that are taken, sizes and handles that are wrong, parts outside of a region"""
    with region(triton, "own", ROW_BYTES) as memory:
        with refused(InferenceServerException, codes["taken"], "shared memory region 'own' already in manager"):
            triton.register_cuda_shared_memory("own", memory.handle(), 0, ROW_BYTES)
        text = "failed to register shared memory region 'more': invalid args"
        with refused(InferenceServerException, codes["invalid"], text):
            triton.register_cuda_shared_memory("more", memory.handle(), 0, ROW_BYTES + 1)
        text = "failed to register shared memory region: invalid args"
        with refused(InferenceServerException, codes["invalid"], text):
            triton.register_cuda_shared_memory("rubbish", base64.b64encode(bytes(range(HANDLE_BYTES))), 0, 8)
        with refused(InferenceServerException, codes["invalid"]):
            triton.register_cuda_shared_memory("short", base64.b64encode(b"short"), 0, 8)
        inputs = [make_input(client, name, "INT32", np.ones((1, 16), dtype=np.int32)) for name in ("INPUT0", "INPUT1")]
        for offset, text in ((ROW_BYTES, "Invalid offset for"), (1, "Invalid offset + byte size for")):
            output = placed(client.InferRequestedOutput("OUTPUT0"), "own", ROW_BYTES, offset)
            with refused(InferenceServerException, codes["invalid"], f"{text} shared memory region: 'own'"):
                triton.infer("simple", inputs, outputs=[output])
        triton.infer("simple", inputs)


run_all(globals())
