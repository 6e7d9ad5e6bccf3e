/** Brings a process to the point where its model is loaded: greeting, then `initialize` or `auto_complete_config`. */
import { ServerError } from "../../core/server-error.ts";
import { encodeInitialize, HELLO, INITIALIZED, type InitializeMessage, PROTOCOL_VERSION } from "./messages.ts";
import { type StubLaunch, StubProcess } from "./stub-process.ts";
import type { FrameReader } from "./wire-codec.ts";

/** Listener of a running stub. */
export interface RunningListener {
  message(kind: number, reader: FrameReader, stub: StubProcess): void;
  ended(cause: string): void;
}

export interface StartedStub {
  readonly stub: StubProcess;
  /** The completed configuration as JSON text; "" when the model has nothing to say. */
  readonly configJson: string;
}

/**
 * Rejects with the model's own traceback when its code fails, with the cause when the process dies or says nothing in time.
 * The listener hears of the end only after this has resolved.
 */
export function startStub(
  launch: StubLaunch,
  initialize: InitializeMessage,
  startTimeoutMs: number,
  listener: RunningListener,
  signal?: AbortSignal,
): Promise<StartedStub> {
  return new Promise((resolve, reject) => {
    let isStarted = false;
    const stub = new StubProcess(launch, {
      message(kind, reader) {
        if (isStarted) listener.message(kind, reader, stub);
        else startMessage(kind, reader);
      },
      ended(cause) {
        settle();
        if (isStarted) listener.ended(cause);
        else reject(new ServerError("internal", `Stub process '${launch.name}' is not healthy. ${cause}`));
      },
    });
    const timer = setTimeout(() => stub.kill(`It did not answer within ${startTimeoutMs} ms`), startTimeoutMs);
    const abort = (): void => stub.kill("The model is being unloaded");
    signal?.addEventListener("abort", abort);

    function settle(): void {
      clearTimeout(timer);
      signal?.removeEventListener("abort", abort);
    }

    function startMessage(kind: number, reader: FrameReader): void {
      if (kind === HELLO) {
        const probeAddress = greet(stub, reader);
        clearTimeout(timer);
        stub.send(encodeInitialize(initialize, stub.handover(probeAddress)));
      } else if (kind === INITIALIZED) {
        settle();
        const failed = reader.bool();
        const text = reader.string();
        isStarted = !failed;
        if (isStarted) {
          resolve({ stub, configJson: text });
        } else {
          reject(new ServerError("internal", text));
          stub.kill("Its model could not be loaded");
        }
      } else {
        listener.message(kind, reader, stub);
      }
    }
  });
}

/** Returns the address at which the process keeps something for the server to find. */
function greet(stub: StubProcess, reader: FrameReader): bigint {
  const version = reader.u32();
  if (version !== PROTOCOL_VERSION) {
    throw new RangeError(`stub process ${stub.pid} speaks protocol ${version}, the server ${PROTOCOL_VERSION}`);
  }
  reader.string(); // the version of Python
  const probeAddress = reader.u64();
  stub.mayOpenHere = reader.bool();
  return probeAddress;
}
