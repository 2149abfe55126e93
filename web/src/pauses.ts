// Draws pauses of JVMs as bands behind what happened at the same time, and describes them in words.

import type { Pause, Tuple } from "./data.ts";
import { html, svg } from "./dom.ts";
import { type Format, interval } from "./number.ts";
import type { Pen } from "./timeframe.ts";

interface Ends { lo_cycles: number; hi_cycles: number }

/**
 * band returns where a pause is drawn. The begin and the end of a pause are intervals. The band
 * goes from the earliest possible begin to the latest possible end. From sure[0] to sure[1] the JVM
 * certainly paused. If there is no such time, sure is null.
 */
export function band(begin: Ends, end: Ends, x: (cycles: number) => number) {
  const from = x(begin.lo_cycles), to = Math.max(from + 1, x(end.hi_cycles));
  const sure = [x(begin.hi_cycles), x(end.lo_cycles)] as const;
  return { from, to, sure: sure[1] > sure[0] ? sure : null };
}

/** pausesSentence makes a sentence of a text about pauses: a capital letter, and a full stop. */
export function pausesSentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}

export function pauseName(format: Format, p: Pick<Pause, "jvm" | "node" | "kind" | "length">) {
  return `pause of ${p.jvm} on ${p.node}: ${p.kind}, ${format.text(interval(p.length))}`;
}

/** pauseBands draws the pauses behind one step of a tuple, between left and right. */
export function pauseBands(format: Format, t: Tuple, step: number,
  box: { left: number; right: number; y: number; height: number },
  x: (cycles: number) => number): SVGElement[] {
  const inside = (px: number) => Math.max(box.left, Math.min(box.right, px));
  return t.pauses.filter((p) => p.steps.includes(step)).flatMap((p) => {
    const { from, to, sure } = band(p.begin, p.end, x);
    if (to <= box.left || from >= box.right) return [];
    const part = (a: number, b: number, name: string) => svg("rect", {
      x: inside(a), width: Math.max(0.5, inside(b) - inside(a)), y: box.y, height: box.height,
      class: name,
    });
    return [svg("g", { class: "pause" },
      svg("title", {}, pauseName(format, p)),
      part(from, to, "pause-perhaps"),
      sure ? part(sure[0], sure[1], "pause-surely") : null)];
  });
}

/** paintPause paints a pause on a canvas. */
export function paintPause(pen: Pen, begin: Ends, end: Ends, x: (cycles: number) => number,
  y: number, height: number): void {
  const { from, to, sure } = band(begin, end, x);
  pen.fillStyle = pen.colour("pause");
  pen.globalAlpha = 0.14;
  pen.fillRect(from, y, to - from, height);
  pen.globalAlpha = 0.22;
  if (sure) pen.fillRect(sure[0], y, Math.max(0.5, sure[1] - sure[0]), height);
  pen.globalAlpha = 1;
}

export function pauseLegend(...more: (Node | string | null)[]): HTMLElement {
  return html("p", { class: "means pause-legend" },
    html("i", { class: "swatch pause-swatch" }),
    "Shaded: a pause of the node's JVM, in which none of its threads ran. It is paler where the " +
      "bound leaves open whether the pause lasted. ",
    ...more);
}

/** timeInPauses says how much of a tuple's time lay in pauses. */
export function timeInPauses(format: Format, t: Tuple): string {
  return t.paused_known && t.paused.hi_cycles > 0
    ? `, ${format.text(interval(t.paused), t.verdict)} of it in pauses of JVMs` : "";
}

/** pausesOf returns the legend of the pauses during a tuple's path, with the name of each pause, or
 * null if there were none. */
export function pausesOf(format: Format, t: Tuple): HTMLElement | null {
  const shown = t.pauses.filter((p) => p.steps.length > 0);
  if (shown.length === 0) return null;
  const most = 6;
  const longest = [...shown].sort((a, b) => b.length.hi_cycles - a.length.hi_cycles);
  return html("div", {},
    pauseLegend(),
    html("ul", { class: "plain pauses" },
      ...longest.slice(0, most).map((p) => html("li", {}, pauseName(format, p)))),
    shown.length > most
      ? html("p", { class: "means" }, `${shown.length - most} shorter pauses are shaded, too.`)
      : null);
}
