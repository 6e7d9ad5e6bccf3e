/** The element of a list at an index that the caller has checked. @throws Error when there is none */
export function expectAt<T>(list: readonly T[], index: number): T {
  const value = list[index];
  if (value === undefined) throw new Error(`expected an element at ${index} of ${list.length}`);
  return value;
}
