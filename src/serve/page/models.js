// The view of what is known: GPUs and the sources of their figures, trained models and how wrong they are.

import { get, once } from "./api.js";
import { problemBox } from "./desk.js";
import { h, put, table } from "./dom.js";
import * as format from "./format.js";
import { adjust } from "./state.js";

export const name = "models";
export const title = "Models";

const output = h("div", { class: "output" });
const alert = h("div", { class: "alert", role: "alert" });
const status = h("p", { class: "status", role: "status" });

const FAMILIES = { gemm: "products", prefill: "prefill attention", decode: "decode attention" };

export function mount() {
  return [h("p", { class: "lead" }, "What the predictions rest on: the GPUs and their figures, what was learned on each and how wrong it is on shapes that training had not seen."), alert, status, output];
}

export async function show(query) {
  put(alert);
  status.textContent = "Loading…";
  try {
    const [{ gpus }, { models }] = await Promise.all([once("/v1/gpus"), once("/v1/models")]);
    render(gpus, models, query.get("gpu"));
    status.textContent = "";
  } catch (error) {
    status.textContent = "";
    put(alert, problemBox(error), h("button", { type: "button", onclick: () => show(query) }, "Try again"));
  }
}

function render(gpus, models, open) {
  const figures = h("section", { class: "figures", tabindex: "-1", "aria-label": "Figures of one GPU" });
  const families = [...new Set(models.map((one) => `${one.family} ${one.dtype}`))].sort((a, b) => order(a) - order(b));
  const known = (gpu, family) => models.find((one) => one.gpu === gpu.name && `${one.family} ${one.dtype}` === family);
  put(output,
    h("h2", null, "GPUs"),
    table("GPUs", [{ name: "GPU", text: true }, { name: "title", text: true }, { name: "SMs" }, { name: "bf16 TFLOP/s", title: "dense peak" }, { name: "GB/s", title: "bandwidth of the memory" }, { name: "memory" }, { name: "learned here", text: true }],
      gpus.map((gpu) => ({ cells: [
        h("button", { type: "button", class: "link", "aria-label": `Figures of ${gpu.name} and their sources`, onclick: () => { adjust(name, { gpu: gpu.name }); figuresOf(gpu.name, figures, true); } }, gpu.name),
        gpu.title, gpu.sm_count, gpu.peak_bf16_flops_per_s ? format.significant(gpu.peak_bf16_flops_per_s / 1e12) : "–", format.significant(gpu.memory_bandwidth_bytes_per_s / 1e9), format.bytes(gpu.memory_bytes),
        families.filter((family) => known(gpu, family)).join(", ") || h("span", { class: "faint" }, "nothing: all transferred")] }))),
    h("p", { class: "hint" }, "Choose a GPU to see every figure with its source."),
    figures,
    h("h2", null, "What is measured, learned, transferred"),
    h("dl", { class: "facts" }, format.TIERS.map((tier) => h("div", null, h("dt", null, tier), h("dd", null, `${format.TIER_TEXT[tier]}.`)))),
    h("p", null, "A GPU, or a kind of operator or number format, that no table holds is answered from the nearest that was learned, and says so: its interval is wider and it carries a caveat. The timings are those of inference stacks, forward only: gradients, norms and the optimizer are transferred or roofline."),
    coverage(gpus, families, known),
    h("h2", null, "How wrong they are"),
    h("p", { class: "hint" }, "Errors on keys that training had not seen: (n, k) pairs of products, head configurations of attention. The model “base” answers for GPUs without one of their own."),
    errors(models));
  if (open) figuresOf(open, figures);
}

const order = (family) => ["gemm bf16", "gemm fp16", "gemm fp8", "prefill bf16", "decode bf16"].indexOf(family) + 1 || 99;

function coverage(gpus, families, known) {
  return table("Where each prediction comes from", ["GPU", ...families].map((one) => ({ name: one, text: true })), gpus.map((gpu) => ({ cells: [gpu.name, ...families.map((family) => {
    const found = known(gpu, family);
    return found ? [h("span", { class: "good" }, "learned"), ` ${found.stack}`] : h("span", { class: "faint" }, "transferred");
  })] })));
}

async function figuresOf(gpu, place, move) {
  put(place, h("p", { class: "status" }, "Loading…"));
  try {
    const found = await get(`/v1/gpus/${encodeURIComponent(gpu)}`);
    put(place, h("h3", null, `${found.name}: ${found.title}`),
      found.aliases.length > 0 && h("p", { class: "sub" }, `also ${found.aliases.join(", ")}`),
      table(`Figures of ${found.name}`, [{ name: "figure", text: true }, { name: "value" }, { name: "source", text: true }],
        found.figures.map((one) => ({ cells: [figureName(one.figure), figureValue(one), one.source] }))));
  } catch (error) {
    put(place, h("div", { class: "alert", role: "alert" }, problemBox(error)));
  }
  if (move) {
    place.focus({ preventScroll: true });
    place.scrollIntoView({ block: "nearest" });
  }
}

const UNITS = [["_bytes_per_s", (value) => `${format.significant(value / 1e9)} GB/s`], ["_flops_per_s", (value) => `${format.significant(value / 1e12)} TFLOP/s`], ["_bytes", format.bytes], ["_hz", (value) => `${format.significant(value / 1e9)} GHz`], ["_watts", (value) => `${value} W`], ["_us", format.time], ["_fraction", format.percent]];

const unitOf = (figure) => UNITS.find(([end]) => figure.endsWith(end));

const figureName = (figure) => format.words(figure.slice(0, figure.length - (unitOf(figure)?.[0].length ?? 0)));

function figureValue({ figure, value }) {
  const unit = unitOf(figure);
  return unit ? unit[1](value) : format.grouped(value);
}

/** Columns whose meaning is known; any further number that the server gives is shown under its own name. */
const KNOWN = {
  rows: ["trained on", (value) => `${format.grouped(value)} timings`],
  held_out_rows: ["held-out rows", format.grouped], evaluated_rows: ["held-out rows", format.grouped], test_rows: ["held-out rows", format.grouped],
  keys: ["held-out keys", format.grouped],
  median_ape: ["median error", format.percent], mean_ape: ["mean error", format.percent], p90_ape: ["90 % of errors below", format.percent],
  coverage_90: ["inside the 90 % interval", format.percent],
  half_width: ["half width of the 90 % interval", format.percent], half_width_90: ["half width of the 90 % interval", format.percent],
  size_bytes: ["size", format.bytes],
};

function column(key) {
  if (KNOWN[key]) return KNOWN[key];
  const show = /_ape$|_fraction$|^coverage|half_width/.test(key) ? format.percent : /_bytes$/.test(key) ? format.bytes : (value) => (Number.isInteger(value) ? format.grouped(value) : format.significant(value));
  return [format.words(key), show];
}

function errors(models) {
  const first = Object.keys(KNOWN);
  const keys = [...new Set(models.flatMap((one) => Object.keys(one).filter((key) => typeof one[key] === "number")))]
    .sort((a, b) => (first.indexOf(a) + 1 || 99) - (first.indexOf(b) + 1 || 99));
  const columns = keys.map(column);
  return table("Models and their errors",
    [{ name: "model", text: true }, { name: "operators", text: true }, { name: "stack", text: true }, ...columns.map(([text]) => ({ name: text }))],
    models.map((one) => ({ cells: [one.name, `${FAMILIES[one.family] ?? one.family} ${one.dtype}`, one.stack, ...keys.map((key, at) => (typeof one[key] === "number" ? columns[at][1](one[key]) : "–"))] })));
}
