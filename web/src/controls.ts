// The choices at the top of a page.

import { html } from "./dom.ts";
import type { Unit } from "./number.ts";

/** choice returns a row of radio buttons. Each option is a value, a text, and whether it is chosen.
 * */
export function choice(
  name: string,
  options: [string, string, boolean][],
  choose: (value: string) => void,
  disabled = ""
): HTMLElement {
  return html("fieldset", {
    class: "choice",
    title: disabled || null,
    disabled: disabled !== "",
  },
    html("legend", {}, name),
    ...options.map(([value, text, checked]) =>
      html("label", {},
        html("input", { type: "radio", name, value, checked, change: () => choose(value) }),
        html("span", {}, text)
      )
    )
  );
}

export function unitChoice(now: Unit, choose: (unit: Unit) => void, disabled: string): HTMLElement {
  return choice(
    "Unit",
    [
      ["seconds", "seconds", now === "seconds"],
      ["cycles", "cycles", now === "cycles"],
    ],
    (v) => choose(v as Unit),
    disabled
  );
}

export function themeChoice(): HTMLElement {
  const root = document.documentElement;
  return choice(
    "Theme",
    [
      ["auto", "auto", true],
      ["light", "light", false],
      ["dark", "dark", false],
    ],
    (v) => {
      if (v === "auto") root.removeAttribute("data-theme");
      else root.setAttribute("data-theme", v);
      dispatchEvent(new Event("themechange")); // canvases must read the colours again
    }
  );
}
