/**
 * The model of a call that names none. Source: Triton's SageMaker and Vertex AI front ends
 * (https://github.com/triton-inference-server/server/blob/main/src/vertex_ai_server.cc).
 */
import type { ModelServer } from "../../../core/model-server.ts";
import { invalidArgument } from "../../../core/server-error.ts";

/** @throws ServerError when no name is given and there is not exactly one model */
export function defaultModel(server: ModelServer, given: string, setting: string): string {
  if (given !== "") return given;
  const names = new Set(server.index(true).map(({ name }) => name));
  const [only] = names;
  if (only !== undefined && names.size === 1) return only;
  throw invalidArgument(
    `expected exactly one ready model, found ${names.size}: name the one that is meant with ${setting}`,
  );
}
