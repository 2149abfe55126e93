// Makes what many parts of a page show: a value with its bound, the mark of an estimate, and the
// note that a part is absent.

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

/** notAll returns a mark for a figure that does not describe all tuples, with the reason. The mark
 * is the same as in "cprof analyze". */
export function notAll(lacks: string): HTMLElement | null {
  return lacks
    ? html("abbr", { class: "not-all", title: `Not of all tuples: ${lacks}.`,
        "aria-label": `not of all tuples: ${lacks}` }, "?")
    : null;
}

/** ofLogs says which tuples a figure describes, if it does not describe all. */
export function ofLogs(what: string, lacks: string): string {
  return `of ${what} in the logs, not of all: ${lacks.split(":")[0]}`;
}

export function value(
  format: Format,
  x: { lo_cycles: number; hi_cycles: number } | undefined,
  verdict: Verdict,
  lacks = ""
): HTMLElement {
  if (!x) return html("span", { class: "nothing" }, "–");
  const { value, unit, bound, boundUnit } = format.parts(interval(x));
  return html("span", { class: "value" },
    html("b", {}, value, unit && ` ${unit}`),
    html("span", { class: "pm" }, ` ± ${bound} ${boundUnit}`),
    lacks ? " " : null,
    notAll(lacks),
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
