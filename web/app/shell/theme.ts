/** Light, dark, or as the system has it. The document's `data-theme` decides; styles follow. */
import { useEffect } from "preact/hooks";
import { useStored } from "../lib/hooks.ts";

export type Theme = "system" | "light" | "dark";

const NEXT: Readonly<Record<Theme, Theme>> = { system: "light", light: "dark", dark: "system" };

export function useTheme(): { readonly theme: Theme; readonly next: () => void } {
  const [theme, setTheme] = useStored<Theme>(localStorage, "nereid-theme", "system");
  useEffect(() => {
    document.documentElement.dataset.theme = theme;
    dispatchEvent(new Event("themechange"));
  }, [theme]);
  return { theme, next: () => setTheme(NEXT[theme]) };
}

/** A custom property as a colour that a canvas takes: `light-dark()` resolved. */
export function resolvedColor(property: string): string {
  const probe = document.createElement("span");
  probe.style.color = `var(${property})`;
  document.body.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}
