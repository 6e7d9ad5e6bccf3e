"""Keeps what the front end is told of its engine."""


class TritonLLMEngine:
    def __init__(self, *, server, tokenizer=None, **settings):
        self.server = server
        self.tokenizer = tokenizer
        self.settings = settings
