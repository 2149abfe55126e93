// Makes the tables below the graph of programs. They show what every pair of programs exchanged,
// where the time of the transfers went, and which messages the graph lacks.

import { html, picture, svg } from "./dom.ts";
import type { Percentile, Service, Talk, Verdict } from "./data.ts";
import { value } from "./marks.ts";
import { compact, interval, whole } from "./number.ts";
import { many } from "./requests.ts";
import type { State } from "./state.ts";

export const nameOf = (s: { name: string }) => s.name || "unknown";

const at = (all: Percentile[], p: number) => all.find((q) => q.p === p);

export function median(state: State, t: Talk | undefined): string {
  const p = at(t?.transfer ?? [], 50);
  return p ? state.format.text(interval(p), t!.verdict) : "not known";
}

/** bytes prints a number of bytes. */
export function bytes(n: number): string {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let i = 0;
  while (n >= 1000 && i < units.length - 1) {
    n /= 1000;
    i++;
  }
  return `${i === 0 ? n : n.toPrecision(3)} ${units[i]}`;
}

function program(s: Service, withHosts = false): HTMLElement {
  return html("span", {}, html("b", {}, nameOf(s)), " ",
    html("span", { class: "of" }, `on ${s.node}`),
    withHosts && s.hosts.length > 0 ? html("small", {}, ` ${hostList(s.hosts)}`) : null);
}

function hostList(hosts: string[]): string {
  return hosts.length > 3 ? `${hosts.slice(0, 3).join(", ")}, …` : hosts.join(", ");
}

function rows(heads: (string | HTMLElement)[], plain: number, body: (Node | string | null)[][]) {
  const figure = (i: number) => (i >= plain ? "figure" : "");
  return html("div", { class: "scroll" }, html("table", { class: "talks" },
    html("thead", {}, html("tr", {},
      ...heads.map((head, i) => html("th", { scope: "col", class: figure(i) }, head)))),
    html("tbody", {}, ...body.map((cells) => html("tr", {},
      ...cells.map((cell, i) => cell instanceof HTMLTableCellElement
        ? cell : html("td", { class: figure(i) }, cell)))))));
}

export function table(state: State): HTMLElement {
  const { services, talks } = state.data.messages;
  const transfer = (t: Talk, p: number) =>
    value(state.format, at(t.transfer, p), t.transfer.length > 0 ? t.verdict : "");
  return rows(
    ["from", "to", "messages", "bytes", "connections", "transfer, median", "99 %"], 2,
    talks.map((t) => [
      program(services[t.from]!, true), program(services[t.to]!, true), compact(t.messages),
      bytes(t.bytes), compact(t.connections), transfer(t, 50),
      html("span", {}, transfer(t, 99), t.backwards > 0
        ? html("small", {}, ` ${t.backwards} received before sent`) : null),
    ]));
}

/** Part is one part of a transfer, such as the time on the network. `all` has the percentiles of
 * this part over all transfers from one service to another. */
interface Part { kind: string; name: string; all: Percentile[] }

const middle = (p: Percentile | undefined) => (p ? Math.max(0, p.lo_cycles + p.hi_cycles) : 0);

/** parts returns a table of the parts into which the transfer times divide. They are known only if
 * the capture saw when messages arrived. */
export function parts(state: State): HTMLElement | null {
  const { services, talks } = state.data.messages;
  const seen = talks.filter((t) => t.arrived > 0);
  const resent = talks.filter((t) => t.resent > 0);
  if (seen.length === 0 && resent.length === 0) return null;
  const figures = (all: Percentile[], verdict: Verdict) => {
    const most = at(all, 99);
    return html("span", {}, value(state.format, at(all, 50), verdict),
      most ? html("small", {}, `${state.format.text(interval(most), "")} at 99 %`) : null);
  };
  const body = seen.map((t) => {
    const why = t.divided > 0;
    const of: Part[] = [
      { kind: "network", name: "network", all: t.network },
      ...why
        ? [
            { kind: "kernel", name: "kernel", all: t.kernel },
            { kind: "own", name: "program", all: t.program },
          ]
        : [{ kind: "waited", name: "kernel or program", all: t.waited }],
    ];
    return [
      program(services[t.from]!), program(services[t.to]!), bar(of), compact(t.arrived),
      figures(t.network, t.verdict),
      ...why
        ? [figures(t.kernel, ""), figures(t.program, "")]
        : [
            html("td", { class: "figure", colspan: 2 }, "together ", figures(t.waited, "")),
          ],
    ];
  });
  return html("div", {},
    html("h3", {}, "Where the time of the transfers went"),
    seen.length > 0
      ? html("div", { class: "legend" },
          ...[
            ["network", "network: until the receiver's kernel had the message"],
            ["kernel", "kernel: the receiver waited for the message, or took it"],
            ["own", "program: the receiver did something else"],
            ["waited", "kernel or program: not known which"],
          ].map(([kind, text]) => html("span", {}, html("span", { class: `key ${kind}` }), text)))
      : null,
    seen.length > 0
      ? rows(["from", "to", "medians", "arrivals seen", "network", "kernel", "program"], 3, body)
      : null,
    resent.length > 0
      ? html("ul", { class: "plain" }, ...resent.map((t) => html("li", {},
          `TCP sent bytes of ${many(t.resent, "message")} again: `,
          program(services[t.from]!), " → ", program(services[t.to]!), ". It did so last ",
          value(state.format, at(t.resending, 50), t.verdict),
          " after the sending call began (median).")))
      : null);
}

/** bar draws a bar that is divided in proportion to the medians of the parts. */
function bar(of: Part[]): SVGElement {
  const width = 150, height = 13;
  const sum = of.reduce((n, p) => n + middle(at(p.all, 50)), 0) || 1;
  const share = (p: Part) => middle(at(p.all, 50)) / sum;
  const about = of.map((p) => `${p.name} ${(100 * share(p)).toFixed(0)} %`).join(", ");
  let x = 0;
  return picture(width, height, about, svg("title", {}, about), ...of.map((p) => {
    const from = x;
    x += share(p) * width;
    return svg("rect", { x: from, width: Math.max(1, x - from - 1), height, class: p.kind });
  }));
}

/** rest says which messages the graph does not show. */
export function rest(state: State): HTMLElement {
  const m = state.data.messages;
  const reasons = [
    ...m.left.map((l) => `${compact(l.messages)} sent, receiver not known: ${l.reason}`),
    ...m.outside.map((o) => `${compact(o.messages)} sent, ${bytes(o.bytes)}, not captured at the ` +
      `other end: ${nameOf({ name: o.program })} on ${o.node} → ` +
      `${o.hosts.length > 0 ? `${hostList(o.hosts)} (${o.address})` : o.address}` +
      (o.port > 0 ? `, port ${o.port}` : "")),
    ...(m.further > 0 ? [`${m.further} such addresses with fewer messages are not shown`] : []),
    ...m.lost.map((l) => `${compact(l.messages)} lost on ${l.node}: ${l.reason}`),
    ...(m.without > 0 ? [`${m.without} pairs with fewer messages are not shown`] : []),
  ];
  return html("div", {},
    html("p", {}, `${whole(m.sent)} calls sent, and ${whole(m.received)} received. Of ` +
      `${whole(m.matched)} messages, both ends are known.` +
      (m.twice > 0 ? ` ${compact(m.twice)} calls were seen by the agent and by a library in the ` +
        "program: they count once." : "")),
    reasons.length > 0
      ? html("ul", { class: "plain" }, ...reasons.map((r) => html("li", {}, r)))
      : null);
}
