/** The styles of a log line, by the name that flags and clients use. */

export const LOG_FORMATS = ["default", "ISO8601", "json"] as const;

export type LogFormat = (typeof LOG_FORMATS)[number];

/** Undefined for a name that is none. */
export function logFormatOf(name: string): LogFormat | undefined {
  return LOG_FORMATS.find((format) => format === name);
}
