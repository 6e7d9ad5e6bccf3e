"""`pb_utils.MetricFamily` and `pb_utils.Metric`: figures of the model on the server's metrics page, which keeps the values."""

from __future__ import annotations

import enum
import threading

from . import arguments, asking, runtime
from .errors import TritonModelException


class MetricKind(enum.IntEnum):
    COUNTER = 0
    GAUGE = 1
    HISTOGRAM = 2


_numbers_lock = threading.Lock()
_last_number = 0


def _new_number() -> int:
    global _last_number
    with _numbers_lock:
        _last_number += 1
        return _last_number


def _drop(what: int, number: int) -> None:
    # The garbage collector may be at work here, in any thread: the main thread sends it.
    runtime.stub().later(lambda: runtime.stub().questions.tell(what, lambda writer: writer.u32(number)))


def _check_labels(labels) -> dict:
    if labels is None:
        return {}
    if not isinstance(labels, dict):
        raise TritonModelException("Failed to parse labels. Expect dict, got %s" % type(labels))
    for name, value in labels.items():
        if not isinstance(name, str):
            raise TritonModelException("Expect labels keys to have type str, found type %s" % type(name))
        if not isinstance(value, str):
            raise TritonModelException("Expect labels values to have type str, found type %s" % type(value))
    return labels


_CLEARED = (
    "Invalid metric operation as the corresponding 'MetricFamily' has been deleted. The 'MetricFamily' object should be "
    "deleted AFTER its corresponding 'Metric' objects have been deleted."
)


def _check_buckets(kind: MetricKind, buckets) -> list:
    if buckets is None:
        if kind == MetricKind.HISTOGRAM:
            raise TritonModelException("Failed to create metric. Missing required buckets.")
        return []
    if not isinstance(buckets, list):
        raise TritonModelException("Failed to create metric. Buckets must be a list.")
    if kind != MetricKind.HISTOGRAM:
        raise TritonModelException("Failed to create metric. Unexpected buckets found.")
    return [float(bound) for bound in buckets]


class Metric:
    """One series of a family, and no longer than the family. Made by `MetricFamily.Metric`."""

    def __init__(self, family: "MetricFamily", labels, buckets) -> None:
        labels = _check_labels(labels)
        bounds = _check_buckets(family._kind, buckets)
        self._kind = family._kind
        self._number = 0
        number = _new_number()

        def write(writer) -> None:
            writer.u32(number)
            writer.u32(family._number)
            writer.u32(len(labels))
            for name, value in labels.items():
                writer.string(name)
                writer.string(value)
            writer.u32(len(bounds))
            for bound in bounds:
                writer.f64(bound)

        runtime.stub().questions.ask(asking.NEW_METRIC, write)
        self._number = number

    def increment(self, value: float) -> None:
        self._change("Increment", asking.INCREMENT_METRIC, value, MetricKind.HISTOGRAM)

    def set(self, value: float) -> None:
        self._change("Set", asking.SET_METRIC, value, MetricKind.COUNTER, MetricKind.HISTOGRAM)

    def observe(self, value: float) -> None:
        self._change("Observe", asking.OBSERVE_METRIC, value, MetricKind.COUNTER, MetricKind.GAUGE)

    def value(self) -> float:
        self._expect_family("get")
        if self._kind == MetricKind.HISTOGRAM:
            raise TritonModelException("TRITONSERVER_METRIC_KIND_HISTOGRAM does not support Value")
        return runtime.stub().questions.ask(asking.METRIC_VALUE, lambda writer: writer.u32(self._number))

    def _expect_family(self, action: str) -> None:
        if self._number == 0:
            raise TritonModelException("Failed to %s metric value: %s" % (action, _CLEARED))

    def _change(self, name: str, what: int, value: float, *unsupported) -> None:
        self._expect_family(name.lower())
        if self._kind in unsupported:
            raise TritonModelException("TRITONSERVER_METRIC_KIND_%s does not support %s" % (self._kind.name, name))
        amount = float(value)
        if name == "Increment" and self._kind == MetricKind.COUNTER and not amount >= 0:
            raise TritonModelException(
                "TRITONSERVER_METRIC_KIND_COUNTER can only be incremented monotonically by non-negative values."
            )

        def write(writer) -> None:
            writer.u32(self._number)
            writer.f64(amount)

        runtime.stub().questions.tell(what, write)

    def _clear(self) -> None:
        number, self._number = self._number, 0
        if number != 0:
            _drop(asking.DROP_METRIC, number)


class MetricFamily:
    COUNTER = MetricKind.COUNTER
    GAUGE = MetricKind.GAUGE
    HISTOGRAM = MetricKind.HISTOGRAM

    def __init__(self, name: str, description: str, kind: MetricKind) -> None:
        name = arguments.text("name", name)
        description = arguments.text("description", description)
        self._kind = arguments.member("kind", kind, MetricKind)
        self._number = 0
        # They live as long as the family: a model need not keep them.
        self._metrics: list = []
        number = _new_number()

        def write(writer) -> None:
            writer.u32(number)
            writer.string(name)
            writer.string(description)
            writer.u8(int(self._kind))

        runtime.stub().questions.ask(asking.NEW_FAMILY, write)
        self._number = number

    def Metric(self, labels=None, buckets=None) -> Metric:
        metric = Metric(self, labels, buckets)
        self._metrics.append(metric)
        return metric

    def __del__(self) -> None:
        for metric in getattr(self, "_metrics", ()):
            metric._clear()
        if getattr(self, "_number", 0) != 0:
            _drop(asking.DROP_FAMILY, self._number)
