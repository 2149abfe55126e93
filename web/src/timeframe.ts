// Makes a picture whose horizontal axis is the time that the page shows. All such pictures have the
// same axes, and the reader can zoom, move and choose in the same way. The inside of a picture is
// painted on a canvas, because it may have many thousand marks. The rest is SVG.

import { valueScale, xAxis } from "./axis.ts";
import { html, picture, svg } from "./dom.ts";
import type { Format } from "./number.ts";
import type { Run, View } from "./view.ts";

export interface Box { left: number; right: number; top: number; bottom: number }

/** Pen paints in the page's colours. */
export interface Pen extends CanvasRenderingContext2D { colour(name: string): string }

export interface Frame {
  view: View;
  run: Run;
  key: string; // unique in the page
  label: string; // accessible name
  width: number;
  height: number;
  left: number; // room for the vertical axis
  axis?: SVGElement;
  /** paint draws the inside. x gives the horizontal place of a moment of the run. */
  paint: (pen: Pen, box: Box, x: (cycles: number) => number) => void;
  /** read says what is at a place, for the line below the picture. */
  read?: (cycles: number, y: number) => (Node | string)[];
  /** choose is called for a click, with its moment, the moments 1.5 pixels before and after, and y.
   * */
  choose?: (at: number, from: number, to: number, y: number) => void;
}

/** moment prints a time since the beginning of the run. span is the length of the shown time, which
 * decides the number of digits. */
export function moment(format: Format, cycles: number, span: number): string {
  if (format.unit === "cycles") return `${Math.round(cycles).toLocaleString("en").replaceAll(",",
    "\u2009")} cycles`;
  const seconds = format.draw(cycles), step = Math.max(1e-9, format.draw(span) / 1000);
  if (seconds < 1e-3) return format.tick(Math.max(0, Math.round(seconds * 1e9) / 1e9));
  return `${seconds.toFixed(Math.max(0, Math.min(9, Math.ceil(-Math.log10(step)))))} s`;
}

/**
 * timeTicks returns the labels of a time axis. If only a small part of the run is shown, 0 is the
 * left end of that part.
 */
function timeTicks(frame: Frame, box: Box, from: number, to: number) {
  const format = frame.run.format(frame.view.unit);
  const deep = from > 0 && (to - from) * 200 < to;
  const zero = deep ? from : 0;
  const [a, b] = [format.draw(from - zero), format.draw(to - zero)];
  const count = Math.max(2, Math.floor((box.right - box.left) / 120));
  const s = valueScale(a, b, [box.left, box.right], false, count, false);
  const px = (t: number) => box.left + ((t - a) / (b - a)) * (box.right - box.left);
  const ticks = s.ticks.filter((t) => t >= a && t <= b);
  const text = (t: number) =>
    format.unit === "seconds" && !deep && b > 0.1 ? `${Number(t.toPrecision(6))} s`
      : `${deep && t > 0 ? "+" : ""}${format.tick(t)}`;
  return { scale: Object.assign(px, { ticks, lo: a, hi: b }), text, deep };
}

export function timeFrame(frame: Frame): HTMLElement {
  const { view, run, width, height } = frame;
  const from = view.from * run.scale, to = view.to * run.scale;
  const box = { left: frame.left, right: width - 12, top: 8, bottom: height - 26 };
  const x = (cycles: number) =>
    box.left + ((cycles - from) / (to - from)) * (box.right - box.left);
  const back = (px: number) =>
    from + ((px - box.left) / (box.right - box.left)) * (to - from);

  const canvas = document.createElement("canvas");
  const ratio = Math.min(3, devicePixelRatio || 1);
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const paint = () => {
    const pen = canvas.getContext("2d") as Pen | null;
    if (!pen) return;
    const style = getComputedStyle(document.documentElement);
    pen.colour = (name) => style.getPropertyValue(`--${name}`).trim() || "#888";
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    pen.save();
    pen.beginPath();
    pen.rect(box.left, 0, box.right - box.left, box.bottom);
    pen.clip();
    frame.paint(pen, box, x);
    pen.restore();
  };

  const cross = svg("line", { class: "cross", y1: box.top, y2: box.bottom, visibility: "hidden" });
  const brush = svg("rect", {
    class: "brush", y: box.top, height: box.bottom - box.top, visibility: "hidden",
  });
  const readout = html("output", { class: "readout", "aria-live": "polite" });
  const ticks = timeTicks(frame, box, from, to);
  const rest = () => {
    cross.setAttribute("visibility", "hidden");
    readout.replaceChildren(html("span", { class: "hint" },
      ticks.deep ? `The axis counts from ${moment(run.format(view.unit), from, to - from)}. ` : "",
      "Drag to zoom, click to choose; arrow keys move, + and − zoom, 0 shows the whole run."));
  };
  const place = (event: MouseEvent) => {
    const at = figure.getBoundingClientRect();
    return { px: event.clientX - at.left, py: event.clientY - at.top };
  };
  const inside = (px: number) => Math.max(box.left, Math.min(box.right, px));
  let pressed = -1, shifted = false;
  const figure = html("div", {
    class: "chart time frame",
    tabindex: "0",
    role: "group",
    "aria-label": `${frame.label}. Arrow keys move, plus and minus zoom, 0 shows the whole run.`,
    "data-key": frame.key,
    style: null,
    keydown: (event: KeyboardEvent) => {
      const keys: Record<string, () => void> = {
        ArrowLeft: () => view.moved(-0.2), ArrowRight: () => view.moved(0.2),
        "+": () => view.scaled(0.5), "=": () => view.scaled(0.5),
        "-": () => view.scaled(2), "−": () => view.scaled(2),
        "0": () => view.zoom(0, view.length), Escape: () => view.zoom(0, view.length),
      };
      const act = keys[event.key];
      if (!act || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      act();
    },
    wheel: (event: WheelEvent) => {
      if (!event.ctrlKey && !event.metaKey && !event.shiftKey) return; // let the page scroll
      event.preventDefault();
      const { px } = place(event);
      const turn = event.deltaY || event.deltaX;
      if (event.shiftKey) view.moved(Math.sign(turn) * 0.15);
      else view.scaled(turn > 0 ? 1.4 : 1 / 1.4,
        (inside(px) - box.left) / (box.right - box.left));
    },
    pointermove: (event: PointerEvent) => {
      const { px, py } = place(event), here = inside(px);
      cross.setAttribute("x1", String(here));
      cross.setAttribute("x2", String(here));
      cross.setAttribute("visibility", "visible");
      if (frame.read) readout.replaceChildren(...frame.read(back(here), py));
      if (pressed < 0 || shifted) return;
      const [a, b] = [Math.min(pressed, here), Math.max(pressed, here)];
      brush.setAttribute("x", String(a));
      brush.setAttribute("width", String(b - a));
      brush.setAttribute("visibility", b - a > 3 ? "visible" : "hidden");
    },
    pointerleave: () => {
      pressed = -1;
      brush.setAttribute("visibility", "hidden");
      rest();
    },
    pointerdown: (event: PointerEvent) => {
      const { px, py } = place(event);
      if (event.button !== 0 || px < box.left || px > box.right || py > box.bottom) return;
      pressed = px;
      shifted = event.shiftKey;
    },
    pointerup: (event: PointerEvent) => {
      const { px, py } = place(event), here = inside(px), begun = pressed;
      pressed = -1;
      brush.setAttribute("visibility", "hidden");
      if (begun < 0) return;
      if (Math.abs(here - begun) <= 3)
        frame.choose?.(back(here), back(here - 1.5), back(here + 1.5), py);
      else if (shifted)
        view.moved((begun - here) / (box.right - box.left));
      else
        view.zoom(back(Math.min(begun, here)) / run.scale, back(Math.max(begun, here)) / run.scale);
    },
    dblclick: () => view.zoom(0, view.length),
  },
    canvas,
    picture(width, height, frame.label,
      xAxis(ticks.scale, width, box.bottom, 4, ticks.text),
      frame.axis ?? null, brush, cross)
  );
  paint();
  addEventListener("themechange", function again() {
    if (figure.isConnected) paint();
    else removeEventListener("themechange", again);
  });
  rest();
  return html("div", {}, figure, readout);
}

/** stripes marks a part of a picture as an estimate. */
export function stripes(pen: Pen, x: number, y: number, width: number, height: number): void {
  pen.save();
  pen.beginPath();
  pen.rect(x, y, width, height);
  pen.clip();
  pen.strokeStyle = pen.colour("estimate");
  pen.globalAlpha = 0.75;
  pen.lineWidth = 1.2;
  pen.beginPath();
  for (let at = x - height; at < x + width; at += 5) {
    pen.moveTo(at, y + height);
    pen.lineTo(at + height, y);
  }
  pen.stroke();
  pen.restore();
}
