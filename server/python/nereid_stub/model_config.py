"""`pb_utils.ModelConfig`: what a model may declare of itself in `auto_complete_config`."""

from __future__ import annotations

import json


class ModelConfig:
    def __init__(self, model_config: str) -> None:
        self._model_config = json.loads(model_config)

    def as_dict(self) -> dict:
        return self._model_config

    def set_max_batch_size(self, max_batch_size: int) -> None:
        written = self._model_config["max_batch_size"]
        if written > max_batch_size:
            raise ValueError(
                "configuration specified max_batch_size %s, but in auto-complete-config function for model '%s' "
                "specified max_batch_size %s" % (written, self._model_config["name"], max_batch_size)
            )
        self._model_config["max_batch_size"] = max_batch_size

    def set_dynamic_batching(self) -> None:
        for scheduler in ("sequence_batching", "ensemble_scheduling"):
            if scheduler in self._model_config:
                raise ValueError(
                    "Configuration specified scheduling_choice as '%s', but auto-complete-config function for model '%s' "
                    "tries to set scheduling_choice as 'dynamic_batching'" % (scheduler, self._model_config["name"])
                )
        self._model_config.setdefault("dynamic_batching", {})

    def add_input(self, input: dict) -> None:
        self._add("input", input, ("name", "data_type", "dims", "optional"), "'name', 'data_type', 'dims' and 'optional'")

    def add_output(self, output: dict) -> None:
        self._add("output", output, ("name", "data_type", "dims"), "'name', 'data_type' and 'dims'")

    def set_model_transaction_policy(self, transaction_policy_dict: dict) -> None:
        model = self._model_config["name"]
        if any(name != "decoupled" for name in transaction_policy_dict):
            raise ValueError(
                "model transaction property in auto-complete-config function for model '%s' contains property other "
                "than 'decoupled'." % model
            )
        policy = self._model_config.setdefault("model_transaction_policy", {})
        if "decoupled" not in transaction_policy_dict:
            return
        decoupled = transaction_policy_dict["decoupled"]
        if policy.get("decoupled", decoupled) != decoupled:
            raise ValueError(
                "trying to change decoupled property in auto-complete-config for model '%s', which is already set to '%s'."
                % (model, policy["decoupled"])
            )
        policy["decoupled"] = decoupled

    def _add(self, kind: str, tensor: dict, allowed: tuple, allowed_text: str) -> None:
        model = self._model_config["name"]
        where = "in auto-complete-config function for model '%s'" % model
        if "name" not in tensor:
            raise ValueError("%s %s is missing 'name' property." % (kind, where))
        name = tensor["name"]
        if any(key not in allowed for key in tensor):
            raise ValueError("%s '%s' %s contains property other than %s." % (kind, name, where, allowed_text))
        for key in ("data_type", "dims"):
            if key not in tensor:
                raise ValueError("%s '%s' %s is missing '%s' property." % (kind, name, where, key))
        written = next((known for known in self._model_config[kind] if known["name"] == name), None)
        if written is None:
            self._model_config[kind].append(tensor)
        else:
            _check_same(model, kind, written, tensor)
            written.update(tensor)


def _check_same(model: str, kind: str, written: dict, tensor: dict) -> None:
    name = tensor["name"]
    if written["data_type"] not in ("TYPE_INVALID", tensor["data_type"]):
        raise ValueError(
            "unable to load model '%s', configuration expects datatype %s for %s '%s', model provides %s"
            % (model, written["data_type"], kind, name, tensor["data_type"])
        )
    for key in ("dims", "optional"):
        known = written.get(key)
        if key == "dims" and not known or key not in written or key not in tensor:
            continue
        if known != tensor[key]:
            raise ValueError(
                "model '%s', tensor '%s': the model expects %s %s but the model configuration specifies %s %s"
                % (model, name, key, tensor[key], key, known)
            )
