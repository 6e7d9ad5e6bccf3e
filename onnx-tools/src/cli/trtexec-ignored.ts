/** trtexec flags about GPU use: accepted without effect, so that scripts run unchanged. */
import { NO_EFFECT } from "@nereid/server/cli/no-effect";

const VALUES = [
  "workspace",
  "memPoolSize",
  "calib",
  "device",
  "streams",
  "infStreams",
  "avgRuns",
  "percentile",
  "sleepTime",
  "idleTime",
  "inputIOFormats",
  "outputIOFormats",
  "precisionConstraints",
  "layerPrecisions",
  "layerOutputTypes",
  "tacticSources",
  "timingCacheFile",
  "builderOptimizationLevel",
  "hardwareCompatibilityLevel",
  "profilingVerbosity",
  "maxAuxStreams",
  "minTiming",
  "avgTiming",
  "sparsity",
  "plugins",
  "staticPlugins",
  "useDLACore",
  "exportLayerInfo",
  "exportProfile",
  "exportTimes",
  "exportOutput",
] as const;

const TOGGLES = [
  "explicitBatch",
  "verbose",
  "noTF32",
  "stronglyTyped",
  "versionCompatible",
  "excludeLeanRuntime",
  "allowGPUFallback",
  "directIO",
  "useCudaGraph",
  "useSpinWait",
  "useManagedMemory",
  "noDataTransfers",
  "noBuilderCache",
  "separateProfileRun",
  "dumpProfile",
  "dumpLayerInfo",
  "dumpOutput",
  "threads",
  "safe",
  "restricted",
  "refit",
] as const;

type Noted = Readonly<
  Record<(typeof VALUES)[number], typeof NO_EFFECT.value> & Record<(typeof TOGGLES)[number], typeof NO_EFFECT.toggle>
>;

export const TRTEXEC_NOTED: Noted = Object.fromEntries([
  ...VALUES.map((name) => [name, NO_EFFECT.value]),
  ...TOGGLES.map((name) => [name, NO_EFFECT.toggle]),
]) as Noted;
