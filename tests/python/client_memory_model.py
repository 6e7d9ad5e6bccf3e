"""Reports a model's view of an input that may be in a client's shared memory. The request says in "mode" what to do with it."""

import json
import os
import threading
import time

import numpy as np
import triton_python_backend_utils as pb_utils


def place_of(array):
    """The file that is mapped where the array begins; "" when it is memory of nobody else."""
    address = array.__array_interface__["data"][0]
    with open("/proc/self/maps") as maps:
        for line in maps:
            fields = line.split()
            start, end = (int(part, 16) for part in fields[0].split("-"))
            if start <= address < end:
                return fields[5] if len(fields) > 5 else ""
    raise AssertionError("the array is nowhere")


def wait_for(path):
    while not os.path.exists(path):
        time.sleep(0.01)


class TritonPythonModel:
    def initialize(self, args):
        self.kept = []

    def execute(self, requests):
        return [self.run(request) for request in requests]

    def run(self, request):
        asked = json.loads(request.parameters())
        array = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
        values = {"pid": os.getpid()}
        if asked["mode"] == "write":
            array[:] = 7
        elif asked["mode"] == "keep":
            self.kept.append(array)
        elif asked["mode"] == "forget":
            values["kept"] = [int(kept.min()) for kept in self.kept]
            values["keptPlaces"] = [place_of(kept) for kept in self.kept]
            self.kept.clear()
        elif asked["mode"] == "wait":
            open(asked["running"], "w").close()
            wait_for(asked["go"])
        elif asked["mode"] == "raise":
            self.kept.append(array)
            raise ValueError("planned")
        values["place"] = place_of(array)
        with open("/proc/self/statm") as memory:
            values["residentBytes"] = int(memory.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        values["sum"] = int(array.sum(dtype=np.int64))
        text = np.array([json.dumps(values).encode()], dtype=np.object_)
        outputs = [pb_utils.Tensor("SEEN", text), pb_utils.Tensor("OUT", array)]
        response = pb_utils.InferenceResponse(outputs)
        if asked["mode"] != "send":
            return response
        sender = request.get_response_sender()
        flags = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL
        threading.Timer(0.05, lambda: sender.send(response, flags)).start()
        return None
