import json
from typing import List

import numpy as np
import triton_python_backend_utils as pb_utils
from transformers import AutoTokenizer


class TritonPythonModel:
    """Text to token ids, with the inputs, outputs and calls of the widespread pipeline model."""

    def initialize(self, args):
        model_config = json.loads(args["model_config"])
        tokenizer_dir = model_config["parameters"]["tokenizer_dir"]["string_value"]
        self.tokenizer = AutoTokenizer.from_pretrained(
            tokenizer_dir, legacy=False, padding_side="left", trust_remote_code=True
        )
        self.tokenizer.pad_token = self.tokenizer.eos_token
        self.tokenizer_end_id = self.tokenizer.eos_token_id
        self.tokenizer_pad_id = self.tokenizer.encode(self.tokenizer.pad_token, add_special_tokens=False)[0]
        for name in ["INPUT_ID", "DECODER_INPUT_ID", "REQUEST_INPUT_LEN", "REQUEST_DECODER_INPUT_LEN", "BAD_WORDS_IDS",
                     "STOP_WORDS_IDS", "EMBEDDING_BIAS", "OUT_END_ID", "OUT_PAD_ID"]:  # fmt: skip
            config = pb_utils.get_output_config_by_name(model_config, name)
            setattr(self, name.lower() + "_dtype", pb_utils.triton_string_to_numpy(config["data_type"]))

    def execute(self, requests):
        responses = []
        for request in requests:
            query = pb_utils.get_input_tensor_by_name(request, "QUERY").as_numpy()
            request_output_len = pb_utils.get_input_tensor_by_name(request, "REQUEST_OUTPUT_LEN").as_numpy()
            batch_size = query.shape[0]
            input_id, request_input_len = self._create_request(query)
            words = np.empty([batch_size, 2, 0], dtype=np.int32)
            end_id = np.full([batch_size, 1], self.tokenizer_end_id)
            pad_id = np.full([batch_size, 1], self.tokenizer_pad_id)
            outputs = {
                "INPUT_ID": input_id,
                "REQUEST_INPUT_LEN": request_input_len,
                "DECODER_INPUT_ID": np.full([batch_size, 1], self.tokenizer_pad_id),
                "REQUEST_DECODER_INPUT_LEN": np.ones([batch_size, 1]),
                "BAD_WORDS_IDS": words,
                "STOP_WORDS_IDS": words,
                "EMBEDDING_BIAS": np.empty([batch_size, 0]),
                "OUT_END_ID": end_id,
                "OUT_PAD_ID": pad_id,
            }
            tensors = [
                pb_utils.Tensor(name, np.array(value).astype(getattr(self, name.lower() + "_dtype")))
                for name, value in outputs.items()
            ]
            tensors.append(pb_utils.Tensor("REQUEST_OUTPUT_LEN", request_output_len))
            responses.append(pb_utils.InferenceResponse(output_tensors=tensors))
        return responses

    def finalize(self):
        print("Cleaning up...")

    def _create_request(self, query: List[List[bytes]]):
        start_ids = [np.array(self.tokenizer.encode(s[0].decode(), add_special_tokens=True)).astype(int) for s in query]
        start_lengths = np.array([[len(ids)] for ids in start_ids]).astype(int)
        max_len = int(start_lengths.max())
        padded = [np.pad(ids, (0, max_len - len(ids)), "constant", constant_values=self.tokenizer_pad_id) for ids in start_ids]
        return np.stack(padded), start_lengths
