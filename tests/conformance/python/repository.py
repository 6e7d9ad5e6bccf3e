"""Repository control, over both protocols, against a server in explicit mode that has loaded nothing but `simple`."""

import json
import sys
import time

import numpy as np
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient
from tritonclient.utils import InferenceServerException

from checks import GRPC, HTTP, make_input, refused, run_all

CLIENTS = ((httpclient, HTTP), (grpcclient, GRPC))


def each_client():
    for module, url in CLIENTS:
        with module.InferenceServerClient(url=url) as triton:
            yield module, triton


def names(module, rows):
    if module is grpcclient:
        return {row.name: row.state for row in rows.models}
    return {row["name"]: row.get("state", "") for row in rows}


def ask(module, triton):
    return triton.infer("no_batch", [make_input(module, "X", "FP32", np.ones((2, 2), dtype=np.float32))])


def check_load_and_unload():
    """a model is loaded, answers, is unloaded and answers no more"""
    for module, triton in each_client():
        assert not triton.is_model_ready("no_batch")
        triton.load_model("no_batch")
        assert triton.is_model_ready("no_batch")
        assert ask(module, triton).as_numpy("Y").shape == (2, 2)
        triton.unload_model("no_batch")
        assert not triton.is_model_ready("no_batch")
        try:
            ask(module, triton)
            raise AssertionError("an unloaded model answered")
        except InferenceServerException as error:
            assert "Request for unknown model: 'no_batch'" in error.message(), error


def check_index():
    """the index tells loaded models from others"""
    for module, triton in each_client():
        triton.load_model("no_batch")
        states = names(module, triton.get_model_repository_index())
        assert states["simple"] == "READY" and states["no_batch"] == "READY", states
        triton.unload_model("no_batch")
        wait_for_state(module, triton, "no_batch", "UNAVAILABLE")


def wait_for_state(module, triton, model, state):
    """Models unload after the answer to the request."""
    deadline = time.monotonic() + 10
    while names(module, triton.get_model_repository_index())[model] != state:
        assert time.monotonic() < deadline, names(module, triton.get_model_repository_index())
        time.sleep(0.02)


def check_config_override():
    """a configuration given with the load is taken, until the model is loaded from its files again"""
    for module, triton in each_client():
        config = {"backend": "onnxruntime", "max_batch_size": 3,
                  "input": [{"name": n, "data_type": "TYPE_INT32", "dims": [16]} for n in ("INPUT0", "INPUT1")],
                  "output": [{"name": n, "data_type": "TYPE_INT32", "dims": [16]} for n in ("OUTPUT0", "OUTPUT1")]}
        triton.load_model("simple", config=json.dumps(config))
        assert max_batch_size(module, triton) == 3
        triton.unload_model("simple")
        wait_for_state(module, triton, "simple", "UNAVAILABLE")
        triton.load_model("simple")
        assert max_batch_size(module, triton) == 8


def max_batch_size(module, triton):
    config = triton.get_model_config("simple")
    return config.config.max_batch_size if module is grpcclient else config["max_batch_size"]


def check_file_override():
    """files given with the load make up the model"""
    with open(sys.argv[4], "rb") as file:
        content = file.read()
    config = json.dumps({"backend": "onnxruntime", "max_batch_size": 8,
                         "input": [{"name": n, "data_type": "TYPE_INT32", "dims": [16]} for n in ("INPUT0", "INPUT1")],
                         "output": [{"name": n, "data_type": "TYPE_INT32", "dims": [16]} for n in ("OUTPUT0", "OUTPUT1")]})
    for module, triton in each_client():
        triton.load_model("simple", config=config, files={"file:7/model.onnx": content})
        assert triton.is_model_ready("simple", "7")
        values = np.full((1, 16), 4, dtype=np.int32)
        result = triton.infer("simple", [make_input(module, n, "INT32", values) for n in ("INPUT0", "INPUT1")], model_version="7")
        assert int(result.as_numpy("OUTPUT0")[0][0]) == 8
        triton.load_model("simple")
        assert triton.is_model_ready("simple", "1")


def check_errors():
    """loads that cannot be are refused, and what is loaded stays"""
    for module, triton in each_client():
        status = "500" if module is httpclient else "StatusCode.INTERNAL"
        with refused(InferenceServerException, status, "failed to load 'nope'"):
            triton.load_model("nope")
        try:
            triton.load_model("simple", config='{"max_batch_size": -4}')
            raise AssertionError("a broken configuration was loaded")
        except InferenceServerException as error:
            assert "simple" in error.message(), error
        assert triton.is_model_ready("simple")


run_all(globals())
