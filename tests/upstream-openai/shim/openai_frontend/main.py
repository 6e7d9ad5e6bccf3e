"""Takes the arguments of NVIDIA's front end and becomes the server. A setting that a model has here is accepted and unused."""

import argparse
import os
import sys
from pathlib import Path

sys.path.insert(0, os.environ["NEREID_SHIM"])
from nereid_server import Settings, command  # noqa: E402

parser = argparse.ArgumentParser()
parser.add_argument("--model-repository", required=True)
parser.add_argument("--openai-port", type=int, default=9000)
parser.add_argument("--model-control-mode", default="none")
parser.add_argument("--load-model", action="append", default=[])
parser.add_argument("--openai-restricted-api", nargs=3, action="append", default=[])
parser.add_argument("--enable-kserve-frontends", action="store_true")
for of_the_model in ["--tokenizer", "--backend", "--tool-call-parser", "--lora-separator"]:
    parser.add_argument(of_the_model)
args = parser.parse_args()
settings = Settings(
    model_repository=str(Path(args.model_repository).resolve()),
    port=args.openai_port,
    model_control_mode=args.model_control_mode,
    load_models=args.load_model,
    restricted_apis=args.openai_restricted_api,
)
arguments = command(settings)
os.execvp(arguments[0], arguments)
