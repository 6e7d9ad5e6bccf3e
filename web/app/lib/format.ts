/** Numbers as people read them. Pure. */

const KIB = 1024;
const BYTE_UNITS = ["B", "KiB", "MiB", "GiB", "TiB"] as const;
const US_PER_MS = 1000;
const MS_PER_S = 1000;
const NOTHING = "–";

export function bytesText(bytes: number): string {
  let [value, unit] = [bytes, 0];
  while (value >= KIB && unit < BYTE_UNITS.length - 1) {
    value /= KIB;
    unit += 1;
  }
  return `${unit === 0 ? value : shortNumber(value)} ${BYTE_UNITS[unit]}`;
}

/** Three digits. */
export function shortNumber(value: number): string {
  if (!Number.isFinite(value)) return NOTHING;
  const size = Math.abs(value);
  if (size >= 1e6) return `${trimmed(value / 1e6)}M`;
  if (size >= 1e4) return `${trimmed(value / 1e3)}k`;
  return trimmed(value);
}

function trimmed(value: number): string {
  const size = Math.abs(value);
  return String(Number(value.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : 2)));
}

export function msText(ms: number): string {
  if (!Number.isFinite(ms)) return NOTHING;
  if (ms >= MS_PER_S) return `${trimmed(ms / MS_PER_S)} s`;
  return ms >= 1 ? `${trimmed(ms)} ms` : `${trimmed(ms * US_PER_MS)} µs`;
}

export function percentText(share: number): string {
  return Number.isFinite(share) ? `${trimmed(share * 100)} %` : NOTHING;
}

/** Hours, minutes, seconds and milliseconds of this machine's zone. */
export function clockText(unixMs: number): string {
  return `${secondText(unixMs / MS_PER_S)}.${padded(new Date(unixMs).getMilliseconds(), 3)}`;
}

/** Hours, minutes and seconds of this machine's zone. */
export function secondText(unixS: number): string {
  const date = new Date(unixS * MS_PER_S);
  return [date.getHours(), date.getMinutes(), date.getSeconds()].map((value) => padded(value, 2)).join(":");
}

function padded(value: number, width: number): string {
  return String(value).padStart(width, "0");
}

/** JSON over several lines; a list of plain values stays on one. */
export function jsonText(value: unknown): string {
  return JSON.stringify(value, null, 2).replace(/\[\s+([^[\]{}]*?)\s+\]/g, (_, inner: string) => {
    return `[${inner.replace(/\s*\n\s*/g, " ")}]`;
  });
}

export function shapeText(shape: readonly number[]): string {
  return `[${shape.map((size) => (size < 0 ? "?" : size)).join(", ")}]`;
}

export function plural(count: number, word: string): string {
  return `${count} ${word}${count === 1 ? "" : "s"}`;
}
