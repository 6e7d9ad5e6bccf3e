/** The frame of the page: navigation, the state of the server, theme and keys. Each view is below a heading of its own. */
import type { ConsoleOverview } from "@nereid/server/protocol/console/console-types";
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { type Credentials, createApi, NO_CREDENTIALS } from "../lib/api.ts";
import { Console } from "../lib/context.ts";
import { linkTo, type Polled, usePoll, useRoute, useStored } from "../lib/hooks.ts";
import { LiveView } from "../live/live-view.tsx";
import { LogsView } from "../logs/logs-view.tsx";
import { ModelView } from "../models/model-view.tsx";
import { ModelsView } from "../models/models-view.tsx";
import { PlaygroundView } from "../playground/playground-view.tsx";
import { RequestsView } from "../requests/requests-view.tsx";
import { AccessDialog } from "./access-dialog.tsx";
import { Icon, type IconName } from "./icons.tsx";
import { useTheme } from "./theme.ts";

const OVERVIEW_MS = 5000;

const VIEWS: readonly { readonly id: string; readonly title: string; readonly icon: IconName }[] = [
  { id: "models", title: "Models", icon: "models" },
  { id: "live", title: "Live", icon: "live" },
  { id: "requests", title: "Requests", icon: "requests" },
  { id: "playground", title: "Playground", icon: "playground" },
  { id: "logs", title: "Logs", icon: "logs" },
];

export function App(): JSX.Element {
  const [credentials, setCredentials] = useStored<Credentials>(sessionStorage, "nereid-access", NO_CREDENTIALS);
  const api = useMemo(() => createApi(credentials), [credentials]);
  const polled = usePoll<ConsoleOverview>((signal) => api.get("/console/api/overview", signal), OVERVIEW_MS, api);
  const [isAsking, setAsking] = useState(false);
  const route = useRoute();
  const view = route[0] ?? "models";
  const context = { api, overview: polled.value, refresh: polled.refresh };
  return (
    <Console.Provider value={context}>
      <button type="button" class="skip" onClick={() => document.getElementById("main")?.focus()}>
        Skip to content
      </button>
      <div class="frame">
        <Navigation view={view} />
        <div class="page">
          <TopBar polled={polled} onAccess={() => setAsking(true)} />
          <main id="main" tabIndex={-1}>
            <Refusal error={polled.error} onAccess={() => setAsking(true)} />
            <View view={view} rest={route.slice(1)} />
          </main>
        </div>
      </div>
      {isAsking && <AccessDialog credentials={credentials} onSave={setCredentials} onClose={() => setAsking(false)} />}
    </Console.Provider>
  );
}

function View({ view, rest }: { readonly view: string; readonly rest: readonly string[] }): JSX.Element {
  const title = VIEWS.find(({ id }) => id === view)?.title ?? "Models";
  useEffect(() => {
    document.title = `${title} – Nereid console`;
  }, [title]);
  switch (view) {
    case "live":
      return <LiveView />;
    case "requests":
      return <RequestsView selected={rest[0]} />;
    case "playground":
      return <PlaygroundView selected={rest[0]} />;
    case "logs":
      return <LogsView />;
    default:
      return rest[0] === undefined ? <ModelsView /> : <ModelView name={rest[0]} tab={rest[1] ?? "overview"} />;
  }
}

function Navigation({ view }: { readonly view: string }): JSX.Element {
  return (
    <nav class="nav" aria-label="Views">
      <a class="brand" href={linkTo("models")}>
        <Icon name="brand" />
        <span>Nereid</span>
      </a>
      <ul>
        {VIEWS.map(({ id, title, icon }) => (
          <li key={id}>
            <a href={linkTo(id)} aria-current={id === view ? "page" : undefined}>
              <Icon name={icon} />
              <span>{title}</span>
            </a>
          </li>
        ))}
      </ul>
    </nav>
  );
}

interface TopBarProps {
  readonly polled: Polled<ConsoleOverview>;
  readonly onAccess: () => void;
}

function TopBar({ polled: { value, error }, onAccess }: TopBarProps): JSX.Element {
  const { theme, next } = useTheme();
  const state = error !== undefined ? "No answer" : value === undefined ? "Connecting" : readiness(value);
  const tone = error !== undefined ? "bad" : value?.server.isReady === true ? "good" : "warn";
  return (
    <header class="top">
      <div class="server">
        <span class={`dot ${tone}`} />
        <strong>{location.host}</strong>
        <span class="muted" role="status">
          {state}
        </span>
      </div>
      <div class="actions">
        <IconButton label={`Theme: ${theme}. Change`} onClick={next}>
          <Icon name={theme === "dark" ? "moon" : theme === "light" ? "sun" : "auto"} />
        </IconButton>
        <IconButton label="API key and headers" onClick={onAccess}>
          <Icon name="key" />
        </IconButton>
      </div>
    </header>
  );
}

function readiness({ server, models }: ConsoleOverview): string {
  const numReady = models.filter(({ versions }) => versions.some(({ state }) => state === "READY")).length;
  return `${server.isReady ? "Ready" : "Not ready"} · ${numReady} of ${models.length} models`;
}

interface IconButtonProps {
  readonly label: string;
  readonly onClick: () => void;
  readonly children: ComponentChildren;
}

function IconButton({ label, onClick, children }: IconButtonProps): JSX.Element {
  return (
    <button type="button" class="icon-button" aria-label={label} title={label} onClick={onClick}>
      {children}
    </button>
  );
}

interface RefusalProps {
  readonly error: string | undefined;
  readonly onAccess: () => void;
}

function Refusal({ error, onAccess }: RefusalProps): JSX.Element | null {
  if (error === undefined) return null;
  return (
    <div class="notice bad" role="alert">
      <p>{error}</p>
      <button type="button" onClick={onAccess}>
        Enter a key
      </button>
    </div>
  );
}
