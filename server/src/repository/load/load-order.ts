/** Orders model loads: composing models before the ensembles that call them. Pure. */
import type { ModelConfig } from "../../core/model-config.ts";
import { invalidArgument, type ServerError } from "../../core/server-error.ts";

/** Names of the models that the steps of an ensemble call; none for any other model. */
export function composingModels(config: ModelConfig): readonly string[] {
  return [...new Set((config.ensemble_scheduling?.step ?? []).map((step) => step.model_name))];
}

/**
 * Groups `names` into waves: a wave needs only models of earlier waves or outside of `names`.
 * Models on a cycle are returned in `circular`, each with the error to report.
 */
export function loadWaves(
  names: readonly string[],
  needs: (name: string) => readonly string[],
): { readonly waves: readonly (readonly string[])[]; readonly circular: ReadonlyMap<string, ServerError> } {
  const pending = new Set(names);
  const waves: string[][] = [];
  while (pending.size > 0) {
    const wave = [...pending].filter((name) => !needs(name).some((need) => pending.has(need)));
    if (wave.length === 0) break;
    for (const name of wave) pending.delete(name);
    waves.push(wave);
  }
  const circular = new Map([...pending].map((name) => [name, cycleError(name, pending, needs)]));
  return { waves, circular };
}

function cycleError(
  start: string,
  among: ReadonlySet<string>,
  needs: (name: string) => readonly string[],
): ServerError {
  const path = [start];
  for (let at: string | undefined = start; at !== undefined; ) {
    at = needs(at).find((need) => among.has(need));
    if (at === undefined) break;
    const seen = path.indexOf(at);
    path.push(at);
    if (seen >= 0) {
      path.splice(0, seen);
      break;
    }
  }
  return circularDependency(path);
}

/** `path`: names around the cycle; the first is the last again. */
export function circularDependency(path: readonly string[]): ServerError {
  const short = `${path[0] ?? ""} -> ... -> ${path.slice(-2).join(" -> ")}`; // Triton's words, then the whole way
  return invalidArgument(`circular dependency between ensembles: ${short} (${path.join(" -> ")})`);
}
