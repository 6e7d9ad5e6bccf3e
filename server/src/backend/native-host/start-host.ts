/** Brings a host process to the point where its model is loaded: greeting, then the library and the backend's own functions. */
import process from "node:process";
import { ServerError } from "../../core/server-error.ts";
import type { ModelSource } from "../backend.ts";
import { HELLO } from "../python/messages.ts";
import type { Environment } from "../python/settings.ts";
import { type StubLaunch, StubProcess } from "../python/stub-process.ts";
import type { FrameReader } from "../python/wire-codec.ts";
import { encodeLoad, expectSuccess, LOADED, type LoadMessage, PROTOCOL_VERSION } from "./messages.ts";

/** How long the process may take until it answers at all; the backend's own functions are not counted. */
const GREETING_TIMEOUT_MS = 30_000;

/** Listener of a host, from its start on. */
export interface HostListener {
  message(kind: number, reader: FrameReader, host: StubProcess): void;
  /** Called only when the model had been loaded. */
  ended(cause: string): void;
}

export interface StartedHost {
  readonly host: StubProcess;
  /** The configuration as the backend has left it. */
  readonly configJson: string;
}

export function hostLaunch(program: string, { name, log }: ModelSource, environment: Environment): StubLaunch {
  return {
    command: program,
    args: [],
    name,
    folder: process.cwd(),
    environment,
    log,
    logLocation: "backend_host",
    startProblem: (error) => `The backend host '${program}' cannot be started (${error.message})`,
  };
}

/** Rejects with the backend's own error when it refuses the model, with the cause when the process dies or says nothing. */
export function startHost(
  launch: StubLaunch,
  load: LoadMessage,
  listener: HostListener,
  signal?: AbortSignal,
): Promise<StartedHost> {
  return new Promise((resolve, reject) => {
    let isStarted = false;
    const host = new StubProcess(launch, {
      message(kind, reader) {
        if (isStarted || (kind !== HELLO && kind !== LOADED)) listener.message(kind, reader, host);
        else if (kind === HELLO) greeted(reader);
        else loaded(reader);
      },
      ended(cause) {
        settle();
        if (isStarted) listener.ended(cause);
        else reject(new ServerError("internal", `Backend host '${launch.name}' is not healthy. ${cause}`));
      },
    });
    const timer = setTimeout(
      () => host.kill(`It did not answer within ${GREETING_TIMEOUT_MS} ms`),
      GREETING_TIMEOUT_MS,
    );
    const abort = (): void => host.kill("The model is being unloaded");
    signal?.addEventListener("abort", abort);

    function settle(): void {
      clearTimeout(timer);
      signal?.removeEventListener("abort", abort);
    }

    function greeted(reader: FrameReader): void {
      const version = reader.u32();
      if (version !== PROTOCOL_VERSION) {
        throw new RangeError(`the backend host speaks protocol ${version}, the server ${PROTOCOL_VERSION}`);
      }
      clearTimeout(timer);
      host.send(encodeLoad(load, host.answerBytes));
    }

    function loaded(reader: FrameReader): void {
      settle();
      try {
        expectSuccess(reader);
        isStarted = true;
        resolve({ host, configJson: reader.string() });
      } catch (error) {
        reject(error);
        host.kill("Its model could not be loaded");
      }
    }
  });
}
