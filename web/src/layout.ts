// Finds places for the boxes of a graph. The boxes are in layers, from the sources to the sinks.
// Within a layer they are in an order in which few edges cross. Parts of the graph that no edge
// connects are side by side.

export interface Edge { from: string; to: string }
/** Place is where a box is: in which layer, and at which of the layer's `slots`. If a layer has
 * fewer boxes than slots, `slot` may be a fraction, so that the boxes are spread evenly. */
export interface Place { layer: number; slot: number; slots: number }

/**
 * layers returns each operator's layer: the number of edges on its longest path from a source. An
 * edge that closes a circle does not count.
 */
export function layers(names: string[], edges: Edge[]): Map<string, number> {
  const known = new Set(names);
  const out = new Map<string, string[]>(names.map((n) => [n, []]));
  for (const e of edges) {
    if (e.from !== e.to && known.has(e.from) && known.has(e.to)) out.get(e.from)!.push(e.to);
  }
  // Sort the names so that every edge leads forward, except edges that close a circle.
  const order: string[] = [];
  const state = new Map<string, "open" | "done">();
  const back = new Set<string>();
  const visit = (name: string) => {
    state.set(name, "open");
    for (const to of out.get(name)!) {
      if (state.get(to) === "open") back.add(JSON.stringify([name, to]));
      else if (!state.has(to)) visit(to);
    }
    state.set(name, "done");
    order.unshift(name);
  };
  const entered = new Set([...out.values()].flat());
  for (const name of [...names.filter((n) => !entered.has(n)), ...names]) {
    if (!state.has(name)) visit(name);
  }
  const layer = new Map<string, number>(names.map((n) => [n, 0]));
  for (const name of order) {
    for (const to of out.get(name)!) {
      if (!back.has(JSON.stringify([name, to])))
        layer.set(to, Math.max(layer.get(to)!, layer.get(name)! + 1));
    }
  }
  return layer;
}

/** parts divides names into groups that edges connect. Each group keeps the order of `names`. */
export function parts(names: string[], edges: Edge[]): string[][] {
  const near = new Map<string, string[]>(names.map((n) => [n, []]));
  for (const e of edges) {
    if (near.has(e.from) && near.has(e.to)) {
      near.get(e.from)!.push(e.to);
      near.get(e.to)!.push(e.from);
    }
  }
  const part = new Map<string, number>();
  let count = 0;
  for (const name of names) {
    if (part.has(name)) continue;
    const open = [name];
    part.set(name, count);
    for (let next = open.pop(); next !== undefined; next = open.pop()) {
      for (const other of near.get(next)!)
        if (!part.has(other)) {
          part.set(other, count);
          open.push(other);
        }
    }
    count++;
  }
  return Array.from({ length: count }, (_, i) => names.filter((n) => part.get(n) === i));
}

/** edgeKey returns a key for maps. It is the same for all edges from one operator to another. */
export function edgeKey(e: Edge): string { return JSON.stringify([e.from, e.to]); }

/** Layout has the place of each box. For an edge that skips layers, it also has the places between
 * boxes through which the edge leads. */
export interface Layout { places: Map<string, Place>; ways: Map<string, Place[]> }

/**
 * place gives each connected part of a graph its own strip, so that no arrow bends around another
 * part. An edge that skips layers gets a place in each of them, so that no box hides it.
 */
export function place(names: string[], edges: Edge[]): Layout {
  const strips = parts(names, edges).map((part) =>
    placePart(
      part,
      edges.filter((e) => part.includes(e.from) && part.includes(e.to))
    )
  );
  const width = ({ places, ways }: Layout) =>
    Math.max(...[...places.values(), ...[...ways.values()].flat()].map((p) => p.slots));
  const slots = strips.reduce((sum, s) => sum + width(s), 0);
  const places = new Map<string, Place>(), ways = new Map<string, Place[]>();
  let first = 0;
  for (const strip of strips) {
    const moved = (p: Place) => ({
      layer: p.layer,
      slot: first + ((p.slot + 0.5) / p.slots) * width(strip) - 0.5,
      slots,
    });
    for (const [name, p] of strip.places) places.set(name, moved(p));
    for (const [key, way] of strip.ways) ways.set(key, way.map(moved));
    first += width(strip);
  }
  return { places, ways };
}

/** placePart finds places for the boxes of one connected part. It sorts the boxes of each layer by
 * the places of their neighbours, and repeats this several times, because each sorting moves
 * neighbours of others. */
function placePart(actors: string[], all: Edge[]): Layout {
  const layer = layers(actors, all);
  const names = [...actors], edges: Edge[] = [], passing = new Map<string, string[]>();
  let mark = "past"; // no operator's name begins with it
  while (names.some((n) => n.startsWith(mark))) mark += "+";
  for (const e of all) {
    const between = passing.get(edgeKey(e)) ?? [];
    if (!passing.has(edgeKey(e))) {
      for (let at = layer.get(e.from)! + 1; at < layer.get(e.to)!; at++) {
        const name = `${mark} ${names.length}`;
        names.push(name);
        between.push(name);
        layer.set(name, at);
      }
      passing.set(edgeKey(e), between);
    }
    [...between, e.to].reduce((from, to) => (edges.push({ from, to }), to), e.from);
  }
  const rows: string[][] = [];
  for (const name of names) (rows[layer.get(name)!] ??= []).push(name);
  const at = new Map<string, number>();
  const note = () =>
    rows.forEach((row) => row.forEach((name, i) => at.set(name, (i + 0.5) / row.length)));
  note();
  for (let round = 0; round < 4; round++) {
    const sweep = round % 2 === 0 ? rows : [...rows].reverse();
    for (const row of sweep) {
      const centre = new Map(row.map((name) => {
        const near = edges
          .filter((e) => e.from === name || e.to === name)
          .map((e) => (e.from === name ? e.to : e.from))
          .filter((other) => layer.has(other) && layer.get(other) !== layer.get(name))
          .map((other) => at.get(other)!);
        return [name, near.length ? near.reduce((a, b) => a + b, 0) / near.length : at.get(name)!];
      }));
      row.sort((a, b) => centre.get(a)! - centre.get(b)!);
      note();
    }
  }
  const found = new Map<string, Place>();
  rows.forEach((row, i) =>
    row.forEach((name, slot) => found.set(name, { layer: i, slot, slots: row.length }))
  );
  return {
    places: new Map(actors.map((name) => [name, found.get(name)!])),
    ways: new Map([...passing].map(([key, way]) => [key, way.map((name) => found.get(name)!)])),
  };
}
