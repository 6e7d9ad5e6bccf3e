"""A language model through transformers with all that its own loop allows: requests in batches, token by token if asked."""

import json

import numpy as np
import torch
import triton_python_backend_utils as pb_utils
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.generation.streamers import BaseStreamer

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL


def response_of(text):
    return pb_utils.InferenceResponse([pb_utils.Tensor("text_output", np.array([[text]], dtype=np.object_))])


class Words(BaseStreamer):
    """Sends each step's tokens to the requests they belong to."""

    def __init__(self, tokenizer, senders):
        self.tokenizer = tokenizer
        self.senders = senders
        self.has_prompt = False

    def put(self, value):
        if not self.has_prompt:
            self.has_prompt = True
            return
        for text, sender in zip(self.tokenizer.batch_decode(value.reshape(-1, 1)), self.senders):
            sender.send(response_of(text))

    def end(self):
        pass


class TritonPythonModel:
    def initialize(self, args):
        torch.set_float32_matmul_precision("high")
        folder = json.loads(args["model_config"])["parameters"]["huggingface_model"]["string_value"]
        on_gpu = args["model_instance_kind"] == "GPU"
        self.device = f"cuda:{args['model_instance_device_id']}" if on_gpu else "cpu"
        self.tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")
        self.tokenizer.pad_token = self.tokenizer.eos_token
        place = {"device_map": {"": self.device}} if on_gpu else {}
        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16, **place).eval()
        # The same length for everybody: an end token ends nothing.
        self.model.generation_config.eos_token_id = None
        self.model.generation_config.pad_token_id = self.tokenizer.pad_token_id

    def execute(self, requests):
        def values(name):
            return [pb_utils.get_input_tensor_by_name(request, name).as_numpy().item() for request in requests]

        texts = [text.decode() for text in values("text_input")]
        length = int(max(values("max_tokens")))
        senders = [request.get_response_sender() for request in requests]
        streamer = Words(self.tokenizer, senders) if all(values("stream")) else None
        inputs = self.tokenizer(texts, return_tensors="pt", padding=True, return_token_type_ids=False).to(self.device)
        tokens = self.model.generate(**inputs, max_new_tokens=length, do_sample=False, streamer=streamer)
        if streamer is None:
            prompt = inputs["input_ids"].shape[1]
            for text, sender in zip(self.tokenizer.batch_decode(tokens[:, prompt:], skip_special_tokens=True), senders):
                sender.send(response_of(text))
        for sender in senders:
            sender.send(flags=FINAL)
