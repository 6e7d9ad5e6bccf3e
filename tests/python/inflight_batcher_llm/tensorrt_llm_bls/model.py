import json
import traceback

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """The pipeline in one model: three calls, the middle one decoupled, the text of each answer sent on."""

    def initialize(self, args):
        params = json.loads(args["model_config"])["parameters"]
        self.decoupled = pb_utils.using_decoupled_model_transaction_policy(json.loads(args["model_config"]))
        self.logger = pb_utils.Logger
        self.llm_model_name = params.get("tensorrt_llm_model_name", {}).get("string_value", "") or "tensorrt_llm"

    def _call(self, model_name, inputs, outputs):
        infer_request = pb_utils.InferenceRequest(
            model_name=model_name,
            inputs=inputs,
            requested_output_names=outputs,
            preferred_memory=pb_utils.PreferredMemory(pb_utils.TRITONSERVER_MEMORY_CPU),
        )
        infer_response = infer_request.exec()
        if infer_response.has_error():
            raise pb_utils.TritonModelException(infer_response.error().message())
        return {tensor.name(): tensor.as_numpy() for tensor in infer_response.output_tensors()}

    def _generate(self, request):
        text = pb_utils.get_input_tensor_by_name(request, "text_input").as_numpy()
        max_tokens = pb_utils.get_input_tensor_by_name(request, "max_tokens").as_numpy()
        stream = pb_utils.get_input_tensor_by_name(request, "stream")
        before = self._call(
            "preprocessing",
            [pb_utils.Tensor("QUERY", text), pb_utils.Tensor("REQUEST_OUTPUT_LEN", max_tokens)],
            ["INPUT_ID", "REQUEST_INPUT_LEN", "REQUEST_OUTPUT_LEN", "OUT_END_ID", "OUT_PAD_ID"],
        )
        names = {"INPUT_ID": "input_ids", "REQUEST_INPUT_LEN": "input_lengths", "REQUEST_OUTPUT_LEN": "request_output_len",
                 "OUT_END_ID": "end_id", "OUT_PAD_ID": "pad_id"}  # fmt: skip
        inputs = [pb_utils.Tensor(names[name], value) for name, value in before.items()]
        if stream is not None:
            inputs.append(pb_utils.Tensor("streaming", stream.as_numpy()))
        llm_request = pb_utils.InferenceRequest(
            model_name=self.llm_model_name, inputs=inputs, requested_output_names=["output_ids", "sequence_length"]
        )
        for llm_response in llm_request.exec(decoupled=True):
            if llm_response.has_error():
                raise pb_utils.TritonModelException(llm_response.error().message())
            if len(llm_response.output_tensors()) == 0:
                continue
            ids = pb_utils.get_output_tensor_by_name(llm_response, "output_ids").as_numpy()
            lengths = pb_utils.get_output_tensor_by_name(llm_response, "sequence_length").as_numpy()
            after = self._call(
                "postprocessing",
                [pb_utils.Tensor("TOKENS_BATCH", ids), pb_utils.Tensor("SEQUENCE_LENGTH", lengths)],
                ["OUTPUT"],
            )
            yield pb_utils.InferenceResponse([pb_utils.Tensor("text_output", after["OUTPUT"])])

    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            try:
                for response in self._generate(request):
                    sender.send(response)
            except Exception:
                self.logger.log_error(traceback.format_exc())
                sender.send(pb_utils.InferenceResponse(error=pb_utils.TritonError(traceback.format_exc())))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        return None
