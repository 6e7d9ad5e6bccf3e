import asyncio

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """Two calls of add_sub at the same time; gives the sum of the one and the difference of the other."""

    async def execute(self, requests):
        responses = []
        for request in requests:
            in_0 = pb_utils.get_input_tensor_by_name(request, "INPUT0")
            in_1 = pb_utils.get_input_tensor_by_name(request, "INPUT1")
            awaits = []
            for output in ("OUTPUT0", "OUTPUT1"):
                infer_request = pb_utils.InferenceRequest(
                    model_name="add_sub", requested_output_names=[output], inputs=[in_0, in_1]
                )
                awaits.append(infer_request.async_exec())
            infer_responses = await asyncio.gather(*awaits)
            for infer_response in infer_responses:
                if infer_response.has_error():
                    raise pb_utils.TritonModelException(infer_response.error().message())
            total = pb_utils.get_output_tensor_by_name(infer_responses[0], "OUTPUT0")
            difference = pb_utils.get_output_tensor_by_name(infer_responses[1], "OUTPUT1")
            responses.append(pb_utils.InferenceResponse(output_tensors=[total, difference]))
        return responses
