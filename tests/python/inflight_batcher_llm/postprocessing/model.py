import json

import numpy as np
import triton_python_backend_utils as pb_utils
from transformers import AutoTokenizer


class TritonPythonModel:
    """Token ids to text, with the inputs, outputs and calls of the widespread pipeline model."""

    def initialize(self, args):
        model_config = json.loads(args["model_config"])
        tokenizer_dir = model_config["parameters"]["tokenizer_dir"]["string_value"]
        self.skip_special_tokens = True
        self.tokenizer = AutoTokenizer.from_pretrained(tokenizer_dir, legacy=False, padding_side="left")
        output_config = pb_utils.get_output_config_by_name(model_config, "OUTPUT")
        self.output_dtype = pb_utils.triton_string_to_numpy(output_config["data_type"])

    def execute(self, requests):
        responses = []
        for request in requests:
            tokens_batch = pb_utils.get_input_tensor_by_name(request, "TOKENS_BATCH").as_numpy()
            sequence_lengths = pb_utils.get_input_tensor_by_name(request, "SEQUENCE_LENGTH").as_numpy()
            outputs = []
            for batch_idx, beam_tokens in enumerate(tokens_batch):
                for beam_idx, tokens in enumerate(beam_tokens):
                    seq_len = sequence_lengths[batch_idx][beam_idx]
                    output = self.tokenizer.decode(tokens[:seq_len], skip_special_tokens=self.skip_special_tokens)
                    outputs.append(output.encode("utf8"))
            tensors = [pb_utils.Tensor("OUTPUT", np.array(outputs).astype(self.output_dtype))]
            for given, passed in (("CUM_LOG_PROBS", "OUT_CUM_LOG_PROBS"), ("OUTPUT_LOG_PROBS", "OUT_OUTPUT_LOG_PROBS"),
                                  ("BATCH_INDEX", "OUT_BATCH_INDEX")):  # fmt: skip
                tensor = pb_utils.get_input_tensor_by_name(request, given)
                if tensor is not None:
                    tensors.append(pb_utils.Tensor(passed, tensor.as_numpy()))
            responses.append(pb_utils.InferenceResponse(output_tensors=tensors))
        return responses

    def finalize(self):
        print("Cleaning up...")
