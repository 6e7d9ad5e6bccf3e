/** The last records of the log, for readers that come later. Old records leave; nothing else is lost. Source: own design. */
import type { LogKeeper, LogLevelName } from "./log.ts";

export interface LogRecord {
  /** Counts from 1; gaps do not occur. */
  readonly id: number;
  /** Milliseconds since the Unix epoch. */
  readonly atMs: number;
  readonly level: LogLevelName;
  readonly location: string;
  /** Longer messages end with an ellipsis. */
  readonly message: string;
}

export interface LogFilter {
  /** Absent: all levels. */
  readonly levels?: ReadonlySet<LogLevelName> | undefined;
  /** Occurs in the message or the location, in any case; "" = everything. */
  readonly text: string;
}

const MAX_MESSAGE_CHARS = 4096;

export class LogRing implements LogKeeper {
  readonly #records: LogRecord[] = [];
  readonly #maxRecords: number;
  readonly #nowMs: () => number;
  #lastId = 0;

  constructor(maxRecords: number, nowMs: () => number = Date.now) {
    this.#maxRecords = maxRecords;
    this.#nowMs = nowMs;
  }

  /** Id of the newest record; 0 = none. */
  get lastId(): number {
    return this.#lastId;
  }

  add(level: LogLevelName, location: string, message: string): void {
    const isLong = message.length > MAX_MESSAGE_CHARS;
    const shown = isLong ? `${message.slice(0, MAX_MESSAGE_CHARS)}…` : message;
    this.#lastId += 1;
    const record = { id: this.#lastId, atMs: this.#nowMs(), level, location, message: shown };
    this.#records[(this.#lastId - 1) % this.#maxRecords] = record;
  }

  /** At most `limit` records behind `id`, oldest first: the newest of those that match. */
  after(id: number, { levels, text }: LogFilter, limit: number): readonly LogRecord[] {
    const wanted = text.toLowerCase();
    const found: LogRecord[] = [];
    const oldest = Math.max(id, this.#lastId - this.#maxRecords);
    for (let each = this.#lastId; each > oldest && found.length < limit; each -= 1) {
      const record = this.#records[(each - 1) % this.#maxRecords];
      if (record === undefined || levels?.has(record.level) === false) continue;
      if (wanted === "" || `${record.location} ${record.message}`.toLowerCase().includes(wanted)) found.push(record);
    }
    return found.reverse();
  }
}
