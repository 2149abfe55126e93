// The page in a browser: what clicks show, and that the browser reports no error.
// go test ./report -pages writes the pages.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { chromium, type Browser, type Page } from "playwright-core";

const pages = process.env.PAGES!, executablePath = process.env.CHROMIUM!;
let browser: Browser;
before(async () => {
  browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
});
after(async () => { await browser.close(); });

/** open opens a sample page, and fails if the page complained or asked for anything else. */
async function open(
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
  // Note every element that listens for clicks or presses.
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

const text = (page: Page, selector: string) => page.locator(selector).first().innerText();

test("shows every part, and the answer first", () => open("sample", async (page) => {
  assert.equal(await page.title(), "tuesday-rate-110k – Cloudprofiler report");
  assert.equal(await page.locator("main section").count(), 12);
  assert.match(await text(page, ".tiles"), /end to end, median\s+186\.\d+ ± 0\.\d+ µs/);
  assert.match(await text(page, ".tiles"), /received before sent\s+0\s+as it must be/);
  for (const part of [
    "graph", "spans", "latency", "throughput", "bounds", "truth", "tuples", "nodes",
  ]) {
    assert.equal(await page.locator(`#${part} .absent`).count(), 0, `${part} is absent`);
  }
  assert.match(
    await text(page, "#undecided"),
    /overtook each other[^]*Missing from the run[^]*41 records were salvaged/
  );
  assert.match(
    await text(page, "#findings"),
    /received before sent of[^]*is suspect: its data need a wander of at least 1\.56 ppm/
  );
}));

test("shows how the intervals compare with the truth", () =>
  open("sample", async (page) => {
    assert.match(
      await text(page, ".tiles"),
      /held against the truth\s+all true\s+[\d\u2009]+ durations/
    );
    assert.match(await text(page, "#truth .banner"), /All true[^]*used at most 30 % of the bound/);
    const rows = page.locator("#truth table").first().locator("tbody tr");
    assert.equal(await rows.count(), 13);
    assert.match(
      await rows.first().innerText(),
      /none[^]*off by ≤ \d+(\.\d+)? ns[^]*5 %\s+30 %\s+30 %/
    );
    assert.equal(await rows.first().locator("rect.bar").count(), 6);
    assert.match(
      await page.locator("#truth table").nth(1).innerText(),
      /return trip[^]*100 %[^]*NTP\s+about the one REALTIME that the nodes share[^]*pairs of claims/
    );
    assert.equal(await page.locator("nav a", { hasText: "Truth" }).count(), 1);
  }));

test("a run whose truth is not known says so", () => open("empty", async (page) => {
  assert.match(await text(page, "#truth .absent"), /Not shown/);
  assert.equal(await page.locator("nav a", { hasText: "Truth" }).count(), 0);
}));

test("marks estimates wherever they are", () => open("sample", async (page) => {
  assert.match(await text(page, ".banner"), /Partly an estimate.*2 of 3 pairs/s);
  const suspect = page.locator("#spans tbody tr", { has: page.locator("abbr.estimate") });
  assert.equal(await suspect.count(), 3);
  assert.equal(await suspect.locator("td.plot:nth-of-type(3) rect[fill='url(#hatch)']").count(), 3);
  assert.equal(await page.locator("#graph .is-estimate").count(), 3); // two labels and a box
  assert.match(
    (await page.locator("#graph [aria-label*='core-2 to edge'] text").textContent()) ?? "",
    /est\.$/
  );
  assert.equal(await page.locator("#nodes .cell.suspect abbr.estimate").count(), 4);
  await page.locator("#nodes [data-key=cell-0-2]").click();
  assert.equal(await page.locator("#bounds .row abbr.estimate").count(), 1);
  assert.match(await text(page, "#bounds tbody tr"), /estimate/);
  assert.equal(await page.locator("#bounds .line.dashed").count(), 1);
}));

test("the heading leads to what is missing, and the first tiles name their path", () =>
  open("sample", async (page) => {
    assert.match(
      await text(page, ".banner"),
      /One part of the run is missing or incomplete, and 3 things cannot be decided\./
    );
    await page.locator(".banner a").first().focus();
    await page.keyboard.press("Enter");
    await page.waitForURL(/#missing$/);
    await page.waitForFunction(() => {
      const { top } = document.querySelector("#missing")!.getBoundingClientRect();
      return (
        top >= document.querySelector(".top")!.getBoundingClientRect().bottom && top < innerHeight
      );
    });
    assert.match(await text(page, ".tiles"), /source\/send → sink\/recv/);
  }));

test("says which span is slow, and how sure that is", () => open("sample", async (page) => {
  assert.match(
    await text(page, ".slowest h2"),
    /^Slowest of 10\.41 M tuples from source\/intended$/
  );
  const rows = page.locator(".slowest li");
  assert.match(
    await rows.nth(0).innerText(),
    /^parse → enrich\s+42\.46 ± 0\.67 µs\s+the bounds do not separate it from the next$/
  );
  assert.match(
    await rows.nth(1).innerText(),
    /^window → sink[^]* estimate\s+an estimate, and so is its place$/
  );
  assert.match(await text(page, ".tiles"), /tuples\s+10\.41 M\s+[\d\u2009]+ took the whole path/);
  assert.equal(await page.locator("#graph .made").count(), 1); // the tip alone, which nothing uses
}));

test("tuples made of others are counted apart, and the graph shows them", () =>
  open("partial", async (page) => {
    assert.match(
      await text(page, ".tiles"),
      /tuples\s+10\.41 M\s+2\u2009300 more were made of these, [\d\u2009]+ took the whole path/
    );
    assert.match(await text(page, ".slowest li"), /µs\s+surely the slowest, by the median$/);
    const made = page.locator("#graph .arrow.made");
    assert.equal(await made.count(), 2);
    assert.deepEqual(
      (await page.locator("#graph g:has(> .arrow.made) > title").allTextContents()).sort(),
      ["audit", "sink"].map(
        (from) => `tuples that begin at digest were made of those that ended at ${from}`
      )
    );
    assert.match(
      (await page.locator("#graph svg").getAttribute("aria-label")) ?? "",
      /^7 operators and 5 transfers between them$/
    );
  }));

test("a run that is consistent but incomplete says both", () => open("partial", async (page) => {
  const banner = await text(page, ".banner");
  assert.match(banner, /^Consistent, but incomplete\. .*They cannot confirm it\. /);
  assert.match(banner, / One part of the run is missing or incomplete\.$/);
  assert.equal(await page.locator(".banner.partial a[href='#missing']").count(), 1);
}));

test("waiting before work is no computation", () => open("sample", async (page) => {
  const group = page.locator("#spans tbody", { hasText: "before or beside its computation" });
  assert.match(
    await group.innerText(),
    /source\/intended → source\/send\s+local, edge; due, not yet begun: the load's own lateness/
  );
  assert.doesNotMatch(
    await page.locator("#spans tbody", { hasText: "Computation, within" }).innerText(),
    /intended/
  );
}));

test("the keyboard reaches everything clickable, in order and visibly", async () => {
  for (const width of [1366, 600]) {
    await open("sample", async (page) => {
      const stops = await page.evaluate(() => document.querySelectorAll("main *, .top *").length);
      const seen: string[] = [];
      for (let i = 0; i < stops; i++) {
        await page.keyboard.press("Tab");
        const stop = await page.evaluate(() => {
          const e = document.activeElement as HTMLElement;
          if (e === document.body) return null;
          const marked = [e, e.nextElementSibling, e.querySelector(".target")].some((x) => {
            if (!x) return false;
            const style = getComputedStyle(x);
            return (
              (style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1) ||
              (x.matches(".target") && style.stroke !== "none")
            );
          });
          const box = e.getBoundingClientRect();
          const bar = document.querySelector(".top")!;
          const sticky =
            getComputedStyle(bar).position === "sticky" &&
            !bar.contains(e) &&
            !e.matches(".skip");
          const last = (window as any).last as Element | undefined;
          (window as any).last = e;
          e.setAttribute("data-reached", "");
          // An element taller than the window shows as much as fits.
          const hidden =
            box.bottom <= (sticky ? bar.getBoundingClientRect().bottom : 0) ||
            box.top >= innerHeight;
          const key = e.getAttribute("data-key") ?? e.textContent?.trim().slice(0, 30);
          return {
            name: `${e.tagName} ${key}`,
            marked,
            hidden,
            back: last
              ? !(last.compareDocumentPosition(e) & Node.DOCUMENT_POSITION_FOLLOWING)
              : false,
          };
        });
        if (!stop) break;
        assert.deepEqual(
          { ...stop, name: "" },
          { name: "", marked: true, hidden: false, back: false },
          `${stop.name} at ${width}, after ${seen.at(-1)}`
        );
        seen.push(stop.name);
      }
      // Of a group of radio buttons, or of the matrix's cells, only one is a stop. Arrow keys reach
      // the rest.
      const left = await page.evaluate(() =>
        ((window as any).clickable as Element[])
          .filter(
            (e) =>
              e.isConnected && !e.matches("[data-reached], input[type=radio], .cell, .chart.time *")
          )
          .map((e) => e.outerHTML.slice(0, 100))
      );
      assert.deepEqual(left, [], "clicked and not reached");
      assert.ok(seen.length > 30, `only ${seen.length} stops`);
      const groups = await page.evaluate(() =>
        [
          ...new Set(
            [...document.querySelectorAll<HTMLInputElement>("input[type=radio]")].map((e) => e.name)
          ),
        ].filter((n) => !document.querySelector(`input[name="${n}"][data-reached]`))
      );
      assert.deepEqual(groups, []);
      assert.equal(await page.locator(".cell[data-reached]").count(), 1);
    }, { width, watch: true });
  }
});

test("a span chosen in the table is shown over time", () => open("sample", async (page) => {
  const label = () => page.locator("#latency svg[role=img]").getAttribute("aria-label");
  assert.equal(await label(), "Latency of end to end over time");
  await page.locator("#spans button.pick", { hasText: "parse → enrich" }).click();
  assert.equal(await label(), "Latency of parse → enrich over time");
  assert.equal(await page.locator("#spans tr.chosen").count(), 1);
  assert.match(await page.locator("#spans tr.chosen").innerText(), /parse → enrich/);
  await page.locator("#latency select").selectOption({ index: 0 });
  assert.equal(await label(), "Latency of parse over time");
}));

test("an arrow is chosen by keyboard and keeps the focus", () => open("sample", async (page) => {
  const edge = page.locator("#graph [aria-label^='source → parse']");
  await edge.focus();
  await page.keyboard.press("Enter");
  assert.equal(
    await page.locator("#latency svg[role=img]").getAttribute("aria-label"),
    "Latency of source → parse over time"
  );
  assert.equal(await edge.getAttribute("aria-pressed"), "true");
  assert.ok(await edge.evaluate((e) => e === document.activeElement));
}));

test("cycles and seconds", () => open("sample", async (page) => {
  await page.getByText("cycles", { exact: true }).click();
  assert.match(await text(page, ".tiles"), /48\d\u2009\d{3} ± \d+ cycles/);
  assert.doesNotMatch(await text(page, "#spans"), /µs/);
  await page.getByText("seconds", { exact: true }).click();
  assert.match(await text(page, "#spans"), /µs/);
}));

test("a linear axis begins at zero", () => open("sample", async (page) => {
  const ticks = () => page.locator("#bounds .axis").first().locator("text").allTextContents();
  assert.ok(!(await ticks()).includes("0"));
  await page.getByText("linear", { exact: true }).click();
  assert.ok((await ticks()).includes("0"));
}));

test("values over time are read and zoomed by keyboard", () => open("sample", async (page) => {
  const chart = page.locator("[data-key=time-latency]");
  await chart.focus();
  await page.keyboard.press("Home");
  const readout = page.locator("#latency output");
  assert.match(await readout.innerText(), /^0\.25 s\s*median \d+\.\d+ ± .* µs\s*99 % .*slowest/s);
  const first = await readout.innerText();
  await page.keyboard.press("ArrowRight");
  assert.notEqual(await readout.innerText(), first);
  await page.keyboard.press("+");
  assert.ok(await chart.evaluate((e) => e === document.activeElement), "the focus was lost");
  assert.match(await readout.innerText(), /A part of the run/);
  for (const part of ["throughput", "bounds"])
    assert.match(await page.locator(`#${part} output`).innerText(), /A part of the run/);
  await page.keyboard.press("0");
  assert.match(await readout.innerText(), /Arrow keys/);
}));

test("dragging shows a part of the run", () => open("sample", async (page) => {
  const chart = page.locator("#throughput svg[role=img]");
  await chart.scrollIntoViewIfNeeded();
  const box = (await chart.boundingBox())!;
  await page.mouse.move(box.x + 300, box.y + 80);
  await page.mouse.down();
  await page.mouse.move(box.x + 420, box.y + 90, { steps: 5 });
  await page.mouse.up();
  assert.match(await page.locator("#latency output").innerText(), /A part of the run/);
  await chart.dblclick({ position: { x: 300, y: 80 } });
  assert.match(await page.locator("#latency output").innerText(), /Arrow keys/);
}));

test("a tuple's whole path", () => open("sample", async (page) => {
  const second = page.locator("#tuples button.tuple").nth(1);
  const id = await second.locator(".tuple-id").innerText();
  await second.click();
  assert.equal(await page.locator("#tuples figcaption code").innerText(), id);
  assert.equal(await page.locator("#tuples figure .bar").count(), 7);
  assert.equal(await page.locator("#tuples figure .error").count(), 14);
  assert.match(await page.locator("#tuples figure svg").textContent() ?? "", /order undecided/);
  assert.ok(await second.evaluate((e) => e === document.activeElement), "the focus was lost");
  await page.locator("#tuples button.tuple").first().click();
  assert.doesNotMatch(
    (await page.locator("#tuples figure svg").textContent()) ?? "",
    /order undecided/
  );
}));

test("pairs are chosen with the arrow keys", () => open("sample", async (page) => {
  await page.locator("[data-key=cell-0-1]").focus();
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  assert.match(await text(page, ".pair-detail h3"), /core-1 and core-2/);
  assert.match(await text(page, ".pair-detail"), /the rate moved/);
  assert.match(await text(page, "#bounds"), /no tuple's acknowledgement crosses this pair/);
}));

test("dark and light", async () => {
  const background = (page: Page) =>
    page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  await open("sample", async (page) => {
    assert.equal(await background(page), "rgb(20, 24, 27)");
    await page.getByText("light", { exact: true }).click();
    assert.equal(await background(page), "rgb(251, 251, 249)");
  }, { dark: true });
  await open("sample", async (page) => {
    await page.getByText("dark", { exact: true }).click();
    assert.equal(await background(page), "rgb(20, 24, 27)");
  });
});

test("every control has a name, and every picture a description", () =>
  open("sample", async (page) => {
    const nameless = await page.evaluate(() =>
      [
        ...document.querySelectorAll(
          "button, select, input, a, summary, [tabindex='0'], svg[role=img], svg[role=group]"
        ),
      ]
        .filter((e) => {
          const label = (e as HTMLInputElement).labels?.[0]?.textContent;
          return !(e.getAttribute("aria-label") || e.textContent?.trim() || label?.trim());
        })
        .map((e) => e.outerHTML.slice(0, 120))
    );
    assert.deepEqual(nameless, []);
  }));

test("text stands out from what is behind it", async () => {
  for (const dark of [false, true]) {
    await open("sample", async (page) => {
      // WCAG AA asks for 4.5 to 1. Every text is compared with the page, to which all sheets are
      // close.
      const dim = await page.evaluate(() => {
        const numbers = (c: string) => (c.match(/[\d.]+/g) ?? []).map(Number);
        const luminance = (c: string) => {
          const [r = 0, g = 0, b = 0] = numbers(c).map((v) => {
            const x = v / 255;
            return x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4;
          });
          return 0.2126 * r + 0.7152 * g + 0.0722 * b;
        };
        const paper = luminance(getComputedStyle(document.body).backgroundColor);
        return [...document.querySelectorAll("main *:not(title, option)")]
          .filter((e) => [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent!.trim()))
          .flatMap((e) => {
            const style = getComputedStyle(e);
            const own = luminance(e instanceof SVGElement ? style.fill : style.color);
            const ratio = (Math.max(own, paper) + 0.05) / (Math.min(own, paper) + 0.05);
            if (ratio >= 4.5) return [];
            const name = `${e.tagName}.${e.getAttribute("class")}`;
            return [`${name} ${ratio.toFixed(2)} "${e.textContent!.slice(0, 20)}"`];
          });
      });
      assert.deepEqual([...new Set(dim)], []);
    }, { dark });
  }
});

test("fits the width of the window", async () => {
  for (const name of ["sample", "large", "hostile", "empty"]) {
    await open(name, async (page) => {
      for (const width of [400, 768, 1366, 1920]) {
        await page.setViewportSize({ width, height: 768 });
        await page.evaluate(
          () => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))
        );
        const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        assert.ok(over <= 0, `${name} at ${width}: ${over} pixels too wide`);
        const inner = await page.evaluate(() =>
          Math.max(
            0,
            ...[...document.querySelectorAll(".chart.time svg")].map((e) => e.clientWidth)
          )
        );
        assert.ok(inner <= width, `${name} at ${width}: drawn for another width`);
      }
    });
  }
});

test("labels are not cut off or covered", async () => {
  const among = async (page: Page, where: string) => assert.deepEqual(await page.evaluate(() => {
    const wrong: string[] = [];
    const boxes = (elements: Element[]) =>
      elements.map((e) => ({ text: e.textContent ?? "", box: e.getBoundingClientRect() }));
    for (const axis of document.querySelectorAll("main svg")) {
      const edge = axis.getBoundingClientRect();
      const labels = boxes([...axis.querySelectorAll(":scope > .axis > text[text-anchor=middle]")]);
      labels.forEach(({ text, box }, i) => {
        if (box.left < edge.left - 1 || box.right > edge.right + 1)
          wrong.push(`"${text}" is cut off`);
        if (
          labels
            .slice(i + 1)
            .some((other) => other.box.left < box.right && box.left < other.box.right)
        )
          wrong.push(`"${text}" is covered`);
      });
    }
    const edge = document.querySelector("#graph svg")!.getBoundingClientRect();
    for (const { text, box } of boxes([...document.querySelectorAll("#graph svg text")])) {
      if (box.left < edge.left || box.right > edge.right)
        wrong.push(`"${text}" is cut off in the graph`);
    }
    for (const group of document.querySelectorAll("#graph g:has(> .actor)")) {
      const frame = group.querySelector(".actor")!.getBoundingClientRect();
      for (const { text, box } of boxes([...group.querySelectorAll("text")])) {
        if (box.left < frame.left + 6 || box.right > frame.right - 6)
          wrong.push(`"${text}" fills its box`);
      }
    }
    return [...new Set(wrong)];
  }), [], where);
  for (const name of ["sample", "large"]) {
    await open(name, async (page) => {
      for (const width of [1366, 600]) {
        await page.setViewportSize({ width, height: 768 });
        await page.evaluate(
          () => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))
        );
        await among(page, `${name} at ${width}`);
      }
      await page.getByText("linear", { exact: true }).click();
      await among(page, `${name}, linear`);
      await page.getByText("cycles", { exact: true }).click(); // longer texts
      await among(page, `${name}, cycles`);
    });
  }
});

test("on paper nothing is wider than the sheet, and the plots fill it", async () => {
  for (const name of ["sample", "large"]) {
    await open(name, async (page) => {
      await page.emulateMedia({ media: "print" });
      await page.evaluate(() => dispatchEvent(new Event("beforeprint")));
      const main = await page.locator("main").evaluate((e) => e.getBoundingClientRect().right);
      if (name === "sample")
        assert.ok(main <= 695, `${main} pixels, and A4 within its margins has 695`);
      const right = await page.evaluate(() =>
        Math.max(
          ...[...document.querySelectorAll("#spans td.plot:last-child svg")].map(
            (e) => e.getBoundingClientRect().right
          )
        )
      );
      assert.ok(
        right > 0.96 * main && right <= main + 1,
        `${name}: the plots end at ${right} of ${main}`
      );
      const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(
        name !== "sample" || over <= 0,
        `${over} pixels too wide: all would be printed smaller`
      );
    }, { width: 695, height: 1000 });
  }
});

test("on paper", () => open("sample", async (page) => {
  await page.locator("text=dark").first().click();
  const pdf = await page.pdf({ preferCSSPageSize: true, printBackground: true });
  const sheets = pdf.toString("latin1").match(/\/Type \/Page\b/g)?.length ?? 0;
  assert.ok(sheets >= 4 && sheets <= 9, `${sheets} sheets`);
  await page.emulateMedia({ media: "print" });
  assert.equal(
    await page.evaluate(() => getComputedStyle(document.body).backgroundColor),
    "rgb(255, 255, 255)"
  );
  assert.equal(await page.locator(".controls").isVisible(), false);
}));

test("hostile names are text", () => open("hostile", async (page) => {
  assert.match(await page.title(), /^<\/script><script>document\.title="owned"/);
  assert.equal(await page.locator("img").count(), 0);
  assert.equal(await page.locator("script").count(), 2);
  for (const control of ["cycles", "linear"])
    await page.getByText(control, { exact: true }).click();
  await page.locator("#tuples button.tuple").nth(2).click();
  await page.locator("#nodes [data-key=cell-0-1]").click();
  assert.match(await text(page, ".pair-detail h3"), /<img src=x/);
  assert.notEqual(await page.title(), "owned");
  assert.equal(await page.locator("img").count(), 0);
}));

test("an empty run says why", () => open("empty", async (page) => {
  for (const part of [
    "graph", "spans", "latency", "throughput", "bounds", "tuples", "nodes", "machines",
  ]) {
    assert.match(
      await text(page, `#${part} .absent`),
      /Not shown: no log of any node was collected/
    );
  }
  assert.equal(await page.locator("fieldset[disabled]").count(), 1);
}));

test("a large run opens at once and stays fluid", () => open("large", async (page) => {
  const opened = await page.evaluate(() => performance.now()); // since the navigation began
  assert.equal(await page.locator("main section").count(), 12);
  const took = async (act: string) => page.evaluate((selector) => {
    const begun = performance.now();
    document.querySelector<HTMLElement>(selector)!.click();
    document.body.getBoundingClientRect(); // lay it out
    return performance.now() - begun;
  }, act);
  const unit = await took("input[value=cycles]");
  const span = await took("#spans tbody tr:nth-child(9) button");
  const pair = await took("[data-key=cell-3-9]");
  // Reading values and zooming, as a reader does for minutes.
  const each = async (key: string, times: number) => page.evaluate(([key, times]) => {
    const chart = document.querySelector<HTMLElement>("[data-key=time-latency]")!;
    const begun = performance.now();
    chart.focus();
    for (let i = 0; i < times; i++) {
      document
        .querySelector<HTMLElement>("[data-key=time-latency]")!
        .dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
      document.body.getBoundingClientRect();
    }
    return (performance.now() - begun) / times;
  }, [key, times] as const);
  const move = await each("ArrowRight", 50), zoom = await each("+", 3);
  console.log(
    `# a value is read in ${move.toFixed(1)} ms, a part of the run drawn in ${zoom.toFixed(0)} ms`
  );
  assert.ok(move < 50, `a value took ${move} ms to be read`);
  assert.ok(zoom < 500, `a part of the run took ${zoom} ms to be drawn`);
  console.log(
    `# opened in ${opened.toFixed(0)} ms; drawn again for a unit ${unit.toFixed(0)} ms, ` +
      `a span ${span.toFixed(0)} ms, a pair ${pair.toFixed(0)} ms`
  );
  assert.ok(opened < 3000, `opened in ${opened} ms`);
  assert.ok(Math.max(unit, span, pair) < 1000, "slow to draw again");
}));
