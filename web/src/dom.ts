// Makes elements. Data only becomes text of elements: the page never parses data as markup.

type Child = Node | string | null | undefined | false;
type Attributes = Record<
  string,
  string | number | boolean | null | undefined | ((event: any) => void)
>;

function fillElement<E extends Element>(element: E, attributes: Attributes, children: Child[]): E {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name, value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children) {
    if (child || child === "") element.append(child);
  }
  return element;
}

export function html(tag: string, attributes: Attributes = {}, ...children: Child[]): HTMLElement {
  return fillElement(document.createElement(tag), attributes, children);
}

export function svg(tag: string, attributes: Attributes = {}, ...children: Child[]): SVGElement {
  return fillElement(
    document.createElementNS("http://www.w3.org/2000/svg", tag) as SVGElement,
    attributes,
    children
  );
}

/** picture returns an SVG in CSS pixels, so text in it has the page's sizes. */
export function picture(
  width: number,
  height: number,
  label: string,
  ...children: Child[]
): SVGElement {
  return svg(
    "svg",
    { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label },
    ...children
  );
}

/** replace replaces the content of an element. If an element inside it had the focus, the new
 * element with the same data-key gets the focus. */
export function replace(element: Element, ...children: Child[]): void {
  const key = element.contains(document.activeElement)
    ? document.activeElement?.getAttribute("data-key")
    : null;
  element.replaceChildren(...children.filter((c): c is Node | string => Boolean(c)));
  if (key) {
    for (const candidate of element.querySelectorAll<HTMLElement>("[data-key]")) {
      if (candidate.getAttribute("data-key") === key) candidate.focus({ preventScroll: true });
    }
  }
}

let ruler: CanvasRenderingContext2D | null | undefined, family = "";

/** textWidth returns the width of a text in the page's font. */
export function textWidth(text: string, size = 12, weight = 400): number {
  if (ruler === undefined) {
    ruler = document.createElement("canvas").getContext("2d");
    family = getComputedStyle(document.body).fontFamily;
  }
  if (!ruler) return text.length * size * 0.6;
  ruler.font = `${weight} ${size}px ${family}`;
  return ruler.measureText(text).width;
}

/** shorten cuts long names, so that they do not cover what is next to them. */
export function shorten(text: string, most: number): string {
  return text.length <= most ? text : text.slice(0, Math.max(1, most - 1)) + "…";
}
