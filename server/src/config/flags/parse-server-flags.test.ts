import assert from "node:assert/strict";
import { test } from "node:test";
import { FLAG_HANDLERS } from "./flag-handlers.ts";
import { FLAGS } from "./flag-table.ts";
import { creationProblem, parseServerFlags } from "./parse-server-flags.ts";
import { backendSettingsOf, type ServerOptions } from "./server-options.ts";
import { usageText } from "./usage.ts";

type Env = Readonly<Record<string, string>>;

function options(argv: readonly string[], env: Env = {}): ServerOptions {
  const parsed = parseServerFlags(argv, env);
  assert.equal(parsed.kind, "options", JSON.stringify(parsed));
  return (parsed as { options: ServerOptions }).options;
}

/** The lines below the text of usage. */
function errorOf(argv: readonly string[], env: Env = {}): string {
  const parsed = parseServerFlags(argv, env);
  assert.equal(parsed.kind, "usage");
  assert.equal((parsed as { exitCode: number }).exitCode, 1);
  const [, below = "none"] = (parsed as { text: string }).text.split(usageText());
  return below.trimStart();
}

test("FLAG_HANDLERS has a handler for each of the 91 flags of Triton and the 24 of its own but --help, and no other", () => {
  assert.equal(FLAGS.length, 115);
  const names = FLAGS.map(({ name }) => name).filter((name) => name !== "help");
  assert.deepEqual([...FLAG_HANDLERS.keys()].sort(), names.sort());
});

test("parseServerFlags() prints the usage text with all groups in their order for --help", () => {
  assert.equal(errorOf(["--help"]), "");
  const text = usageText();
  assert.match(text, /^Usage: tritonserver \[options\]\n {2}--help\n\tPrint usage\n/);
  const titles = [...text.matchAll(/^(\S.*):$/gm)].map(([, title]) => title);
  assert.deepEqual(titles, [
    "Server",
    "Logging",
    "Model Repository",
    "HTTP",
    "GRPC",
    "OpenAI",
    "Sagemaker",
    "Vertex",
    "Metrics",
    "Tracing",
    "Backend",
    "Repository Agent",
    "Response Cache",
    "Rate Limiter",
    "Memory/Device Management",
    "Shared Memory",
    "DEPRECATED",
  ]);
  for (const { name } of FLAGS) assert.match(text, new RegExp(`^ {2}--${name}( <|$)`, "m"));
});

const REFUSED: readonly (readonly [argv: readonly string[], start: string])[] = [
  [["--no-such-flag"], "tritonserver: unrecognized option '--no-such-flag'\n"],
  [["--no-such-flag=1"], "tritonserver: unrecognized option '--no-such-flag=1'\n"],
  [["-x"], "tritonserver: invalid option -- 'x'\n"],
  [["serve"], "Unexpected argument: serve\n"],
  [["--strict-readiness"], "tritonserver: option '--strict-readiness' requires an argument\n"],
  [["--http-port=99999999999"], 'Bad option: "--http-port".\nProvided option value is out of bound. Got 99999999999\n'],
  [["--http-port=abc"], 'Bad option: "--http-port".\nInvalid option value. Got abc\n'],
  [["--http-port=65536"], 'Bad option: "--http-port".\na port is 0 to 65535. Got 65536\n'],
  [["--grpc-port=-1"], 'Bad option: "--grpc-port".\na port is 0 to 65535. Got -1\n'],
  [["--http-po=abc"], 'Bad option: "--http-port".\nInvalid option value. Got abc\n'],
  [
    ["--model-control-mode=sometimes"],
    'Bad option: "--model-control-mode".\ninvalid argument for --model-control-mode\n',
  ],
  [["--model-config-name="], 'Bad option: "--model-config-name".\nError: empty argument for --model-config-name\n'],
  [["--load-model=a"], "Error: Use of '--load-model' requires setting '--model-control-mode=explicit' as well.\n"],
  [
    ["--http-port=1", "--grpc-port=1"],
    "The server cannot listen to HTTP requests and GRPC requests at the same address and port 0.0.0.0:1\n",
  ],
  [
    ["--allow-http=false", "--grpc-port=5", "--metrics-port=5"],
    "The server cannot listen to GRPC requests and metrics requests at the same address and port 0.0.0.0:5\n",
  ],
  [
    ["--allow-sagemaker=true", "--sagemaker-safe-port-range=1-9"],
    "The server cannot listen to HTTP requests at port 8000, allowed port range is [1, 9]\n",
  ],
  [
    ["--http-restricted-api=health"],
    "Bad option: \"--http-restricted-api\".\n--http-restricted-api option format is '<config name>:<setting>=<value>'. Got health\n",
  ],
  [["--http-restricted-api=nosuch:k=v"], "Bad option: \"--http-restricted-api\".\nunknown restricted api 'nosuch' \n"],
  [
    ["--grpc-restricted-protocol=health:k=v", "--grpc-restricted-protocol=health:l=w"],
    "Bad option: \"--grpc-restricted-protocol\".\nrestricted protocol 'health' can not be specified in multiple config groups\n",
  ],
  [
    ["--one-port=true", "--grpc-use-ssl=true"],
    "Error: --grpc-use-ssl cannot be used with --one-port. Use --http-use-ssl, for all of the port.\n",
  ],
  [
    ["--http-max-connection-age=-1"],
    'Bad option: "--http-max-connection-age".\nError: --http-max-connection-age must not be negative.\n',
  ],
  [["--log-format=fancy"], 'Bad option: "--log-format".\ninvalid argument for --log-format\n'],
  [["--log-verbose=abc"], 'Bad option: "--log-verbose".\nInvalid option value. Got abc\n'],
  [["--log-info=2"], 'Bad option: "--log-info".\ninvalid value for bool option: 2\n'],
  [["--trace-config=rate=abc"], 'Bad option: "--trace-config rate".\nInvalid option value. Got abc\n'],
  [
    ["--trace-config=triton,log-frequency=x"],
    'Bad option: "--trace-config triton,log-frequency".\nInvalid option value. Got x\n',
  ],
  [
    ["--trace-config=foo"],
    "Bad option: \"--trace-config\".\n--trace-config option format is '<trace mode>,<setting>=<value>'. Got foo\n",
  ],
  [["--trace-config=,a=b"], 'Bad option: "--trace-config".\nNo trace mode specified.'],
  [["--trace-config=zipkin,a=b"], 'Bad option: "--trace-config".\ninvalid value for trace mode option: zipkin.'],
  [["--trace-level=all"], 'Bad option: "--trace-level".\ninvalid value for trace level option: all\n'],
  [
    ["--cache-config=local"],
    'Bad option: "--cache-config".\nNo cache specified. --cache-config option format is <cache name>,<setting>=<value>. Got local\n',
  ],
  [
    ["--cache-config=local,size"],
    "Bad option: \"--cache-config\".\n--cache-config option format is '<cache name>,<setting>=<value>'. Got local,size\n",
  ],
  [
    ["--cache-config=local,size=1", "--response-cache-byte-size=1"],
    "Error: Incompatible flags --response-cache-byte-size and --cache-config",
  ],
  [
    ["--metrics-config=foo"],
    'Bad option: "--metrics-config".\n--metrics-config option format is <setting>=<value>. Got foo\n',
  ],
  [["--metrics-config=foo=1"], "Bad option: \"--metrics-config\".\nunknown metrics setting 'foo'"],
  [
    ["--metrics-config=summary_quantiles=0.5"],
    'Bad option: "--metrics-config".\nsummary_quantiles expects <quantile>:<error>',
  ],
  [["--metrics-config=summary_quantiles=2:0.1"], 'Bad option: "--metrics-config".\nsummary_quantiles expects'],
  [["--metrics-interval-ms=abc"], 'Bad option: "--metrics-interval-ms".\nInvalid option value. Got abc\n'],
  [["--rate-limit=sometimes"], 'Bad option: "--rate-limit".\ninvalid argument for --rate-limit\n'],
  [
    ["--rate-limit-resource=R"],
    "Bad option: \"--rate-limit-resource\".\n--rate-limit-resource option format is '<resource_name>:<count>:<device>' or '<resource_name>:<count>'. Got R\n",
  ],
  [["--rate-limit-resource=R:x"], 'Bad option: "--rate-limit-resource".\nInvalid option value. Got x\n'],
  [
    ["--backend-config=foo"],
    "Bad option: \"--backend-config\".\n--backend-config option format is '<backend name>,<setting>=<value>'. Got foo\n",
  ],
  [["--backend-config=,a=b"], 'Bad option: "--backend-config".\nNo backend specified.'],
  [
    ["--host-policy=foo"],
    "Bad option: \"--host-policy\".\n--host-policy option format is '<policy name>,<setting>=<value>'. Got foo\n",
  ],
  [
    ["--grpc-infer-response-compression-level=huge"],
    'Bad option: "--grpc-infer-response-compression-level".\ninvalid argument for --grpc_infer_response_compression_level\n',
  ],
  [
    ["--grpc-infer-thread-count=1"],
    'Bad option: "--grpc-infer-thread-count".\ninvalid argument for --grpc_infer_thread_count. Must be in the range 2 to 128.\n',
  ],
  [
    ["--grpc-max-response-pool-size=0"],
    'Bad option: "--grpc-max-response-pool-size".\nError: --grpc-max-response-pool-size must be greater than 0.\n',
  ],
  [
    ["--http-max-input-size=0"],
    'Bad option: "--http-max-input-size".\nError: --http-max-input-size must be greater than 0.\n',
  ],
  [["--http-header-forward-pattern=("], 'Bad option: "--http-header-forward-pattern".\nnot a regular expression: (\n'],
  [
    ["--pinned-memory-pool-byte-size=abc"],
    'Bad option: "--pinned-memory-pool-byte-size".\nInvalid option value. Got abc\n',
  ],
  [["--cuda-memory-pool-byte-size=1"], 'Bad option: "--cuda-memory-pool-byte-size".\nCannot parse pair option'],
  [["--model-load-gpu-limit=0:2"], 'Bad option: "--model-load-gpu-limit".\nexpected a fraction from 0 to 1. Got 2\n'],
  [["--model-namespacing=perhaps"], 'Bad option: "--model-namespacing".\ninvalid value for bool option: perhaps\n'],
];

for (const [argv, start] of REFUSED) {
  test(`parseServerFlags() refuses ${argv.join(" ")}`, () => {
    const text = errorOf(argv);
    assert.ok(text.startsWith(start), text.slice(0, 300));
  });
}

test("parseServerFlags() reports the first mistake of several", () => {
  assert.match(errorOf(["--log-info=2", "--nope", "x"]), /^Bad option: "--log-info"/);
});

test("parseServerFlags() knows a default for everything", () => {
  const { http, grpc, metrics, repository, trace, notYet, warnings } = options([]);
  assert.deepEqual(
    [http.address, http.port, grpc.port, metrics.address, metrics.port],
    ["0.0.0.0", 8000, 8001, "0.0.0.0", 8002],
  );
  assert.deepEqual([http.maxInputBytes, grpc.tls, trace.levels, repository.pollSecs], [67_108_864, undefined, [], 0]);
  assert.deepEqual([notYet, warnings], [[], []]);
});

test("parseServerFlags() freezes its options", () => {
  const given = options(["--model-repository=/m"]);
  assert.ok(Object.isFrozen(given) && Object.isFrozen(given.repository.paths) && Object.isFrozen(given.grpc.keepalive));
});

for (const [text, expected] of [
  ["true", true],
  ["TRUE", true],
  ["On", true],
  ["1", true],
  ["false", false],
  ["OFF", false],
  ["0", false],
] as const) {
  test(`parseServerFlags() reads ${text} as a truth value`, () => {
    assert.equal(options(["--strict-readiness", text]).repository.strictReadiness, expected);
  });
}

const READ: readonly (readonly [
  argv: readonly string[],
  read: (options: ServerOptions) => unknown,
  expected: unknown,
])[] = [
  [["--model-repo=/b", "--model-store=/a", "--model-repository=/b"], (o) => o.repository.paths, ["/a", "/b"]],
  [
    ["--model-control-mode=EXPLICIT", "--load-model=b", "--load-model=a", "--load-model=b"],
    (o) => o.repository.startupModels,
    ["a", "b"],
  ],
  [["--model-control-mode=poll"], (o) => o.repository.pollSecs, 15],
  [["--model-control-mode=poll", "--repository-poll-secs=3"], (o) => o.repository.pollSecs, 3],
  [["--repository-poll-secs=3"], (o) => o.repository.pollSecs, 0],
  [["--disable-auto-complete-config"], (o) => o.repository.autoComplete, false],
  [["--strict-model-config=true"], (o) => o.repository.autoComplete, false],
  [["--strict-model-config=false"], (o) => o.repository.autoComplete, true],
  [
    ["--disable-auto-complete-config", "--strict-model-config=false"],
    (o) => [o.repository.autoComplete, o.warnings.length],
    [false, 2],
  ],
  [["--log-verbose=true"], (o) => o.log.verboseLevel, 1],
  [["--log-verbose=3"], (o) => o.log.verboseLevel, 3],
  [["--exit-timeout-secs=-1"], (o) => o.exitTimeoutSecs, 0],
  [["--exit-timeout-secs=30s"], (o) => o.exitTimeoutSecs, 30],
  [["--drain-delay-secs=15"], (o) => o.drainDelaySecs, 15],
  [["--model-load-thread-count=0"], (o) => o.repository.loadThreadCount, 1],
  [["--http-address=::1"], (o) => o.metrics.address, "::1"],
  [["--http-address=::1", "--metrics-address=127.0.0.1"], (o) => o.metrics.address, "127.0.0.1"],
  [["--allow-metrics=false"], (o) => [o.metrics.isEnabled, o.metrics.gpu, o.metrics.cpu], [false, false, false]],
  [["--http-port=0", "--grpc-port=0"], (o) => [o.http.port, o.grpc.port], [0, 0]],
  [["--http-port=7", "--grpc-port=7", "--grpc-address=127.0.0.1"], (o) => o.grpc.port, 7],
  [
    ["--grpc-use-ssl-mutual=true", "--grpc-server-cert=c"],
    (o) => o.grpc.tls,
    { isMutual: true, certFile: "c", keyFile: "", rootCertFile: "" },
  ],
  [
    ["--http-use-ssl=true", "--http-server-cert=c", "--http-server-key=k", "--http-root-cert=r"],
    (o) => [o.http.tls, o.grpc.tls],
    [{ isMutual: false, certFile: "c", keyFile: "k", rootCertFile: "r" }, undefined],
  ],
  [["--http-server-cert=c"], (o) => o.http.tls, undefined],
  [["--http-max-connection-age=60000"], (o) => o.http.maxConnectionAgeMs, 60_000],
  [["--http-address=unix:/run/x"], (o) => [o.http.address, o.metrics.address], ["unix:/run/x", "127.0.0.1"]],
  [["--one-port=true", "--grpc-port=8000"], (o) => o.http.isOnePort, true],
  [["--grpc-infer-response-compression-level=HIGH"], (o) => o.grpc.responseCompression, "high"],
  [
    ["--grpc-keepalive-time=5", "--grpc-max-connection-age=6"],
    (o) => [o.grpc.keepalive.timeMs, o.grpc.keepalive.maxConnectionAgeMs],
    [5, 6],
  ],
  [
    ["--http-header-forward-pattern=(?i)^x-", "--grpc-header-forward-pattern=(?-i)X-.*"],
    (o) => [o.http, o.grpc].map((e) => ["X-a", "x-a", "ax-"].filter((name) => e.headerForwardPattern?.test(name))),
    [["X-a", "x-a"], ["X-a"]],
  ],
  [["--http-header-forward-pattern="], (o) => o.http.headerForwardPattern, undefined],
  [
    ["--http-restricted-api=model-repository,shared-memory:admin-key=open sesame=1"],
    (o) => [...o.http.accessKeys],
    [
      ["model-repository", { header: "admin-key", value: "open sesame=1" }],
      ["shared-memory", { header: "admin-key", value: "open sesame=1" }],
    ],
  ],
  [
    ["--grpc-restricted-protocol=inference:k=v"],
    (o) => o.grpc.accessKeys.get("inference"),
    { header: "k", value: "v" },
  ],
  [
    ["--backend-config=a=1", "--backend-config=python,a=2", "--backend-config=b=3"],
    (o) => [...backendSettingsOf(o, "python")],
    [
      ["a", "2"],
      ["b", "3"],
    ],
  ],
  [["--cache-config=local,size=8"], (o) => o.cache.settings.get("local")?.get("size"), "8"],
  [["--response-cache-byte-size=8"], (o) => o.cache.settings.get("local")?.get("size"), "8"],
  [
    ["--rate-limit-resource=R1:3", "--rate-limit-resource=R2:1:0"],
    (o) => o.rateLimit.resources,
    [
      { name: "R1", count: 3, device: -1 },
      { name: "R2", count: 1, device: 0 },
    ],
  ],
  [["--cuda-memory-pool-byte-size=1:64"], (o) => [...o.memory.cudaPoolBytes], [[1, 64]]],
  [["--model-load-gpu-limit=0:0.5"], (o) => [...o.memory.loadGpuLimits], [[0, 0.5]]],
  [
    ["--host-policy=p,numa-node=1", "--host-policy=p,cpu-cores=0-3"],
    (o) => [...(o.memory.hostPolicies.get("p") ?? [])],
    [
      ["numa-node", "1"],
      ["cpu-cores", "0-3"],
    ],
  ],
  [["--min-supported-compute-capability=7.5"], (o) => o.memory.minComputeCapability, 7.5],
  [
    ["--metrics-config=summary_quantiles=0.5:0.05,0.9:0.01"],
    (o) => o.metrics.summaryQuantiles,
    [
      { quantile: 0.5, error: 0.05 },
      { quantile: 0.9, error: 0.01 },
    ],
  ],
  [
    ["--metrics-config=counter_latencies=false", "--metrics-config=histogram_latencies=TRUE"],
    (o) => [o.metrics.counterLatencies, o.metrics.histogramLatencies],
    [false, true],
  ],
  [["--log-format=json"], (o) => o.log.format, "json"],
  [["--sagemaker-safe-port-range=8000-9000"], (o) => o.sagemaker.safePortRange, [8000, 9000]],
];

for (const [argv, read, expected] of READ) {
  test(`parseServerFlags() reads ${argv.join(" ")}`, () => {
    assert.deepEqual(read(options(argv)), expected);
  });
}

test("parseServerFlags() honours deprecated flags of traces", () => {
  const { trace } = options(["--trace-rate=5", "--trace-count=6", "--trace-file=f", "--trace-log-frequency=2"]);
  assert.deepEqual([trace.rate, trace.count, trace.file, trace.logFrequency], [5, 6, "f", 2]);
});

test("parseServerFlags() follows the environment of Vertex AI", () => {
  const env = { AIP_MODE: "PREDICTION", AIP_HTTP_PORT: "9000", AIP_STORAGE_URI: "/store" };
  const given = options([], env);
  assert.deepEqual(
    [given.http.isEnabled, given.grpc.isEnabled, given.vertex.isEnabled, given.vertex.port],
    [false, false, true, 9000],
  );
  assert.deepEqual(given.repository.paths, ["/store"]);
  assert.equal(options(["--allow-http=true"], env).http.isEnabled, true);
  assert.deepEqual(options(["--model-repository=/m"], env).repository.paths, ["/m"]);
  assert.match(errorOf([], { AIP_HTTP_PORT: "x" }), /^Invalid option value\. Got x\n/);
});

test("parseServerFlags() says which features are not there", () => {
  const { notYet } = options(["--cuda-memory-pool-byte-size=0:1", "--host-policy=p,numa-node=0"]);
  assert.deepEqual(
    notYet.map((line) => /--[\w-]+/.exec(line)?.[0]),
    ["--host-policy", "--cuda-memory-pool-byte-size"],
  );
});

for (const [argv, message] of [
  [[], "--model-repository must be specified"],
  [
    ["--model-repository=/m", "--model-control-mode=explicit", "--load-model=*", "--load-model=a"],
    "Wildcard model name '*' must be the ONLY startup model if specified at all.",
  ],
  [
    ["--model-repository=/m", "--cache-config=nosuch,size=1"],
    "unable to find '/opt/tritonserver/caches/nosuch/libtritoncache_nosuch.so' for cache",
  ],
  [
    ["--model-repository=/m", "--cache-config=local,size=1", "--cache-config=redis,host=h"],
    "found multiple cache configurations, but only a single cache is currently supported",
  ],
  [["--model-repository=/m", "--model-control-mode=explicit", "--load-model=*"], undefined],
] as const) {
  test(`creationProblem() of ${argv.join(" ")} is ${message}`, () => {
    assert.equal(creationProblem(options(argv))?.message, message);
  });
}
