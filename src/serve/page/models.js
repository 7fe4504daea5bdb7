// The view of what is known: GPUs and the sources of their figures, trained models and how wrong they are.

import { get, once } from "./api.js";
import { problemBox } from "./desk.js";
import { button, h, p, put, span, table } from "./dom.js";
import * as format from "./format.js";
import { adjust } from "./state.js";

const name = "models";

const output = h("div", { class: "output" });
const alert = h("div", { class: "alert", role: "alert" });
const status = h("p", { class: "status", role: "status" });

const FAMILIES = { gemm: "GEMM", prefill: "prefill attention", decode: "decode attention" };

export function mount() {
	return [p("lead", "What the predictions rest on: the GPUs and their figures, what was learned on each and how wrong it is on shapes that training had not seen."), alert, status, output];
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
		put(alert, problemBox(error), button("Try again", () => show(query)));
	}
}

function render(gpus, models, open) {
	const figures = h("section", { class: "figures", tabindex: "-1", "aria-label": "Figures of one GPU" });
	const details = h("section", { class: "figures", tabindex: "-1", "aria-label": "Errors and sources of one model" });
	const families = [...new Set(models.map((one) => `${one.family} ${one.dtype}`))].sort((a, b) => order(a) - order(b));
	const known = (gpu, family) => models.find((one) => one.gpu === gpu.name && `${one.family} ${one.dtype}` === family);
	put(output,
		h("h2", null, "GPUs"),
		table("GPUs", ["GPU", "title", { num: "SMs" }, { num: "bf16 TFLOP/s", title: "dense peak" }, { num: "GB/s", title: "bandwidth of the memory" }, { num: "memory" }, "learned here"],
			gpus.map((gpu) => [
				button(gpu.name, () => { adjust(name, { gpu: gpu.name }); figuresOf(gpu.name, figures, true); }, { class: "link", "aria-label": `Figures of ${gpu.name} and their sources` }),
				gpu.title, gpu.sm_count, gpu.peak_bf16_flops_per_s ? format.significant(gpu.peak_bf16_flops_per_s / 1e12) : "–", format.significant(gpu.memory_bandwidth_bytes_per_s / 1e9), format.bytes(gpu.memory_bytes),
				families.filter((family) => known(gpu, family)).join(", ") || span("faint", "nothing: all transferred")])),
		p("hint", "Choose a GPU to see every figure with its source."),
		figures,
		h("h2", null, "What is measured, learned, transferred"),
		h("dl", { class: "facts" }, format.TIERS.map((tier) => h("div", null, h("dt", null, tier), h("dd", null, `${format.TIER_TEXT[tier]}.`)))),
		p("", "A GPU, or a kind of operator or number format, that no table holds is answered from the nearest that was learned, and says so: its interval is wider and it carries a caveat. The timings are those of inference stacks, forward only: gradients, norms and the optimizer are transferred or roofline."),
		coverage(gpus, families, known),
		h("h2", null, "How wrong they are"),
		p("hint", "Errors on keys that training had not seen: (n, k) pairs of GEMMs, head configurations of attention. The model “base” answers for GPUs without one of their own."),
		errors(models, details), details);
	if (open) figuresOf(open, figures);
}

const order = (family) => ["gemm bf16", "gemm fp16", "gemm fp8", "prefill bf16", "decode bf16"].indexOf(family) + 1 || 99;

function coverage(gpus, families, known) {
	return table("Where each prediction comes from", ["GPU", ...families], gpus.map((gpu) => [gpu.name, ...families.map((family) => {
		const found = known(gpu, family);
		return found ? [span("good", "learned"), ` ${found.stack}`] : span("faint", "transferred");
	})]));
}

async function figuresOf(gpu, place, move) {
	put(place, p("status", "Loading…"));
	try {
		const found = await get(`/v1/gpus/${encodeURIComponent(gpu)}`);
		put(place, h("h3", null, `${found.name}: ${found.title}`),
			found.aliases.length > 0 && p("sub", `also ${found.aliases.join(", ")}`),
			table(`Figures of ${found.name}`, ["figure", { num: "value" }, "source"],
				found.figures.map((one) => [figureName(one.figure), figureValue(one), one.source])));
	} catch (error) {
		put(place, h("div", { class: "alert", role: "alert" }, problemBox(error)));
	}
	if (move) reveal(place);
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
	rows: ["trained on", format.grouped, "timings it was fitted to"],
	n: ["held out", format.grouped, "timings of keys that training had not seen"],
	keys: ["keys", format.grouped, "held-out keys"],
	median_ape: ["median error", format.percent],
	mean_ape: ["mean error", format.percent],
	p90_ape: ["p90 error", format.percent, "90 % of the errors are below"],
	coverage_90: ["calibration coverage", format.percent, "share inside the 90 % interval of the rows that calibrated it: 90 % by construction"],
	interval_half_width_median: ["half width", format.percent, "of the 90 % interval, the median"],
	size_bytes: ["size", format.bytes],
};

function column(key) {
	const plain = (value) => (Number.isInteger(value) ? format.grouped(value) : format.significant(value));
	return KNOWN[key] ?? [format.words(key), /_ape$|_fraction$|^coverage/.test(key) ? format.percent : /_bytes$/.test(key) ? format.bytes : plain];
}

/** A table of lines with text first and then every number that any of them has. */
function numbers(caption, texts, lines) {
	const first = Object.keys(KNOWN);
	const keys = [...new Set(lines.flatMap(({ from }) => Object.keys(from).filter((key) => typeof from[key] === "number")))]
		.sort((a, b) => (first.indexOf(a) + 1 || 99) - (first.indexOf(b) + 1 || 99));
	return table(caption, [...texts, ...keys.map((key) => ({ num: column(key)[0], title: column(key)[2] }))],
		lines.map(({ cells, from }) => [...cells, ...keys.map((key) => (typeof from[key] === "number" ? column(key)[1](from[key]) : "–"))]), { class: "tight" });
}

function errors(models, place) {
	const all = (one) => one.held_out?.find((group) => group.group === "all");
	return numbers("Models and their errors", ["model", "operators", "stack"], models.map((one) => ({
		from: { ...all(one), ...one },
		cells: [
			one.held_out || one.sources ? button(one.name, () => { detail(one, place); reveal(place); }, { class: "link", "aria-label": `Errors by size and sources of ${one.name}, ${kind(one)}, ${one.stack}` }) : one.name,
			kind(one), one.stack],
	})));
}

const kind = (one) => `${FAMILIES[one.family] ?? one.family} ${one.dtype}`;

/** Where a model errs more and where less, and what it was trained on. */
function detail(one, place) {
	put(place, h("h3", null, `${one.name}: ${kind(one)}`),
		one.held_out?.length > 0 && numbers("Errors by reference time and size", ["group"], one.held_out.map((group) => ({ from: group, cells: [group.group] }))),
		one.sources?.length > 0 && table("Sources", ["GPU", "stack", "source", "licence", { num: "timings" }],
			one.sources.map((source) => [source.gpu, source.stack, source.source, source.licence, format.grouped(source.rows)])));
}

function reveal(place) {
	place.focus({ preventScroll: true });
	place.scrollIntoView({ block: "nearest" });
}
