/** Log formats by the names of flags and the logging extension. */

export const LOG_FORMATS = ["default", "ISO8601", "json"] as const;

export type LogFormat = (typeof LOG_FORMATS)[number];

/** Undefined for an unknown name. */
export function logFormatOf(name: string): LogFormat | undefined {
  return LOG_FORMATS.find((format) => format === name);
}
