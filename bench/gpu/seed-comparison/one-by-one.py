"""A language model through transformers as guides for Triton have it: one request after the other, the whole text back."""

import json

import numpy as np
import torch
import triton_python_backend_utils as pb_utils
from transformers import AutoModelForCausalLM, AutoTokenizer


class TritonPythonModel:
    def initialize(self, args):
        torch.set_float32_matmul_precision("high")
        folder = json.loads(args["model_config"])["parameters"]["huggingface_model"]["string_value"]
        on_gpu = args["model_instance_kind"] == "GPU"
        self.device = f"cuda:{args['model_instance_device_id']}" if on_gpu else "cpu"
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.tokenizer.pad_token = self.tokenizer.eos_token
        place = {"device_map": {"": self.device}} if on_gpu else {}
        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16, **place).eval()
        # The same length for everybody: an end token ends nothing.
        self.model.generation_config.eos_token_id = None
        self.model.generation_config.pad_token_id = self.tokenizer.pad_token_id

    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        text = pb_utils.get_input_tensor_by_name(request, "text_input").as_numpy().item().decode()
        length = int(pb_utils.get_input_tensor_by_name(request, "max_tokens").as_numpy().item())
        inputs = self.tokenizer(text, return_tensors="pt", return_token_type_ids=False).to(self.device)
        tokens = self.model.generate(**inputs, max_new_tokens=length, do_sample=False)
        answer = self.tokenizer.decode(tokens[0][inputs["input_ids"].shape[1] :], skip_special_tokens=True)
        return pb_utils.InferenceResponse([pb_utils.Tensor("text_output", np.array([answer], dtype=np.object_))])
