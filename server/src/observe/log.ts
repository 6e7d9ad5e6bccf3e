/** Log lines in Triton's two formats. INFO and VERBOSE go to stdout, WARNING and ERROR to stderr. */

export interface Logger {
  /** `location` is a short stable tag in the place where Triton prints file:line, e.g. "model_lifecycle". */
  info(location: string, message: string): void;
  warn(location: string, message: string): void;
  error(location: string, message: string): void;
  verbose(level: number, location: string, message: string): void;
  /** A table or other multi-line text: printed unescaped after a line break. */
  table(location: string, text: string): void;
}
