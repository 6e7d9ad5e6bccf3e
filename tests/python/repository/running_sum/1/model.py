import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """Adds up what a sequence brings, in a state that the server keeps."""

    def execute(self, requests):
        responses = []
        for request in requests:
            values = [pb_utils.get_input_tensor_by_name(request, name).as_numpy() for name in ("IN", "SUM_IN")]
            total = values[0] + values[1]
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", total), pb_utils.Tensor("SUM_OUT", total)]))
        return responses
