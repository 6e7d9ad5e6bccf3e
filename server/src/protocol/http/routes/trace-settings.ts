/** GET and POST of /v2/trace/setting, for the server or for one model (Triton's trace extension). */
import type { JsonObject } from "@nereid/wire";
import type { ModelServer } from "../../../core/model-server.ts";
import type { TraceSettings } from "../../../core/request-trace.ts";
import { readTraceChanges, shownTraceSettings, type WrittenTraceSettings } from "../../trace-changes.ts";
import type { HttpCall } from "../http-call.ts";
import { type HttpReply, jsonReply } from "../http-reply.ts";
import { accessError, expectString } from "../json/json-access.ts";
import { readObject } from "../json/read-object.ts";
import type { RouteMatch } from "./router.ts";

export class TraceHandlers {
  readonly #server: ModelServer;
  readonly #maxInputBytes: number;

  constructor(server: ModelServer, maxInputBytes: number) {
    this.#server = server;
    this.#maxInputBytes = maxInputBytes;
  }

  read({ model }: RouteMatch): HttpReply {
    return reply(this.#server.traceSettings(model));
  }

  async update({ model }: RouteMatch, call: HttpCall): Promise<HttpReply> {
    const before = this.#server.traceSettings(model); // an unknown model is refused before the body is read
    const changes = readTraceChanges(writtenIn(await readObject(call, this.#maxInputBytes, true)));
    const isRead = Object.keys(changes).length === 0;
    return reply(isRead ? before : this.#server.updateTraceSettings(model, changes));
  }
}

function reply(settings: TraceSettings): HttpReply {
  return jsonReply(Object.fromEntries(shownTraceSettings(settings)));
}

function writtenIn(body: JsonObject): WrittenTraceSettings {
  return {
    has: (name) => body.has(name),
    beforeCount: "",
    list(name) {
      const value = body.get(name);
      if (value === undefined || value === null) return value;
      if (!Array.isArray(value)) throw accessError("", "non-array as array");
      return value.map((item) => expectString(item, ""));
    },
    text(name) {
      const value = body.get(name);
      return value === undefined || value === null ? value : expectString(value, "");
    },
  };
}
