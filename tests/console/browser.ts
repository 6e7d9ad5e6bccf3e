/** The Chromium of the system, for tests of the console. Debian: `apt-get install chromium`. */
import { existsSync } from "node:fs";
import process from "node:process";

const PLACES = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

/** `NEREID_CHROMIUM` names another. */
export const CHROMIUM: string = process.env.NEREID_CHROMIUM ?? PLACES.find((path) => existsSync(path)) ?? "";

/** Why tests in a browser are skipped; undefined: they run. */
export const noChromiumReason: string | undefined = existsSync(CHROMIUM)
  ? undefined
  : "there is no Chromium: apt-get install chromium, or name one in NEREID_CHROMIUM";
