/** Hooks that several views share: polling, the address, what the browser keeps. */
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { messageOf } from "./api.ts";

export interface Polled<T> {
  readonly value: T | undefined;
  /** Message of the last call; undefined when it succeeded. */
  readonly error: string | undefined;
  /** Calls now. */
  refresh(): void;
}

/**
 * Calls at once and then every `everyMs`, but not while the page is hidden. `key` names what is asked for: a new one starts
 * anew. The next call waits for the one before.
 */
export function usePoll<T>(call: (signal: AbortSignal) => Promise<T>, everyMs: number, key: unknown): Polled<T> {
  const [state, setState] = useState<{ value?: T; error?: string }>({});
  const latest = useRef(call);
  latest.current = call;
  const wake = useRef<() => void>(() => undefined);
  useEffect(() => {
    const ended = new AbortController();
    let timer = 0;
    const run = async (): Promise<void> => {
      clearTimeout(timer);
      if (!document.hidden) await once(latest.current, ended.signal, setState);
      if (!ended.signal.aborted) timer = setTimeout(run, everyMs) as unknown as number;
    };
    wake.current = () => void run();
    document.addEventListener("visibilitychange", wake.current, { signal: ended.signal });
    void run();
    return () => {
      clearTimeout(timer);
      ended.abort();
      setState({});
    };
  }, [everyMs, key]);
  const refresh = useCallback(() => wake.current(), []);
  return { value: state.value, error: state.error, refresh };
}

async function once<T>(
  call: (signal: AbortSignal) => Promise<T>,
  signal: AbortSignal,
  setState: (change: (state: { value?: T; error?: string }) => { value?: T; error?: string }) => void,
): Promise<void> {
  try {
    const value = await call(signal);
    if (!signal.aborted) setState(() => ({ value }));
  } catch (error) {
    if (!signal.aborted) setState((state) => ({ ...state, error: messageOf(error) }));
  }
}

/** Segments of the address behind `#/`, decoded. */
export function useRoute(): readonly string[] {
  const [hash, setHash] = useState(location.hash);
  useEffect(() => {
    const follow = (): void => setHash(location.hash);
    addEventListener("hashchange", follow);
    return () => removeEventListener("hashchange", follow);
  }, []);
  return routeOf(hash);
}

export function routeOf(hash: string): readonly string[] {
  return hash
    .replace(/^#\/?/, "")
    .split("/")
    .filter((part) => part !== "")
    .map(tryDecode);
}

export function linkTo(...segments: readonly string[]): string {
  return `#/${segments.map(encodeURIComponent).join("/")}`;
}

function tryDecode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** A value that this tab keeps while it is open. */
export function useStored<T>(storage: Storage, name: string, initial: T): readonly [T, (value: T) => void] {
  const [value, setValue] = useState<T>(() => readStored(storage, name) ?? initial);
  const store = useCallback(
    (next: T) => {
      storage.setItem(name, JSON.stringify(next));
      setValue(next);
    },
    [storage, name],
  );
  return [value, store];
}

function readStored<T>(storage: Storage, name: string): T | undefined {
  try {
    const text = storage.getItem(name);
    return text === null ? undefined : (JSON.parse(text) as T);
  } catch {
    return undefined;
  }
}

/** Runs an action once at a time, and keeps its error for the view. */
export function useAction(): {
  readonly isBusy: boolean;
  readonly error: string | undefined;
  readonly run: (action: () => Promise<void>) => Promise<boolean>;
  readonly clear: () => void;
} {
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<string | undefined>(undefined);
  const run = useCallback(async (action: () => Promise<void>): Promise<boolean> => {
    setBusy(true);
    setError(undefined);
    try {
      await action();
      return true;
    } catch (thrown) {
      setError(messageOf(thrown));
      return false;
    } finally {
      setBusy(false);
    }
  }, []);
  const clear = useCallback(() => setError(undefined), []);
  return { isBusy, error, run, clear };
}
