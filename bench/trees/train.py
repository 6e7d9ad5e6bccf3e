"""An XGBoost model of 200 trees on 32 features: `train.py FOLDER`."""

import sys

import numpy as np
import xgboost

rng = np.random.default_rng(1)
rows = rng.normal(size=(5000, 32)).astype(np.float32)
target = (rows[:, 0] + rows[:, 1] * rows[:, 2] > 0).astype(int)
settings = {"objective": "binary:logistic", "max_depth": 6, "seed": 1}
xgboost.train(settings, xgboost.DMatrix(rows, label=target), 200).save_model(sys.argv[1] + "/xgboost.ubj")
