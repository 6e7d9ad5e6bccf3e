/** A configuration as it was written: only the fields that were, under their names. Objects have no prototype. */

export type WrittenValue = string | number | boolean | WrittenMessage | readonly WrittenValue[];

export interface WrittenMessage {
  readonly [field: string]: WrittenValue;
}

/** An object for names that users choose: `__proto__` is a name like any other. */
export function emptyRecord<T>(): Record<string, T> {
  return Object.create(null) as Record<string, T>;
}
