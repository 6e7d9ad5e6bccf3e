"""Models of `backend: "vllm"`: text in, text out, by the engine that `model.json` of the version describes."""

import asyncio
import json
import os
import threading

import numpy as np
import triton_python_backend_utils as pb_utils
from nereid_stub.packages import import_package

_ENGINE_FILE = "model.json"
_INPUTS = (
    ("text_input", "TYPE_STRING", False),
    ("stream", "TYPE_BOOL", True),
    ("sampling_parameters", "TYPE_STRING", True),
    ("exclude_input_in_output", "TYPE_BOOL", True),
)


class TritonPythonModel:
    @staticmethod
    def auto_complete_config(auto_complete_model_config):
        for name, data_type, optional in _INPUTS:
            entry = {"name": name, "data_type": data_type, "dims": [1]}
            auto_complete_model_config.add_input({**entry, "optional": True} if optional else entry)
        auto_complete_model_config.add_output({"name": "text_output", "data_type": "TYPE_STRING", "dims": [-1]})
        auto_complete_model_config.set_model_transaction_policy({"decoupled": True})
        auto_complete_model_config.set_max_batch_size(0)
        return auto_complete_model_config

    def initialize(self, args):
        vllm = import_package("vllm", "vllm")
        if not pb_utils.using_decoupled_model_transaction_policy(json.loads(args["model_config"])):
            raise pb_utils.TritonModelException("models of backend 'vllm' need model_transaction_policy { decoupled: true }")
        path = os.path.join(pb_utils.get_model_dir(), _ENGINE_FILE)
        if not os.path.isfile(path):
            raise pb_utils.TritonModelException("'%s' does not exist: it names the engine's arguments" % path)
        with open(path, encoding="utf-8") as file:
            arguments = json.load(file)
        if args["model_instance_kind"] == "GPU":
            os.environ.setdefault("CUDA_VISIBLE_DEVICES", args["model_instance_device_id"])
        self._sampling = vllm.SamplingParams
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="vllm", daemon=True).start()
        self._engine = asyncio.run_coroutine_threadsafe(self._start(vllm, arguments), self._loop).result()
        self._served = 0

    async def _start(self, vllm, arguments):
        return vllm.AsyncLLMEngine.from_engine_args(vllm.AsyncEngineArgs(**arguments))

    def execute(self, requests):
        for request in requests:
            self._served += 1
            asyncio.run_coroutine_threadsafe(self._answer(request, str(self._served)), self._loop)

    async def _answer(self, request, number):
        sender = request.get_response_sender()
        try:
            await self._generate(request, sender, number)
        except Exception as error:
            response = pb_utils.InferenceResponse(error=pb_utils.TritonError("Error generating stream: %s" % error))
            sender.send(response, flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

    async def _generate(self, request, sender, number):
        prompt = _value(request, "text_input", b"").decode("utf-8")
        streams = bool(_value(request, "stream", False))
        excludes_input = bool(_value(request, "exclude_input_in_output", streams))
        if streams and not excludes_input:
            raise ValueError("a stream cannot hold the input: leave exclude_input_in_output out or true")
        sampling = self._sampling(**_parameters(request))
        sent = {}
        last = None
        async for last in self._engine.generate(prompt, sampling, number):
            if request.is_cancelled():
                await self._engine.abort(number)
                sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
                return
            if streams:
                texts = []
                for output in last.outputs:
                    texts.append(output.text[sent.get(output.index, 0) :])
                    sent[output.index] = len(output.text)
                sender.send(_response(texts))
        if not streams and last is not None:
            before = "" if excludes_input else prompt
            sender.send(_response([before + output.text for output in last.outputs]))
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

    def finalize(self):
        self._loop.call_soon_threadsafe(self._loop.stop)


def _value(request, name, default):
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    return default if tensor is None else tensor.as_numpy().reshape(-1)[0]


def _parameters(request):
    written = _value(request, "sampling_parameters", None)
    return json.loads(request.parameters() if written is None else written.decode("utf-8"))


def _response(texts):
    array = np.array([text.encode("utf-8") for text in texts], dtype=np.object_)
    return pb_utils.InferenceResponse([pb_utils.Tensor("text_output", array)])
