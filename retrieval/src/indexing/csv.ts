/** Splits CSV text into rows (RFC 4180): commas, quoted fields, doubled quotes. Pure. */

export interface CsvRow {
  readonly cells: readonly string[];
  /** Line of the file where the row begins, from 1. */
  readonly line: number;
}

/** Splits text that arrives in chunks. */
export class CsvSplitter {
  #cells: string[] = [];
  #cell = "";
  #isQuoted = false;
  /** A quote inside a quoted field: its end, or half of a doubled quote. */
  #isAfterQuote = false;
  #line = 1;
  #rowLine = 1;

  /** The rows that are complete now. */
  push(text: string): CsvRow[] {
    const rows: CsvRow[] = [];
    for (const character of text) this.#take(character, rows);
    return rows;
  }

  /** The last row when no line break followed it. @throws Error when a quote is open */
  finish(): CsvRow[] {
    if (this.#isQuoted && !this.#isAfterQuote)
      throw new Error(`a quote that is opened in line ${this.#rowLine} is never closed`);
    const rows: CsvRow[] = [];
    if (this.#cell !== "" || this.#cells.length > 0) this.#endRow(rows);
    return rows;
  }

  #take(character: string, rows: CsvRow[]): void {
    if (character === "\n") this.#line += 1;
    if (this.#isQuoted && this.#takeQuoted(character)) return;
    if (character === '"' && this.#cell === "") this.#isQuoted = true;
    else if (character === ",") this.#endCell();
    else if (character === "\n") this.#endRow(rows);
    else if (character !== "\r") this.#cell += character;
  }

  /** False: the previous quote ended the field, and this character follows it. */
  #takeQuoted(character: string): boolean {
    if (!this.#isAfterQuote) {
      if (character === '"') this.#isAfterQuote = true;
      else this.#cell += character;
      return true;
    }
    this.#isAfterQuote = false;
    if (character === '"') this.#cell += '"';
    else this.#isQuoted = false;
    return this.#isQuoted;
  }

  #endCell(): void {
    this.#cells.push(this.#cell);
    this.#cell = "";
    this.#isQuoted = false;
    this.#isAfterQuote = false;
  }

  #endRow(rows: CsvRow[]): void {
    this.#endCell();
    const isBlank = this.#cells.length === 1 && this.#cells[0] === "";
    if (!isBlank) rows.push({ cells: this.#cells, line: this.#rowLine });
    this.#cells = [];
    this.#rowLine = this.#line;
  }
}
