import assert from "node:assert/strict";
import { test } from "node:test";
import { load, options, runOne } from "../../../../tests/fakes/python-fixture.ts";
import { TestRequest, textOf } from "../../../../tests/fakes/python-models.ts";

/** Lines that must be true in the model; `request` has an input IN = [1, 2] of INT32. */
const FACTS: readonly (readonly [string, string])[] = [
  [
    "the flags of sequences",
    "pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START == 1 and pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_END == 2",
  ],
  ["the flag of final responses", "pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL == 1"],
  [
    "the release flags",
    "pb_utils.TRITONSERVER_REQUEST_RELEASE_ALL == 1 and pb_utils.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE == 2",
  ],
  ["the kinds of memory", "int(pb_utils.TRITONSERVER_MEMORY_CPU) == 0 and int(pb_utils.TRITONSERVER_MEMORY_GPU) == 1"],
  [
    "the codes of errors",
    "len({getattr(pb_utils.TritonError, n) for n in 'UNKNOWN INTERNAL NOT_FOUND INVALID_ARG UNAVAILABLE UNSUPPORTED ALREADY_EXISTS CANCELLED'.split()}) == 8",
  ],
  [
    "an error's message and code",
    "(pb_utils.TritonError('m', pb_utils.TritonError.NOT_FOUND).message(), pb_utils.TritonError('m').code() == pb_utils.TritonError.INTERNAL) == ('m', True)",
  ],
  ["exceptions of models", "issubclass(pb_utils.TritonModelException, Exception)"],
  [
    "levels of the log",
    "[pb_utils.Logger.INFO, pb_utils.Logger.WARNING, pb_utils.Logger.ERROR, pb_utils.Logger.VERBOSE] == [0, 1, 2, 3]",
  ],
  [
    "kinds of metrics",
    "[pb_utils.MetricFamily.COUNTER, pb_utils.MetricFamily.GAUGE, pb_utils.MetricFamily.HISTOGRAM] == [0, 1, 2]",
  ],
  ["numpy types by number", "pb_utils.triton_to_numpy_type(pb_utils.numpy_to_triton_type(np.float32)) == np.float32"],
  [
    "numpy types by name",
    "pb_utils.triton_string_to_numpy('TYPE_STRING') == np.object_ and pb_utils.triton_string_to_numpy('TYPE_BOOL') == bool",
  ],
  ["inputs by name", "pb_utils.get_input_tensor_by_name(request, 'IN').as_numpy().tolist() == [1, 2]"],
  ["inputs that are not there", "pb_utils.get_input_tensor_by_name(request, 'NO') is None"],
  ["outputs by name", "pb_utils.get_output_tensor_by_name(answer([7]), 'OUT').as_numpy()[0] == 7"],
  [
    "configured inputs",
    "pb_utils.get_input_config_by_name({'input': [{'name': 'A', 'dims': [1]}]}, 'A')['dims'] == [1]",
  ],
  ["configured outputs", "pb_utils.get_output_config_by_name({'output': [{'name': 'A'}]}, 'B') is None"],
  [
    "the decoupled policy",
    "pb_utils.using_decoupled_model_transaction_policy({'model_transaction_policy': {'decoupled': True}}) is True",
  ],
  ["no policy at all", "pb_utils.using_decoupled_model_transaction_policy({}) is False"],
  [
    "serialized text",
    "pb_utils.deserialize_bytes_tensor(pb_utils.serialize_byte_tensor(np.array([b'a', b''], dtype=np.object_))).tolist() == [b'a', b'']",
  ],
  [
    "a tensor's members",
    "(lambda t: (t.name(), t.shape(), t.is_cpu(), t.triton_dtype()))(pb_utils.Tensor('T', np.zeros((2, 3), np.int32))) == ('T', [2, 3], True, 8)",
  ],
  [
    "a response's members",
    "(lambda r: (r.output_tensors(), r.has_error(), r.error(), json.loads(r.parameters())))(pb_utils.InferenceResponse([], parameters={'a': 1})) == ([], False, None, {'a': 1})",
  ],
  ["a response's error", "pb_utils.InferenceResponse(error=pb_utils.TritonError('no')).error().message() == 'no'"],
  [
    "a request's own fields",
    "(lambda r: (r.request_id(), r.correlation_id(), r.flags(), r.timeout(), r.requested_output_names()))(pb_utils.InferenceRequest(model_name='m', request_id='i', correlation_id='c', flags=1, timeout=5, requested_output_names=['O'], inputs=[], preferred_memory=pb_utils.PreferredMemory(pb_utils.TRITONSERVER_MEMORY_GPU, 0))) == ('i', 'c', 1, 5, {'O'})",
  ],
  [
    "names given as bytes",
    "(lambda r: (r.request_id(), r.requested_output_names(), r.inputs()[0].name(), pb_utils.TritonError(b'no').message()))(pb_utils.InferenceRequest(model_name=b'm', request_id=b'i', requested_output_names=[b'O'], inputs=[pb_utils.Tensor(b'T', np.zeros(1))])) == ('i', {'O'}, 'T', 'no')",
  ],
  [
    "flags that are set later",
    "(lambda r: (r.set_flags(3), r.flags())[1])(pb_utils.InferenceRequest(model_name='m', inputs=[], requested_output_names=[])) == 3",
  ],
  ["a trace without context", "request.trace().get_context() is None"],
  ["cancellation", "request.is_cancelled() is False and request.get_response_sender().is_cancelled() is False"],
  ["parameters of requests", "json.loads(request.parameters()) == {}"],
  ["the model's folder", "os.path.basename(pb_utils.get_model_dir()) == '1'"],
  [
    "DLPack with numpy",
    "pb_utils.Tensor.from_dlpack('T', np.arange(6, dtype=np.int16).reshape(2, 3)).as_numpy().tolist() == [[0, 1, 2], [3, 4, 5]]",
  ],
  [
    "DLPack with strides",
    "pb_utils.Tensor.from_dlpack('T', np.arange(6, dtype=np.float64).reshape(2, 3).T).as_numpy().tolist() == [[0, 3], [1, 4], [2, 5]]",
  ],
  [
    "DLPack between tensors",
    "pb_utils.Tensor.from_dlpack('U', pb_utils.Tensor('T', np.array([[1.5]], np.float16))).as_numpy().tolist() == [[1.5]]",
  ],
  [
    "bare DLPack capsules",
    "pb_utils.Tensor.from_dlpack('U', pb_utils.Tensor('T', np.array([3], np.uint8)).to_dlpack()).as_numpy().tolist() == [3]",
  ],
  [
    "DLPack of truth values",
    "pb_utils.Tensor.from_dlpack('U', pb_utils.Tensor('T', np.array([True, False]))).as_numpy().tolist() == [True, False]",
  ],
  [
    "DLPack of no elements",
    "pb_utils.Tensor.from_dlpack('U', pb_utils.Tensor('T', np.zeros((0, 3), np.int32))).shape() == [0, 3]",
  ],
  [
    "DLPack of BF16",
    "(lambda t: (t.triton_dtype(), t.shape(), t.as_bytes()))(pb_utils.Tensor.from_dlpack('U', pb_utils.Tensor.from_bytes('T', 'TYPE_BF16', [2], b'\\x80?\\x00@'))) == (14, [2], b'\\x80?\\x00@')",
  ],
  ["where DLPack tensors are", "pb_utils.Tensor('T', np.zeros(1)).__dlpack_device__() == (1, 0)"],
  ["DLPack taken by numpy", "np.from_dlpack(pb_utils.Tensor('T', np.array([4, 5], np.int64))).tolist() == [4, 5]"],
];

test("`triton_python_backend_utils` has what models import", options, async (t) => {
  const lines = FACTS.map(([, expression]) => `            lambda: ${expression},`).join("\n");
  const { instance } = await load(
    t,
    `
def execute(self, requests):
    responses = []
    for request in requests:
        checks = [
${lines}
        ]
        results = []
        for check in checks:
            try:
                results.append("" if check() else "is not so")
            except Exception as error:
                results.append(repr(error))
        responses.append(text(json.dumps(results)))
    return responses
`,
  );
  const input = {
    name: "IN",
    datatype: "INT32" as const,
    shape: [2],
    data: new Uint8Array(Int32Array.of(1, 2).buffer),
  };
  const request = await runOne(instance, new TestRequest([input]));
  const results: unknown = JSON.parse(textOf(request.responses[0]?.outputs[0]) ?? `"${request.errorText}"`);
  assert.deepEqual(
    results,
    FACTS.map(() => ""),
    JSON.stringify(FACTS.map(([what]) => what)),
  );
});

const REFUSALS: readonly (readonly [string, string, RegExp])[] = [
  [
    "a string tensor goes to DLPack",
    "pb_utils.Tensor('T', np.array([b'a'], dtype=np.object_)).to_dlpack()",
    /DLPack does not have support for string tensors/,
  ],
  [
    "a capsule was used",
    "[pb_utils.Tensor.from_dlpack('U', c) for c in [pb_utils.Tensor('T', np.zeros(1)).to_dlpack()] * 2]",
    /capsule that nobody has used/,
  ],
  [
    "BF16 becomes an array",
    "pb_utils.Tensor.from_bytes('T', 'TYPE_BF16', [1], b'ab').as_numpy()",
    /Tensor dtype is BF16 and cannot be converted to NumPy/,
  ],
  ["release flags are unknown", "requests[0].set_release_flags(7)", /Unsupported flag/],
  [
    "a correlation id is a float",
    "pb_utils.InferenceRequest(correlation_id=1.5)",
    /Correlation ID must be integer or string/,
  ],
  [
    "an output name is empty",
    "pb_utils.InferenceRequest(inputs=[], model_name='m', requested_output_names=[''])",
    /Requested output name for request/,
  ],
  ["a tensor has no name", "pb_utils.Tensor('', np.zeros(1))", /Tensor name cannot be an empty string/],
];
for (const [what, expression, expected] of REFUSALS) {
  test(`\`triton_python_backend_utils\` refuses when ${what}`, options, async (t) => {
    const { instance } = await load(t, `def execute(self, requests):\n    ${expression}`);
    const request = await runOne(instance, new TestRequest());
    assert.match(request.errorText ?? "", expected);
  });
}

const REQUEST = "pb_utils.InferenceRequest(**{'inputs': [T], 'model_name': 'm', 'requested_output_names': ['o'], ";
/** Calls, and the exception that each raises; "" = none. */
const ARGUMENTS: readonly (readonly [string, string])[] = [
  ["pb_utils.InferenceRequest()", "TypeError"],
  ["pb_utils.InferenceRequest(inputs=[T], model_name='m')", "TypeError"],
  [`${REQUEST}'inputs': [None]})`, "TritonModelException"],
  [`${REQUEST}'inputs': None})`, "TypeError"],
  [`${REQUEST}'inputs': ['T']})`, "TypeError"],
  [`${REQUEST}'inputs': 'T'})`, "TypeError"],
  [`${REQUEST}'inputs': (T, T)})`, ""],
  [`${REQUEST}'model_name': None})`, "TypeError"],
  [`${REQUEST}'model_name': 7})`, "TypeError"],
  [`${REQUEST}'model_name': b'm'})`, ""],
  [`${REQUEST}'requested_output_names': None})`, "TypeError"],
  [`${REQUEST}'requested_output_names': [None]})`, "TypeError"],
  [`${REQUEST}'requested_output_names': 'o'})`, "TypeError"],
  [`${REQUEST}'correlation_id': None})`, "TypeError"],
  [`${REQUEST}'correlation_id': []})`, "TritonModelException"],
  [`${REQUEST}'request_id': None})`, "TypeError"],
  [`${REQUEST}'request_id': 1})`, "TypeError"],
  [`${REQUEST}'model_version': None})`, "TypeError"],
  [`${REQUEST}'model_version': '1'})`, "TypeError"],
  [`${REQUEST}'model_version': np.int64(1)})`, ""],
  [`${REQUEST}'flags': None})`, "TypeError"],
  [`${REQUEST}'flags': 1.5})`, "TypeError"],
  [`${REQUEST}'timeout': '9'})`, "TypeError"],
  [`${REQUEST}'parameters': [1]})`, "TritonModelException"],
  [`${REQUEST}'inputs': [], 'requested_output_names': []})`, ""],
  ["pb_utils.InferenceResponse(output_tensors=None)", "TypeError"],
  ["pb_utils.InferenceResponse(output_tensors=[None])", "TritonModelException"],
  ["pb_utils.InferenceResponse([1])", "TypeError"],
  ["pb_utils.InferenceResponse([], error='no')", "TypeError"],
  ["pb_utils.InferenceResponse([])", ""],
  ["pb_utils.InferenceResponse()", ""],
  ["pb_utils.Tensor(None, T.as_numpy())", "TypeError"],
  ["pb_utils.Tensor('T', None)", "TypeError"],
  ["pb_utils.Tensor('', None)", "TypeError"],
  ["pb_utils.Tensor.from_dlpack('T', None)", "TritonModelException"],
  ["pb_utils.Tensor.from_dlpack('', None)", "TritonModelException"],
  ["pb_utils.TritonError(None)", "TypeError"],
  ["pb_utils.TritonError('no', 'INTERNAL')", "TypeError"],
  ["pb_utils.TritonError('no', pb_utils.TritonError.NOT_FOUND)", ""],
  ["pb_utils.PreferredMemory(None)", "TypeError"],
  ["pb_utils.Logger.log('x', None)", "TypeError"],
  ["pb_utils.Logger.log('x', 1)", "TypeError"],
  ["pb_utils.Logger.log_info(None)", "TypeError"],
  ["pb_utils.Logger.log_warn(None)", "TypeError"],
  ["pb_utils.Logger.log_error(5)", "TypeError"],
  ["pb_utils.Logger.log_verbose([])", "TypeError"],
  ["pb_utils.Logger.log('x')", ""],
  ["pb_utils.load_model(None)", "TypeError"],
  ["pb_utils.load_model('m', None)", "TypeError"],
  ["pb_utils.unload_model(7)", "TypeError"],
  ["pb_utils.is_model_ready(None)", "TypeError"],
  ["pb_utils.is_model_ready('m', 1)", "TypeError"],
  ["pb_utils.MetricFamily(None, 'd', pb_utils.MetricFamily.GAUGE)", "TypeError"],
  ["pb_utils.MetricFamily('n', None, pb_utils.MetricFamily.GAUGE)", "TypeError"],
  ["pb_utils.MetricFamily('n', 'd', 'gauge')", "TypeError"],
  ["family('HISTOGRAM').Metric(labels={})", "TritonModelException"],
  ["family('HISTOGRAM').Metric(labels={}, buckets=None)", "TritonModelException"],
  ["family('HISTOGRAM').Metric(labels={}, buckets=(1, 2))", "TritonModelException"],
  ["family('HISTOGRAM').Metric(labels={}, buckets=[2.5, 0.1])", "TritonModelException"],
  ["family('HISTOGRAM').Metric(labels={}, buckets=[1, 1, 2])", "TritonModelException"],
  ["family('HISTOGRAM').Metric(buckets=[])", ""],
  ["family('COUNTER').Metric(buckets=[1])", "TritonModelException"],
  ["family('GAUGE').Metric(labels=['a'])", "TritonModelException"],
  ["family('GAUGE').Metric(labels={'a': 1})", "TritonModelException"],
  ["family('GAUGE').Metric().set(1)", "TritonModelException"], // the family is gone at once
  ["family('COUNTER').Metric().increment(1)", "TritonModelException"],
  ["family('COUNTER').Metric().value()", "TritonModelException"],
  ["family('HISTOGRAM').Metric(buckets=[]).observe(1)", "TritonModelException"],
  ["[f.Metric().increment(1) for f in [family('COUNTER')]]", ""],
];
test(
  "`triton_python_backend_utils` checks the types of arguments as Triton does, and the life of metrics",
  options,
  async (t) => {
    const calls = ARGUMENTS.map(([call]) => `            lambda: ${call},`).join("\n");
    const { instance } = await load(
      t,
      `
def execute(self, requests):
    T = pb_utils.Tensor("T", np.zeros(1, dtype=np.int32))
    kinds = iter(range(1000))
    def family(kind):
        return pb_utils.MetricFamily("m%d" % next(kinds), "d", getattr(pb_utils.MetricFamily, kind))
    responses = []
    for request in requests:
        results = []
        for call in [
${calls}
        ]:
            try:
                call()
                results.append("")
            except Exception as error:
                results.append(type(error).__name__)
        responses.append(text(json.dumps(results)))
    return responses
`,
    );
    const request = await runOne(instance, new TestRequest());
    const results = JSON.parse(textOf(request.responses[0]?.outputs[0]) ?? `"${request.errorText}"`) as string[];
    assert.deepEqual(
      ARGUMENTS.map(([call], i) => [call, results[i]]),
      ARGUMENTS.map(([call, expected]) => [call, expected]),
    );
  },
);
