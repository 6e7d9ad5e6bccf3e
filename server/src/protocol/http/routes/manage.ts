/**
 * Routes that describe models or change the served ones: small JSON in, small JSON out (KServe V2, HTTP/REST; Triton's
 * model repository extension).
 */
import type { JsonObject, JsonValue } from "@nereid/wire";
import { jsonWithUint64 } from "../../../core/json-object.ts";
import { type LogFormat, logFormatOf } from "../../../core/log-format.ts";
import type { LogSettings, ModelServer } from "../../../core/model-server.ts";
import { invalidArgument, ServerError } from "../../../core/server-error.ts";
import { ownRows } from "../../call-access.ts";
import { overridePath } from "../../override-path.ts";
import type { HttpCall } from "../http-call.ts";
import { bytesReply, emptyReply, errorReply, type HttpReply, jsonReply } from "../http-reply.ts";
import { accessError, expectBoolean, expectString, expectUnsigned, jsonError } from "../json/json-access.ts";
import { readObject } from "../json/read-object.ts";
import { modelConfigValue } from "./model-config-value.ts";
import type { RouteMatch } from "./router.ts";

const BASE64 = /^[A-Za-z0-9+/\s]*={0,2}\s*$/;

export class ManageHandlers {
  readonly #server: ModelServer;
  readonly #maxInputBytes: number;

  constructor(server: ModelServer, maxInputBytes: number) {
    this.#server = server;
    this.#maxInputBytes = maxInputBytes;
  }

  live(): HttpReply {
    return this.#health(this.#server.state !== "failed");
  }

  ready(): HttpReply {
    return this.#health(this.#server.ready());
  }

  #health(isFine: boolean): HttpReply {
    if (this.#server.state === "exiting") return errorReply(503, "text/plain", "Server exiting");
    return emptyReply(isFine ? 200 : 400, "text/plain");
  }

  async modelReady({ model, version }: RouteMatch): Promise<HttpReply> {
    if (this.#server.state === "exiting") return errorReply(503, "text/plain", "Server exiting");
    if (await this.#server.modelReady(model, version)) return emptyReply(200, "text/plain");
    return errorReply(400, "text/plain", "Model version not ready");
  }

  serverMetadata(): HttpReply {
    const { name, version, extensions } = this.#server;
    return jsonReply({ name, version, extensions });
  }

  modelMetadata({ model, version }: RouteMatch): HttpReply {
    const { name, versions, platform, inputs, outputs } = this.#server.modelMetadata(model, version);
    return jsonReply({ name, versions, platform, inputs, outputs });
  }

  modelConfig({ model, version }: RouteMatch): HttpReply {
    const value = modelConfigValue(this.#server.model(model, version).config);
    return bytesReply("application/json", [Buffer.from(jsonWithUint64(value))]);
  }

  /** Lists show a key with a list of models no others. */
  statistics({ model, version }: RouteMatch, { access }: HttpCall): HttpReply {
    return jsonReply({ model_stats: ownRows(this.#server.statistics(model, version), access) });
  }

  async index(call: HttpCall): Promise<HttpReply> {
    const ready = (await readObject(call, this.#maxInputBytes, true)).get("ready");
    if (ready !== undefined && typeof ready !== "boolean") {
      throw invalidArgument("Invalid value for 'ready': expected a boolean");
    }
    return jsonReply(ownRows(this.#server.index(ready === true), call.access));
  }

  async load({ model, repository }: RouteMatch, call: HttpCall): Promise<HttpReply> {
    refuseRepository(repository);
    const files = new Map<string, Uint8Array>();
    let config: string | undefined;
    for (const [name, value] of loadParameters(await readObject(call, this.#maxInputBytes, true))) {
      if (name === "config") config = expectString(value, "");
      else if (name.startsWith("file:")) files.set(overridePath(name), decodeFile(name, value));
      else throw new ServerError("internal", "unexpected error on creating Triton parameter");
    }
    await this.#server.load(model, config === undefined ? { files } : { config, files });
    return emptyReply(200, "application/json");
  }

  async unload({ model, repository }: RouteMatch, call: HttpCall): Promise<HttpReply> {
    refuseRepository(repository);
    await this.#server.unload(model, asksForDependents(await readObject(call, this.#maxInputBytes, true)));
    return emptyReply(200, "application/json");
  }

  logging(): HttpReply {
    return jsonReply(this.#server.logSettings());
  }

  async updateLogging(call: HttpCall): Promise<HttpReply> {
    return jsonReply(this.#server.updateLogSettings(logChanges(await readObject(call, this.#maxInputBytes, false))));
  }
}

function refuseRepository(repository: string): void {
  if (repository !== "") throw new ServerError("unsupported", "'repository_name' specification is not supported");
}

/** @throws ServerError when they are no object */
function loadParameters(body: JsonObject): JsonObject {
  const parameters = body.get("parameters");
  if (parameters instanceof Map) return parameters;
  if (parameters === undefined) return new Map();
  throw jsonError("attempt to get members for non-object");
}

/** A value of another type is none, as upstream. */
function asksForDependents(body: JsonObject): boolean {
  const parameters = body.get("parameters");
  return parameters instanceof Map && parameters.get("unload_dependents") === true;
}

/** Padding is optional; anything that is no base64 is refused. */
function decodeFile(name: string, value: JsonValue): Uint8Array {
  const text = expectString(value, "");
  if (!BASE64.test(text)) throw invalidArgument(`failed to decode base64 content of '${name}'`);
  return Buffer.from(text, "base64");
}

type LogChanges = { -readonly [K in keyof LogSettings]?: LogSettings[K] };

/** Checks all members before any takes effect. Unknown ones, and those without a value, are ignored. */
function logChanges(body: JsonObject): LogChanges {
  const changes: LogChanges = {};
  const file = body.get("log_file");
  if (file !== undefined && file !== null) {
    throw new ServerError("unsupported", "log file location can not be updated through network protocol");
  }
  for (const name of ["log_info", "log_warning", "log_error"] as const) {
    const value = body.get(name) ?? undefined;
    if (value !== undefined) changes[name] = expectBoolean(value, "");
  }
  const level = body.get("log_verbose_level") ?? undefined;
  if (level !== undefined) changes.log_verbose_level = verboseLevel(expectUnsigned(level, ""));
  const format = body.get("log_format") ?? undefined;
  if (format !== undefined) changes.log_format = logFormat(format);
  return changes;
}

/** Triton keeps the low 32 bits, signed, and takes a negative level as none. */
function verboseLevel(value: number | bigint): number {
  return Math.max(0, Number(BigInt.asIntN(32, BigInt(value))));
}

function logFormat(value: JsonValue): LogFormat {
  if (typeof value !== "string") throw accessError("", "non-string as string");
  const format = logFormatOf(value);
  if (format !== undefined) return format;
  throw new ServerError("unavailable", `invalid argument for --log_format, got: ${value}`);
}
