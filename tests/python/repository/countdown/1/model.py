import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """Gives a request back after each response, until it has counted down: others run in between."""

    def initialize(self, args):
        self.left = {}

    def execute(self, requests):
        for request in requests:
            key = request.correlation_id()
            if request.flags() & pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START:
                self.left[key] = int(pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()[0])
            self.left[key] -= 1
            out = pb_utils.Tensor("OUT", np.array([self.left[key]], np.int32))
            sender = request.get_response_sender()
            if self.left[key] > 0:
                request.set_release_flags(pb_utils.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE)
                sender.send(pb_utils.InferenceResponse([out]))
            else:
                sender.send(pb_utils.InferenceResponse([out]), flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        return None
