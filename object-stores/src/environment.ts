/** Environment variables of the cloud SDKs, as stores read them. */

export type Environment = Readonly<Record<string, string | undefined>>;

/** Undefined when the variable is not set, or empty. */
export function variable(env: Environment, ...names: readonly string[]): string | undefined {
  for (const name of names) {
    const text = env[name]?.trim();
    if (text !== undefined && text !== "") return text;
  }
  return undefined;
}
