/** A program in a pseudo-terminal (Python's pty), as a person would use it: keys go in, the screen's text comes out. */
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";

const SPAWN = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))";
const TIMEOUT_MS = 30_000;
const POLL_MS = 10;
/** Escape sequences by which readline draws its line. */
const ESCAPES = new RegExp(`${String.fromCharCode(0x1b)}\\[[0-9;]*[A-Za-z]`, "g");

export class TerminalProgram {
  readonly #child: ChildProcess;
  readonly #ended: Promise<unknown[]>;
  #screen = "";
  #read = 0;

  constructor(command: readonly string[], env: Readonly<Record<string, string>>) {
    this.#child = spawn("python3", ["-c", SPAWN, process.execPath, ...command], {
      env: { ...process.env, ...env, TERM: "xterm" },
      stdio: ["pipe", "pipe", "inherit"],
    });
    this.#ended = once(this.#child, "exit");
    this.#child.stdout?.setEncoding("utf8").on("data", (text: string) => {
      this.#screen += text.replace(ESCAPES, "").replaceAll("\r", "");
    });
  }

  type(keys: string): void {
    this.#child.stdin?.write(keys);
  }

  /** Text that came since the last call, up to and with `expected`. */
  async until(expected: string): Promise<string> {
    const deadline = Date.now() + TIMEOUT_MS;
    for (;;) {
      const at = this.#screen.indexOf(expected, this.#read);
      if (at !== -1) {
        const text = this.#screen.slice(this.#read, at + expected.length);
        this.#read = at + expected.length;
        return text;
      }
      assert.ok(Date.now() < deadline, `'${expected}' did not come:\n${this.#screen.slice(this.#read)}`);
      await sleep(POLL_MS);
    }
  }

  /** The exit code. */
  async end(): Promise<unknown> {
    const [code] = await this.#ended;
    return code;
  }

  kill(): void {
    this.#child.kill("SIGKILL");
  }
}
