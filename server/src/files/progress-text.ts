/** Formats progress as text: bytes, durations, current rate, and one terminal line. Pure. */

export interface ProgressSnapshot {
  readonly task: string;
  /** "bytes", or the counted unit: "tensors", "files". */
  readonly unit: string;
  readonly done: number;
  /** Absent when unknown. */
  readonly total: number | undefined;
  /** Units per second; absent until known. */
  readonly rate: number | undefined;
  readonly etaSeconds: number | undefined;
  /** Name of the file or tensor in progress. */
  readonly item: string | undefined;
}

const BYTE_UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
const BYTES_PER_STEP = 1024;
const SECONDS_PER_MINUTE = 60;
const SECONDS_PER_HOUR = 3600;
const BAR_WIDTH = 24;

export function formatBytes(bytes: number): string {
  let value = bytes;
  let step = 0;
  while (value >= BYTES_PER_STEP && step < BYTE_UNITS.length - 1) {
    value /= BYTES_PER_STEP;
    step++;
  }
  return `${step === 0 ? value : value.toFixed(value < 100 ? 1 : 0)} ${BYTE_UNITS[step]}`;
}

export function formatDuration(seconds: number): string {
  if (!Number.isFinite(seconds)) return "?";
  const whole = Math.max(0, Math.round(seconds));
  if (whole < SECONDS_PER_MINUTE) return `${whole}s`;
  const two = (value: number): string => String(value).padStart(2, "0");
  const minutes = Math.floor((whole % SECONDS_PER_HOUR) / SECONDS_PER_MINUTE);
  if (whole < SECONDS_PER_HOUR) return `${minutes}m${two(whole % SECONDS_PER_MINUTE)}s`;
  return `${Math.floor(whole / SECONDS_PER_HOUR)}h${two(minutes)}m`;
}

export function formatAmount(amount: number, unit: string): string {
  return unit === "bytes" ? formatBytes(amount) : String(Math.round(amount));
}

/** `download [#####---] 45.0% 1.2 GiB/2.7 GiB 80.1 MiB/s 0m19s model.safetensors`, cut to the width of the terminal. */
export function progressLine(snapshot: ProgressSnapshot, width: number): string {
  const { task, unit, done, total, rate, etaSeconds, item } = snapshot;
  const parts = [task];
  if (total === undefined) {
    parts.push(`${formatAmount(done, unit)}${unitSuffix(unit)}`);
  } else {
    const share = total === 0 ? 1 : Math.min(1, done / total);
    parts.push(bar(share), `${(share * 100).toFixed(1).padStart(5)}%`);
    parts.push(`${formatAmount(done, unit)}/${formatAmount(total, unit)}${unitSuffix(unit)}`);
  }
  if (rate !== undefined) parts.push(unit === "bytes" ? `${formatBytes(rate)}/s` : `${rate.toFixed(1)}/s`);
  if (etaSeconds !== undefined) parts.push(`ETA ${formatDuration(etaSeconds)}`);
  if (item !== undefined) parts.push(item);
  const line = parts.join(" ");
  return line.length > width ? line.slice(0, Math.max(0, width)) : line;
}

function bar(share: number): string {
  const filled = Math.floor(share * BAR_WIDTH);
  return `[${"#".repeat(filled)}${"-".repeat(BAR_WIDTH - filled)}]`;
}

function unitSuffix(unit: string): string {
  return unit === "bytes" ? "" : ` ${unit}`;
}

/** Work over a sliding time window: follows changes in speed, and one slow moment does not distort the estimate. */
export class RateMeter {
  readonly #windowMs: number;
  readonly #samples: { readonly atMs: number; readonly done: number }[] = [];

  constructor(startMs: number, done: number, windowMs = 10_000) {
    this.#windowMs = windowMs;
    this.#samples.push({ atMs: startMs, done });
  }

  /** Samples closer than 100 ms replace each other, so a window holds a bounded number. */
  sample(atMs: number, done: number): void {
    const last = this.#samples.at(-1);
    if (this.#samples.length > 1 && last !== undefined && atMs - last.atMs < 100) this.#samples.pop();
    this.#samples.push({ atMs, done });
    while (this.#samples.length > 2 && (this.#samples[1]?.atMs ?? atMs) < atMs - this.#windowMs) this.#samples.shift();
  }

  /** Units per second over the window; undefined when no time has passed. */
  rate(): number | undefined {
    const first = this.#samples[0];
    const last = this.#samples.at(-1);
    if (first === undefined || last === undefined || last.atMs <= first.atMs) return undefined;
    return ((last.done - first.done) * 1000) / (last.atMs - first.atMs);
  }
}
