// What many parts show: a value with its bound, the mark of an estimate, the note of an absent
// part.

import type { Verdict } from "./data.ts";
import { html } from "./dom.ts";
import { type Format, interval } from "./number.ts";

export const estimateMeans =
  "An estimate: the data refute, or nearly refute, what its bound assumes.";

export function estimate(verdict: Verdict): HTMLElement | null {
  return verdict === "suspect"
    ? html("abbr", { class: "estimate", title: estimateMeans }, "estimate")
    : null;
}

export function value(
  format: Format,
  x: { lo_cycles: number; hi_cycles: number } | undefined,
  verdict: Verdict
): HTMLElement {
  if (!x) return html("span", { class: "nothing" }, "–");
  const { value, unit, bound, boundUnit } = format.parts(interval(x));
  return html("span", { class: "value" },
    html("b", {}, value, unit && ` ${unit}`),
    html("span", { class: "pm" }, ` ± ${bound} ${boundUnit}`),
    verdict === "suspect" ? " " : null,
    estimate(verdict)
  );
}

export function absent(reasons: string[]): HTMLElement {
  return html("div", { class: "absent" },
    html("b", {}, "Not shown: "),
    reasons.length === 0
      ? "The run has no data for this."
      : reasons.length === 1
        ? reasons[0]!
        : html("ul", {}, ...reasons.map((r) => html("li", {}, r)))
  );
}
