"""For machines without a GPU: models that move what they tokenized to "cuda" by name find the processor there."""

import torch
from transformers.tokenization_utils_base import BatchEncoding

if not torch.cuda.is_available():
    _to = BatchEncoding.to

    def to_cpu(self, device, **options):
        return _to(self, "cpu" if str(device).startswith("cuda") else device, **options)

    BatchEncoding.to = to_cpu
