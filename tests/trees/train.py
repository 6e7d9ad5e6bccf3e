"""Trains tree models and writes each as a model folder with the answers of its own library: `train.py FOLDER CASE...`.

A folder has `config.pbtxt`, `1/` and `case.json`: rows, and the expected values of each output.
"""

import json
import os
import sys

import numpy as np

ROWS = 64
FEATURES = 6


def table(seed, missing=False, categories=False):
    """Rows of FP32 and targets of every kind."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(600, FEATURES)).astype(np.float32)
    if categories:
        rows[:, 0] = rng.integers(0, 9, size=600)
    score = rows[:, 0] * 1.3 - rows[:, 1] * rows[:, 2] + np.sin(rows[:, 3]) + (rows[:, 0] == 4)
    if missing:
        rows[rng.random(rows.shape) < 0.2] = np.nan
    binary = (score > np.median(score)).astype(int)
    classes = np.digitize(score, np.quantile(score, [0.3, 0.6, 0.8]))
    return rows, score, binary, classes


def config(width, parameters, input_dims=FEATURES, shap=None, extra=""):
    """As NVIDIA's examples have it."""
    outputs = '{ name: "output__0" data_type: TYPE_FP32 dims: [ %d ] }' % width
    if shap is not None:
        outputs += ', { name: "treeshap_output" data_type: TYPE_FP32 dims: [ %d ] }' % shap
    listed = ", ".join('{ key: "%s" value: { string_value: "%s" } }' % entry for entry in parameters.items())
    return """backend: "fil"
max_batch_size: 32768
input [ { name: "input__0" data_type: TYPE_FP32 dims: [ %d ] } ]
output [ %s ]
parameters [ %s ]
dynamic_batching { }
%s""" % (input_dims, outputs, listed, extra)


def xgboost_case(objective, file="xgboost.json", model_type="xgboost_json", **options):
    """Trains by XGBoost; `expect` maps the scores of all rows to the output."""
    import xgboost

    parameters = options.get("parameters", {})
    rows, score, binary, classes = table(1, options.get("missing", False), options.get("categories", False))
    target = {"score": score, "binary": binary, "classes": classes, "two": np.stack([score, -score], axis=1)}
    target["grades"] = np.clip(classes, 0, 3)
    types = ["c" if column == 0 and options.get("categories") else "q" for column in range(FEATURES)]
    data = xgboost.DMatrix(rows, label=target[options["target"]], feature_types=types, enable_categorical=True)
    if "grades" == options["target"]:
        data.set_group([60] * 10)
    settings = {"objective": objective, "max_depth": 5, "eta": 0.3, "seed": 1, "nthread": 2, **parameters}
    model = xgboost.train(settings, data, options.get("rounds", 20))
    rows = rows[:ROWS]
    shown = xgboost.DMatrix(rows, feature_types=types, enable_categorical=True)
    # The class alone: scores by the objective that differs in nothing else.
    scored = model.copy()
    if objective == "multi:softmax":
        scored.set_param({"objective": "multi:softprob"})
    values = scored.predict(shown)
    expected = {"output__0": options["expect"](values)}
    shap = None
    if options.get("shap"):
        shap_values = scored.predict(shown, pred_contribs=True).reshape(ROWS, -1)
        expected["treeshap_output"] = shap_values
        shap = shap_values.shape[1]
    asked = {"model_type": model_type, **options["asked"]}
    text = config(expected["output__0"].reshape(ROWS, -1).shape[1], asked, shap=shap)
    return rows, expected, text, lambda folder: save_xgboost(model, folder, file)


def save_xgboost(model, folder, file):
    import xgboost

    form = "json" if file.endswith(".json") else "ubj"
    if file.endswith(".model") and xgboost.__version__ < "3":
        form = "deprecated"  # the binary format, which later releases neither write nor read
    raw = model.save_raw(raw_format=form)
    with open(os.path.join(folder, file), "wb") as out:
        out.write(raw)


def lightgbm_case(objective, **options):
    import lightgbm

    rows, score, binary, classes = table(2, options.get("missing", False), options.get("categories", False))
    target = {"score": score, "binary": binary, "classes": classes, "grades": np.clip(classes, 0, 3)}[options["target"]]
    categorical = [0] if options.get("categories") else "auto"
    group = [60] * 10 if options["target"] == "grades" else None
    data = lightgbm.Dataset(rows, label=target, group=group, categorical_feature=categorical)
    settings = {"objective": objective, "verbosity": -1, "num_leaves": 15, "seed": 1, "num_threads": 2}
    model = lightgbm.train({**settings, **options.get("parameters", {})}, data, 20)
    rows = rows[:ROWS]
    expected = {"output__0": options["expect"](model.predict(rows))}
    shap = None
    if options.get("shap"):
        expected["treeshap_output"] = model.predict(rows, pred_contrib=True).reshape(ROWS, -1)
        shap = expected["treeshap_output"].shape[1]
    text = config(expected["output__0"].reshape(ROWS, -1).shape[1], {"model_type": "lightgbm", **options["asked"]}, shap=shap)
    return rows, expected, text, lambda folder: model.save_model(os.path.join(folder, "model.txt"))


def sklearn_case(model, target, predict, **asked):
    import treelite

    rows, score, binary, classes = table(3)
    model.fit(rows, {"score": score, "binary": binary, "classes": classes, "none": None}[target])
    rows = rows[:ROWS]
    expected = {"output__0": predict(model, rows)}
    text = config(expected["output__0"].reshape(ROWS, -1).shape[1], {"model_type": "treelite_checkpoint", **asked})
    checkpoint = treelite.sklearn.import_model(model)
    return rows, expected, text, lambda folder: checkpoint.serialize(os.path.join(folder, "checkpoint.tl"))


def fp32_checkpoint():
    """Thresholds and leaves of FP32, as cuML's checkpoints have them."""
    import treelite

    rows, expected, text, save = xgboost_case("multi:softprob", target="classes", expect=same, asked=SCORES, parameters=FOUR)

    def convert(folder):
        save(folder)
        path = os.path.join(folder, "xgboost.json")
        treelite.frontend.load_xgboost_model(path, format_choice="json").serialize(os.path.join(folder, "checkpoint.tl"))
        os.remove(path)

    return rows, expected, text.replace("xgboost_json", "treelite_checkpoint"), convert


def same(values):
    return values


def both(values):
    return np.stack([1 - values, values], axis=1)


def argmax(values):
    return np.argmax(values, axis=1)


def above(threshold):
    return lambda values: (values > np.float32(threshold)).astype(int)


def proba(model, rows):
    return model.predict_proba(rows)


def positive(model, rows):
    return model.predict_proba(rows)[:, 1]


def value(model, rows):
    return model.predict(rows)


SCORES = {"is_classifier": "true", "predict_proba": "true"}
CLASSES = {"is_classifier": "true"}
VALUES = {"is_classifier": "false"}
FOUR = {"num_class": 4}
#: Parameters of releases before 25.09, and those that tune a GPU.
OLD = {"output_class": "true", "predict_proba": "true", "algo": "ALGO_AUTO", "storage_type": "AUTO", "blocks_per_sm": "0", "threshold": "0.5"}


def sklearn_cases():
    from sklearn import ensemble

    forest = {"n_estimators": 20, "max_depth": 8, "random_state": 1}
    return {
        "sklearn_forest_binary": (lambda: sklearn_case(ensemble.RandomForestClassifier(**forest), "binary", proba, **SCORES)),
        "sklearn_forest_classes": (lambda: sklearn_case(ensemble.RandomForestClassifier(**forest), "classes", proba, **SCORES)),
        "sklearn_forest_label": (lambda: sklearn_case(ensemble.RandomForestClassifier(**forest), "classes", value, **CLASSES)),
        "sklearn_forest_values": (lambda: sklearn_case(ensemble.RandomForestRegressor(**forest), "score", value, **VALUES)),
        "sklearn_extra_trees": (lambda: sklearn_case(ensemble.ExtraTreesClassifier(**forest), "classes", proba, **SCORES)),
        "sklearn_extra_values": (lambda: sklearn_case(ensemble.ExtraTreesRegressor(**forest), "score", value, **VALUES)),
        "sklearn_boosting_binary": (lambda: sklearn_case(ensemble.GradientBoostingClassifier(n_estimators=20), "binary", positive, **SCORES)),
        "sklearn_boosting_classes": (lambda: sklearn_case(ensemble.GradientBoostingClassifier(n_estimators=20), "classes", proba, **SCORES)),
        "sklearn_boosting_values": (lambda: sklearn_case(ensemble.GradientBoostingRegressor(n_estimators=20), "score", value, **VALUES)),
        "sklearn_histogram_classes": (lambda: sklearn_case(ensemble.HistGradientBoostingClassifier(max_iter=20), "classes", proba, **SCORES)),
        "sklearn_histogram_values": (lambda: sklearn_case(ensemble.HistGradientBoostingRegressor(max_iter=20), "score", value, **VALUES)),
    }


CASES = {
    "xgboost_binary": lambda: xgboost_case("binary:logistic", "xgboost.ubj", "xgboost_ubj", target="binary", expect=both, asked=SCORES, shap=True),
    "xgboost_one_score": lambda: xgboost_case("binary:logistic", target="binary", expect=same, asked=OLD),
    "xgboost_threshold": lambda: xgboost_case("binary:logistic", target="binary", expect=above(0.3), asked={**CLASSES, "threshold": "0.3"}),
    "xgboost_softmax_scores": lambda: xgboost_case("multi:softmax", target="classes", expect=same, asked=SCORES, parameters=FOUR, shap=True),
    "xgboost_softmax_label": lambda: xgboost_case("multi:softmax", target="classes", expect=argmax, asked=CLASSES, parameters=FOUR),
    "xgboost_softprob": lambda: xgboost_case("multi:softprob", target="classes", expect=same, asked=SCORES, parameters=FOUR),
    "xgboost_missing": lambda: xgboost_case("reg:squarederror", target="score", expect=same, asked=VALUES, missing=True, shap=True),
    "xgboost_categories": lambda: xgboost_case("reg:squarederror", target="score", expect=same, asked=VALUES, categories=True, parameters={"max_cat_to_onehot": 1}),
    "xgboost_poisson": lambda: xgboost_case("count:poisson", target="classes", expect=same, asked=VALUES),
    "xgboost_ranking": lambda: xgboost_case("rank:ndcg", target="grades", expect=same, asked=VALUES),
    "xgboost_forest": lambda: xgboost_case("binary:logistic", target="binary", expect=same, asked=SCORES, rounds=1, parameters={"num_parallel_tree": 30, "subsample": 0.7, "colsample_bynode": 0.7, "eta": 1}),
    "xgboost_dart": lambda: xgboost_case("binary:logistic", target="binary", expect=same, asked=SCORES, parameters={"booster": "dart", "rate_drop": 0.3}),
    "xgboost_two_targets": lambda: xgboost_case("reg:squarederror", target="two", expect=same, asked=VALUES),
    "xgboost_old_name": lambda: xgboost_case("binary:logistic", "xgboost.model", "xgboost", target="binary", expect=both, asked=OLD),
    "lightgbm_binary": lambda: lightgbm_case("binary", target="binary", expect=both, asked=SCORES, shap=True),
    "lightgbm_label": lambda: lightgbm_case("binary", target="binary", expect=above(0.5), asked=CLASSES),
    "lightgbm_classes": lambda: lightgbm_case("multiclass", target="classes", expect=same, asked=SCORES, parameters=FOUR, shap=True),
    "lightgbm_one_against_all": lambda: lightgbm_case("multiclassova", target="classes", expect=argmax, asked=CLASSES, parameters=FOUR),
    "lightgbm_missing": lambda: lightgbm_case("regression", target="score", expect=same, asked=VALUES, missing=True),
    "lightgbm_categories": lambda: lightgbm_case("regression", target="score", expect=same, asked=VALUES, categories=True, parameters={"min_data_per_group": 5, "cat_smooth": 1}),
    "lightgbm_ranking": lambda: lightgbm_case("lambdarank", target="grades", expect=same, asked=VALUES),
    "lightgbm_forest": lambda: lightgbm_case("binary", target="binary", expect=same, asked=SCORES, parameters={"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.7}),
    "lightgbm_dart": lambda: lightgbm_case("regression", target="score", expect=same, asked=VALUES, parameters={"boosting": "dart", "drop_rate": 0.3}),
    "checkpoint_fp32": fp32_checkpoint,
}


def write(root, name, make):
    rows, expected, text, save = make()
    folder = os.path.join(root, name)
    os.makedirs(os.path.join(folder, "1"))
    save(os.path.join(folder, "1"))
    with open(os.path.join(folder, "config.pbtxt"), "w") as out:
        out.write('name: "%s"\n%s' % (name, text))
    listed = {key: np.asarray(values, dtype=np.float64).reshape(-1).tolist() for key, values in expected.items()}
    flat = [None if np.isnan(number) else float(number) for number in rows.reshape(-1)]
    with open(os.path.join(folder, "case.json"), "w") as out:
        json.dump({"rows": flat, "expected": listed}, out)


if __name__ == "__main__":
    root, *names = sys.argv[1:]
    cases = dict(CASES)
    if names == [] or any(name.startswith("sklearn") for name in names):
        cases.update(sklearn_cases())
    for name in names or cases:
        write(root, name, cases[name])
