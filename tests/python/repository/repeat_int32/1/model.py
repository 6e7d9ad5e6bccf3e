import threading
import time

import json

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """One response an element of IN, from a thread; `finalize` waits for the threads."""

    def initialize(self, args):
        self.model_config = model_config = json.loads(args["model_config"])
        if not pb_utils.using_decoupled_model_transaction_policy(model_config):
            raise pb_utils.TritonModelException("the model `%s` must be decoupled" % args["model_name"])
        self.inflight_thread_count = 0
        self.inflight_thread_count_lck = threading.Lock()

    def execute(self, requests):
        for request in requests:
            self.process_request(request)
        return None

    def process_request(self, request):
        thread = threading.Thread(
            target=self.response_thread,
            args=(
                request.get_response_sender(),
                pb_utils.get_input_tensor_by_name(request, "IN").as_numpy(),
                pb_utils.get_input_tensor_by_name(request, "DELAY").as_numpy(),
            ),
        )
        thread.daemon = True
        with self.inflight_thread_count_lck:
            self.inflight_thread_count += 1
        thread.start()
        time.sleep(int(pb_utils.get_input_tensor_by_name(request, "WAIT").as_numpy()[0]) / 1000)

    def response_thread(self, response_sender, in_input, delay_input):
        for idx in range(in_input.size):
            time.sleep(int(delay_input[idx]) / 1000)
            out = pb_utils.Tensor("OUT", in_input[idx : idx + 1].astype(np.int32))
            index = pb_utils.Tensor("IDX", np.array([idx], np.uint32))
            response_sender.send(pb_utils.InferenceResponse(output_tensors=[index, out]))
        response_sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        with self.inflight_thread_count_lck:
            self.inflight_thread_count -= 1

    def finalize(self):
        cycles = 0
        while self.inflight_thread_count != 0 and cycles < 100:
            time.sleep(0.05)
            cycles += 1
