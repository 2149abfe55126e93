// The page of cprof serve, in a browser. A Go test serves the runs: go test ./explore -serve.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { chromium, type Browser, type Page } from "playwright-core";

const addresses: Record<string, string> = JSON.parse(readFileSync(process.env.SERVED!, "utf8"));
let browser: Browser;
before(async () => {
  browser = await chromium.launch({
    executablePath: process.env.CHROMIUM!, args: ["--no-sandbox"],
  });
});
after(async () => { await browser.close(); });

/** settled waits until every part of the page has its answer from the server. */
async function settled(page: Page): Promise<void> {
  await page.waitForTimeout(50); // until a choice has an effect
  await page.waitForFunction(() => document.documentElement.dataset["drawn"] &&
    !document.querySelector("[aria-busy]"));
}

/** explore opens the page of a run. It fails if the page logged an error, or asked another server
 * for anything. */
async function explore(
  run: string,
  use: (page: Page) => Promise<void>,
  options: { hash?: string; width?: number; dark?: boolean } = {}
): Promise<void> {
  const page = await browser.newPage({
    viewport: { width: options.width ?? 1366, height: 800 },
    colorScheme: options.dark ? "dark" : "light",
  });
  const complaints: string[] = [];
  page.on("console", (m) => {
    if (m.type() !== "log") complaints.push(`${m.type()}: ${m.text()}`);
  });
  page.on("pageerror", (e) => complaints.push(String(e)));
  page.on("request", (r) => {
    if (!r.url().startsWith(addresses[run]!)) complaints.push(`asked for ${r.url()}`);
  });
  try {
    await page.goto(`${addresses[run]}/#${options.hash ?? ""}`);
    await settled(page);
    await use(page);
    assert.deepEqual(complaints, []);
  } finally {
    await page.close();
  }
}

const listed = (page: Page) => page.locator("#tuples .tuple").allInnerTexts();

test("every part is drawn, and the report is a link away", () => explore("one", async (page) => {
  const drawn = await page.evaluate(() => performance.now());
  console.log(`# drawn after ${drawn.toFixed(0)} ms`);
  for (const part of ["latency", "tuples", "lanes", "depth", "spread"]) {
    assert.equal(await page.locator(`#${part} .absent`).count(), 0, `${part} is absent`);
    assert.ok(await page.locator(`#${part} svg, #${part} .tuple`).count() > 0, part);
  }
  assert.equal(await page.locator(".lane-name").count(), 6);
  assert.equal((await listed(page)).length, 50);
  await page.click("text=The whole report");
  assert.match(await page.locator("body").innerText(), /report/);
}));

test("a spike leads to its tuples, and a tuple to its path", () => explore("one", async (page) => {
  const before = await page.locator(".list-title").innerText();
  assert.match(before, /The 50 slowest tuples of the run/);
  const box = (await page.locator("[data-key=heat-0]").boundingBox())!;
  await page.mouse.click(box.x + box.width * 0.47, box.y + 40);
  await settled(page);
  assert.match(await page.locator(".list-title").innerText(), /tuples that began from/);
  await page.waitForFunction(() => location.hash.includes("list="));
  await page.locator("#tuples .tuple").first().click();
  await settled(page);
  assert.match(await page.locator(".fate").innerText(), /it came to the end, sink\/recv/);
  assert.equal(await page.locator(".path .step-name").count(), 3);
  await page.locator(".fate button").click();
  await settled(page);
  assert.match(await page.locator(".shown").innerText(), /s to .* s$/);
}));

test("finds complete, lost and filtered tuples by id, and says what is not there", () =>
  explore("one", async (page) => {
    const find = async (id: string) => {
      await page.fill("input[type=search]", id);
      await page.press("input[type=search]", "Enter");
      await settled(page);
      return page.locator(".tuple-panel").innerText();
    };
    const endedIn = async (lane: string) => {
      await page.locator(`.lane-name:has-text("${lane}") .ended-here`).click();
      await settled(page);
      return (await page.locator("#tuples .tuple-id").first().innerText()).trim();
    };
    const lost = await endedIn("source"), filtered = await endedIn("worker#1");
    assert.match(await find(lost), /ended at source\/send.*lost/s);
    assert.match(await find(filtered), /ended at worker\/end.*filtered/s);
    assert.match(await find("0x10000000000"), /Tuple 1099511627776: it came to the end|ended at/);
    assert.match(await find("12"), /No event of tuple 12 is in the logs/);
    for (const wrong of ["twelve", "-1", "18446744073709551616", ""]) {
      await find(wrong);
      assert.ok(await page.evaluate(() =>
        !document.querySelector<HTMLInputElement>("input[type=search]")!.validity.valid));
      assert.match(await page.locator(".search-wrong").innerText(),
        /Ids are numbers from 0 to 2⁶⁴ − 1/);
      assert.equal((await listed(page)).length, 50);
    }
  }));

test("zooms down to single events", () => explore("one", async (page) => {
  const lanes = page.locator("[data-key=lanes-0]");
  await lanes.scrollIntoViewIfNeeded();
  const readAt = async (dx: number) => {
    const box = (await lanes.boundingBox())!;
    await page.mouse.move(box.x + box.width / 2 + dx, box.y + 20);
    return page.locator("#lanes .readout").innerText();
  };
  assert.match(await readAt(0), /stays in/);
  const box = (await lanes.boundingBox())!;
  await page.mouse.move(box.x + 300, box.y + 60);
  await page.mouse.down();
  await page.mouse.move(box.x + 400, box.y + 60);
  await page.mouse.up();
  await settled(page);
  assert.match(await page.locator(".shown").innerText(), /to/);
  for (let i = 0; i < 10; i++) {
    await lanes.press("+");
    await settled(page);
  }
  let found = "";
  for (let dx = -300; dx < 300 && !/tuple \d+/.test(found); dx += 4) found = await readAt(dx);
  assert.match(found, /source on A.*tuple \d+/s);
  const at = (await lanes.boundingBox())!;
  for (let dx = -300; dx < 300; dx += 4) {
    if (/tuple \d+/.test(await readAt(dx))) {
      await page.mouse.click(at.x + at.width / 2 + dx, at.y + 20);
      break;
    }
  }
  await settled(page);
  assert.match(await page.locator(".fate").innerText(), /Tuple \d+/);
  await lanes.press("0");
  await settled(page);
  assert.match(await page.locator(".shown").innerText(), /the whole run/);
}));

test("the address brings back what is shown, and so does going back", async () => {
  let url = "", shown = "", path = "";
  await explore("one", async (page) => {
    await page.selectOption("select", { index: 1 });
    for (let i = 0; i < 3; i++) await page.locator("[data-key=heat-0]").press("+");
    await settled(page);
    await page.locator("#tuples .tuple").nth(3).click();
    await page.waitForTimeout(400); // the address follows a little later
    await settled(page);
    url = page.url();
    shown = await page.locator(".shown").innerText();
    path = await page.locator(".fate").innerText();
    await page.goBack();
    await settled(page);
    assert.notEqual(page.url(), url);
  });
  await explore("one", async (page) => {
    assert.equal(await page.locator(".shown").innerText(), shown);
    assert.equal(await page.locator(".fate").innerText(), path);
  }, { hash: url.split("#")[1]! });
});

test("two runs lie side by side, at the same time of each", () => explore("two", async (page) => {
  assert.deepEqual(await page.locator("h1").allInnerTexts(), ["monday", "tuesday"]);
  for (const part of ["latency", "tuples", "lanes", "depth", "spread"])
    assert.equal(await page.locator(`#${part} .of-run`).count(), 2, part);
  const [a, b] = await page.locator("#latency .of-run").all();
  const [left, right] = [(await a!.boundingBox())!, (await b!.boundingBox())!];
  assert.ok(left.y === right.y && left.x + left.width <= right.x);
  for (const width of [1366, 1100, 400]) {
    await page.setViewportSize({ width, height: 800 });
    await page.waitForFunction(() => // until it is drawn anew; what it looks like is judged below
      [...document.querySelectorAll("#lanes .lanes")].every((lanes) => {
        const drawn = lanes.querySelector("canvas")!.getBoundingClientRect();
        return drawn.right <= lanes.getBoundingClientRect().right + 1;
      }), undefined, { timeout: 10_000 }).catch(() => {});
    await settled(page);
    for (const lanes of await page.locator("#lanes .lanes").all()) {
      const names = (await lanes.locator(".lane-names").boundingBox())!;
      const drawn = (await lanes.locator("canvas").boundingBox())!;
      const room = (await lanes.boundingBox())!;
      assert.ok(names.x + names.width <= drawn.x + 1 &&
        drawn.x + drawn.width <= room.x + room.width + 1, `lanes are drawn over names at ${width}`);
      const first = (await lanes.locator(".lane-name").first().boundingBox())!;
      assert.ok(Math.abs(first.y - drawn.y - 8) <= 1, "names are not beside their lanes");
    }
  }
  await page.setViewportSize({ width: 1366, height: 800 });
  assert.equal(await page.locator("#spread .across tbody tr").count(), 2);
  assert.equal(await page.locator("#spread .across path.line").count(), 2);
}));

test("pauses of JVMs are shaded, named and counted", () => explore("pausing", async (page) => {
  assert.match(await page.locator("#latency .note").innerText(),
    /^Of the time of the slowest \d+ tuples, 9\d to \d+ % lay in pauses of JVMs, most of it in/);
  await page.locator("#tuples .tuple").first().click();
  await settled(page);
  assert.match(await page.locator("#tuples figcaption").innerText(), /ms of it in pauses of JVMs/);
  assert.match(await page.locator("#tuples .pauses").innerText(), /pause of jvm-10\d on [BC]: G1/);
  assert.ok(await page.locator("#tuples .pause-surely").count() > 0);
  await page.locator(".fate button").click();
  await settled(page);
  assert.match(await page.locator("#lanes .pause-legend").innerText(), /jvm-100 on B: \d+ × G1/);
  const lanes = page.locator("[data-key=lanes-0]");
  await lanes.scrollIntoViewIfNeeded();
  const box = (await lanes.boundingBox())!;
  const read = async (lane: number) => {
    const texts = [];
    for (let dx = 20; dx < box.width; dx += 20) {
      await page.mouse.move(box.x + dx, box.y + 20 + 34 * lane);
      texts.push(await page.locator("#lanes .readout").innerText());
    }
    return texts.join("; ");
  };
  assert.doesNotMatch(await read(0), /pause/); // the source is no JVM
  assert.match(await read(1) + await read(2), /pause of jvm-10[01] on B: G1\w+, \d+.* ms/);
}));

test("hostile names are text", () => explore("pausing", async (page) => {
  const evil = `<img src=x onerror='document.title="owned"'></script>`;
  for (const part of ["runs", "runs/0/pauses*", "runs/0/tuple*", "runs/0/longest*"])
    await page.route(`**/${part}`, async (route) => {
      const answer = await route.fetch(), rename = (value: unknown, key = ""): unknown =>
        Array.isArray(value) ? value.map((v) => rename(v, key))
          : value && typeof value === "object"
            ? Object.fromEntries(Object.entries(value).map(([k, v]) => [k, rename(v, k)]))
            : ["node", "instance", "kind", "jvm", "name", "why", "note", "pauses", "run"]
              .includes(key) && typeof value === "string" ? value + evil : value;
      await route.fulfill({ json: rename(await answer.json()) });
    });
  await page.reload();
  await settled(page);
  await page.locator("#tuples .tuple").first().click();
  await settled(page);
  const shown = await page.locator("main").innerText();
  for (const what of
    [/G1\w+<img src=x/, /jvm-10\d<img src=x/, /on B<img src=x/, /JVMs.*<img src=x/])
    assert.match(shown, what);
  assert.equal(await page.locator("img").count(), 0);
  assert.notEqual(await page.title(), "owned");
}));

test("estimates are marked wherever they are shown", () => explore("suspect", async (page) => {
  assert.match(await page.locator(".banner").innerText(), /suspect/);
  await page.locator("#tuples .tuple").first().click();
  await settled(page);
  for (const where of ["#tuples .tuple", ".fate", ".path", "#depth", "#spread .percentiles",
    "#spread .instances"])
    assert.ok(await page.locator(`${where} .estimate`).count() > 0, where);
}));

test("a span that lacks tuples is marked wherever its percentiles are", () =>
  explore("sampled", async (page) => {
    await page.selectOption("select", "source/send → worker/recv, transfer");
    await settled(page);
    for (const where of ["#latency", "#spread .across", "#spread .percentiles",
      "#spread .instances"])
      assert.ok(await page.locator(`${where} .not-all`).count() > 0, where);
    assert.match(await page.locator("#spread .lacking").innerText(),
      /Not of all tuples of sampled, only of those in the logs: sampled: .*keeps only/);
    assert.match(await page.locator(".list-title").innerText(), /slowest tuples in the logs/);
  }));

test("fits the width of the window, light and dark", async () => {
  for (const [run, dark] of [["one", false], ["two", true], ["suspect", false]] as const) {
    for (const width of [400, 768, 1366, 1920]) {
      await explore(run, async (page) => {
        await page.locator("#tuples .tuple").first().click();
        await settled(page);
        const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        assert.ok(over <= 0, `${run} at ${width}: ${over} pixels too wide`);
      }, { width, dark });
    }
  }
});

test("every control has a name", () => explore("two", async (page) => {
  const nameless = await page.evaluate(() =>
    [...document.querySelectorAll("button, select, input, a, [tabindex='0'], svg[role=img]")]
      .filter((e) => {
        const label = (e as HTMLInputElement).labels?.[0]?.textContent;
        return !(e.getAttribute("aria-label") || e.textContent?.trim() || label?.trim());
      })
      .map((e) => e.outerHTML.slice(0, 120)));
  assert.deepEqual(nameless, []);
}));
