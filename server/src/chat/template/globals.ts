/** Functions that every template has: Jinja's own, and those that transformers adds for chat templates. */
import type { Budget } from "./budget.ts";
import { argument, integerArgument, required } from "./call-arguments.ts";
import { TemplateError } from "./template-error.ts";
import { textOf } from "./text.ts";
import { type CallArguments, Callable, type Dict, Namespace, type Value } from "./values.ts";

/** @param now of the rendering: a template may write the date */
export function templateGlobals(now: Date, budget: Budget): ReadonlyMap<string, Value> {
  const functions: Readonly<Record<string, (args: CallArguments) => Value>> = {
    range: (args) => range(args, budget),
    namespace: (args) => new Namespace(new Map([...dictOf(args)].map(([key, value]) => [String(key), value]))),
    dict: dictOf,
    raise_exception: (args) => {
      throw new TemplateError(textOf(required(args.positional[0], "message")));
    },
    strftime_now: (args) => formatTime(now, textOf(required(args.positional[0], "format"))),
  };
  return new Map(
    Object.entries(functions).map(([name, call]) => [
      name,
      new Callable(name, (args) => {
        for (const given of args.positional) budget.whole(given);
        return call(args);
      }),
    ]),
  );
}

function range(args: CallArguments, budget: Budget): Value {
  const first = required(integerArgument(args, 0, "start"), "stop");
  const second = integerArgument(args, 1, "stop");
  const step = integerArgument(args, 2, "step") ?? 1;
  if (step === 0) throw new TemplateError("range() arg 3 must not be zero");
  const [start, stop] = second === undefined ? [0, first] : [first, second];
  const count = Math.max(Math.ceil((stop - start) / step), 0);
  budget.spend(count);
  return Array.from({ length: count }, (_, i) => start + i * step);
}

function dictOf(args: CallArguments): Dict {
  const given = argument(args, 0, "mapping");
  return new Map([...(given instanceof Map ? given : []), ...args.named]);
}

const DAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS = [
  "January",
  "February",
  "March",
  "April",
  "May",
  "June",
  "July",
  "August",
  "September",
  "October",
  "November",
  "December",
];
const MS_PER_DAY = 86_400_000;
const SHORT_NAME = 3;

const TIME_CODES: Readonly<Record<string, (now: Date) => string>> = {
  Y: (now) => String(now.getFullYear()),
  y: (now) => padded(now.getFullYear() % 100),
  m: (now) => padded(now.getMonth() + 1),
  d: (now) => padded(now.getDate()),
  e: (now) => String(now.getDate()).padStart(2),
  H: (now) => padded(now.getHours()),
  I: (now) => padded(now.getHours() % 12 || 12),
  M: (now) => padded(now.getMinutes()),
  S: (now) => padded(now.getSeconds()),
  p: (now) => (now.getHours() < 12 ? "AM" : "PM"),
  B: (now) => MONTHS[now.getMonth()] ?? "",
  b: (now) => (MONTHS[now.getMonth()] ?? "").slice(0, SHORT_NAME),
  A: (now) => DAYS[now.getDay()] ?? "",
  a: (now) => (DAYS[now.getDay()] ?? "").slice(0, SHORT_NAME),
  j: (now) => String(dayOfYear(now)).padStart(3, "0"),
  "%": () => "%",
};

/** C's `strftime`, in local time; `%-d` leaves the leading zero out. Unknown codes stay. */
export function formatTime(now: Date, format: string): string {
  return format.replace(/%(-?)([a-zA-Z%])/g, (match, dash: string, code: string) => {
    const text = TIME_CODES[code]?.(now);
    if (text === undefined) return match;
    return dash === "" ? text : text.replace(/^[0 ]+(?=.)/, "");
  });
}

function dayOfYear(now: Date): number {
  const today = Date.UTC(now.getFullYear(), now.getMonth(), now.getDate());
  return Math.round((today - Date.UTC(now.getFullYear(), 0, 0)) / MS_PER_DAY);
}

function padded(number: number): string {
  return String(number).padStart(2, "0");
}
