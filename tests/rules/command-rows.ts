/**
 * Command lines and what Triton says to them (server, command_line_parser.cc): the lines behind `Bad option`, warnings of deprecated
 * flags, and errors of the options as a whole. Values are of our own.
 */

/** A flag that is refused, and the line that says why. */
export const REFUSED: readonly (readonly [flag: string, says: string])[] = [
  ["--exit-timeout-secs=soon", "Invalid option value. Got soon"],
  ["--exit-timeout-secs=-", "Invalid option value. Got -"],
  ["--exit-timeout-secs=2147483648", "Provided option value is out of bound. Got 2147483648"],
  ["--exit-timeout-secs=-2147483649", "Provided option value is out of bound. Got -2147483649"],
  ["--grpc-port= ", "Invalid option value. Got  "],
  ["--grpc-port=", "Invalid option value. Got "],
  ["--metrics-port=port", "Invalid option value. Got port"],
  ["--sagemaker-port=x9", "Invalid option value. Got x9"],
  ["--vertex-ai-port=nine", "Invalid option value. Got nine"],
  ["--http-thread-count=many", "Invalid option value. Got many"],
  ["--http-max-input-size=0", "Error: --http-max-input-size must be greater than 0."],
  ["--http-max-input-size=-7", "Error: --http-max-input-size must be greater than 0."],
  ["--http-max-input-size=big", "Invalid option value. Got big"],
  ["--grpc-infer-thread-count=1", "invalid argument for --grpc_infer_thread_count. Must be in the range 2 to 128."],
  ["--grpc-infer-thread-count=129", "invalid argument for --grpc_infer_thread_count. Must be in the range 2 to 128."],
  ["--grpc-max-response-pool-size=0", "Error: --grpc-max-response-pool-size must be greater than 0."],
  ["--grpc-max-response-pool-size=-3", "Error: --grpc-max-response-pool-size must be greater than 0."],
  ["--grpc-infer-response-compression-level=best", "invalid argument for --grpc_infer_response_compression_level"],
  ["--grpc-use-ssl=perhaps", "invalid value for bool option: perhaps"],
  ["--grpc-keepalive-permit-without-calls=2", "invalid value for bool option: 2"],
  ["--allow-http=yes", "invalid value for bool option: yes"],
  ["--allow-metrics=", "invalid value for bool option: "],
  ["--reuse-http-port=10", "invalid value for bool option: 10"],
  ["--log-verbose=loud", "Invalid option value. Got loud"],
  ["--log-warning=no", "invalid value for bool option: no"],
  ["--log-format=iso8601", "invalid argument for --log-format"],
  ["--model-control-mode=auto", "invalid argument for --model-control-mode"],
  ["--model-config-name=", "Error: empty argument for --model-config-name"],
  ["--repository-poll-secs=ten", "Invalid option value. Got ten"],
  ["--rate-limit=on", "invalid argument for --rate-limit"],
  [
    "--rate-limit-resource=R:1:2:3",
    "--rate-limit-resource option format is '<resource_name>:<count>:<device>' or '<resource_name>:<count>'. Got R:1:2:3",
  ],
  ["--rate-limit-resource=R:one:0", "Invalid option value. Got one"],
  ["--rate-limit-resource=R:1:zero", "Invalid option value. Got zero"],
  ["--rate-limit-resource=R:1:", "Invalid option value. Got "],
  [
    "--cuda-memory-pool-byte-size=5",
    "Cannot parse pair option due to incorrect number of inputs.--<pair option> argument requires format <first>:<second>. Found: 5",
  ],
  ["--cuda-memory-pool-byte-size=gpu:5", "Invalid option value. Got gpu"],
  ["--model-load-gpu-limit=0:half", "Invalid option value. Got half"],
  [
    "--pinned-memory-pool-byte-size=9223372036854775808",
    "Provided option value is out of bound. Got 9223372036854775808",
  ],
  ["--min-supported-compute-capability=new", "Invalid option value. Got new"],
  [
    "--cache-config=size=9",
    "No cache specified. --cache-config option format is <cache name>,<setting>=<value>. Got size=9",
  ],
  [
    "--cache-config=,size=9",
    "No cache specified. --cache-config option format is <cache name>,<setting>=<value>. Got ,size=9",
  ],
  ["--cache-config=local,size", "--cache-config option format is '<cache name>,<setting>=<value>'. Got local,size"],
  ["--cache-config=local,size=", "--cache-config option format is '<cache name>,<setting>=<value>'. Got local,size="],
  ["--cache-config=local,=9", "--cache-config option format is '<cache name>,<setting>=<value>'. Got local,=9"],
  [
    "--backend-config=,k=v",
    "No backend specified. --backend-config option format is <backend name>,<setting>=<value> or <setting>=<value>. Got ,k=v",
  ],
  ["--backend-config=onnx,k", "--backend-config option format is '<backend name>,<setting>=<value>'. Got onnx,k"],
  ["--backend-config=k=", "--backend-config option format is '<backend name>,<setting>=<value>'. Got k="],
  ["--host-policy=cpu,=1", "--host-policy option format is '<policy name>,<setting>=<value>'. Got cpu,=1"],
  ["--host-policy=,numa-node=1", "--host-policy option format is '<policy name>,<setting>=<value>'. Got ,numa-node=1"],
  ["--metrics-config==5", "--metrics-config option format is <setting>=<value>. Got =5"],
  ["--metrics-config=a,b=5", "--metrics-config option format is <setting>=<value>. Got a,b=5"],
  [
    "--metrics-config=summary_latencies=",
    "--metrics-config option format is <setting>=<value>. Got summary_latencies=",
  ],
  [
    "--trace-config=,rate=5",
    "No trace mode specified. --trace-config option format is <trace mode>,<setting>=<value> or <setting>=<value>. Got ,rate=5",
  ],
  ["--trace-config=rate", "--trace-config option format is '<trace mode>,<setting>=<value>'. Got rate"],
  ["--trace-config=triton,file=", "--trace-config option format is '<trace mode>,<setting>=<value>'. Got triton,file="],
  [
    "--trace-config=jaeger,url=x",
    'invalid value for trace mode option: jaeger. Available options are "triton" and "opentelemetry"',
  ],
  ["--trace-level=EVERYTHING", "invalid value for trace level option: everything"],
  ["--trace-rate=x", "Invalid option value. Got x"],
  [
    "--http-restricted-api=health=k:v",
    "--http-restricted-api option format is '<config name>:<setting>=<value>'. Got health=k:v",
  ],
  ["--http-restricted-api=models:k=v", "unknown restricted api 'models' "],
  ["--http-restricted-api=health,health:k=v", "restricted api 'health' can not be specified in multiple config groups"],
  ["--grpc-restricted-protocol=stats:k=v", "unknown restricted protocol 'stats' "],
];

/** Settings that are read once all flags are known: the option that the error names, and its line. */
export const REFUSED_SETTINGS: readonly (readonly [flags: readonly string[], option: string, says: string])[] = [
  [["--trace-config=rate=fast"], "--trace-config rate", "Invalid option value. Got fast"],
  [
    ["--trace-config=count=99999999999"],
    "--trace-config count",
    "Provided option value is out of bound. Got 99999999999",
  ],
  [["--trace-config=level=all"], "--trace-config level", "invalid value for trace level option: all"],
  [
    ["--trace-config=mode=zipkin"],
    "--trace-config mode",
    'invalid value for trace mode option: zipkin. Available options are "triton" and "opentelemetry"',
  ],
  [
    ["--trace-config=triton,log-frequency=often"],
    "--trace-config triton,log-frequency",
    "Invalid option value. Got often",
  ],
  [
    ["--trace-config=mode=opentelemetry", "--trace-config=opentelemetry,bsp_schedule_delay=late"],
    "--trace-config opentelemetry,bsp_schedule_delay",
    "Invalid option value. Got late",
  ],
  [
    ["--trace-config=opentelemetry,bsp_max_queue_size=none", "--trace-config=mode=opentelemetry"],
    "--trace-config opentelemetry,bsp_max_queue_size",
    "Invalid option value. Got none",
  ],
];

const REMOVED = "has been deprecated and will be removed in future releases. Please use";

/** Lines on standard error, in order. */
export const WARNINGS: readonly (readonly [flags: readonly string[], warnings: readonly string[]])[] = [
  [
    ["--strict-model-config=true"],
    ["Warning: '--strict-model-config' has been deprecated! Please use '--disable-auto-complete-config' instead."],
  ],
  [
    ["--disable-auto-complete-config", "--strict-model-config=off"],
    [
      "Warning: '--strict-model-config' has been deprecated! Please use '--disable-auto-complete-config' instead.",
      "Warning: Overriding deprecated '--strict-model-config' from False to True in favor of '--disable-auto-complete-config'!",
    ],
  ],
  [
    ["--response-cache-byte-size=65536"],
    [
      "Warning: '--response-cache-byte-size' has been deprecated! This will default to the 'local' cache implementation with the provided byte size for its config. Please use '--cache-config' instead. The equivalent --cache-config CLI args would be: '--cache-config=local,size=65536'",
    ],
  ],
  [["--trace-file=/t"], [`Warning: '--trace-file' ${REMOVED} '--trace-config triton,file=<filepath> instead.`]],
  [
    ["--trace-level=TENSORS"],
    [`Warning: '--trace-level' ${REMOVED} '--trace-config level=<OFF|TIMESTAMPS|TENSORS> instead.`],
  ],
  [["--trace-count=4"], [`Warning: '--trace-count' ${REMOVED} '--trace-config count=<count value> instead.`]],
  [
    ["--trace-log-frequency=4"],
    [`Warning: '--trace-log-frequency' ${REMOVED} '--trace-config triton,log-frequency=<log frequency value> instead.`],
  ],
  [
    ["--trace-config=rate=8", "--trace-rate=4"],
    [
      `Warning: '--trace-rate' ${REMOVED} '--trace-config rate=<rate value> instead.`,
      "Warning: Overriding deprecated '--trace-rate' in favor of provided rate value in --trace-config!",
    ],
  ],
  [
    ["--trace-file=/a", "--trace-config=triton,file=/b"],
    [
      `Warning: '--trace-file' ${REMOVED} '--trace-config triton,file=<filepath> instead.`,
      "Warning: Overriding deprecated '--trace-file' in favor of provided file in --trace-config!",
    ],
  ],
  [
    ["--trace-file=/a", "--trace-config=mode=opentelemetry"],
    [
      `Warning: '--trace-file' ${REMOVED} '--trace-config triton,file=<filepath> instead.`,
      "Warning: '--trace-file' is deprecated and will be ignored with opentelemetry tracing mode. ",
    ],
  ],
];

/** Command lines that are taken as they stand, each with the flags of a repository in front. */
export const TAKEN: readonly (readonly string[])[] = [
  ["--exit-timeout-secs=12s"],
  ["--exit-timeout-secs=  7"],
  ["--exit-timeout-secs=+7"],
  ["--http-port", "8123"],
  ["--strict-read=ON"],
  ["--allow-gpu-metrics=FALSE", "--allow-cpu-metrics=Off"],
  ["--log-verbose=TRUE"],
  ["--model-control-mode=POLL"],
  ["--rate-limit=EXECUTION_COUNT"],
  ["--trace-config=level=max", "--trace-config=level=TENSORS"],
  ["--trace-config=colour=blue"],
  ["--grpc-infer-response-compression-level=HIGH"],
  ["--metrics-interval-ms=1.5"],
  ["--load-model=a", "--model-control-mode=explicit"],
];

/** Errors without the text of usage: `error: creating server: <code> - <text>`. */
export const NOT_CREATED: readonly (readonly [flags: readonly string[], code: string, says: string])[] = [
  [
    ["--cache-config=local,bytes=9"],
    "invalid_argument",
    "Failed to initialize LocalCache: config didn't contain a valid 'size' field.",
  ],
  [["--cache-config=local,size=much"], "internal", "Failed to initialize LocalCache: stoull"],
  [
    ["--cache-config=local,size=9000", "--cache-config=redis,host=h"],
    "invalid_argument",
    "found multiple cache configurations, but only a single cache is currently supported",
  ],
  [
    ["--cache-config=memcached,size=9", "--cache-directory=/c"],
    "invalid_argument",
    "unable to find '/c/memcached/libtritoncache_memcached.so' for cache",
  ],
  [
    ["--model-control-mode=explicit", "--load-model=*", "--load-model=z"],
    "invalid_argument",
    "Wildcard model name '*' must be the ONLY startup model if specified at all.",
  ],
];
