"""The blocking gRPC client."""

import threading
import time

import grpc
import ml_dtypes
import numpy as np
import tritonclient.grpc as client
from tritonclient.utils import InferenceServerException

from checks import GRPC, add_sub_inputs, expect_add_sub, make_input, refused, run_all

LARGE_ELEMENTS = 2 * 1024 * 1024
NUM_REQUESTS = 40


def connect(**options):
    return client.InferenceServerClient(url=GRPC, **options)


def check_health():
    """health: live, ready, model ready, an unknown model is not"""
    with connect() as triton:
        assert triton.is_server_live()
        assert triton.is_server_ready()
        assert triton.is_model_ready("simple")
        assert not triton.is_model_ready("simple", "9")
        assert not triton.is_model_ready("nope")


def check_metadata():
    """metadata and configuration, as messages and as JSON"""
    with connect() as triton:
        assert triton.get_server_metadata().name == "triton"
        assert "statistics" in triton.get_server_metadata(as_json=True)["extensions"]
        model = triton.get_model_metadata("simple")
        assert [tensor.name for tensor in model.inputs] == ["INPUT0", "INPUT1"]
        assert list(model.outputs[0].shape) == [-1, 16]
        config = triton.get_model_config("simple").config
        assert config.max_batch_size == 8 and config.backend == "onnxruntime"
        assert triton.get_model_config("simple", as_json=True)["config"]["name"] == "simple"


def check_index():
    """repository index"""
    with connect() as triton:
        states = {row.name: row.state for row in triton.get_model_repository_index().models}
        assert states["simple"] == "READY" and states["square"] == "READY", states


def check_statistics():
    """statistics count what was asked"""
    with connect() as triton:
        values = np.ones((2, 2), dtype=np.float32)
        inputs = [make_input(client, "X", "FP32", values)]
        before = triton.get_inference_statistics("no_batch").model_stats[0].inference_count
        triton.infer("no_batch", inputs)
        triton.infer("no_batch", inputs)
        after = triton.get_inference_statistics("no_batch").model_stats[0]
        assert after.inference_count - before == 2
        assert after.inference_stats.success.ns > 0
        everything = triton.get_inference_statistics()
        assert {row.name for row in everything.model_stats} >= {"simple", "no_batch", "repeat"}


def check_infer():
    """inference with id, chosen outputs and parameters"""
    with connect() as triton:
        inputs, left, right = add_sub_inputs(client, rows=3)
        result = triton.infer("simple", inputs, request_id="r-2", parameters={"answer": 42, "name": "x", "flag": True})
        expect_add_sub(result, left, right)
        assert result.get_response().id == "r-2"
        one = triton.infer("simple", inputs, outputs=[client.InferRequestedOutput("OUTPUT1")])
        assert one.as_numpy("OUTPUT0") is None
        assert one.get_output("OUTPUT1").datatype == "INT32"


def check_bytes_and_halves():
    """BYTES, FP16 and BF16 keep their bits"""
    with connect() as triton:
        # No zero bytes: the model is an ONNX one, and its strings end there.
        texts = np.array([b"one", b"", "drei \u00fc".encode(), b"\xff\xfe"], dtype=np.object_)
        assert list(triton.infer("id_bytes", [make_input(client, "IN", "BYTES", texts)]).as_numpy("OUT")) == list(texts)
        halves = np.array([0.5, -2.25, 65504, np.inf], dtype=np.float16)
        np.testing.assert_array_equal(triton.infer("id_fp16", [make_input(client, "IN", "FP16", halves)]).as_numpy("OUT"), halves)
        brains = np.array([1.0, -2.5, 3.0e38], dtype=ml_dtypes.bfloat16)
        result = triton.infer("id_bf16", [make_input(client, "IN", "BF16", brains)])
        assert result.as_numpy("OUT").tobytes() == brains.tobytes()


def check_classification():
    """classification gives value:index:label, best first"""
    with connect() as triton:
        inputs = [make_input(client, "x", "FP32", np.array([[1, 2, 3, 4]], dtype=np.float32))]
        best = int(np.argmax(triton.infer("mlp", inputs).as_numpy("y")[0]))
        outputs = [client.InferRequestedOutput("y", class_count=3)]
        rows = triton.infer("mlp", inputs, outputs=outputs).as_numpy("y").flatten()
        assert len(rows) == 3, rows
        assert int(rows[0].decode().split(":")[1]) == best, rows


def check_errors():
    """errors carry the status and the words that clients look for"""
    with connect() as triton:
        inputs, _, _ = add_sub_inputs(client)
        with refused(InferenceServerException, "StatusCode.NOT_FOUND", "Request for unknown model: 'nope' is not found"):
            triton.infer("nope", inputs)
        with refused(InferenceServerException, "StatusCode.INVALID_ARGUMENT", "expected 2 inputs but got 1 inputs"):
            triton.infer("simple", inputs[:1])
        many, _, _ = add_sub_inputs(client, rows=9)
        with refused(InferenceServerException, "StatusCode.INVALID_ARGUMENT", "batch-size must be <= 8"):
            triton.infer("simple", many)
        with refused(InferenceServerException, "StatusCode.UNIMPLEMENTED", "decoupled"):
            triton.infer("repeat", [make_input(client, "IN", "INT32", np.array([1], dtype=np.int32))])
        with refused(InferenceServerException, "StatusCode.UNIMPLEMENTED", "--allow-client-shm=true"):
            triton.register_system_shared_memory("region", "/nereid-none", 64)


def check_compression():
    """gzip and deflate"""
    with connect() as triton:
        for algorithm in ("gzip", "deflate"):
            inputs, left, right = add_sub_inputs(client, rows=8)
            expect_add_sub(triton.infer("simple", inputs, compression_algorithm=algorithm), left, right)


def check_large():
    """8 MiB tensors both ways"""
    with connect() as triton:
        values = np.arange(LARGE_ELEMENTS, dtype=np.float32)
        result = triton.infer("id_fp32", [make_input(client, "IN", "FP32", values)])
        np.testing.assert_array_equal(result.as_numpy("OUT"), values)


def check_deadline():
    """a deadline that passes is DEADLINE_EXCEEDED, and the server goes on"""
    with connect() as triton:
        inputs = [make_input(client, "INPUT0", "INT32", np.array([1], dtype=np.int32))]
        with refused(InferenceServerException, "StatusCode.DEADLINE_EXCEEDED", "Deadline Exceeded"):
            triton.infer("slow", inputs, client_timeout=0.1)
        assert triton.infer("slow", inputs, client_timeout=10).as_numpy("OUTPUT0")[0] == 1


def check_async_infer():
    """async_infer calls back once for each request"""
    done = threading.Event()
    answers = {}

    def take(result, error):
        answers[result.get_response().id] = (int(result.as_numpy("OUTPUT0")[0][0]), error)
        if len(answers) == NUM_REQUESTS:
            done.set()

    with connect() as triton:
        for k in range(NUM_REQUESTS):
            values = np.full((1, 16), k, dtype=np.int32)
            inputs = [make_input(client, name, "INT32", values) for name in ("INPUT0", "INPUT1")]
            triton.async_infer("simple", inputs, take, request_id=str(k))
        assert done.wait(20), answers
    assert answers == {str(k): (2 * k, None) for k in range(NUM_REQUESTS)}


def check_cancel():
    """a cancelled call ends as CANCELLED at once"""
    done = threading.Event()
    errors = []

    def take(result, error):
        errors.append(error)
        done.set()

    with connect() as triton:
        inputs = [make_input(client, "INPUT0", "INT32", np.array([1], dtype=np.int32))]
        call = triton.async_infer("slow", inputs, take)
        time.sleep(0.05)
        call.cancel()
        assert done.wait(5)
        assert errors[0].status() == "StatusCode.CANCELLED", errors
        assert triton.infer("slow", inputs).as_numpy("OUTPUT0")[0] == 1


def check_settings():
    """log settings can be read and changed"""
    with connect() as triton:
        before = triton.get_log_settings(as_json=True)
        assert triton.update_log_settings({"log_verbose_level": 1}).settings["log_verbose_level"].uint32_param == 1
        triton.update_log_settings({"log_verbose_level": 0})
        assert triton.get_log_settings(as_json=True) == before


def check_keepalive():
    """a client with its own keepalive pings is not sent away"""
    options = client.KeepAliveOptions(keepalive_time_ms=400, keepalive_timeout_ms=400, http2_max_pings_without_data=0)
    with connect(keepalive_options=options) as triton:
        inputs = [make_input(client, "INPUT0", "INT32", np.array([1], dtype=np.int32))]
        for _ in range(3):
            assert triton.infer("slow", inputs).as_numpy("OUTPUT0")[0] == 1


def check_channel_arguments():
    """a plain channel with arguments of the user"""
    with connect(channel_args=[("grpc.max_receive_message_length", 1024)]) as triton:
        assert triton.is_server_live()
        values = np.zeros(4096, dtype=np.float32)
        with refused(InferenceServerException, "StatusCode.RESOURCE_EXHAUSTED", "larger than max"):
            triton.infer("id_fp32", [make_input(client, "IN", "FP32", values)])
    channel = grpc.insecure_channel(GRPC)
    grpc.channel_ready_future(channel).result(timeout=5)
    channel.close()


run_all(globals())
