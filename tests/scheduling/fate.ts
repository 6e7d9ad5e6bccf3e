/**
 * A model's treatment of a request: its duration and its end. It follows from the seed, the model and the request
 * alone, so a request has the same fate in any company.
 */

export interface Fate {
  readonly runMs: number;
  /** `error`: answers with one; `forget`: never answers; `throw`: the whole batch falls with it. */
  readonly end: "answer" | "error" | "fail" | "throw" | "forget";
  /** Responses of a decoupled model. */
  readonly numResponses: number;
  /** For a decoupled model, or one that answers later: time from its execution to the end of the request. */
  readonly afterMs: number;
  /** Repeated runs of an iterative sequence. */
  readonly numAgain: number;
}

export interface FateRules {
  readonly seed: number;
  /** Longest execution; 0 = all are done before `execute` returns. */
  readonly runMs: number;
  /** One request in so many does not end well; 0 = all do. */
  readonly trouble: number;
}

export function fateOf(rules: FateRules, model: number, serial: number, value: number): Fate {
  const number = (salt: number, below: number): number =>
    mix(rules.seed, model * 8191 + salt, serial * 131 + value) % below;
  const isTrouble = rules.trouble > 0 && number(1, rules.trouble) === 0;
  return {
    runMs: rules.runMs === 0 ? 0 : (number(2, 20) * rules.runMs) / 20,
    end: isTrouble ? ((["error", "fail", "throw", "forget"] as const)[number(3, 4)] ?? "fail") : "answer",
    numResponses: number(4, 4),
    afterMs: (number(5, 4) * rules.runMs) / 4,
    numAgain: number(6, 4),
  };
}

function mix(a: number, b: number, c: number): number {
  let state =
    Math.imul(a ^ 0x9e3779b9, 0x85ebca6b) ^ Math.imul(b + 0x7f4a7c15, 0xc2b2ae35) ^ Math.imul(c + 1, 0x27d4eb2f);
  state = Math.imul(state ^ (state >>> 15), 0x2c1b3c6d);
  state = Math.imul(state ^ (state >>> 12), 0x297a2d39);
  return (state ^ (state >>> 15)) >>> 0;
}
