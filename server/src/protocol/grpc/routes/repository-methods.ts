/** RPCs that list, load and unload models (Triton's model repository extension). */
import type { LoadOptions, ModelServer } from "../../../core/model-server.ts";
import { invalidArgument, ServerError } from "../../../core/server-error.ts";
import { ownRows } from "../../call-access.ts";
import { overridePath } from "../../override-path.ts";
import type { MessageTypes } from "../messages.ts";
import { type MethodEntry, unaryEntry } from "./unary.ts";

interface RepositoryParameter {
  readonly parameter_choice?: "bool_param" | "int64_param" | "string_param" | "bytes_param";
  readonly bool_param?: boolean;
  readonly string_param?: string;
  readonly bytes_param?: Uint8Array;
}

interface ModelOperation {
  readonly repository_name: string;
  readonly model_name: string;
  readonly parameters: Readonly<Record<string, RepositoryParameter>>;
}

export function repositoryEntries(server: ModelServer, types: MessageTypes): readonly MethodEntry[] {
  return [
    unaryEntry<{ repository_name: string; ready: boolean }>(
      types,
      "RepositoryIndex",
      "model-repository",
      (request, access) => {
        expectNoRepository(request.repository_name);
        return { models: ownRows(server.index(request.ready), access) };
      },
    ),
    unaryEntry<ModelOperation>(
      types,
      "RepositoryModelLoad",
      "model-repository",
      async (request) => {
        expectNoRepository(request.repository_name);
        await server.load(request.model_name, loadOptions(request.parameters));
        return {};
      },
      modelOf,
    ),
    unaryEntry<ModelOperation>(
      types,
      "RepositoryModelUnload",
      "model-repository",
      async (request) => {
        expectNoRepository(request.repository_name);
        await server.unload(request.model_name, unloadsDependents(request.parameters));
        return {};
      },
      modelOf,
    ),
  ];
}

function modelOf({ model_name }: ModelOperation): string {
  return model_name;
}

function expectNoRepository(name: string): void {
  if (name !== "") throw new ServerError("unsupported", "'repository_name' specification is not supported");
}

function loadOptions(parameters: Readonly<Record<string, RepositoryParameter>>): LoadOptions {
  const files = new Map<string, Uint8Array>();
  let config: string | undefined;
  for (const [key, value] of Object.entries(parameters)) {
    if (key === "config") {
      if (value.string_param === undefined) throw wrongType(key, "string_param");
      config = value.string_param;
    } else if (key.startsWith("file:")) {
      if (value.bytes_param === undefined) throw wrongType(key, "bytes_param");
      files.set(overridePath(key), value.bytes_param);
    } else {
      throw invalidArgument(`unrecognized load parameter '${key}'.`);
    }
  }
  return { ...(config === undefined ? {} : { config }), ...(files.size === 0 ? {} : { files }) };
}

function wrongType(key: string, expected: string): ServerError {
  return invalidArgument(`invalid value type for load parameter '${key}', expected ${expected}.`);
}

function unloadsDependents(parameters: Readonly<Record<string, RepositoryParameter>>): boolean {
  const key = "unload_dependents";
  if (!Object.hasOwn(parameters, key)) return false;
  const value = parameters[key]?.bool_param;
  if (value === undefined) {
    throw invalidArgument(`invalid value type for '${key}' parameter, expected bool_param.`);
  }
  return value;
}
