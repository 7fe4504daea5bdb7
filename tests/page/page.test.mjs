// The page in a real browser: what it shows is what the API answers, by pointer and by keyboard, and nothing else is asked.
//
// SHAPEWISE_URL is the address of a running service; without it, SHAPEWISE_BIN is started on a free port and stopped
// at the end. SHAPEWISE_SCREENSHOTS=DIR writes a picture of every view, SHAPEWISE_BLESS that of docs/serve.md. CHROMIUM
// names another browser.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { after, before, describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const FILES = new URL("../../src/serve/page/", import.meta.url);
const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
const LLAMA = { model_type: "llama", hidden_size: 4096, intermediate_size: 11008, num_attention_heads: 32, num_hidden_layers: 32, num_key_value_heads: 32, vocab_size: 32001, max_position_embeddings: 4096, rms_norm_eps: 1e-5, hidden_act: "silu", tie_word_embeddings: false, torch_dtype: "bfloat16" };

let browser;
let service;
let base;

/** Starts the program and resolves to its address once it listens. */
function start() {
  const program = process.env.SHAPEWISE_BIN;
  assert.ok(program, "set SHAPEWISE_URL to a running service, or SHAPEWISE_BIN to the program");
  const child = spawn(program, ["serve", "--listen", "127.0.0.1:0"], { stdio: ["ignore", "ignore", "pipe"] });
  const address = new Promise((resolve, reject) => {
    let said = "";
    child.stderr.on("data", (text) => {
      said += text;
      const found = /http:\/\/127\.0\.0\.1:\d+/.exec(said);
      if (found) resolve(found[0]);
    });
    child.on("exit", (code) => reject(new Error(`the service ended with ${code}: ${said}`)));
  });
  return { child, address };
}

before(async () => {
  if (process.env.SHAPEWISE_URL) base = process.env.SHAPEWISE_URL.replace(/\/$/, "");
  else {
    service = start();
    base = await service.address;
  }
  assert.equal((await fetch(`${base}/healthz`)).status, 200, "the service runs");
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: FLAGS });
});

after(async () => {
  await browser?.close();
  service?.child.kill("SIGTERM");
});

/**
 * Runs `use(page, seen)` on a fresh page and then asserts that the console stayed silent, no policy was violated and
 * nobody else was asked. `failures` says that some requests are meant to fail, which the browser itself reports.
 */
async function visit(path, use, { failures = false, ...options } = {}) {
  const context = await browser.newContext({ viewport: { width: 1240, height: 900 }, acceptDownloads: true, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(60_000);
  const seen = { console: [], requests: [], posts: [] };
  page.on("console", (message) => {
    if (!["error", "warning"].includes(message.type())) return;
    if (failures && message.text().startsWith("Failed to load resource:")) return;
    seen.console.push(`${message.type()}: ${message.text()}`);
  });
  page.on("pageerror", (error) => seen.console.push(`exception: ${error.stack}`));
  page.on("request", (request) => {
    seen.requests.push(request.url());
    if (request.method() === "POST") seen.posts.push({ path: new URL(request.url()).pathname, body: request.postDataJSON() });
  });
  await page.addInitScript(() => {
    globalThis.violations = [];
    document.addEventListener("securitypolicyviolation", (event) => globalThis.violations.push(`${event.violatedDirective} ${event.blockedURI}`));
  });
  try {
    await page.goto(base + path);
    await made(page);
    await use(page, seen);
    assert.deepEqual(seen.console, [], "the console stays silent");
    assert.deepEqual(await page.evaluate(() => globalThis.violations), [], "the content security policy holds");
    const others = seen.requests.filter((address) => !address.startsWith(`${base}/`) && !/^(data|blob):/.test(address));
    assert.deepEqual(others, [], "nobody else is asked");
  } catch (error) {
    error.message += `\nconsole: ${seen.console.join("\n")}\nat ${page.url()}`;
    throw error;
  } finally {
    await context.close();
  }
}

async function ask(path, body) {
  const answer = await fetch(base + path, body && { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
  assert.equal(answer.status, 200, `${path} ${JSON.stringify(body)}`);
  return answer.json();
}

// How numbers are written, independently of the page.
const commas = (value) => Math.round(value).toLocaleString("en");
const percent = (fraction) => `${(fraction * 100).toFixed(Math.abs(fraction * 100) >= 9.95 ? 0 : 1)} %`;
const signed = (fraction) => (fraction < 0 ? "−" : "+") + percent(Math.abs(fraction));
const four = (value) => value.toFixed(Math.min(6, Math.max(0, 3 - Math.floor(Math.log10(Math.abs(value))))));
const gib = (bytes) => `${four(bytes / 2 ** 30)} GiB`;
const ms = (us) => `${four(us / 1e3)} ms`;
const plain = (text) => text.replace(/\u00a0/g, " ").replace(/\s+/g, " ").trim();

/** Forms are made when the service has said what they hold. */
const made = (page) => page.waitForSelector("main section:not([hidden]) form, main section:not([hidden]) .output, .index, main > [role=alert]", { state: "attached" });

/** The text of an element with plain spaces. */
const text = async (page, selector) => plain(await page.locator(selector).first().innerText());

const state = (page) => page.evaluate(() => location.hash);
const searched = (page) => page.waitForSelector("#view-search table.ranking tr.shape");
const planned = (page) => page.waitForSelector("#view-plan .output table tbody tr");
const checked = (page) => page.waitForSelector("#view-check .rules tbody tr");
/** Waits until the answer of a view is about this. */
const answers = (page, view, what) => page.waitForFunction(([one, text]) => document.querySelector(`#view-${one} .output[aria-busy=false] h2`)?.innerText.includes(text), [view, what]);
const compared = (page) => page.waitForSelector("#view-compare .output table tbody tr");
const predicted = (page) => page.waitForSelector("#view-predict .output[aria-busy=false] .tiles");
const drawn = (page) => page.waitForSelector("#view-explore .plot svg:not(.cross)");

async function saved(page, click) {
  const [download] = await Promise.all([page.waitForEvent("download"), click()]);
  return { name: download.suggestedFilename(), text: await readFile(await download.path(), "utf8") };
}

/** Whether an element stands right of, left of, above or below the window. */
const overflow = (page) => page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);

describe("predict", () => {
  test("shows a step whose numbers are those of the API", async () => {
    for (const [query, request] of [
      ["", { architecture: "llama-3-8b", gpu: "h200", workload: { mode: "decode" } }],
      ["?architecture=gpt3-2.7b&gpu=a100&mode=train&tp=2&dp=4&tokens=100B&usd_per_gpu_hour=2", { architecture: "gpt3-2.7b", gpu: "a100", tokens: "100B", usd_per_gpu_hour: 2, workload: { tp: 2, dp: 4 } }],
    ]) {
      await visit(`/#predict${query}`, async (page, seen) => {
        await predicted(page);
        const step = await ask("/v1/predict/model", request);
        assert.deepEqual(seen.posts.find((post) => post.path === "/v1/predict/model").body, request);
        const tiles = await text(page, "#view-predict .tiles");
        for (const part of [commas(step.tokens_per_s_per_gpu), gib(step.memory.memory_bytes)]) assert.ok(tiles.includes(part), `${part} in ${tiles}`);
        if (step.run) assert.ok(tiles.includes(`${four(step.run.days)} days`), tiles);
        // The parts of the bar are the whole step.
        const widths = await page.$$eval("#view-predict .shares:first-of-type rect", (all) => all.map((one) => parseFloat(one.getAttribute("width"))));
        const [bar] = await page.$$eval("#view-predict .names", (all) => all.map((list) => list.childElementCount));
        const sum = widths.slice(0, bar).reduce((a, b) => a + b, 0);
        assert.ok(Math.abs(sum - 100) < 0.1, `${sum}`);
        const communication = step.lines.filter((line) => line.op.kind === "collective").reduce((all, line) => all + line.share, 0);
        assert.equal((await text(page, "#view-predict .names")).includes("Communication"), communication > 0.0005);
        for (const caveat of step.caveats) assert.ok((await text(page, "#view-predict .output")).includes(`${percent(caveat.time_share)} of the time: ${caveat.text}`), caveat.text);
        await page.getByText(`All ${step.lines.length} operators`).click();
        assert.equal(await page.locator("#view-predict .operators tbody tr").count(), step.lines.length + step.rest.length);
      });
    }
  });

  test("draws every operator under the roof, for pointer and keyboard", () => visit("/#predict", async (page, seen) => {
    await predicted(page);
    const step = await ask("/v1/predict/model", seen.posts.find((post) => post.path === "/v1/predict/model").body);
    const plot = page.locator('#view-predict .plot[aria-label^="Operators under"]');
    const dots = step.lines.filter((line) => line.flops > 0).sort((a, b) => a.flops / a.bytes - b.flops / b.bytes);
    assert.equal(await plot.getAttribute("aria-valuemax"), String(dots.length - 1));
    await plot.focus();
    await page.keyboard.press("End");
    const said = plain(await plot.getAttribute("aria-valuetext"));
    assert.ok(said.includes(`${percent(dots.at(-1).share)} of the time, ${four(dots.at(-1).tflops_per_s)} TFLOP/s`), said);
    // Pointing at a part of the bar names its operators.
    await page.locator("#view-predict .shares g[aria-label^=MLP] rect").first().hover();
    assert.match(await text(page, "#view-predict .readout"), /^MLP .*mlp up \d+ %/);
  }));

  test("sliders move the step and its curves, and the address follows", () => visit("/#predict", async (page, seen) => {
    await predicted(page);
    const curve = () => page.locator("#view-predict .plot path.line").first().getAttribute("d");
    const before = await curve();
    await page.focus("#predict-slide-seq");
    await page.keyboard.press("ArrowRight");
    await page.waitForFunction(() => document.querySelector("#view-predict .sub").innerText.includes("context 8192") && document.activeElement.id === "predict-slide-seq");
    assert.notEqual(await curve(), before);
    await page.focus("#predict-slide-batch");
    await page.keyboard.press("ArrowRight");
    await page.waitForFunction(() => document.querySelector("#view-predict .sub").innerText.includes("batch 16"));
    assert.match(await state(page), /batch=16/);
    const last = seen.posts.filter((post) => post.path === "/v1/predict/model").at(-1).body;
    assert.deepEqual(last.workload, { mode: "decode", batch: 16, seq: 8192 });
    const step = await ask("/v1/predict/model", last);
    assert.ok((await text(page, "#view-predict .tiles")).includes(ms(step.time_us)));
  }));

  test("a slider beyond what the model holds says so, and leads back", () => visit("/#predict?architecture=gpt2&seq=512", async (page) => {
    await predicted(page);
    await page.focus("#predict-slide-seq");
    await page.keyboard.press("End");
    await page.waitForSelector("#view-predict [role=alert]:not(:empty)");
    assert.match(await text(page, "#view-predict [role=alert]"), /1024/);
    assert.equal(await page.evaluate(() => document.activeElement.id), "predict-slide-seq");
    await page.keyboard.press("Home");
    await predicted(page);
    assert.ok((await text(page, "#view-predict .sub")).includes("context 128"));
  }, { failures: true }));

  test("says what launches the same", async () => {
    const launched = async (page, view, name) => {
      await page.locator(`#view-${view} summary`, { hasText: "launch flags" }).click();
      return text(page, `#view-${view} .copyable:has([aria-label="Copy: ${name}"]) code`);
    };
    await visit("/#predict?architecture=llama-3-70b&gpu=h100&mode=train&tp=8&pp=4&dp=2&vp=2&microbatches=16&batch=1&zero=1&recompute=full", async (page) => {
      await predicted(page);
      const command = await launched(page, "predict", "torchrun and Megatron-LM");
      for (const part of ["--nnodes 8 --nproc-per-node 8", "--num-layers 80", "--num-query-groups 8", "--tensor-model-parallel-size 8", "--pipeline-model-parallel-size 4", "--num-virtual-stages-per-pipeline-rank 2", "--global-batch-size 32", "--use-distributed-optimizer", "--recompute-granularity full", "--bf16"]) assert.ok(command.includes(part), `${part} in ${command}`);
    });
    await visit("/#plan?architecture=deepseek-v3&gpu=h200&gpus=16&mode=decode&dtype=fp8&kv_cache_dtype=fp8", async (page, seen) => {
      await planned(page);
      const { seq, output, plans: [{ layouts: [{ workload }] }] } = await ask("/v1/plan", seen.posts[0].body);
      const vllm = await launched(page, "plan", "vLLM");
      for (const part of ["vllm serve deepseek-ai/DeepSeek-V3", `--tensor-parallel-size ${workload.tp}`, `--max-num-seqs ${workload.batch * workload.microbatches}`, `--max-model-len ${seq + output}`, "--quantization fp8"]) assert.ok(vllm.includes(part), `${part} in ${vllm}`);
      const sglang = await text(page, '#view-plan .copyable:has([aria-label="Copy: SGLang"]) code');
      assert.ok(sglang.includes(`--context-length ${seq + output}`), sglang);
    });
  });

  test("a curve that fails leaves the rest", () => visit("/#models", async (page) => {
    await page.route("**/v1/sweep/model", (route) => route.fulfill({ status: 429, headers: { "Retry-After": "7" }, contentType: "application/problem+json", body: JSON.stringify({ title: "Too much at once", status: 429 }) }));
    await page.getByRole("link", { name: "Predict", exact: true }).click();
    await predicted(page);
    assert.match(await text(page, "#view-predict .pair .note"), /server is busy/);
    assert.equal(await page.locator('#view-predict .plot[aria-label^="Operators under"]').count(), 1);
  }, { failures: true }));
});

describe("plan", () => {
  const cells = (page, view) => page.$$eval(`#view-${view} .output table:first-of-type tbody tr`, (all) => all.map((row) => [...row.cells].map((cell) => cell.innerText)));

  test("lays out a config.json of one's own, kept in the address", async () => {
    for (const [view, path, gpu] of [["plan", "/v1/plan", "h100"], ["compare", "/v1/compare", "h100,a100"]]) {
      await visit(`/#${view}`, async (page, seen) => {
        await page.check(`#${view}-source-config`);
        assert.ok(!(await page.isVisible(`#${view}-architecture`)));
        await page.fill(`#${view}-config`, JSON.stringify(LLAMA, null, 4));
        if (view === "plan") await page.selectOption("#plan-gpu", gpu);
        else await page.fill("#compare-gpu", gpu);
        await page.fill(`#${view}-gpus`, "8");
        await page.click(`#view-${view} button.main`);
        const answer = await ask(path, { architecture: LLAMA, gpu, gpus: 8 });
        await answers(page, view, answer.model);
        const asked = seen.posts.at(-1).body;
        assert.deepEqual(asked.architecture, LLAMA);
        assert.match(await state(page), /config=/);
        assert.deepEqual(JSON.parse(await page.inputValue(`#${view}-config`)), LLAMA);
      });
    }
  });

  test("shows layouts whose numbers are those of the API", () => visit("/#plan", async (page, seen) => {
    await page.fill("#plan-architecture", "llama-3-8b");
    await page.selectOption("#plan-gpu", "h100");
    await page.fill("#plan-gpus", "64");
    await page.click("#view-plan button.main");
    await answers(page, "plan", "llama-3-8b");
    const asked = seen.posts.at(-1).body;
    assert.deepEqual(asked, { architecture: "llama-3-8b", gpu: "h100", gpus: 64 });
    const { plans: [plan] } = await ask("/v1/plan", asked);
    const rows = (await cells(page, "plan")).slice(0, plan.layouts.length);
    plan.layouts.forEach((layout, at) => {
      const row = rows[at].map(plain);
      assert.equal(row[4], commas(layout.tokens_per_s_of_all_gpus));
      assert.equal(row[6], percent(layout.step.mfu));
      assert.equal(row[11], gib(layout.memory_bytes));
      assert.ok(row[1].includes(`dp ${layout.workload.dp}`), row[1]);
    });
    await page.focus("#view-plan .plot");
    await page.keyboard.press("ArrowRight");
    assert.match(await text(page, "#view-plan .readout"), /tokens\/s per GPU/);
  }));

  test("scales over numbers of GPUs, serves within limits, and compares GPUs", async () => {
    await visit("/#plan?architecture=llama-3-8b&gpu=h100&gpus=8:32", async (page) => {
      await planned(page);
      const rows = (await cells(page, "plan")).map((row) => plain(row[0]));
      assert.deepEqual(rows, ["8", "16", "32"]);
    });
    await visit("/#plan?architecture=llama-3-8b&gpu=h100&gpus=8&mode=decode&tpot_ms=20", async (page) => {
      await planned(page);
      for (const row of await cells(page, "plan")) assert.ok(Number.parseFloat(row[9]) <= 20, row[9]);
      // The limit stands at its place between engines within and beyond it.
      const plot = page.locator('#view-plan .plot[aria-label^="Throughput against the speed"]');
      assert.equal(await plot.locator("text", { hasText: "20.00 ms a token" }).count(), 1);
      const limit = Number(await plot.locator("line.mark").getAttribute("x1"));
      const places = (mark) => plot.locator(`g g circle${mark}, g circle${mark}`).evaluateAll((all) => all.map((one) => Number(one.getAttribute("cx"))).filter((x) => x > 50));
      const [within, beyond] = [(await places(".dot")).slice(1), (await places(".ring")).slice(1)];
      assert.ok(within.length > 3 && beyond.length > 3);
      for (const x of within) assert.ok(x >= limit - 0.1, `${x} of ${limit}`);
      for (const x of beyond) assert.ok(x <= limit + 0.1, `${x} of ${limit}`);
    });
    await visit("/#compare?architecture=llama-3-8b&gpu=v100,a100,h100&gpus=8&dtype=bf16", async (page) => {
      await compared(page);
      const rows = (await cells(page, "compare")).map((row) => plain(row[0]));
      assert.deepEqual(rows, ["h100", "a100"]);
      assert.match(await text(page, "#view-compare .output .facts"), /v100.*bf16/);
    });
    await visit("/#compare?architecture=llama-3-8b&gpu=a100,h100&gpus=8&usd_per_gpu_hour=a100=1,h100=3", async (page, seen) => {
      await compared(page);
      const { compared: [first] } = await ask("/v1/compare", seen.posts[0].body);
      const shown = await text(page, "#view-compare .output table tbody tr");
      for (const part of [`${commas(first.layout.tokens_per_s_per_gpu_low)} to ${commas(first.layout.tokens_per_s_per_gpu_high)}`, four(first.layout.usd_per_million_tokens)]) assert.ok(shown.includes(part), `${part} in ${shown}`);
    });
  });

  test("shows the limits where requests are served", () => visit("/#plan?gpus=16", async (page) => {
    await planned(page);
    assert.ok(await page.isVisible("#plan-global_batch") && await page.isHidden("#plan-tpot_ms"));
    await page.selectOption("#plan-mode", "decode");
    assert.ok(await page.isHidden("#plan-global_batch"));
    await page.fill("#plan-tpot_ms", "40");
    await page.click("#view-plan button.main");
    await page.waitForSelector('#view-plan .plot[aria-label^="Throughput against the speed"]');
    assert.equal(await page.locator("#view-plan .plot text", { hasText: "40.00 ms a token" }).count(), 1);
    assert.match(await state(page), /tpot_ms=40/);
  }));

  test("a wrong field is named beside it", () => visit("/#plan?architecture=llama-3-8b&gpu=h100&gpus=64&global_batch=5000", async (page) => {
    await page.waitForSelector("#view-plan [role=alert] :not(:empty)");
    assert.match(await text(page, "#plan-global_batch-error"), /a number of tokens near 4096 or 8192/);
  }, { failures: true }));
});

describe("search", () => {
  test("shows ranked shapes whose numbers are those of the API", () => visit("/#search?params=160M&no_sharding=1&batch=1", async (page, seen) => {
    await page.fill("#search-params", "2.7B");
    await page.selectOption("#search-gpu", "a100");
    await page.click("#view-search button.main");
    await answers(page, "search", "2,700,000,000");
    const asked = seen.posts.at(-1).body;
    assert.deepEqual(asked, { params: "2.7B", gpu: "a100", export: true, no_sharding: true, workload: { batch: 1 } });
    const found = await ask("/v1/search", asked);
    const rows = await page.$$eval("#view-search tr.shape", (all) => all.map((row) => [...row.cells].map((cell) => cell.innerText)));
    assert.equal(rows.length, found.shapes.length);
    assert.ok(rows.length >= 3);
    found.shapes.forEach((shape, at) => {
      const cells = rows[at].map(plain);
      const gpus = shape.tokens_per_s / shape.tokens_per_s_per_gpu;
      const { layers, hidden, heads, kv_heads, head_dim, d_ff, vocab, parameters } = shape.shape;
      assert.equal(cells[0], String(shape.rank));
      assert.equal(cells[1], commas(shape.tokens_per_s_per_gpu));
      assert.equal(cells[2], `${commas(shape.tokens_per_s_low / gpus)} to ${commas(shape.tokens_per_s_high / gpus)}`);
      assert.equal(cells[3], `${signed(shape.gain)} ± ${percent(shape.cost_half_width)}`);
      const [time, low, high] = ["", "_low", "_high"].map((end) => shape[`gpu_time_to_equal_loss${end}`].toFixed(2));
      assert.equal(cells[4], `${time} ${low} to ${high}`);
      assert.deepEqual(cells.slice(5, 13), [layers, hidden, heads, kv_heads, head_dim, d_ff, vocab, `${four(parameters / 1e9)}B`].map(String));
      // Batch and layout stand between where a shape runs on several GPUs.
      const after = shape.layout ? 15 : 13;
      assert.equal(cells[after], percent(shape.mfu));
      assert.equal(cells[after + 1], gib(shape.memory_bytes));
    });
    const baseline = (await page.$$eval("#view-search tbody.baseline td", (all) => all.map((cell) => cell.innerText))).map(plain);
    assert.equal(baseline[0], commas(found.baseline.tokens_per_s_per_gpu));
    assert.ok(baseline[1].includes(found.baseline.shape.name));
    const groups = await page.$$eval("#view-search tbody.tie", (all) => all.map((group) => [group.dataset.tie, group.querySelectorAll("tr.shape").length]));
    const expected = found.shapes.reduce((all, { tie_group: tie }) => ({ ...all, [tie]: (all[tie] ?? 0) + 1 }), {});
    assert.deepEqual(Object.fromEntries(groups), expected);
    const why = plain(await page.locator("#view-search tr.why").first().innerText());
    const [first] = found.shapes;
    assert.ok(why.includes(`${first.won[0].role.replaceAll("_", " ")} ${signed(first.won[0].time_change)}`), why);
    assert.ok(why.includes(`${percent(first.tier_shares.transferred)} transferred`), why);
    for (const rule of first.rules_broken) assert.ok(why.includes(rule), why);
    const rests = await text(page, "#view-search .output");
    assert.ok(rests.includes(`${commas(found.search.evaluations)} evaluations`), rests);
    assert.ok(rests.includes(found.basis[0].stack), rests);
  }));

  test("shows the layout of each shape, and latents in the place of key heads", () => visit("/#search?params=350M&gpu=h100&gpus=64&free=latent&top=4", async (page, seen) => {
    await searched(page);
    const asked = seen.posts.find((post) => post.path === "/v1/search").body;
    assert.deepEqual([asked.gpus, asked.free], [64, ["latent"]]);
    const found = await ask("/v1/search", asked);
    assert.match(await text(page, "#view-search .note"), /^Layout: each shape is timed under its own fastest one over 64 GPUs/);
    const rows = await page.$$eval("#view-search tr.shape", (all) => all.map((row) => [...row.cells].map((cell) => cell.innerText)));
    found.shapes.forEach((shape, at) => {
      const cells = rows[at].map(plain);
      const { kv_heads, kv_lora_rank } = shape.shape;
      assert.equal(cells[8], kv_lora_rank ? `latent ${kv_lora_rank}` : String(kv_heads));
      assert.equal(cells[13], String(shape.batch));
      assert.ok(cells[14].includes(`dp ${shape.layout.dp}`), cells[14]);
    });
    const latent = found.shapes.filter((shape) => shape.shape.kv_lora_rank);
    assert.ok(latent.length > 0 && latent.length < found.shapes.length);
  }));

  test("saves the config.json of a shape, and checks it", () => visit("/#search?params=350M&gpu=a100", async (page) => {
    await searched(page);
    const file = await saved(page, () => page.getByRole("button", { name: "Save config.json of shape 2", exact: true }).click());
    const config = JSON.parse(file.text);
    assert.equal(typeof config.model_type, "string");
    const row = (await page.$$eval("#view-search tr.shape", (all) => [...all[1].cells].map((cell) => cell.innerText))).map(plain);
    assert.equal(String(config.num_hidden_layers ?? config.n_layer), row[5]);
    assert.match(file.name, /^config-2-\d+x\d+\.json$/);
    await page.getByRole("link", { name: "Check shape 2", exact: true }).click();
    await checked(page);
    assert.equal(await page.inputValue("#check-gpu"), "a100");
    assert.deepEqual(JSON.parse(await page.inputValue("#check-config")), config);
  }));

  test("says where a style cannot be a config.json, and searches without", () => visit("/#search?params=&gpu=a100&like=falcon-7b&no_sharding=1&mode=prefill", async (page, seen) => {
    await searched(page);
    assert.match(await text(page, "#view-search .output"), /No config\.json: .*falcon-7b/);
    assert.equal(await page.locator("#view-search .actions").count(), 0);
    assert.deepEqual(seen.posts.map((post) => post.body.export), [true, undefined]);
  }, { failures: true }));

  test("says where a config.json narrows the search", () => visit("/#search?params=&gpu=a100&like=gpt3-2.7b&top=3", async (page) => {
    await searched(page);
    assert.match(await text(page, "#view-search .note"), /^Kept: every head has its own keys/);
    await page.click("#view-search details.options summary");
    await page.uncheck("#search-configs");
    await page.click("#view-search button.main");
    await page.waitForFunction(() => !document.querySelector("#view-search .note"));
    await searched(page);
    assert.match(await state(page), /configs=/);
  }));

  test("is cancelled by its button", () => visit("/#search?params=350M", async (page, seen) => {
    let release;
    const held = new Promise((resolve) => { release = resolve; });
    await page.route("**/v1/search", async (route) => {
      await held;
      await route.abort().catch(() => {});
    });
    await searched(page);
    const ended = page.waitForEvent("requestfailed");
    await page.click("#view-search button.main");
    await page.waitForSelector("#view-search progress:not([hidden])");
    await page.getByRole("button", { name: "Cancel" }).click();
    const request = await ended;
    assert.match(request.failure().errorText, /ABORTED/);
    assert.match(await text(page, "#view-search .status"), /^Cancelled/);
    assert.equal(await page.locator("#view-search .alert:not(:empty)").count(), 0);
    assert.ok(await page.locator("#view-search progress").isHidden());
    release();
    await page.unroute("**/v1/search");
    await page.click("#view-search button.main");
    await page.waitForFunction(() => document.querySelector("#view-search .status").textContent.endsWith("found."));
    assert.equal(seen.posts.length, 3);
  }));

  test("shows progress while the stream lasts", () => visit("/#search?params=350M", async (page) => {
    await searched(page);
    await page.route("**/v1/search", async (route) => {
      const found = await ask("/v1/search", route.request().postDataJSON());
      const events = [["progress", { done: 4000, total: 20000, best_time_ratio: 0.97 }], ["result", found]];
      await route.fulfill({ contentType: "text/event-stream", body: events.map(([name, data]) => `event: ${name}\n${JSON.stringify(data, null, 1).split("\n").map((line) => `data: ${line}`).join("\n")}\n\n`).join(": a comment\n\n") });
    });
    await page.evaluate(() => {
      globalThis.said = [];
      new MutationObserver(() => globalThis.said.push(document.querySelector("#view-search .controls .hint").textContent)).observe(document.querySelector("#view-search .controls .hint"), { childList: true, characterData: true, subtree: true });
    });
    await page.click("#view-search button.main");
    await page.waitForFunction(() => document.querySelector("#view-search .status").textContent.endsWith("found."));
    const said = await page.evaluate(() => globalThis.said);
    assert.ok(said.some((line) => line.includes("4,000 of 20,000") && line.includes("0.9700")), said.join(" | "));
  }));

  test("says where states were sharded, and gives the same on the command line", () => visit("/#search?params=175B&gpu=h100&top=2", async (page, seen) => {
    await searched(page);
    const found = await ask("/v1/search", seen.posts[0].body);
    assert.ok(found.sharded);
    assert.match(await text(page, "#view-search .output"), new RegExp(`its own fastest one over ${commas(found.workload.tp * found.workload.cp * found.workload.pp * found.workload.dp)} GPUs`));
    await page.getByText("The same from a shell").click();
    const command = await text(page, "#view-search .copyable code");
    assert.match(command, /^shapewise search /);
    for (const part of ["--params 175B", "--gpu h100", "--top 2", "--export configs"]) assert.ok(command.includes(part), command);
    const python = await text(page, "#view-search .copyable:nth-child(4) code");
    assert.ok(python.includes('"export": True'), python);
  }));

  test("draws the Pareto plot for pointer and keyboard", () => visit("/#search?params=350M&gpu=a100", async (page, seen) => {
    await searched(page);
    const found = await ask("/v1/search", seen.posts[0].body);
    const plot = page.locator('#view-search .plot[aria-label^="Throughput against memory"]');
    const points = found.pareto_front.length + found.shapes.length + 1;
    assert.equal(await plot.getAttribute("aria-valuemax"), String(points - 1));
    await plot.focus();
    const first = await plot.getAttribute("aria-valuetext");
    await page.keyboard.press("End");
    const last = await plot.getAttribute("aria-valuetext");
    assert.notEqual(first, last);
    const most = [...found.pareto_front, ...found.shapes, found.baseline].reduce((a, b) => (a.memory_bytes > b.memory_bytes ? a : b));
    assert.ok(plain(last).includes(`${commas(most.tokens_per_s_per_gpu)} tokens/s`) && plain(last).includes(gib(most.memory_bytes)), last);
    assert.equal(await text(page, '#view-search figure:has([aria-label^="Throughput against memory"]) .readout'), plain(last));
    const dot = await plot.locator("g.t1 path.dot").last().boundingBox();
    await page.mouse.move(dot.x + dot.width / 2, dot.y + dot.height / 2);
    assert.ok((await text(page, '#view-search figure:has([aria-label^="Throughput against memory"]) .readout')).startsWith(`Baseline ${found.baseline.shape.name}`));
  }));
});

describe("check", () => {
  test("judges a published model, with its fixed shape beside it", () => visit("/#check", async (page) => {
    await page.fill("#check-architecture", "gpt3-2.7b");
    await page.click("#view-check button.main");
    await checked(page);
    const answer = await ask("/v1/check", { architecture: "gpt3-2.7b" });
    const output = await text(page, "#view-check .output");
    assert.ok(output.includes(`${ms(answer.predicted.time_us)} (90 %: ${ms(answer.predicted.low_us)} to ${ms(answer.predicted.high_us)})`), output);
    assert.equal(await text(page, "#view-check .status"), `${answer.broken} of ${answer.rules.filter((rule) => rule.verdict !== "not_applicable").length} rules that apply are broken.`);
    const together = await text(page, "#together");
    assert.ok(together.includes(`step ${ms(answer.predicted.time_us)} ${ms(answer.together.predicted.time_us)}`), together);
    assert.ok(together.includes(`vocab ${answer.model.vocab} ${answer.together.architecture.vocab}`), together);
    const { gain } = answer.together;
    assert.ok(together.includes(`${percent(gain.time_saved_fraction)} less time (90 %: ${signed(gain.low_fraction)} to ${signed(gain.high_fraction)})`), together);
    assert.equal(await page.locator("#view-check .rules tbody tr").count(), answer.rules.length);
    for (const rule of answer.rules.filter((one) => one.verdict === "broken")) {
      const paragraph = await text(page, `[data-rule=${rule.id}]`);
      assert.ok(paragraph.includes(rule.source) && paragraph.includes(rule.detail), paragraph);
      if (rule.fix) assert.ok(paragraph.includes(`step ${ms(answer.predicted.time_us)} ${ms(rule.fix.predicted.time_us)}`), paragraph);
    }
    await page.getByRole("link", { name: "Where the time goes" }).click();
    await predicted(page);
    assert.match(await text(page, "#view-predict h2"), /^gpt3-2\.7b on/);
    assert.equal(await page.inputValue("#predict-mode"), "train");
  }));

  test("judges a pasted config.json, kept in the address", () => visit("/#check", async (page) => {
    await page.check("#check-source-config");
    await page.fill("#check-config", JSON.stringify(LLAMA, null, 4));
    await page.selectOption("#check-gpu", "a100");
    await page.click("#view-check button.main");
    await answers(page, "check", "(a100)");
    const answer = await ask("/v1/check", { architecture: LLAMA, gpu: "a100" });
    assert.ok(answer.broken > 0);
    assert.ok((await text(page, "#view-check .output")).includes(`${commas(answer.model.parameters)} parameters`));
    assert.match(await text(page, "[data-rule=vocabulary]"), /32001/);
    await page.reload();
    await checked(page);
    assert.deepEqual(JSON.parse(await page.inputValue("#check-config")), LLAMA);
    assert.equal(await page.inputValue("#check-gpu"), "a100");
  }));

  test("takes a file that is dropped or chosen", () => visit("/#check", async (page) => {
    const transfer = await page.evaluateHandle((config) => {
      const data = new DataTransfer();
      data.items.add(new File([config], "config.json", { type: "application/json" }));
      return data;
    }, JSON.stringify(LLAMA));
    await page.dispatchEvent("#view-check h1", "drop", { dataTransfer: transfer });
    await page.waitForFunction(() => document.querySelector("#check-config").value.includes("32001"));
    assert.ok(await page.isChecked("#check-source-config"));
    await page.setInputFiles("#view-check input[type=file]", { name: "config.json", mimeType: "application/json", buffer: Buffer.from(JSON.stringify({ ...LLAMA, vocab_size: 32003 })) });
    await page.waitForFunction(() => document.querySelector("#check-config").value.includes("32003"));
    await page.click("#view-check button.main");
    await page.waitForFunction(() => document.querySelector("[data-rule=vocabulary]")?.textContent.includes("32003"));
  }));

  test("shows what does not run, and what would", () => visit("/#check?architecture=gpt3-2.7b&tp=3", async (page) => {
    await checked(page);
    assert.match(await text(page, "#view-check .note"), /Does not run: .*tp/);
    assert.match(await text(page, "#together"), /does not run/);
  }));
});

describe("explore", () => {
  test("draws a curve, and tells its values by pointer and keyboard", () => visit("/#explore", async (page) => {
    await page.selectOption("#explore-gpu", "a100");
    await page.click("#view-explore button.main");
    await drawn(page);
    const sweep = await ask("/v1/sweep/gemm", { m: 2304, n: "1536:6144:64", k: 4096, gpu: "a100" });
    const plot = page.locator("#view-explore .plot");
    const path = await plot.locator("path.line").first().getAttribute("d");
    const dots = path.slice(1).split("L").map((pair) => pair.split(",").map(Number));
    assert.equal(dots.length, sweep.points.length);
    // The curve has the shape of the answer: heights are linear in the rate.
    const rates = sweep.points.map((point) => point.tflops_per_s);
    const [high, low] = [rates.indexOf(Math.max(...rates)), rates.indexOf(Math.min(...rates))];
    const slope = (dots[high][1] - dots[low][1]) / (rates[high] - rates[low]);
    rates.forEach((rate, at) => assert.ok(Math.abs(dots[at][1] - (dots[low][1] + slope * (rate - rates[low]))) < 0.3, `point ${at}`));
    assert.ok(slope < 0);
    assert.equal(await plot.locator("path.drop").count(), sweep.drops.length + 1, "every drop, and one in the legend");
    assert.match(await text(page, "#view-explore .facts"), new RegExp(`${sweep.drops[0].value} \\(−${percent(sweep.drops[0].depth)}\\)`));

    await plot.focus();
    await page.keyboard.press("Home");
    await page.keyboard.press("ArrowRight");
    const second = sweep.points[1];
    const said = plain(await plot.getAttribute("aria-valuetext"));
    assert.ok(said.startsWith(`n ${second.value}: ${four(second.tflops_per_s)} TFLOP/s (90 %:`), said);
    assert.ok((await text(page, "#view-explore .readout")).includes(`${four(second.tflops_per_s)} TFLOP/s`));
    const box = await plot.locator("svg:not(.cross)").boundingBox();
    await page.mouse.move(box.x + dots[40][0], box.y + 100);
    assert.ok((await text(page, "#view-explore .readout")).startsWith(`n ${sweep.points[40].value} ${four(sweep.points[40].tflops_per_s)} TFLOP/s`));
    assert.equal(await plot.locator(".cross circle").count(), 1);
  }));

  test("compares GPUs in one plot, one request each", () => visit("/#explore?op=gemm&vary=n&range=1536:6144:64&gpu=a100&gpu2=h100", async (page, seen) => {
    await drawn(page);
    assert.deepEqual(seen.posts.map((post) => post.body.gpu).sort(), ["a100", "h100"]);
    const plot = page.locator("#view-explore .plot");
    assert.equal(await plot.locator("g > path.line").count(), 2);
    await plot.focus();
    const [a100, h100] = await Promise.all(["a100", "h100"].map((gpu) => ask("/v1/sweep/gemm", { m: 2304, n: "1536:6144:64", k: 4096, gpu })));
    const readout = await text(page, "#view-explore .readout");
    assert.ok(readout.includes(`a100 ${four(a100.points[0].tflops_per_s)} TFLOP/s`) && readout.includes(`h100 ${four(h100.points[0].tflops_per_s)} TFLOP/s`), readout);
    assert.equal(await plot.locator(".cross circle").count(), 2);
  }));

  test("switches the axis without asking again, and keeps it in the address", () => visit("/#explore?op=model&vary=heads&range=16:64:1", async (page, seen) => {
    await drawn(page);
    const before = seen.posts.length;
    const label = () => page.locator("#view-explore .plot text[transform]").textContent();
    assert.equal(await label(), "throughput, tokens/s");
    await page.check("[name=explore-y][value=time]");
    await page.waitForFunction(() => document.querySelector("#view-explore .plot text[transform]")?.textContent === "step, ms");
    assert.equal(seen.posts.length, before);
    assert.match(await state(page), /y=time/);
    await page.reload();
    await drawn(page);
    assert.equal(await label(), "step, ms");
  }));

  test("sweeps attention and a size of the workload", async () => {
    await visit("/#explore?op=attention&vary=head_dim&range=32:256:8", async (page, seen) => {
      await drawn(page);
      const { example } = (await ask("/openapi.json")).paths["/v1/sweep/attention"].post.requestBody.content["application/json"];
      assert.deepEqual([example.batch, Object.keys(example).length], [4, 4]);
      assert.deepEqual(seen.posts[0], { path: "/v1/sweep/attention", body: { ...example, heads: 32, head_dim: "32:256:8", gpu: "h200" } });
      await page.getByText("The same from a shell").click();
      assert.equal(await text(page, "#view-explore .copyable code"), "shapewise sweep attention --heads 32 --head-dim 32:256:8 --batch 4 --seq 2048 --gpu h200");
    });
    await visit("/#explore?op=model&vary=batch&range=1:8:1&architecture=llama-3-8b&mode=prefill", async (page, seen) => {
      await drawn(page);
      assert.deepEqual(seen.posts[0].body, { architecture: "llama-3-8b", workload: { mode: "prefill", batch: "1:8:1" }, gpu: "h200" });
    });
  });

  test("saves the points as CSV and the plot as SVG", () => visit("/#explore?op=gemm&vary=n&range=1536:6144:64&gpu=a100", async (page) => {
    await drawn(page);
    const sweep = await ask("/v1/sweep/gemm", { m: 2304, n: "1536:6144:64", k: 4096, gpu: "a100" });
    const csv = await saved(page, () => page.getByRole("button", { name: "Save CSV" }).click());
    const lines = csv.text.trimEnd().split("\n");
    assert.equal(lines[0], "gpu,n,alignment,time_us,low_us,high_us,tflops_per_s,tflops_per_s_low,tflops_per_s_high,tier");
    assert.equal(lines.length, sweep.points.length + 1);
    assert.deepEqual(lines[1].split(",").slice(0, 4), ["a100", "1536", "512", String(sweep.points[0].time_us)]);
    const svg = await saved(page, () => page.getByRole("button", { name: "Save SVG" }).click());
    assert.match(svg.text, /^<\?xml/);
    assert.ok(!/class=|var\(|style=/.test(svg.text), "needs no style sheet");
    const parsed = await page.evaluate((source) => {
      const document = new DOMParser().parseFromString(source, "image/svg+xml");
      return { errors: document.querySelectorAll("parsererror").length, root: document.documentElement.namespaceURI, strokes: document.querySelectorAll("path[stroke^=rgb]").length, text: document.documentElement.textContent };
    }, svg.text);
    assert.equal(parsed.errors, 0);
    assert.equal(parsed.root, "http://www.w3.org/2000/svg");
    assert.ok(parsed.strokes >= 1);
    assert.match(parsed.text, /NVIDIA A100.*TFLOP\/s against n/);
  }));
});

describe("models", () => {
  test("lists GPUs, figures with sources, and errors", () => visit("/#models", async (page) => {
    const [{ gpus }, { models }, h200] = await Promise.all([ask("/v1/gpus"), ask("/v1/models"), ask("/v1/gpus/h200")]);
    await page.waitForSelector("#view-models table");
    const rows = async (name) => page.getByRole("table", { name, exact: true }).locator("tbody tr").count();
    assert.equal(await rows("GPUs"), gpus.length);
    assert.equal(await rows("Models and their errors"), models.length);
    assert.equal(await rows("Where each prediction comes from"), gpus.length);
    const line = models.findIndex((one) => one.median_ape !== null);
    assert.ok(plain(await page.getByRole("table", { name: "Models and their errors" }).locator("tbody tr").nth(line).innerText()).includes(percent(models[line].median_ape)));
    await page.getByRole("button", { name: "Figures of h200 and their sources" }).click();
    await page.waitForSelector("#view-models .figures table");
    assert.equal(await rows("Figures of h200"), h200.figures.length);
    assert.ok((await text(page, "#view-models .figures")).includes(h200.figures[0].source));
    assert.match(await state(page), /gpu=h200/);
    if (models[0].held_out) {
      await page.getByRole("button", { name: /^Errors by size and sources of h200, GEMM bf16, cublaslt/ }).click();
      const group = models.find((one) => one.name === "h200" && one.family === "gemm" && one.dtype === "bf16").held_out.at(-1);
      assert.ok((await text(page, "[aria-label='Errors and sources of one model']")).includes(percent(group.coverage_90)));
    }
  }));
});

describe("forms", () => {
  /** Opens a view with the document of the service changed. */
  const changed = (path, change, use) => visit("/api", async (page, seen) => {
    await page.route("**/openapi.json", async (route) => {
      const document = await ask("/openapi.json");
      change(document);
      await route.fulfill({ json: document });
    });
    await page.goto(base + path);
    await made(page);
    await use(page, seen);
  }, { failures: true });
  /** The schema that stands for another one in a document. */
  const follow = (document, { $ref, oneOf, ...own }) => {
    if (oneOf) return follow(document, oneOf[0]);
    return $ref ? follow(document, $ref.split("/").slice(1).reduce((at, key) => at[key], document)) : own;
  };
  const body = (document, path) => follow(document, document.paths[path].post.requestBody.content["application/json"].schema).properties;
  const workload = (document) => follow(document, body(document, "/v1/search").workload).properties;
  const offered = (page, field) => page.$$eval(`#${field} option`, (all) => all.map((one) => one.value));

  test("offer what the document lists, and start with its defaults", () => visit("/#search", async (page, seen) => {
    const document = await ask("/openapi.json");
    const work = workload(document);
    for (const field of ["mode", "dtype", "recompute", "attention"]) {
      // The format of a checkpoint is its own where none is chosen.
      const left = work[field].default == null ? [""] : [];
      assert.deepEqual(await offered(page, `search-${field}`), [...left, ...follow(document, work[field]).enum], field);
      assert.equal(await page.inputValue(`#search-${field}`), work[field].default ?? "", field);
    }
    assert.equal(await page.getAttribute("#search-tp", "placeholder"), String(work.tp.default));
    const asked = await page.$$eval("#view-search [name]", (all) => [...new Set(all.map((one) => one.name))]);
    const wanted = [...Object.keys(body(document, "/v1/search")), ...Object.keys(work)].filter((name) => name !== "workload").map((name) => (name === "export" ? "configs" : name));
    assert.deepEqual(asked.sort(), wanted.sort());
    for (const path of ["/openapi.json", "/v1/gpus", "/v1/presets"]) assert.equal(seen.requests.filter((address) => address === base + path).length, 1, path);
  }));

  test("have the groups and labels of the document", () => visit("/#search", async (page) => {
    const document = await ask("/openapi.json");
    const all = { ...body(document, "/v1/search"), ...workload(document) };
    delete all.workload;
    for (const [key, one] of Object.entries(all)) {
      assert.ok(one.title && one["x-group"], `${key} has a label and a group`);
      const field = `#search-${key === "export" ? "configs" : key}`;
      assert.ok((await page.locator(`label[for="${field.slice(1)}"], ${field} > legend`).first().textContent()).includes(one.title), key);
    }
    await page.click("#view-search details.options summary");
    const headings = await page.$$eval("#view-search details.options h3", (list) => list.map((one) => one.innerText));
    const wanted = Object.entries(all).sort((a, b) => a[1]["x-order"] - b[1]["x-order"]).filter(([key]) => !["params", "gpu", "mode", "vocab"].includes(key)).map(([, one]) => one["x-group"]);
    assert.deepEqual(headings, [...new Set(wanted)]);
    assert.equal(all.tp.title, "Tensor parallel");
  }));

  test("show a new option of the API without a line of script", () => changed("/#search", (document) => {
    const [top, work] = [body(document, "/v1/search"), workload(document)];
    top.glow = { type: "string", enum: ["dim", "bright"], default: "dim", description: "How `bright` the answer is; `/v1/glow` lists more." };
    top.hues = { type: "array", items: { type: "string", enum: ["red", "blue"] } };
    top.extra = { type: ["object", "null"] };
    work.warm_rounds = { oneOf: [{ type: "integer", minimum: 1, maximum: 50, description: "Rounds before." }, { type: "null" }] };
    work.ice = { type: "boolean", default: true };
    work.level = { type: "integer", minimum: 1, maximum: 3, default: 2 };
    work.seed = { type: "number" };
  }, async (page, seen) => {
    await page.route("**/v1/search", (route) => route.fulfill({ status: 422, contentType: "application/problem+json", body: JSON.stringify({ title: "A field is wrong", status: 422, detail: "warm_rounds is too warm", field: "workload.warm_rounds" }) }));
    await page.click("#view-search details.options summary");
    assert.deepEqual(await offered(page, "search-glow"), ["dim", "bright"]);
    assert.equal(await text(page, "#search-glow-hint"), "How bright the answer is");
    assert.equal(await text(page, "#search-warm_rounds-hint"), "Rounds before; from 1 to 50");
    assert.equal(await page.locator("label[for=search-warm_rounds]").innerText(), "Warm rounds");
    assert.deepEqual(await offered(page, "search-level"), ["1", "2", "3"]);
    assert.ok(await page.isChecked("#search-ice"));
    await page.selectOption("#search-glow", "bright");
    await page.check("#search-hues [value=blue]");
    await page.fill("#search-extra", '{"a": 1}');
    await page.fill("#search-warm_rounds", "7");
    await page.uncheck("#search-ice");
    await page.selectOption("#search-level", "3");
    await page.fill("[id='search-workload.seed']", "0.5");
    await page.click("#view-search button.main");
    await page.waitForSelector("#search-warm_rounds[aria-invalid=true]");
    assert.deepEqual(seen.posts.at(-1).body, { params: "6.7B", glow: "bright", hues: ["blue"], extra: { a: 1 }, export: true, gpu: "h200", workload: { warm_rounds: 7, ice: false, level: 3, seed: 0.5 } });
    for (const part of ["glow=bright", "hues=blue", "warm_rounds=7", "ice=", "level=3"]) assert.ok((await state(page)).includes(part), part);
    await page.reload();
    await page.waitForSelector("#search-warm_rounds[aria-invalid=true]");
    assert.ok(!await page.isChecked("#search-ice"));
    assert.equal(await page.inputValue("#search-level"), "3");
  }));

  test("sweep a new operator of the API", () => changed("/#explore?op=fft&vary=points", (document) => {
    const path = structuredClone(document.paths["/v1/sweep/gemm"]);
    path.post.requestBody.content["application/json"] = { schema: { $ref: "#/components/schemas/Fft" }, example: { points: "64:4096:64", rows: 8 } };
    document.paths["/v1/sweep/fft"] = path;
    document.components.schemas.Fft = { type: "object", required: ["points", "rows"], properties: { rows: { $ref: "#/components/schemas/SizeOrRange" }, points: { $ref: "#/components/schemas/SizeOrRange" }, gpu: { type: "string", default: "h200" } } };
  }, async (page, seen) => {
    await page.waitForSelector("#view-explore [role=alert]:not(:empty)");
    assert.deepEqual(seen.posts, [{ path: "/v1/sweep/fft", body: { rows: 8, points: "64:4096:64", gpu: "h200" } }]);
    assert.deepEqual(await offered(page, "explore-vary"), ["rows", "points"]);
  }));

  test("refuse what an address sets and no field holds", async () => {
    await visit("/#explore?op=attention&vary=head_dim&range=32:64:8&a_heads=8", async (page, seen) => {
      await page.waitForSelector("#view-explore [role=alert]:not(:empty)");
      assert.match(await text(page, "#view-explore [role=alert]"), /sets a_heads, which this form does not have; it has .*heads/);
      assert.equal(seen.posts.length, 0);
    });
    await visit("/#explore?op=conv&vary=n&range=32:64:8", async (page) => {
      await page.waitForSelector("#explore-op[aria-invalid=true]");
      assert.match(await text(page, "#explore-op-error"), /“conv” cannot be swept; allowed: .*gemm/);
    });
    await visit("/#explore?op=gemm&vary=layout&range=32:64:8", async (page) => {
      await page.waitForSelector("#explore-vary[aria-invalid=true]");
      assert.match(await text(page, "#explore-vary-error"), /“layout” is no size of gemm; allowed: m, n, k/);
    });
  });
});

describe("what goes wrong", () => {
  test("a service without its document is told, with a way to try again", () => visit("/api", async (page) => {
    await page.route("**/openapi.json", (route) => route.fulfill({ status: 500, contentType: "application/problem+json", body: JSON.stringify({ title: "Internal fault", status: 500, detail: "its log says more" }) }));
    await page.goto(`${base}/#check?architecture=gpt2`);
    await page.waitForSelector("[role=alert]:not(:empty)");
    assert.match(await text(page, "[role=alert]"), /Internal fault/);
    await page.unroute("**/openapi.json");
    await page.getByRole("button", { name: "Try again" }).click();
    await checked(page);
  }, { failures: true }));

  /** The text beside a field, the field being marked and focused. */
  async function beside(page, field) {
    await page.waitForSelector(`#${field}[aria-invalid=true]`);
    assert.equal(await page.evaluate(() => document.activeElement.id), field);
    const described = await page.getAttribute(`#${field}`, "aria-describedby");
    assert.ok(described.includes(`${field}-error`));
    assert.ok(await page.locator(`#${field}-error`).isVisible());
    return text(page, `#${field}-error`);
  }

  test("a budget that is no number is told beside it", () => visit("/#search", async (page) => {
    await page.fill("#search-params", "6.7");
    await page.click("#view-search button.main");
    assert.match(await beside(page, "search-params"), /6\.7.*allowed.*6\.7B/);
    assert.match(await text(page, "#view-search [role=alert]"), /allowed/);
    await page.fill("#search-params", "350M");
    await page.keyboard.press("Enter");
    await searched(page);
    assert.equal(await page.locator("[aria-invalid]").count(), 0);
    assert.equal(await page.locator("#view-search [role=alert]:not(:empty)").count(), 0);
  }, { failures: true }));

  test("a field under more options opens them", () => visit("/#search?params=6.7B&like=nope", async (page) => {
    assert.match(await beside(page, "search-like"), /nope.*nearest/);
    assert.equal(await text(page, "#view-search details.options summary"), "More options (1 set)");
  }, { failures: true }));

  test("a word where a number belongs is refused before anything is asked", () => visit("/#check?architecture=gpt3-2.7b&batch=many", async (page, seen) => {
    assert.match(await beside(page, "check-batch"), /“many” is not a whole number/);
    assert.equal(seen.posts.length, 0);
  }));

  test("a number out of bounds, an unknown model and GPU are told by the server", async () => {
    await visit("/#check?architecture=gpt3-2.7b&batch=0", async (page) => { assert.match(await beside(page, "check-batch"), /allowed/); }, { failures: true });
    await visit("/#check?architecture=nope", async (page) => { assert.match(await beside(page, "check-architecture"), /nope.*nearest/); }, { failures: true });
    await visit("/#check?architecture=gpt2&gpu=nope", async (page) => { assert.match(await beside(page, "check-gpu"), /allowed.*`shapewise gpus` lists all/); }, { failures: true });
    await visit("/#explore?op=attention&vary=head_dim&range=32:64:8&heads=0", async (page) => { assert.match(await beside(page, "explore-heads"), /allowed/); }, { failures: true });
    await visit("/#explore?op=gemm&vary=n&range=9:1:1", async (page) => { await beside(page, "explore-range"); }, { failures: true });
  });

  test("what is pasted must be JSON, an object, and a known kind of model", () => visit("/#check", async (page, seen) => {
    await checked(page);
    const asked = seen.posts.length;
    await page.check("#check-source-config");
    await page.fill("#check-config", "{ not json");
    await page.click("#view-check button.main");
    assert.match(await beside(page, "check-config"), /not JSON/);
    await page.fill("#check-config", "[1]");
    await page.click("#view-check button.main");
    await page.waitForFunction(() => document.querySelector("#check-config-error").textContent.includes("object"));
    assert.equal(seen.posts.length, asked);
    await page.fill("#check-config", '{"model_type": "llama", "hidden_size": 4096}');
    await page.click("#view-check button.main");
    await page.waitForFunction(() => document.querySelector("#check-config-error").textContent.includes("allowed"));
    await page.fill("#check-config", '{"model_type": "abacus"}');
    await page.click("#view-check button.main");
    await page.waitForFunction(() => document.querySelector("#check-config-error").textContent.includes("model_type"));
    await beside(page, "check-config");
  }, { failures: true }));

  test("what nothing can meet is told in the alert", () => visit("/#search?params=400B&gpu=l4&no_sharding=1", async (page) => {
    await page.waitForSelector("#view-search [role=alert]:not(:empty)");
    assert.match(await text(page, "#view-search [role=alert]"), /no shape of this size fits/);
    assert.equal(await page.locator("#view-search table.ranking").count(), 0);
  }, { failures: true }));

  test("a busy server says when to come back", () => visit("/#search", async (page) => {
    await page.route("**/v1/search", (route) => route.fulfill({ status: 429, headers: { "Retry-After": "7" }, contentType: "application/problem+json", body: JSON.stringify({ type: "/api#busy", title: "Too much at once", status: 429, detail: "all places for searches are taken" }) }));
    await page.click("#view-search button.main");
    await page.waitForSelector("#view-search [role=alert]:not(:empty)");
    assert.match(await text(page, "#view-search [role=alert]"), /server is busy.*wait 7 s/);
  }, { failures: true }));

  test("a fault shows its name and nothing inside", () => visit("/#check?architecture=gpt2", async (page) => {
    await page.route("**/v1/check", (route) => route.fulfill({ status: 500, contentType: "application/problem+json", body: JSON.stringify({ type: "/api#fault", title: "Internal fault", status: 500, detail: "this is a fault of the service; its log says more", instance: "3f2a" }) }));
    await page.click("#view-check button.main");
    await page.waitForSelector("#view-check [role=alert]:not(:empty)");
    assert.match(await text(page, "#view-check [role=alert]"), /Internal fault.*3f2a/);
  }, { failures: true }));

  test("a server that is gone, or goes amid the stream, is told as such", async () => {
    const own = process.env.SHAPEWISE_BIN && start();
    const address = own ? await own.address : base;
    const context = await browser.newContext();
    const page = await context.newPage();
    await page.goto(`${address}/#search`);
    await made(page);
    await page.waitForFunction(() => document.querySelector("#search-gpu").options.length > 3);
    if (own) {
      own.child.kill("SIGKILL");
      await new Promise((resolve) => own.child.on("exit", resolve));
    } else await page.route("**/v1/**", (route) => route.abort("connectionrefused"));
    await page.click("#view-search button.main");
    await page.waitForSelector("#view-search [role=alert]:not(:empty)");
    assert.match(await text(page, "#view-search [role=alert]"), /server does not answer/);
    await page.unroute("**/v1/**");
    await page.route("**/v1/search", (route) => route.fulfill({ contentType: "text/event-stream", body: 'event: progress\ndata: {"done":1,"total":2}\n\n' }));
    await page.click("#view-search button.main");
    await page.waitForFunction(() => document.querySelector("#view-search [role=alert]").textContent.includes("server does not answer"));
    await context.close();
  });

  test("a script that does not arrive is told in its tab", () => visit("/#models", async (page) => {
    await page.route("**/page/explore.js", (route) => route.abort("connectionrefused"));
    await page.getByRole("link", { name: "Explore" }).click();
    await page.waitForSelector("#view-explore [role=alert]:not(:empty)");
    assert.match(await text(page, "#view-explore [role=alert]"), /Nothing came back.*Try again/);
  }, { failures: true }));

  test("what comes from an address is text, never markup", () => visit(`/#search?params=6.7B&gpu=${encodeURIComponent("<img src=x onerror=alert(1)>")}`, async (page) => {
    await page.waitForSelector("#search-gpu[aria-invalid=true]");
    assert.match(await text(page, "#search-gpu-error"), /<img src=x/);
    assert.equal(await page.locator("img").count(), 0);
  }, { failures: true }));
});

describe("everywhere", () => {
  const VIEWS = {
    predict: ["/#predict?architecture=llama-3-70b&gpu=h100&mode=train&tp=8&pp=4&dp=2&microbatches=16&batch=1", predicted],
    search: ["/#search?params=350M&gpu=a100&free=micro-batch&top=5", searched],
    plan: ["/#plan?architecture=llama-3-8b&gpu=h100&gpus=64&tokens=1T", planned],
    compare: ["/#compare?architecture=llama-3-8b&gpu=a100,h100&gpus=8", compared],
    check: ["/#check?architecture=gpt3-2.7b&gpu=a100", checked],
    explore: ["/#explore?op=gemm&vary=n&range=1536:6144:64&gpu=a100&gpu2=h100", drawn],
    models: ["/#models?gpu=h200", (page) => page.waitForSelector("#view-models .figures table")],
    api: ["/api", (page) => page.waitForSelector("main section")],
  };

  test("an address reloaded shows the same", async () => {
    for (const [name, [path, ready]] of Object.entries(VIEWS)) {
      await visit(path, async (page) => {
        await ready(page);
        const before = await text(page, "main");
        const values = () => page.$$eval("input, select, textarea", (all) => all.map((one) => (/checkbox|radio/.test(one.type) ? one.checked : one.value)));
        const fields = await values();
        await page.reload();
        await ready(page);
        assert.equal(await text(page, "main"), before, name);
        assert.deepEqual(await values(), fields, name);
      });
    }
  });

  test("back and forward lead through results", () => visit("/#search?params=350M", async (page) => {
    await searched(page);
    await page.fill("#search-params", "760M");
    await page.click("#view-search button.main");
    await page.waitForFunction(() => document.querySelector("#view-search h2")?.textContent.startsWith("760,000,000"));
    await page.getByRole("link", { name: "Models" }).click();
    await page.waitForSelector("#view-models table");
    await page.goBack();
    assert.match(await text(page, "#view-search h2"), /^760,000,000/);
    await page.goBack();
    await page.waitForFunction(() => document.querySelector("#view-search h2")?.textContent.startsWith("350,000,000"));
    assert.equal(await page.inputValue("#search-params"), "350M");
    await page.goForward();
    await page.waitForFunction(() => document.querySelector("#view-search h2")?.textContent.startsWith("760,000,000"));
  }));

  test("a tab leads back to what it showed", () => visit("/#check?architecture=gpt2", async (page, seen) => {
    await checked(page);
    const checks = () => seen.posts.filter(({ path }) => path === "/v1/check").length;
    await page.getByRole("link", { name: "Explore" }).click();
    await page.getByRole("link", { name: "Check", exact: true }).click();
    // The address is the link's at once; the page follows it when the browser tells of the change.
    await page.waitForFunction(() => location.hash.includes("architecture=gpt2") && document.title === "Check · shapewise");
    assert.equal(checks(), 1);
  }));

  test("every tab opens with an answer, and its examples lead to others", () => visit("/", async (page) => {
    for (const [view, ready] of [["Predict", predicted], ["Search", searched], ["Plan", planned], ["Compare", compared], ["Check", checked], ["Explore", drawn]]) {
      await page.getByRole("link", { name: view, exact: true }).click();
      await ready(page);
      const output = page.locator(`#view-${view.toLowerCase()} .output`);
      const before = await output.locator("h2").first().innerText();
      const form = page.locator(`#view-${view.toLowerCase()} form`);
      await form.getByText("Examples").click();
      await form.locator(".examples a").last().click();
      await page.waitForFunction(([one, text]) => document.querySelector(`#view-${one} .output h2`).innerText !== text, [view.toLowerCase(), before]);
    }
  }));

  test("pages share their tabs", async () => {
    const names = (page) => page.$$eval("#tabs a", (all) => all.map((one) => [one.innerText, new URL(one.href).pathname]));
    let ofViews;
    await visit("/", async (page) => { ofViews = await names(page); });
    await visit("/api", async (page) => { assert.deepEqual(await names(page), ofViews); });
    assert.equal(ofViews.length, 8);
  });

  test("a keyboard is enough", () => visit("/", async (page) => {
    const focused = () => page.evaluate(() => {
      const one = document.activeElement;
      const style = getComputedStyle(one);
      return { what: one.id || one.textContent.trim().slice(0, 30) || one.tagName, ring: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2 };
    });
    await page.keyboard.press("Tab");
    assert.equal((await focused()).what, "skip");
    await page.keyboard.press("Enter");
    assert.equal((await focused()).what, "main");
    const walked = [];
    for (let step = 0; step < 12 && walked.at(-1) !== "Predict"; step += 1) {
      await page.keyboard.press("Tab");
      const one = await focused();
      assert.ok(one.ring, `${one.what} shows that it has the focus`);
      walked.push(one.what);
    }
    assert.deepEqual(walked, ["predict-source-architecture", "predict-architecture", "predict-gpu", "predict-mode", "predict-batch", "predict-seq", "More options", "Predict"]);
    await page.keyboard.press("Enter");
    await predicted(page);
    let reached = "";
    for (let step = 0; step < 60 && reached !== "plot"; step += 1) {
      await page.keyboard.press("Tab");
      reached = await page.evaluate(() => document.activeElement.className);
    }
    assert.equal(reached, "plot");
    await page.keyboard.press("ArrowRight");
    assert.match(await text(page, "#view-predict figure:has(.plot) .readout"), /tokens\/s per GPU/);
    // Tabs are links in the order of the page.
    await page.evaluate(() => document.querySelector(".mark").focus());
    for (const name of ["Predict", "Search", "Plan", "Compare", "Check", "Explore", "Models", "API"]) {
      await page.keyboard.press("Tab");
      assert.equal((await focused()).what, name);
    }
    await page.evaluate(() => [...document.querySelectorAll("#tabs a")].find((link) => link.textContent === "Explore").focus());
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => document.querySelector("#tabs [aria-current]").textContent === "Explore");
  }));

  test("light and dark both have enough contrast", async () => {
    const papers = [];
    for (const colorScheme of ["light", "dark"]) {
      for (const [path, ready] of Object.values(VIEWS)) await visit(path, async (page) => {
        await ready(page);
        const result = await page.evaluate(() => {
          const channels = (color) => color.match(/[\d.]+/g).slice(0, 3).map(Number);
          const shine = (color) => {
            const [r, g, b] = channels(color).map((value) => value / 255).map((value) => (value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
            return 0.2126 * r + 0.7152 * g + 0.0722 * b;
          };
          const behind = (element) => {
            if (element.parentElement.matches(".shares g")) return getComputedStyle(element.previousElementSibling).fill;
            for (let at = element; at; at = at.parentElement) {
              const color = getComputedStyle(at).backgroundColor;
              if (!/, 0\)$|transparent/.test(color)) return color;
            }
            return getComputedStyle(document.documentElement).backgroundColor;
          };
          const worst = [];
          for (const element of document.querySelectorAll("h1, h2, p, th, td, a, label, button, summary, dt, dd, .hint, .ends, .own, .plot text, .shares text")) {
            if (!element.getClientRects().length || element.textContent.trim() === "") continue;
            const style = getComputedStyle(element);
            const [front, back] = [shine(element.tagName === "text" ? style.fill : style.color), shine(behind(element))];
            const ratio = (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05);
            if (ratio < 4.5) worst.push(`${element.tagName} ${element.className} ${ratio.toFixed(2)} ${element.textContent.slice(0, 30)}`);
          }
          return { paper: getComputedStyle(document.documentElement).backgroundColor, worst };
        });
        papers.push(result.paper);
        assert.deepEqual(result.worst, [], colorScheme);
      }, { colorScheme });
    }
    assert.notEqual(papers[0], papers.at(-1));
  });

  test("a phone needs no sideways scrolling", async () => {
    for (const [name, [path, ready]] of Object.entries(VIEWS)) {
      await visit(path, async (page) => {
        await ready(page);
        await page.evaluate(() => { for (const box of document.querySelectorAll("details")) box.open = true; });
        await page.waitForTimeout(200);
        assert.ok(await overflow(page) <= 0, `${name} is ${await overflow(page)} px too wide`);
        // Rows of answers are cards, so that no box hides a part of them.
        const hidden = await page.$$eval("table.cards, table.sides", (all) => all.map((one) => one.closest(".scroll")).filter((box) => box.scrollWidth > box.clientWidth).map((box) => box.ariaLabel));
        assert.deepEqual(hidden, [], name);
      }, { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true });
    }
      });

  test("a plot follows the width of the window", () => visit(VIEWS.explore[0], async (page) => {
    await drawn(page);
    const width = () => page.locator("#view-explore .plot svg:not(.cross)").evaluate((svg) => svg.getBoundingClientRect().width);
    const wide = await width();
    await page.setViewportSize({ width: 700, height: 800 });
    await page.waitForFunction((before) => document.querySelector("#view-explore .plot svg:not(.cross)").getBoundingClientRect().width < before - 200, wide);
    assert.ok(await overflow(page) <= 0);
  }));

  test("print leaves the results", () => visit(VIEWS.check[0], async (page) => {
    await checked(page);
    await page.emulateMedia({ media: "print" });
    assert.ok(await page.locator("#view-check form").isHidden());
    assert.ok(await page.locator("#together").isVisible());
  }));

  test("the API page shows every operation, and tries one", () => visit("/api", async (page) => {
    await page.waitForSelector("main section");
    const document = await ask("/openapi.json");
    const operations = Object.entries(document.paths).flatMap(([path, methods]) => Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`));
    const shown = (await page.$$eval("main section > h3", (all) => all.map((one) => one.innerText))).map(plain);
    assert.deepEqual(shown.sort(), operations.sort());
    await page.locator("#post-v1-search summary", { hasText: /^Fields$/ }).click();
    await page.locator("#post-v1-search tbody th").first().waitFor();
    const fields = await page.locator("#post-v1-search tbody th").allInnerTexts();
    for (const field of ["params", "like", "gpu", "workload.batch", "workload.mode"]) assert.ok(fields.includes(field), `${field} of ${fields}`);
    const trial = page.locator("#post-v1-predict-gemm");
    await trial.getByText("Try it").click();
    await trial.getByRole("button", { name: "Send" }).click();
    await trial.locator("pre.answer").waitFor();
    assert.match(await text(page, "#post-v1-predict-gemm .status"), /^200/);
    const body = JSON.parse(await trial.locator("textarea").inputValue());
    assert.equal(JSON.parse(await trial.locator("pre.answer").innerText()).time_us, (await ask("/v1/predict/gemm", body)).time_us);
  }));

  test("a page is small", async () => {
    for (const path of ["/", "/api"]) {
      await visit(path, async (page) => {
        await page.waitForLoadState("networkidle");
        const sizes = await page.evaluate(() => [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource").filter((one) => one.name.includes("/page/"))].map((one) => one.decodedBodySize));
        const total = sizes.filter(Boolean).reduce((sum, size) => sum + size, 0);
        assert.ok(sizes.length >= 4 && total > 10_000 && total < 150_000, `${path} is ${total} bytes in ${sizes.length} files`);
      });
    }
  });

  test("files ask nobody else", () => {
    const names = readdirSync(FILES);
    for (const name of names) {
      const source = readFileSync(new URL(name, FILES), "utf8");
      assert.ok(!/innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function/.test(source), `${name} makes markup of text`);
      const addresses = (source.match(/\b(https?|wss?):\/\/[^\s"'`)]*/g) ?? []).filter((one) => one !== "http://www.w3.org/2000/svg");
      assert.deepEqual(addresses, [], name);
      if (name.endsWith(".html")) assert.ok(!/<script(?![^>]*\bsrc=)|\sstyle=|\son\w+=|<style/.test(source), `${name} has nothing inline`);
      if (name.endsWith(".js")) assert.match(source, /^\/\/ .+\.\n/, `${name} says what it is for`);
    }
  });

  test("the document shows the page", () => visit(VIEWS.predict[0], async (page) => {
    const path = fileURLToPath(new URL("../../docs/page.png", import.meta.url));
    await predicted(page);
    await page.locator('#view-predict .plot[aria-label^="Operators under"]').focus();
    await page.keyboard.press("End");
    if (process.env.SHAPEWISE_BLESS !== undefined) await page.screenshot({ path, fullPage: true, clip: { x: 0, y: 0, width: 1240, height: 1500 } });
    // Its width and height stand after the name of the first chunk.
    const picture = readFileSync(path);
    assert.deepEqual([picture.readUInt32BE(16), picture.readUInt32BE(20)], [1240, 1500]);
  }));

  test("pictures are taken when asked for", { skip: !process.env.SHAPEWISE_SCREENSHOTS && "SHAPEWISE_SCREENSHOTS is not set" }, async () => {
    const folder = process.env.SHAPEWISE_SCREENSHOTS;
    mkdirSync(folder, { recursive: true });
    for (const [kind, options] of Object.entries({ light: {}, dark: { colorScheme: "dark" }, phone: { viewport: { width: 390, height: 844 } } })) {
      for (const [name, [path, ready]] of Object.entries(VIEWS)) {
        await visit(path, async (page) => {
          await ready(page);
          if (await page.locator(".plot:visible").count()) await page.locator(".plot:visible").hover();
          await page.screenshot({ path: `${folder}/${name}-${kind}.png`, fullPage: true });
        }, options);
      }
    }
  });
});
