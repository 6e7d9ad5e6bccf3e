/** A configuration as written: only the present fields, by name. Objects have no prototype. */

export type WrittenValue = string | number | boolean | WrittenMessage | readonly WrittenValue[];

export interface WrittenMessage {
  readonly [field: string]: WrittenValue;
}

/** An object for user-chosen keys: `__proto__` is a key like any other. */
export function emptyRecord<T>(): Record<string, T> {
  return Object.create(null) as Record<string, T>;
}
