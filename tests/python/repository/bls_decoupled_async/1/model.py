import asyncio
import sys

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """Calls square twice at once: one stream is read with `for`, the other with `async for`."""

    def initialize(self, args):
        if sys.argv != [""]:
            raise pb_utils.TritonModelException("a model has no command line: %s" % sys.argv)

    async def execute(self, requests):
        responses = []
        for request in requests:
            awaits = []
            for _ in range(2):
                infer_request = pb_utils.InferenceRequest(
                    model_name="square",
                    inputs=[pb_utils.get_input_tensor_by_name(request, "IN")],
                    requested_output_names=["OUT"],
                )
                awaits.append(infer_request.async_exec(decoupled=True))
            first, second = await asyncio.gather(*awaits)
            total = sum(self.value(infer_response) for infer_response in first)
            if sum(self.value(infer_response) for infer_response in first) != total:
                raise pb_utils.TritonModelException("a second loop does not begin with the first response")
            async for infer_response in second:
                total += self.value(infer_response)
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("SUM", np.array([total], np.int32))]))
        return responses

    def value(self, infer_response):
        if infer_response.has_error():
            raise pb_utils.TritonModelException(infer_response.error().message())
        outputs = infer_response.output_tensors()
        return int(outputs[0].as_numpy()[0]) if outputs else 0
