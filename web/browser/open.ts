// Opens the pages in a browser. go test ./report -pages writes them.

import assert from "node:assert/strict";
import { after, before } from "node:test";
import { chromium, type Browser, type Page } from "playwright-core";

const pages = process.env.PAGES!, executablePath = process.env.CHROMIUM!;
let browser: Browser;
before(async () => {
  browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
});
after(async () => { await browser.close(); });

/** open opens a sample page. It fails if the page logged an error, or loaded anything but itself.
 * */
export async function open(
  name: string,
  use: (page: Page) => Promise<void>,
  options: { width?: number; height?: number; dark?: boolean; watch?: boolean } = {}
): Promise<void> {
  const page = await browser.newPage({
    viewport: { width: options.width ?? 1366, height: options.height ?? 768 },
    colorScheme: options.dark ? "dark" : "light",
  });
  const complaints: string[] = [], requests: string[] = [];
  page.on("console", (m) => {
    if (m.type() !== "log") complaints.push(`${m.type()}: ${m.text()}`);
  });
  page.on("pageerror", (e) => complaints.push(String(e)));
  page.on("dialog", (d) => {
    complaints.push(`dialog ${d.message()}`);
    void d.dismiss();
  });
  page.on("request", (r) => requests.push(r.url()));
  // Keep a list of all elements that listen for clicks or presses.
  if (options.watch)
    await page.addInitScript(() => {
      const clickable: EventTarget[] = ((window as any).clickable = []);
      const listen = EventTarget.prototype.addEventListener;
      EventTarget.prototype.addEventListener = function (
        this: EventTarget,
        type: string,
        ...more: any[]
      ) {
        if (
          ["click", "dblclick", "pointerdown", "change"].includes(type) &&
          this instanceof Element
        )
          clickable.push(this);
        return (listen as any).call(this, type, ...more);
      };
    });
  try {
    await page.goto(`file://${pages}/${name}.html`);
    await use(page);
    assert.deepEqual(complaints, []);
    assert.deepEqual(
      requests,
      [`file://${pages}/${name}.html`],
      "the page asked for more than itself"
    );
  } finally {
    await page.close();
  }
}

/** text returns the text of the first element that a selector matches. */
export const text = (page: Page, selector: string) => page.locator(selector).first().innerText();
