// What the page looks like: on screens of any width, on paper, dark and light.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Page } from "playwright-core";
import { open } from "./open.ts";

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
      // Level AA of WCAG demands a contrast of at least 4.5 to 1. Each text is compared with the
      // background of the page, because the sheets behind texts have nearly the same colour.
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
  for (const name of ["sample", "large", "hostile", "empty", "messages"]) {
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
  for (const name of ["sample", "large", "answered", "past", "short"]) {
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

test("labels between programs cover neither each other nor a program", () =>
  open("sample", async (page) => {
    for (const width of [1366, 768, 400]) {
      await page.setViewportSize({ width, height: 768 });
      await page.evaluate(
        () => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))
      );
      const covered = await page.evaluate(() => {
        const part = document.getElementById("messages")!;
        const all = [...part.querySelectorAll(".talk-label, .actor")]
          .map((e) => ({ of: e.textContent, box: e.getBoundingClientRect() }));
        return all.flatMap((a, i) => all.slice(i + 1).filter((b) =>
          a.box.left < b.box.right && b.box.left < a.box.right &&
          a.box.top < b.box.bottom - 4 && b.box.top < a.box.bottom - 4).map((b) => [a.of, b.of]));
      });
      assert.deepEqual(covered, [], `at ${width}`);
      const narrow = await page.evaluate(() => [...document.querySelectorAll("#messages td")]
        .filter((e) => e.textContent!.length > 4 && e.clientWidth < 40).length);
      assert.equal(narrow, 0, `at ${width}`);
    }
  }));

test("a request and its response are two arrows", () => open("answered", async (page) => {
  for (const width of [1366, 400]) {
    await page.setViewportSize({ width, height: 768 });
    await page.evaluate(
      () => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))
    );
    const response = "#graph [data-key=edge-response]";
    const covered = await page.evaluate((response) => {
      const own = document.querySelector(`${response} text`)!, box = own.getBoundingClientRect();
      return [...document.querySelectorAll("#graph .edge-label text, #graph .actor")]
        .filter((e) => e !== own)
        .map((e) => e.getBoundingClientRect())
        .filter((b) => b.left < box.right && box.left < b.right &&
          b.top < box.bottom - 2 && box.top + 2 < b.bottom).length;
    }, response);
    assert.equal(covered, 0, `at ${width}`);
    await page.locator(response).click();
    assert.equal(await page.locator(response).getAttribute("aria-pressed"), "true");
  }
}));

test("no operator hides an arrow that leads past it", async () => {
  for (const name of ["past", "short"]) {
    await open(name, async (page) => {
      for (const width of [1366, 400]) {
        await page.setViewportSize({ width, height: 768 });
        await page.evaluate(
          () => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))
        );
        const hidden = await page.evaluate(() => {
          const boxes = [...document.querySelectorAll<SVGRectElement>("#graph .actor")]
            .map((e) => e.getBBox());
          return [...document.querySelectorAll<SVGPathElement>("#graph path.arrow")].filter((e) =>
            Array.from({ length: 200 }, (_, i) => e.getPointAtLength(e.getTotalLength() * i / 200))
              .some((p) => boxes.some((b) => p.x > b.x + 1 && p.x < b.x + b.width - 1 &&
                p.y > b.y + 1 && p.y < b.y + b.height - 1))).length;
        });
        assert.equal(hidden, 0, `${name} at ${width}`);
        const label = page.locator("#graph [data-key=edge-past-0]");
        const [a, b] = [await label.locator("text").boundingBox(),
          await page.locator("#graph svg").boundingBox()];
        assert.ok(a!.x >= b!.x && a!.x + a!.width <= b!.x + b!.width, `${name} at ${width}`);
      }
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
  assert.ok(sheets >= 4 && sheets <= 11, `${sheets} sheets`);
  await page.emulateMedia({ media: "print" });
  assert.equal(
    await page.evaluate(() => getComputedStyle(document.body).backgroundColor),
    "rgb(255, 255, 255)"
  );
  assert.equal(await page.locator(".controls").isVisible(), false);
}));
