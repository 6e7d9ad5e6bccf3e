"""The blocking HTTP client against a server with the models of client-models.ts."""

import json
import threading

import ml_dtypes
import numpy as np
import tritonclient.http as client
from tritonclient.utils import InferenceServerException

from checks import HTTP, add_sub_inputs, expect_add_sub, make_input, refused, run_all

LARGE_ELEMENTS = 2 * 1024 * 1024


def connect(**options):
    return client.InferenceServerClient(url=HTTP, **options)


def check_health():
    """health: live, ready, model ready, an unknown model is not"""
    with connect() as triton:
        assert triton.is_server_live()
        assert triton.is_server_ready()
        assert triton.is_model_ready("simple")
        assert triton.is_model_ready("simple", "1")
        assert not triton.is_model_ready("nope")


def check_metadata():
    """metadata and configuration of server and model"""
    with connect() as triton:
        server = triton.get_server_metadata()
        assert server["name"] == "triton"
        assert {"classification", "sequence", "binary_tensor_data", "statistics"} <= set(server["extensions"])
        model = triton.get_model_metadata("simple")
        assert model["platform"] == "onnxruntime_onnx" and model["versions"] == ["1"], model
        assert model["inputs"][0] == {"name": "INPUT0", "datatype": "INT32", "shape": [-1, 16]}, model
        config = triton.get_model_config("simple")
        assert config["max_batch_size"] == 8 and config["input"][1]["name"] == "INPUT1", config


def check_index():
    """repository index names every model with its state"""
    with connect() as triton:
        states = {row["name"]: row["state"] for row in triton.get_model_repository_index()}
        assert states["simple"] == "READY" and states["repeat"] == "READY", states


def check_statistics():
    """statistics count what was asked"""
    with connect() as triton:
        def read():
            return triton.get_inference_statistics("no_batch")["model_stats"][0]

        before = read()
        values = np.ones((2, 2), dtype=np.float32)
        triton.infer("no_batch", [make_input(client, "X", "FP32", values)])
        after = read()
        assert after["inference_count"] - before["inference_count"] == 1
        assert after["inference_stats"]["success"]["count"] - before["inference_stats"]["success"]["count"] == 1
        assert after["inference_stats"]["compute_infer"]["ns"] > before["inference_stats"]["compute_infer"]["ns"]


def check_infer_forms():
    """infer with binary and JSON tensors both ways"""
    with connect() as triton:
        for binary_in in (True, False):
            for binary_out in (True, False):
                inputs, left, right = add_sub_inputs(client, rows=2, binary_data=binary_in)
                outputs = [client.InferRequestedOutput(name, binary_data=binary_out) for name in ("OUTPUT0", "OUTPUT1")]
                result = triton.infer("simple", inputs, outputs=outputs, request_id="r-1")
                expect_add_sub(result, left, right)
                assert result.get_response()["id"] == "r-1"


def check_outputs():
    """only the outputs asked for come, and all of them by default"""
    with connect() as triton:
        inputs, left, right = add_sub_inputs(client)
        one = triton.infer("simple", inputs, outputs=[client.InferRequestedOutput("OUTPUT1")])
        assert one.as_numpy("OUTPUT0") is None
        np.testing.assert_array_equal(one.as_numpy("OUTPUT1"), left - right)
        expect_add_sub(triton.infer("simple", inputs), left, right)


def check_bytes():
    """BYTES: text, empty strings, bytes that are no UTF-8"""
    with connect() as triton:
        # No zero bytes: the model is an ONNX one, and its strings end there.
        values = np.array([b"one", b"", "drei \u00fc".encode(), b"\xff\xfe"], dtype=np.object_)
        result = triton.infer("id_bytes", [make_input(client, "IN", "BYTES", values)])
        assert list(result.as_numpy("OUT")) == list(values), result.as_numpy("OUT")
        text = np.array(["a", "b \u4e16"], dtype=np.object_)
        outputs = [client.InferRequestedOutput("OUT", binary_data=False)]
        result = triton.infer("id_bytes", [make_input(client, "IN", "BYTES", text, binary_data=False)], outputs=outputs)
        assert [item if isinstance(item, str) else item.decode() for item in result.as_numpy("OUT")] == list(text)


def check_half():
    """FP16 and BF16 keep their bits"""
    with connect() as triton:
        halves = np.array([0.5, -2.25, 65504, np.inf], dtype=np.float16)
        result = triton.infer("id_fp16", [make_input(client, "IN", "FP16", halves)])
        np.testing.assert_array_equal(result.as_numpy("OUT"), halves)
        brains = np.array([1.0, -2.5, 3.0e38, 0.0078125], dtype=ml_dtypes.bfloat16)
        result = triton.infer("id_bf16", [make_input(client, "IN", "BF16", brains)])
        assert result.as_numpy("OUT").tobytes() == brains.tobytes()
        with refused(InferenceServerException, "400", "BF16"):
            triton.infer("id_bf16", [make_input(client, "IN", "BF16", brains)], outputs=[client.InferRequestedOutput("OUT", binary_data=False)])


def check_datatypes():
    """every fixed-size datatype comes back as it went"""
    with connect() as triton:
        for datatype, dtype in (
            ("BOOL", np.bool_), ("INT8", np.int8), ("INT16", np.int16), ("INT32", np.int32), ("INT64", np.int64),
            ("UINT8", np.uint8), ("UINT16", np.uint16), ("UINT32", np.uint32), ("UINT64", np.uint64),
            ("FP32", np.float32), ("FP64", np.float64),
        ):
            top = 1 if dtype is np.bool_ else 3.5 if datatype.startswith("FP") else np.iinfo(dtype).max
            values = np.array([0, 1, top], dtype=dtype)
            for binary in (True, False):
                outputs = [client.InferRequestedOutput("OUT", binary_data=binary)]
                model = f"id_{datatype.lower()}"
                result = triton.infer(model, [make_input(client, "IN", datatype, values, binary_data=binary)], outputs=outputs)
                np.testing.assert_array_equal(result.as_numpy("OUT"), values, err_msg=f"{datatype} binary={binary}")


def check_classification():
    """classification gives value:index:label, best first"""
    with connect() as triton:
        values = np.array([[1, 2, 3, 4]], dtype=np.float32)
        raw = triton.infer("mlp", [make_input(client, "x", "FP32", values)]).as_numpy("y")[0]
        for binary in (True, False):
            outputs = [client.InferRequestedOutput("y", class_count=2, binary_data=binary)]
            result = triton.infer("mlp", [make_input(client, "x", "FP32", values)], outputs=outputs).as_numpy("y")
            rows = [item if isinstance(item, str) else item.decode() for item in result.flatten()]
            assert len(rows) == 2, rows
            score, index, label = rows[0].split(":")
            assert int(index) == int(np.argmax(raw)) and label != "", rows
            assert abs(float(score) - float(raw.max())) < 1e-3, (rows, raw)


def check_errors():
    """errors carry the status and the words that clients look for"""
    with connect() as triton:
        inputs, _, _ = add_sub_inputs(client)
        with refused(InferenceServerException, "404", "Request for unknown model: 'nope' is not found"):
            triton.infer("nope", inputs)
        with refused(InferenceServerException, "404", "'simple'", "version 7"):
            triton.infer("simple", inputs, model_version="7")
        with refused(InferenceServerException, "400", "expected 2 inputs but got 1 inputs for model 'simple'"):
            triton.infer("simple", inputs[:1])
        wrong = [make_input(client, name, "FP32", np.zeros((1, 16), dtype=np.float32)) for name in ("INPUT0", "INPUT1")]
        with refused(InferenceServerException, "400", "inference input", "data-type is 'FP32', but model 'simple' expects 'INT32'"):
            triton.infer("simple", wrong)
        many, _, _ = add_sub_inputs(client, rows=9)
        with refused(InferenceServerException, "400", "inference request batch-size must be <= 8 for 'simple'"):
            triton.infer("simple", many)
        with refused(InferenceServerException, "404", "nope"):
            triton.get_model_metadata("nope")
        with refused(InferenceServerException, "400", "nope"):
            triton.infer("simple", inputs, outputs=[client.InferRequestedOutput("nope")])


def check_parameters():
    """custom parameters are accepted, reserved names are refused by the client"""
    with connect() as triton:
        inputs, left, right = add_sub_inputs(client)
        result = triton.infer("simple", inputs, parameters={"answer": 42, "name": "x", "flag": True}, priority=1, timeout=5_000_000)
        expect_add_sub(result, left, right)


def check_compression():
    """gzip and deflate, of requests and of responses"""
    with connect() as triton:
        for request in (None, "gzip", "deflate"):
            for response in (None, "gzip", "deflate"):
                inputs, left, right = add_sub_inputs(client, rows=8)
                result = triton.infer(
                    "simple", inputs, request_compression_algorithm=request, response_compression_algorithm=response
                )
                expect_add_sub(result, left, right)


def check_large():
    """8 MiB tensors, binary, plain and compressed"""
    values = np.arange(LARGE_ELEMENTS, dtype=np.float32)
    with connect(network_timeout=30.0) as triton:
        result = triton.infer("id_fp32", [make_input(client, "IN", "FP32", values)])
        np.testing.assert_array_equal(result.as_numpy("OUT"), values)
        zeros = np.zeros(LARGE_ELEMENTS, dtype=np.float32)
        result = triton.infer(
            "id_fp32", [make_input(client, "IN", "FP32", zeros)],
            request_compression_algorithm="gzip", response_compression_algorithm="gzip",
        )
        np.testing.assert_array_equal(result.as_numpy("OUT"), zeros)


def check_async_infer():
    """async_infer runs many requests at once and gives each its own answer"""
    with connect(concurrency=8) as triton:
        pending = []
        for k in range(40):
            values = np.full((1, 16), k, dtype=np.int32)
            inputs = [make_input(client, name, "INT32", values) for name in ("INPUT0", "INPUT1")]
            pending.append((k, triton.async_infer("simple", inputs, request_id=str(k))))
        for k, handle in pending:
            result = handle.get_result(timeout=20)
            assert result.get_response()["id"] == str(k)
            assert int(result.as_numpy("OUTPUT0")[0][0]) == 2 * k


def check_threads():
    """clients in threads"""
    errors = []

    def work(seed):
        try:
            with connect() as triton:
                for k in range(10):
                    values = np.full((1, 16), seed * 100 + k, dtype=np.int32)
                    inputs = [make_input(client, name, "INT32", values) for name in ("INPUT0", "INPUT1")]
                    assert int(triton.infer("simple", inputs).as_numpy("OUTPUT0")[0][5]) == 2 * (seed * 100 + k)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == [], errors


def check_network_timeout():
    """a client that gives up leaves a server that answers the next one"""
    with connect(network_timeout=0.2) as impatient:
        try:
            impatient.infer("slow", [make_input(client, "INPUT0", "INT32", np.array([1], dtype=np.int32))])
            raise AssertionError("the answer came too early")
        except Exception as error:
            assert "timed out" in str(error).lower() or "timeout" in type(error).__name__.lower(), repr(error)
    with connect() as triton:
        result = triton.infer("slow", [make_input(client, "INPUT0", "INT32", np.array([2], dtype=np.int32))])
        assert result.as_numpy("OUTPUT0")[0] == 2


def check_queue_timeout():
    """a request that waits longer than its timeout is refused"""
    with connect(concurrency=2) as triton:
        inputs = [make_input(client, "INPUT0", "INT32", np.array([[1]], dtype=np.int32))]
        first = triton.async_infer("slow_queue", inputs)
        second = triton.async_infer("slow_queue", inputs, timeout=1000)
        first.get_result(timeout=20)
        with refused(InferenceServerException, "503", "Request timeout expired"):
            second.get_result(timeout=20)


def check_body_helpers():
    """generate_request_body and parse_response_body around another HTTP library"""
    import urllib.request

    inputs, left, right = add_sub_inputs(client)
    body, header_length = client.InferenceServerClient.generate_request_body(inputs)
    request = urllib.request.Request(f"http://{HTTP}/v2/models/simple/infer", data=bytes(body), method="POST")
    if header_length is not None:
        request.add_header("Inference-Header-Content-Length", str(header_length))
    with urllib.request.urlopen(request) as response:
        length = response.headers.get("Inference-Header-Content-Length")
        parsed = client.InferenceServerClient.parse_response_body(
            response.read(), header_length=None if length is None else int(length)
        )
    expect_add_sub(parsed, left, right)


def check_decoupled():
    """a decoupled model is refused by plain inference"""
    with connect() as triton:
        inputs = [make_input(client, "IN", "INT32", np.array([1, 2], dtype=np.int32))]
        with refused(InferenceServerException, "501", "decoupled"):
            triton.infer("repeat", inputs)


def check_settings():
    """log settings can be read and changed"""
    with connect() as triton:
        before = triton.get_log_settings()
        changed = triton.update_log_settings({"log_verbose_level": 1})
        assert changed["log_verbose_level"] == 1, changed
        assert triton.update_log_settings({"log_verbose_level": 0}) == before
        with refused(InferenceServerException, "500", "unsigned-integer"):
            triton.update_log_settings({"log_verbose_level": "loud"})


def check_shared_memory_is_off():
    """shared memory is refused with the flag that allows it"""
    with connect() as triton:
        assert triton.get_system_shared_memory_status() == []
        with refused(InferenceServerException, "501", "--allow-client-shm=true"):
            triton.register_system_shared_memory("region", "/nereid-none", 64)


def check_query_and_headers():
    """query parameters and headers of the client do no harm"""
    with connect() as triton:
        inputs, left, right = add_sub_inputs(client)
        result = triton.infer("simple", inputs, headers={"X-Trace": "1"}, query_params={"a": 1})
        expect_add_sub(result, left, right)
        assert json.dumps(triton.get_server_metadata(headers={"X-Trace": "1"}))


run_all(globals())
