/** The settings of `--metrics-config` (Triton documentation, "Metrics"). */
import { FlagError } from "./flag-error.ts";
import { parseBoolean, parseFloat64 } from "./flag-values.ts";
import type { OptionsDraft } from "./options-draft.ts";
import type { SummaryQuantile } from "./server-options.ts";

type MetricsDraft = OptionsDraft["metrics"];

export function applyMetricsSetting(metrics: MetricsDraft, text: string): void {
  const equals = text.indexOf("=");
  const key = text.slice(0, Math.max(equals, 0));
  const value = text.slice(equals + 1);
  if (key === "" || value === "" || key.includes(",")) {
    throw new FlagError(`--metrics-config option format is <setting>=<value>. Got ${text}`);
  }
  if (key === "counter_latencies") metrics.counterLatencies = parseBoolean(value);
  else if (key === "summary_latencies") metrics.summaryLatencies = parseBoolean(value);
  else if (key === "histogram_latencies") metrics.histogramLatencies = parseBoolean(value);
  else if (key === "open_work") metrics.openWork = parseBoolean(value);
  else if (key === "summary_quantiles") metrics.summaryQuantiles = value.split(",").map(parseQuantile);
  else {
    throw new FlagError(
      `unknown metrics setting '${key}', expected counter_latencies, summary_latencies, summary_quantiles, histogram_latencies or open_work`,
    );
  }
}

/** `<quantile>:<error>`, both between 0 and 1. Text behind a number is ignored: Triton's own test writes 0.0.1. */
function parseQuantile(text: string): SummaryQuantile {
  const [quantile, error] = text.split(":").map(parseFloat64);
  if (!isShare(quantile) || !isShare(error)) {
    throw new FlagError(`summary_quantiles expects <quantile>:<error>,..., each from 0 to 1. Got ${text}`);
  }
  return { quantile, error };
}

function isShare(value: number | undefined): value is number {
  return value !== undefined && value >= 0 && value <= 1;
}
