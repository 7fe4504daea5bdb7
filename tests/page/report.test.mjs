// The report of `reproduce` in a real browser: every plot of the document is there, drawn, and inside its frame.
//
// SHAPEWISE_REPORT is the folder that the program wrote, with its document as report.json beside the pages.
// SHAPEWISE_SCREENSHOTS=DIR writes pictures. CHROMIUM names another browser.

import assert from "node:assert/strict";
import { mkdirSync, readFileSync, readdirSync } from "node:fs";
import { join, resolve } from "node:path";
import { after, before, describe, test } from "node:test";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
const SIZES = { desktop: { width: 1240, height: 900 }, phone: { width: 360, height: 740 } };

let browser;
let folder;
let report;

before(async () => {
  assert.ok(process.env.SHAPEWISE_REPORT, "set SHAPEWISE_REPORT to the folder of a report");
  folder = resolve(process.env.SHAPEWISE_REPORT);
  report = JSON.parse(readFileSync(join(folder, "report.json"), "utf8"));
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: FLAGS });
});

after(() => browser?.close());

/** Opens a file of the report, and asserts that the console stayed silent and nothing else was asked for. */
async function visit(file, use, options = {}) {
  const context = await browser.newContext({ viewport: SIZES.desktop, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(60_000);
  const address = pathToFileURL(join(folder, file)).href;
  const told = [];
  const asked = [];
  page.on("console", (message) => told.push(`${message.type()}: ${message.text()}`));
  page.on("pageerror", (error) => told.push(`exception: ${error.stack}`));
  page.on("request", (request) => asked.push(request.url()));
  try {
    await page.goto(address);
    await use(page);
    assert.deepEqual(told, [], `${file} is silent`);
    assert.deepEqual(asked.filter((one) => one !== address), [], `${file} asks for nothing`);
  } finally {
    await context.close();
  }
}

/** A section by its name, which may hold a full stop. */
const section = (id) => `section[id="${id}"]`;

/**
 * What is wrong with these pictures: nothing drawn, marks or texts outside the frame, texts over one another. Runs in the page.
 *
 * Marks of a series are told from axes by their colour: axes, letters and frames are grey.
 */
function faults(selector) {
  const wrong = [];
  for (const svg of document.querySelectorAll(selector)) {
    const name = svg.getAttribute("aria-label") ?? document.location.pathname.split("/").pop();
    const frame = svg.getBoundingClientRect();
    if (frame.width < 100 || frame.height < 100) wrong.push(`${name}: ${frame.width} x ${frame.height}`);
    const box = (element) => element.getBoundingClientRect();
    const outside = (rect) => rect.left < frame.left - 1 || rect.right > frame.right + 1 || rect.top < frame.top - 1 || rect.bottom > frame.bottom + 1;
    const colourful = (element) => {
      const style = getComputedStyle(element);
      return [style.fill, style.stroke].some((paint) => {
        const [r, g, b] = (paint.match(/[\d.]+/g) ?? [0, 0, 0]).map(Number);
        return Math.max(r, g, b) - Math.min(r, g, b) > 30;
      });
    };
    const marks = [...svg.querySelectorAll("polyline, circle, path, polygon")].filter(colourful);
    const drawn = marks.filter((mark) => box(mark).width > 0 || box(mark).height > 0);
    if (drawn.length === 0) wrong.push(`${name}: nothing is drawn`);
    for (const mark of drawn.filter((mark) => outside(box(mark)))) wrong.push(`${name}: a ${mark.tagName} lies outside`);
    const texts = [...svg.querySelectorAll("text")].filter((text) => text.textContent.trim() !== "");
    if (texts.length < 6) wrong.push(`${name}: ${texts.length} texts`);
    for (const text of texts.filter((text) => outside(box(text)))) wrong.push(`${name}: "${text.textContent.trim()}" is cut off`);
    for (const [at, one] of texts.entries()) {
      for (const other of texts.slice(at + 1)) {
        const [a, b] = [box(one), box(other)];
        const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
        const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
        // Line boxes are higher than letters.
        if (wide > 1 && high > 0.4 * Math.min(a.height, b.height)) wrong.push(`${name}: "${one.textContent.trim()}" over "${other.textContent.trim()}"`);
      }
    }
  }
  return wrong;
}

describe("the report", () => {
  test("every finding has its plots, drawn and in their frames", async () => {
    for (const [size, viewport] of Object.entries(SIZES)) {
      await visit("report.html", async (page) => {
        const sections = await page.$$eval("section", (all) => all.map((section) => ({
          id: section.id,
          plots: [...section.querySelectorAll("figure svg")].map((svg) => svg.getAttribute("aria-label")),
        })));
        const wanted = report.findings.map((finding) => ({ id: finding.id, plots: finding.panels.map((panel) => panel.title) }));
        assert.ok(wanted.length >= 19 && wanted.every((finding) => finding.plots.length > 0), "every finding draws something");
        assert.deepEqual(sections, wanted, size);
        assert.deepEqual(await page.evaluate(faults, "figure svg"), [], size);
      }, { viewport });
    }
  });

  test("a picture that lost its marks or its place is seen", () => visit("report.html", async (page) => {
    const wrong = await page.evaluate((faults) => {
      const [empty, moved, crowded] = document.querySelectorAll("figure svg");
      for (const mark of empty.querySelectorAll("polyline, circle, path, polygon")) mark.remove();
      moved.querySelector("polyline").setAttribute("transform", "translate(2000 0)");
      const [one, other] = crowded.querySelectorAll("text");
      for (const key of ["x", "y"]) other.setAttribute(key, one.getAttribute(key));
      return new Function(`return (${faults})("figure svg")`)();
    }, faults.toString());
    for (const part of ["nothing is drawn", "lies outside", "\" over \""]) assert.ok(wrong.some((fault) => fault.includes(part)), `${part}: ${wrong}`);
  }));

  test("a line and a point each for what was predicted and measured", () => visit("report.html", async (page) => {
    for (const finding of report.findings) {
      const counts = await page.$$eval(`${section(finding.id)} figure svg`, (all) => all.map((svg) => ({
        lines: svg.querySelectorAll("polyline").length,
        points: svg.querySelectorAll("circle").length,
      })));
      for (const [at, panel] of finding.panels.entries()) {
        const points = panel.points.reduce((sum, series) => sum + series.points.length, 0);
        const lines = panel.predicted.filter((series) => series.points.length > 1).length;
        assert.ok(counts[at].points >= points, `${panel.title}: ${counts[at].points} circles of ${points}`);
        assert.ok(counts[at].lines >= lines, `${panel.title}: ${counts[at].lines} lines of ${lines}`);
      }
    }
  }));

  test("no size needs sideways scrolling, in light or dark, with all opened", async () => {
    const papers = new Set();
    for (const viewport of Object.values(SIZES)) {
      for (const colorScheme of ["light", "dark"]) {
        await visit("report.html", async (page) => {
          await page.evaluate(() => { for (const box of document.querySelectorAll("details")) box.open = true; });
          const over = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
          assert.ok(over <= 0, `${viewport.width} wide, ${colorScheme}: ${over} px too wide`);
          papers.add(await page.evaluate(() => getComputedStyle(document.body).backgroundColor));
          assert.deepEqual(await page.evaluate(faults, "figure svg"), [], colorScheme);
        }, { viewport, colorScheme });
      }
    }
    assert.equal(papers.size, 2, "light and dark differ");
  });

  test("every link of the summary leads to its section", () => visit("report.html", async (page) => {
    const links = await page.$$eval("thead ~ tbody a", (all) => all.map((link) => link.getAttribute("href")));
    assert.deepEqual(links, report.findings.map((finding) => `#${finding.id}`));
    for (const finding of report.findings) assert.equal(await page.locator(section(finding.id)).count(), 1, finding.id);
  }));

  test("every picture stands alone, and Markdown names each", async () => {
    const pictures = readdirSync(folder).filter((name) => name.endsWith(".svg"));
    const panels = report.findings.flatMap((finding) => finding.panels.map((_, at) => `${finding.id}-${at + 1}.svg`));
    assert.deepEqual(pictures.sort(), panels.toSorted());
    const markdown = readFileSync(join(folder, "report.md"), "utf8");
    for (const name of pictures) {
      assert.ok(markdown.includes(`](${name})`), name);
      await visit(name, async (page) => assert.deepEqual(await page.evaluate(faults, "svg"), [], name));
    }
  });

  test("pictures are taken when asked for", { skip: !process.env.SHAPEWISE_SCREENSHOTS && "SHAPEWISE_SCREENSHOTS is not set" }, async () => {
    const target = process.env.SHAPEWISE_SCREENSHOTS;
    mkdirSync(target, { recursive: true });
    for (const [kind, options] of Object.entries({ light: {}, dark: { colorScheme: "dark" }, phone: { viewport: SIZES.phone } })) {
      await visit("report.html", (page) => page.screenshot({ path: join(target, `report-${kind}.png`), fullPage: true }), options);
    }
    await visit("report.html", async (page) => {
      for (const finding of report.findings) {
        await page.locator(section(finding.id)).screenshot({ path: join(target, `report-${finding.id}.png`) });
      }
    });
  });
});
