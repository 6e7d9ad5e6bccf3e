import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """IN: 0 = not ready from now on, 1 = ready, 2 = the check fails."""

    def initialize(self, args):
        self.state = 1

    async def is_ready(self):
        if self.state == 2:
            raise ValueError("planned")
        return self.state == 1

    def execute(self, requests):
        for request in requests:
            self.state = int(request.inputs()[0].as_numpy()[0])
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", r.inputs()[0].as_numpy())]) for r in requests]
