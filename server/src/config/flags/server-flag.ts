/** One command-line flag of the server, and groups of them. Plain data. */

export interface ServerFlag {
  readonly name: string;
  /** As shown in the usage text, e.g. "<integer>"; undefined: the flag takes no value. */
  readonly value: string | undefined;
  readonly description: string;
}

export interface FlagGroup {
  /** Empty: printed without a heading. */
  readonly title: string;
  readonly flags: readonly ServerFlag[];
}
