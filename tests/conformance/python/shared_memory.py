"""Regions of shared memory through the blocking clients of both protocols, against a server that allows them."""

import contextlib
import queue
import threading
import time
import urllib.request

import numpy as np
import tritonclient.grpc as grpc_client
import tritonclient.http as http_client
import tritonclient.utils.shared_memory as shm
from tritonclient.utils import InferenceServerException, serialize_byte_tensor

from checks import GRPC, HTTP, METRICS, make_input, refused, run_all
from protocols import on_both

ROW_BYTES = 64
LARGE_ELEMENTS = 4 * 1024 * 1024


@contextlib.contextmanager
def region(triton, name, byte_size):
    """An object and a region of one name."""
    handle = shm.create_shared_memory_region(name, f"/nereid_check_{name}", byte_size)
    try:
        triton.register_system_shared_memory(name, f"/nereid_check_{name}", byte_size)
        yield handle
    finally:
        triton.unregister_system_shared_memory(name)
        shm.destroy_shared_memory_region(handle)


def shared_input(client, name, datatype, shape, *place):
    tensor = client.InferInput(name, shape, datatype)
    tensor.set_shared_memory(*place)
    return tensor


def shared_output(client, name, *place):
    output = client.InferRequestedOutput(name)
    output.set_shared_memory(*place)
    return output


def expect_no_data(result, name):
    """The output is told of, its data are only in the region."""
    if isinstance(result, http_client.InferResult):
        assert sorted(result.get_output(name)) == ["datatype", "name", "shape"], result.get_response()
        return
    response = result.get_response()
    index = [output.name for output in response.outputs].index(name)
    assert response.raw_output_contents[index] == b"" and not response.outputs[index].parameters, response


def simple_inputs(client, name):
    return [
        shared_input(client, "INPUT0", "INT32", [1, 16], name, ROW_BYTES),
        shared_input(client, "INPUT1", "INT32", [1, 16], name, ROW_BYTES, ROW_BYTES),
    ]


@on_both
def check_both_ways(client, triton, _):
    """inputs and outputs of an ONNX model in one region"""
    left = np.arange(16, dtype=np.int32)
    right = np.full(16, 5, dtype=np.int32)
    with region(triton, "rows", 4 * ROW_BYTES) as handle:
        shm.set_shared_memory_region(handle, [left, right])
        outputs = [
            shared_output(client, "OUTPUT0", "rows", ROW_BYTES, 2 * ROW_BYTES),
            shared_output(client, "OUTPUT1", "rows", ROW_BYTES, 3 * ROW_BYTES),
        ]
        result = triton.infer("simple", simple_inputs(client, "rows"), outputs=outputs)
        expect_no_data(result, "OUTPUT0")
        expect_no_data(result, "OUTPUT1")
        read = shm.get_contents_as_numpy(handle, np.int32, [4, 16])
        np.testing.assert_array_equal(read, [left, right, left + right, left - right])


@on_both
def check_mixed(client, triton, _):
    """an input in a region beside one in the request, an output in a region beside one in the answer"""
    left = np.arange(16, dtype=np.int32).reshape(1, 16)
    with region(triton, "mixed", 2 * ROW_BYTES) as handle:
        shm.set_shared_memory_region(handle, [left])
        inputs = [
            shared_input(client, "INPUT0", "INT32", [1, 16], "mixed", ROW_BYTES),
            make_input(client, "INPUT1", "INT32", np.ones((1, 16), dtype=np.int32)),
        ]
        outputs = [
            client.InferRequestedOutput("OUTPUT0"),
            shared_output(client, "OUTPUT1", "mixed", ROW_BYTES, ROW_BYTES),
        ]
        result = triton.infer("simple", inputs, outputs=outputs)
        np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), left + 1)
        np.testing.assert_array_equal(shm.get_contents_as_numpy(handle, np.int32, [1, 16], ROW_BYTES), left - 1)


@on_both
def check_strings(client, triton, _):
    """strings from a region to a region"""
    texts = np.array([b"one", b"", "größer".encode()], dtype=np.object_)
    content = serialize_byte_tensor(texts)
    num_bytes = len(content.item())
    with region(triton, "texts", 2 * num_bytes) as handle:
        shm.set_shared_memory_region(handle, [content])
        tensor = shared_input(client, "IN", "BYTES", [3], "texts", num_bytes)
        triton.infer("id_bytes", [tensor], outputs=[shared_output(client, "OUT", "texts", num_bytes, num_bytes)])
        read = shm.get_contents_as_numpy(handle, np.object_, [3], num_bytes)
        np.testing.assert_array_equal(read, texts)


@on_both
def check_large(client, triton, _):
    """16 MB from a region come back in the answer of a model that gives its input out"""
    values = np.random.default_rng(1).integers(0, 2**31, LARGE_ELEMENTS, dtype=np.int32)
    with region(triton, "large", values.nbytes) as handle:
        shm.set_shared_memory_region(handle, [values])
        tensor = shared_input(client, "INPUT0", "INT32", [LARGE_ELEMENTS], "large", values.nbytes)
        result = triton.infer("echo", [tensor])
        np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), values)


@on_both
def check_python_model(client, triton, _):
    """a Python model between two regions"""
    values = np.linspace(-1, 1, 16, dtype=np.float32)
    with region(triton, "from", values.nbytes) as source, region(triton, "to", values.nbytes) as target:
        shm.set_shared_memory_region(source, [values])
        tensor = shared_input(client, "IN", "FP32", [16], "from", values.nbytes)
        triton.infer("py_echo", [tensor], outputs=[shared_output(client, "OUT", "to", values.nbytes)])
        np.testing.assert_array_equal(shm.get_contents_as_numpy(target, np.float32, [16]), values)


@on_both
def check_cached(client, triton, _):
    """a model with a response cache answers by the content of a region, not by its name"""
    with region(triton, "cached", 8) as handle:
        for value in (1, 2, 1):
            shm.set_shared_memory_region(handle, [np.full(2, value, dtype=np.int32)])
            tensor = shared_input(client, "INPUT0", "INT32", [2], "cached", 8)
            np.testing.assert_array_equal(triton.infer("remembers", [tensor]).as_numpy("OUTPUT0"), [value, value])


@on_both
def check_status(client, triton, codes):
    """registered regions are listed until they are unregistered"""
    with region(triton, "listed", 128):
        status = triton.get_system_shared_memory_status("listed", **as_dict(client))
        entry = status["regions"]["listed"] if client is grpc_client else status[0]
        assert (entry["name"], entry["key"], int(entry["byte_size"])) == ("listed", "/nereid_check_listed", 128), status
        with refused(InferenceServerException, codes["taken"], "'listed' already in manager"):
            triton.register_system_shared_memory("listed", "/nereid_check_listed", 128)
        with refused(InferenceServerException, codes["missing"], "registered as system shared memory, not CUDA"):
            triton.get_cuda_shared_memory_status("listed")
        triton.unregister_system_shared_memory()
        assert not triton.get_system_shared_memory_status(**as_dict(client))
        with refused(InferenceServerException, codes["missing"], "system shared memory region: 'listed'"):
            triton.get_system_shared_memory_status("listed")


def as_dict(client):
    return {"as_json": True} if client is grpc_client else {}


@on_both
def check_refusals(client, triton, codes):
    """what is outside of a region or an object, reserved, unknown or of a GPU is refused"""
    invalid = codes["invalid"]
    with region(triton, "small", 2 * ROW_BYTES) as handle:
        shm.set_shared_memory_region(handle, [np.zeros(32, dtype=np.int32)])
        for name, place, status, text in (
            ("small", (ROW_BYTES, ROW_BYTES + 1), invalid, "Invalid offset + byte size for shared memory region: 'small'"),
            ("small", (ROW_BYTES, 2 * ROW_BYTES), invalid, "Invalid offset for shared memory region: 'small'"),
            ("small", (2**63 - 1, 1), invalid, "Invalid offset + byte size for shared memory region: 'small'"),
            ("small", (8, 2**63 - 1), invalid, "Invalid offset for shared memory region: 'small'"),
            ("other", (ROW_BYTES,), codes["missing"], "Unable to find shared memory region: 'other'"),
        ):
            inputs = [
                shared_input(client, "INPUT0", "INT32", [1, 16], name, *place),
                make_input(client, "INPUT1", "INT32", np.ones((1, 16), dtype=np.int32)),
            ]
            with refused(InferenceServerException, status, text):
                triton.infer("simple", inputs)
            with refused(InferenceServerException, status, text):
                outputs = [shared_output(client, "OUTPUT0", name, *place)]
                triton.infer("simple", simple_inputs(client, "small"), outputs=outputs)
        with refused(InferenceServerException, codes["internal"], "(8 bytes) should be at least 64 bytes"):
            triton.infer("simple", simple_inputs(client, "small"), outputs=[shared_output(client, "OUTPUT0", "small", 8)])
        with refused(InferenceServerException, invalid, "byte size mismatch"):
            triton.infer("echo_two", [shared_input(client, "INPUT0", "INT32", [2], "small", 12)])
        for key, byte_size, status, text in (
            ("/nereid_check_small", 2 * ROW_BYTES + 1, invalid, "'x': invalid args"),
            ("/nereid_check_small", 2**63, invalid, "'x': invalid args"),
            ("//triton_python_backend_shm_region_1", 8, invalid, "contains the reserved prefix"),
            ("/nereid_check_none", 8, codes["internal"], "Unable to open shared memory region: '/nereid_check_none'"),
            ("/../shm/nereid_check_small", 8, codes["internal"], "Unable to open shared memory region"),
        ):
            with refused(InferenceServerException, status, text):
                triton.register_system_shared_memory("x", key, byte_size)
        with refused(InferenceServerException, invalid, "GPUs not supported"):
            triton.register_cuda_shared_memory("x", b"AAAA", 0, 8)


@on_both
def check_unregister_in_use(client, triton, codes):
    """a region that is unregistered while a model runs stays until its requests have ended"""
    handle = shm.create_shared_memory_region("used", "/nereid_check_used", 12)
    shm.set_shared_memory_region(handle, [np.array([41], dtype=np.int32)])
    triton.register_system_shared_memory("used", "/nereid_check_used", 12)
    failures = []

    def run(offset):
        with client.InferenceServerClient(url=HTTP if client is http_client else GRPC) as own:
            try:
                tensor = shared_input(client, "INPUT0", "INT32", [1], "used", 4)
                own.infer("slow", [tensor], outputs=[shared_output(client, "OUTPUT0", "used", 4, offset)])
            except InferenceServerException as error:
                failures.append(error)

    threads = [threading.Thread(target=run, args=[offset]) for offset in (4, 8)]
    for thread in threads:
        thread.start()
    until_queued("slow", 1)
    triton.unregister_system_shared_memory("used")
    assert "used" in str(triton.get_system_shared_memory_status())
    with refused(InferenceServerException, codes["taken"], "shared memory region 'used' already in manager"):
        triton.register_system_shared_memory("used", "/nereid_check_used", 4)
    for thread in threads:
        thread.join()
    assert "used" not in str(triton.get_system_shared_memory_status())
    assert failures == [], failures
    np.testing.assert_array_equal(shm.get_contents_as_numpy(handle, np.int32, [3]), [41, 41, 41])
    shm.destroy_shared_memory_region(handle)


def until_queued(model, count):
    """Returns when this many requests wait behind the one that runs."""
    line = f'nv_inference_pending_request_count{{model="{model}",version="1"}} {count}'
    for _ in range(400):
        with urllib.request.urlopen(f"http://{METRICS}/metrics") as page:
            if line in page.read().decode():
                return
        time.sleep(0.01)
    raise AssertionError(f"{model} never had {count} requests waiting")


def check_stream():
    """a decoupled model on a stream writes each of its answers to the region"""
    answers = queue.Queue()
    with grpc_client.InferenceServerClient(url=GRPC) as triton, region(triton, "stream", 16) as handle:
        shm.set_shared_memory_region(handle, [np.array([7, 8, 9, 0], dtype=np.int32)])
        triton.start_stream(callback=lambda result, error: answers.put((result, error)))
        inputs = [shared_input(grpc_client, "IN", "INT32", [3], "stream", 12)]
        outputs = [shared_output(grpc_client, "OUT", "stream", 4, 12), grpc_client.InferRequestedOutput("IDX")]
        triton.async_stream_infer("repeat", inputs, outputs=outputs)
        indices = []
        for _ in range(3):
            result, error = answers.get(timeout=10)
            assert error is None, error
            indices.append(int(result.as_numpy("IDX")[0]))
            expect_no_data(result, "OUT")
        triton.stop_stream()
        assert indices == [0, 1, 2], indices
        assert shm.get_contents_as_numpy(handle, np.int32, [1], 12)[0] == 9


run_all(globals())
