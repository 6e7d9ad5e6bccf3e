import json

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """WHAT: what to do, and with which model."""

    def execute(self, requests):
        responses = []
        for request in requests:
            what, name = (item.decode() for item in pb_utils.get_input_tensor_by_name(request, "WHAT").as_numpy())
            try:
                if what == "load":
                    pb_utils.load_model(model_name=name)
                elif what == "load with files":
                    config = json.dumps({"backend": "python", "input": [], "output": []})
                    code = b"class TritonPythonModel:\n    def execute(self, requests):\n        pass\n"
                    pb_utils.load_model(model_name=name, config=config, files={"file:1/model.py": code})
                elif what == "unload":
                    pb_utils.unload_model(name, unload_dependents=False)
                text = "ready" if pb_utils.is_model_ready(model_name=name) else "not ready"
            except pb_utils.TritonModelException as error:
                text = "refused: " + str(error)
            out = pb_utils.Tensor("OUT", np.array([text.encode()], dtype=np.object_))
            responses.append(pb_utils.InferenceResponse([out]))
        return responses
