import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    @staticmethod
    def auto_complete_config(auto_complete_model_config):
        inputs = [{"name": "INPUT0", "data_type": "TYPE_FP32", "dims": [4]}]
        outputs = [{"name": "OUTPUT0", "data_type": "TYPE_FP32", "dims": [4]}]
        config = auto_complete_model_config.as_dict()
        input_names = [entry["name"] for entry in config["input"]]
        output_names = [entry["name"] for entry in config["output"]]
        for entry in inputs:
            if entry["name"] not in input_names:
                auto_complete_model_config.add_input(entry)
        for entry in outputs:
            if entry["name"] not in output_names:
                auto_complete_model_config.add_output(entry)
        auto_complete_model_config.set_max_batch_size(8)
        auto_complete_model_config.set_dynamic_batching()
        return auto_complete_model_config

    def execute(self, requests):
        return [
            pb_utils.InferenceResponse(
                [pb_utils.Tensor("OUTPUT0", pb_utils.get_input_tensor_by_name(request, "INPUT0").as_numpy() * 2)]
            )
            for request in requests
        ]
