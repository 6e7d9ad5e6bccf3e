/** The commands of a chat that begin with a slash. Pure: they change the session and give a text. */
import { nearestName } from "@nereid/server/config/suggest";
import type { ChatSession } from "./chat-session.ts";
import { changeSetting, settingLines } from "./chat-settings.ts";

export interface CommandResult {
  readonly text: string;
  readonly ends: boolean;
}

const HELP = `  /set temperature 0.7   change a setting; /set temperature alone takes it back
  /set system TEXT       the system message
  /set verbose, quiet    show the speed of answers, or not
  /show                  model and settings
  /clear                 forget the conversation
  /help                  this text
  /bye                   end; so does control-D
  """                    begin and end a message of several lines; or end a line with \\
  control-C              stop the answer`;

const COMMANDS = ["/set", "/show", "/clear", "/help", "/?", "/bye", "/exit", "/quit"];

/** Whether a message is a command. A path or `/` alone is a message. */
export function isCommand(message: string): boolean {
  return /^\/[a-z?]+(?:\s|$)/.test(message);
}

export function runCommand(session: ChatSession, message: string): CommandResult {
  const [name = ""] = message.split(/\s/, 1);
  const words = message.slice(name.length);
  switch (name) {
    case "/bye":
    case "/exit":
    case "/quit":
      return { text: "", ends: true };
    case "/clear":
      session.clear();
      return stay("The conversation is forgotten.");
    case "/set":
      return stay(set(session, words));
    case "/show":
      return stay(show(session));
    case "/help":
    case "/?":
      return stay(HELP);
    default:
      return stay(unknown(name));
  }
}

function stay(text: string): CommandResult {
  return { text, ends: false };
}

function set(session: ChatSession, words: string): string {
  const { settings, text } = changeSetting(session.settings, words);
  session.settings = settings;
  return text;
}

function show({ server, settings, messages }: ChatSession): string {
  const rows = [
    ["model", server.model],
    ["server", server.url],
    ["messages", String(messages.length)],
  ] as const;
  return [...rows.map(([name, value]) => `  ${name.padEnd(20)}${value}`), ...settingLines(settings)].join("\n");
}

function unknown(name: string): string {
  const nearest = nearestName(name, COMMANDS);
  return `There is no command ${name}${nearest === undefined ? "." : `; did you mean ${nearest}?`} /help lists them.`;
}
