import asyncio

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """As `countdown`, in coroutines: each gives its requests back when it ends."""

    def initialize(self, args):
        self.left = {}

    async def execute(self, requests):
        await asyncio.gather(*[self.count(request) for request in requests])

    async def count(self, request):
        key = request.correlation_id()
        if request.flags() & pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START:
            self.left[key] = int(pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()[0])
        await asyncio.sleep(0.001)
        self.left[key] -= 1
        out = pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([self.left[key]], np.int32))])
        if self.left[key] > 0:
            request.set_release_flags(pb_utils.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE)
            request.get_response_sender().send(out)
        else:
            request.get_response_sender().send(out, flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
