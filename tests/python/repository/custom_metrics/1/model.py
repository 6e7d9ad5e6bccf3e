import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """Two instances count on the same series: families and labels are shared by name."""

    def initialize(self, args):
        self.counters = pb_utils.MetricFamily(
            name="requests_process_latency_ns", description="Time spent", kind=pb_utils.MetricFamily.COUNTER
        )
        self.counter = self.counters.Metric(labels={"model": "custom_metrics", "version": "1"})
        self.gauges = pb_utils.MetricFamily("custom_depth", "How deep", pb_utils.MetricFamily.GAUGE)
        self.gauge = self.gauges.Metric(labels={"which": 'a "quoted" one'})
        self.histograms = pb_utils.MetricFamily("custom_sizes", "How big", pb_utils.MetricFamily.HISTOGRAM)
        self.histogram = self.histograms.Metric(labels={}, buckets=[0.5, 2.0, 10.0])
        for refused, action in [
            ("a smaller counter", lambda: self.counter.increment(-1)),
            ("a counter that is set", lambda: self.counter.set(1)),
            ("a histogram's value", lambda: self.histogram.value()),
            ("another kind", lambda: pb_utils.MetricFamily("custom_depth", "x", pb_utils.MetricFamily.COUNTER)),
            ("an unusable name", lambda: pb_utils.MetricFamily("no-name", "x", pb_utils.MetricFamily.COUNTER)),
            ("falling buckets", lambda: self.histograms.Metric(labels={"a": "b"}, buckets=[2, 1])),
        ]:
            try:
                action()
            except pb_utils.TritonModelException:
                continue
            raise AssertionError("was not refused: " + refused)

    def execute(self, requests):
        responses = []
        for request in requests:
            amount = float(pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()[0])
            self.counter.increment(amount)
            self.gauge.set(amount)
            self.gauge.increment(-0.5)
            self.histogram.observe(amount)
            values = np.array([self.counter.value(), self.gauge.value()])
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", values)]))
        return responses
