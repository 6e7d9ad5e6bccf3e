/**
 * Limits and use of rate limiter resources, per device or global. Without any limit a resource has as much as the most
 * demanding executor needs. Source: Triton documentation, "Rate Limiter". Pure.
 */
import { invalidArgument } from "../core/server-error.ts";

export interface ResourceNeed {
  readonly name: string;
  readonly count: number;
  /** Undefined = global. */
  readonly device: number | undefined;
}

export interface ExplicitLimit {
  readonly name: string;
  readonly count: number;
  /** -1: every device. A global resource has no device, so its limit applies to all of them. */
  readonly device: number;
}

export class ResourceLimits {
  readonly #explicit: readonly ExplicitLimit[];
  readonly #users: (readonly ResourceNeed[])[] = [];
  /** By key. */
  #capacity = new Map<string, number>();
  readonly #taken = new Map<string, number>();

  constructor(explicit: readonly ExplicitLimit[]) {
    this.#explicit = explicit;
  }

  /** @throws ServerError invalid_argument when one of the users can never get what it needs */
  add(users: readonly (readonly ResourceNeed[])[]): void {
    const all = [...this.#users, ...users].flat();
    checkKinds(all);
    const capacity = this.#capacityFor(all);
    for (const need of users.flat()) checkCount(need, all, capacity.get(keyOf(need)) ?? 0);
    this.#users.push(...users);
    this.#capacity = capacity;
  }

  remove(users: readonly (readonly ResourceNeed[])[]): void {
    for (const user of users) {
      const at = this.#users.indexOf(user);
      if (at >= 0) this.#users.splice(at, 1);
    }
    this.#capacity = this.#capacityFor(this.#users.flat());
  }

  /** Takes all of it, or returns false and takes nothing. */
  take(needs: readonly ResourceNeed[]): boolean {
    const fits = needs.every((need) => {
      const key = keyOf(need);
      return (this.#taken.get(key) ?? 0) + need.count <= (this.#capacity.get(key) ?? 0);
    });
    if (fits) this.#change(needs, 1);
    return fits;
  }

  release(needs: readonly ResourceNeed[]): void {
    this.#change(needs, -1);
  }

  #change(needs: readonly ResourceNeed[], sign: 1 | -1): void {
    for (const need of needs) {
      const key = keyOf(need);
      this.#taken.set(key, (this.#taken.get(key) ?? 0) + sign * need.count);
    }
  }

  #capacityFor(needs: readonly ResourceNeed[]): Map<string, number> {
    const capacity = new Map<string, number>();
    for (const need of needs) {
      const key = keyOf(need);
      const limit = this.#explicitFor(need) ?? Math.max(need.count, capacity.get(key) ?? 0);
      capacity.set(key, limit);
    }
    return capacity;
  }

  /**
   * Undefined: no limit was given for anything. With limits, there is none of a resource that they leave out, and the highest
   * one counts that fits the device. Source: core, rate_limiter.cc, `ParseAndValidateExplicitResources`.
   */
  #explicitFor({ name, device }: ResourceNeed): number | undefined {
    if (this.#explicit.length === 0) return undefined;
    const fits = (limit: ExplicitLimit): boolean =>
      limit.name === name && (device === undefined || limit.device === device || limit.device === -1);
    return Math.max(0, ...this.#explicit.filter(fits).map(({ count }) => count));
  }
}

function keyOf({ name, device }: ResourceNeed): string {
  return device === undefined ? name : `${name}\0${device}`;
}

function checkKinds(needs: readonly ResourceNeed[]): void {
  const isGlobal = new Map<string, boolean>();
  for (const { name, device } of needs) {
    const global = device === undefined;
    if ((isGlobal.get(name) ?? global) !== global) {
      const text = `Resource "${name}" is present as both global and device-specific resource in the model configuration.`;
      throw invalidArgument(text);
    }
    isGlobal.set(name, global);
  }
}

function checkCount(need: ResourceNeed, all: readonly ResourceNeed[], capacity: number): void {
  if (need.count <= capacity) return;
  const key = keyOf(need);
  const least = Math.max(...all.filter((other) => keyOf(other) === key).map(({ count }) => count));
  throw invalidArgument(
    `Resource count for "${need.name}" is limited to ${capacity} which will prevent scheduling of one or more model instances, the minimum required count is ${least}`,
  );
}
