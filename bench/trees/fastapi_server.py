"""The same models behind FastAPI: `fastapi_server.py REPOSITORY PORT`. Numbers as JSON, or rows of FP32 as bytes."""

import os
import sys

import numpy as np
import onnxruntime
import uvicorn
import xgboost
from fastapi import FastAPI, Request, Response

REPOSITORY, PORT = sys.argv[1:]
FEATURES = 32
app = FastAPI()
booster = xgboost.Booster(model_file=os.path.join(REPOSITORY, "xgboost", "1", "xgboost.ubj"))
booster.set_param({"nthread": 1})
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
session = onnxruntime.InferenceSession(os.path.join(REPOSITORY, "onnx", "1", "model.onnx"), options)


def predict_xgboost(rows):
    return booster.inplace_predict(rows)


def predict_onnx(rows):
    return session.run(["Y"], {"X": rows})[0]


PREDICT = {"xgboost": predict_xgboost, "onnx": predict_onnx}


@app.get("/ready")
def ready():
    return {}


# JSON: on FastAPI's threads, as its documentation advises. Bytes: on its event loop, since the body is awaited.
@app.post("/{model}/json")
def as_json(model: str, rows: list[list[float]]):
    return {"output": PREDICT[model](np.asarray(rows, dtype=np.float32)).reshape(-1).tolist()}


@app.post("/{model}/bytes")
async def as_bytes(model: str, request: Request):
    rows = np.frombuffer(await request.body(), dtype=np.float32).reshape(-1, FEATURES)
    return Response(PREDICT[model](rows).tobytes(), media_type="application/octet-stream")


if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(PORT), log_level="warning", access_log=False)
