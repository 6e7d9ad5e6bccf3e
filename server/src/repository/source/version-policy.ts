/** Selects the versions to serve (model_config.proto, ModelVersionPolicy). Pure. */
import type { ModelVersionPolicy } from "../../core/model-config.ts";

/** Versions to serve, ascending; `missing` are those that the policy names and the folder lacks. */
export function selectVersions(
  present: readonly number[],
  policy: ModelVersionPolicy | undefined,
): { readonly selected: readonly number[]; readonly missing: readonly number[] } {
  const ascending = [...present].sort((a, b) => a - b);
  if (policy?.all !== undefined) return { selected: ascending, missing: [] };
  if (policy?.specific !== undefined) {
    const wanted = [...new Set(policy.specific.versions)].sort((a, b) => a - b);
    return {
      selected: wanted.filter((version) => ascending.includes(version)),
      missing: wanted.filter((version) => !ascending.includes(version)),
    };
  }
  const count = Math.max(1, policy?.latest?.num_versions ?? 1);
  return { selected: ascending.slice(-count), missing: [] };
}
