/** The icons of the page: strokes of our own on a grid of 24. They say nothing that a label does not say. */
import type { JSX } from "preact";

const PATHS = {
  brand: "M3 9c3-3.5 6-3.5 9 0s6 3.5 9 0M3 16c3-3.5 6-3.5 9 0s6 3.5 9 0",
  models: "M12 3l8 4.5v9L12 21l-8-4.5v-9zM4 7.5l8 4.5 8-4.5M12 12v9",
  live: "M3 12h4l3-8 4 16 3-8h4",
  requests: "M4 5h9M8 10h9M11 15h5M14 20h6",
  playground: "M5 4h14a1 1 0 0 1 1 1v10a1 1 0 0 1-1 1h-8l-5 4v-4H5a1 1 0 0 1-1-1V5a1 1 0 0 1 1-1z",
  logs: "M5 5h14M5 10h14M5 15h9M5 20h6",
  key: "M14 10a4 4 0 1 0-3.5 4L13 16.5h2.5V19H18v2h3v-3.5L13.7 11",
  sun: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 2v2M12 20v2M2 12h2M20 12h2M5 5l1.5 1.5M17.5 17.5L19 19M5 19l1.5-1.5M17.5 6.5L19 5",
  moon: "M20 14.5A8 8 0 0 1 9.5 4 8 8 0 1 0 20 14.5z",
  auto: "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18zM12 3v18M15 6v12M18 8.5v7",
  close: "M6 6l12 12M18 6L6 18",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name }: { readonly name: IconName }): JSX.Element {
  return (
    <svg class="icon" viewBox="0 0 24 24" aria-hidden="true" focusable="false">
      <path d={PATHS[name]} />
    </svg>
  );
}
