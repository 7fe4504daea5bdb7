// The view that draws what one size does: the curve with its interval, where it falls, several GPUs in one plot.

import { Problem, send } from "./api.js";
import { commands } from "./commands.js";
import { desk } from "./desk.js";
import { button, facts, h, p, put, save, span, table } from "./dom.js";
import { Form } from "./form.js";
import * as format from "./format.js";
import { DTYPES, gpuField, gpuOptions, gpuTitle, prepare, PRESETS, WORKLOAD, workloadFields } from "./options.js";
import { plot, svgFile } from "./plot.js";
import { adjust, go } from "./state.js";

export const name = "explore";
export const title = "Explore";

const ONE = "1";
const MOST_MARKS = 120;
const MOST_ROWS = 400;

/** What can be swept: fields in the order of the form, and a range for each size that shows something. */
const SUBJECTS = {
	gemm: {
		text: "matrix product",
		fields: ["m", "n", "k", "batch_count", "layout", "op_dtype"],
		ranges: { n: "1536:6144:64", m: "256:8192:64", k: "512:8192:64", batch_count: "1:64:1" },
		usual: { m: "2304", n: "4096", k: "4096" },
	},
	attention: {
		text: "attention",
		fields: ["a_batch", "a_heads", "a_kv_heads", "a_seq", "kv_seq", "head_dim", "pass", "causal", "op_dtype"],
		ranges: { head_dim: "32:256:8", a_seq: "512:8192:128", kv_seq: "512:16384:256", a_heads: "8:128:8", a_kv_heads: "1:32:1", a_batch: "1:64:1" },
		usual: { a_batch: "4", a_heads: "32", a_seq: "2048", head_dim: "128" },
	},
	model: {
		text: "whole model",
		fields: ["architecture", "layers", "hidden", "heads", "kv_heads", "d_ff", "vocab", ...WORKLOAD],
		ranges: { heads: "16:64:1", hidden: "1024:4096:64", d_ff: "8192:12288:64", vocab: "50176:50432:1", layers: "8:64:1", kv_heads: "1:32:1", batch: "1:16:1", seq: "512:8192:256", context: "1024:16384:512", tp: "1:8:1" },
		usual: { architecture: "gpt3-2.7b" },
	},
};

/** Workload of a model that seldom matters here. */
const RARE = ["context", "dtype", "tp", "pp", "dp", "zero", "recompute", "attention", "microbatches", "sequence_parallel"];

const COMPARED = ["gpu", "gpu2", "gpu3", "gpu4"];

const form = new Form("explore", [
	{ name: "op", label: "What", kind: "choice", value: "gemm", options: Object.entries(SUBJECTS).map(([value, { text }]) => ({ value, text })) },
	{ name: "vary", label: "Vary", kind: "choice", options: [] },
	{ name: "range", label: "From : to : step", kind: "text", hint: "both ends included" },
	gpuField({}), ...COMPARED.slice(1).map((one, at) => gpuField({ name: one, label: at ? "and" : "Compare with", value: "", options: [{ value: "", text: "none" }] })),
	{ name: "m", label: "m", kind: "range", hint: "rows of the product" },
	{ name: "n", label: "n", kind: "range", hint: "columns of the product" },
	{ name: "k", label: "k", kind: "range", hint: "reduction" },
	{ name: "batch_count", label: "Products", kind: "range", placeholder: ONE, hint: "in one call" },
	{ name: "layout", label: "Layout", kind: "choice", value: "tn", options: ["tn", "nn", "nt", "tt"].map((value) => ({ value })) },
	{ name: "op_dtype", path: "dtype", label: "Number format", kind: "choice", value: "bf16", options: DTYPES },
	{ name: "a_batch", path: "batch", label: "Batch", kind: "range", hint: "sequences" },
	{ name: "a_heads", path: "heads", label: "Heads", kind: "range", hint: "query heads" },
	{ name: "a_kv_heads", path: "kv_heads", label: "KV heads", kind: "range", placeholder: "as heads" },
	{ name: "a_seq", path: "seq", label: "Sequence", kind: "range", hint: "queries; 1 decodes" },
	{ name: "kv_seq", label: "Keys", kind: "range", placeholder: "as queries", hint: "cached ones, too" },
	{ name: "head_dim", label: "Head size", kind: "range" },
	{ name: "causal", label: "causal mask", kind: "flag" },
	{ name: "pass", label: "Pass", kind: "choice", value: "forward", options: [{ value: "forward" }, { value: "backward" }] },
	{ name: "architecture", label: "Published model", kind: "text", list: PRESETS },
	...["layers", "hidden", "heads", "kv_heads", "d_ff", "vocab"].map((one) => ({ name: one, label: format.words(one), kind: "range", placeholder: "as it is" })),
	...workloadFields({ ranges: true }),
]);

const EXAMPLES = [
	["Waves of tiles on an A100", "#explore?op=gemm&vary=n&range=1536:6144:64&gpu=a100"],
	["The same product on three generations", "#explore?op=gemm&vary=n&range=1536:6144:64&gpu=a100&gpu2=h100&gpu3=b200"],
	["What an odd vocabulary costs GPT-3 2.7B", "#explore?op=model&vary=vocab&range=50240:50320:1"],
	["How many heads GPT-3 2.7B should have had", "#explore?op=model&vary=heads&range=16:64:1"],
	["Head size of flash attention", "#explore?op=attention&vary=head_dim&range=32:256:8&causal=1"],
];

const work = desk(form, "Draw");
const rare = form.folded([RARE]);
let hints;
let shown; // What is drawn now, for the y axis and the downloads.
let axis = "rate";

const subject = () => SUBJECTS[form.get("op")] ?? SUBJECTS.gemm;
const label = (field) => form.fields.get(field)?.label ?? field;

/** Shows the fields of the subject; the size that varies is given as a range instead. */
function arrange(vary) {
	const { fields, ranges, usual } = subject();
	form.offer("vary", Object.keys(ranges).map((value) => ({ value, text: label(value) })));
	const chosen = vary && vary in ranges ? vary : Object.keys(ranges)[0];
	form.set("vary", chosen);
	for (const { fields: all } of Object.values(SUBJECTS)) for (const field of all) form.wraps.get(field).hidden = true;
	rare.hidden = form.get("op") !== "model";
	for (const field of fields) {
		form.wraps.get(field).hidden = field === chosen;
		if (form.get(field) === "" && usual[field]) form.set(field, usual[field]);
	}
}

function restart(vary) {
	arrange(vary);
	form.set("range", subject().ranges[form.get("vary")]);
}

export function mount() {
	hints = prepare(form, work.wrong);
	gpuOptions("none").then((options) => COMPARED.slice(1).forEach((one) => form.offer(one, options))).catch(() => {});
	form.input("op").addEventListener("change", () => restart());
	form.input("vary").addEventListener("change", () => restart(form.get("vary")));
	restart();
	const visible = [...new Set(Object.values(SUBJECTS).flatMap(({ fields }) => fields))];
	return [
		p("lead", "What does one size do? Rates rise in waves and fall where a GPU needs one more round of tiles, or where a size is odd."),
		h("form", { onsubmit: submit, novalidate: true },
			h("div", { class: "fields" }, form.nodes("op", "vary", "range")),
			h("div", { class: "fields" }, form.nodes(...visible.filter((one) => !RARE.includes(one)))),
			rare, h("div", { class: "fields" }, form.nodes(...COMPARED)),
			work.controls),
		work.alert, work.output];
}

function state() {
	const fields = subject().fields.filter((one) => one !== form.get("vary"));
	const query = new URLSearchParams({ op: form.get("op"), vary: form.get("vary"), range: form.get("range") });
	for (const [key, value] of form.query([...fields, ...COMPARED])) query.set(key, value);
	if (axis !== "rate") query.set("y", axis);
	return query;
}

function submit(event) {
	event.preventDefault();
	const query = state();
	if (!go(name, query)) show(query);
}

export function show(query) {
	form.fill(query);
	arrange(query.get("vary"));
	if (!query.get("range")) form.set("range", subject().ranges[form.get("vary")]);
	hints();
	if (![...query].length) return work.rest(EXAMPLES);
	axis = query.get("y") ?? "rate";
	return work.run(async (signal) => {
		const [op, vary] = [form.get("op"), form.get("vary")];
		const range = form.get("range").replace(/\s/g, "");
		if (!/^\d+:\d+(:\d+)?$/.test(range)) throw new Problem({ title: "This is not right yet", field: "range", detail: `“${range}” is not a range; START:END:STEP wanted, such as ${subject().ranges[vary]}` });
		const request = form.request(subject().fields.filter((one) => one !== vary));
		const path = (form.fields.get(vary).path ?? vary).split(".");
		if (path.length > 1) (request.workload ??= {})[path[1]] = range;
		else request[path[0]] = range;
		const gpus = [...new Set(COMPARED.map((one) => form.get(one)).filter(Boolean))];
		const requests = gpus.map((gpu) => ({ ...request, gpu }));
		let sweeps;
		try {
			sweeps = await Promise.all(requests.map((one) => send(`/v1/sweep/${op}`, one, signal)));
		} catch (error) {
			// The size that varies has no field of its own while it varies.
			if (error instanceof Problem && (error.field === path.join(".") || error.field === path.at(-1))) error.field = "range";
			throw error;
		}
		const titles = await Promise.all(gpus.map((gpu) => gpuTitle(gpu).catch(() => gpu)));
		shown = { op, sweeps, titles, requests };
		render();
		work.say(`${sweeps[0].points.length} points${sweeps.length > 1 ? ` on ${sweeps.length} GPUs` : ""}.`);
	});
}

const AXES = {
	rate: { text: "TFLOP/s", label: "rate, TFLOP/s", of: (point) => [point.tflops_per_s * (point.time_us / point.high_us), point.tflops_per_s, point.tflops_per_s * (point.time_us / point.low_us)], say: (value) => `${format.significant(value)} TFLOP/s` },
	tokens: { text: "tokens/s", label: "throughput, tokens/s", of: (point) => [point.tokens_per_s_low, point.tokens_per_s, point.tokens_per_s_high], say: (value) => `${format.tokens(value)} tokens/s` },
	time: { text: "time", label: "time", of: (point) => [point.low_us, point.time_us, point.high_us], say: format.time },
	mfu: { text: "MFU", label: "MFU, %", of: (point) => [undefined, point.mfu * 100, undefined], say: (value) => `MFU ${format.percent(value / 100)}` },
	memory: { text: "memory", label: "memory of the fullest GPU, GiB", of: (point) => [undefined, format.gib(point.memory_bytes), undefined], say: (value) => `${format.significant(value)} GiB` },
};

/** The chosen axis, with times in the unit that suits the curve. */
function chosenAxis() {
	const models = shown.op === "model";
	const offered = models ? ["tokens", "time", "mfu", "memory"] : ["rate", "time"];
	const key = offered.includes(axis) ? axis : offered[0];
	const chosen = { key, offered, scale: 1, ...AXES[key] };
	if (key === "time") {
		const most = Math.max(...shown.sweeps.map((sweep) => sweep.points.reduce((all, point) => Math.max(all, point.time_us), 0)));
		const [unit, scale] = most >= 1e6 ? ["s", 1e-6] : most >= 1e3 ? ["ms", 1e-3] : ["µs", 1];
		Object.assign(chosen, { label: `${models ? "step" : "time"}, ${unit}`, scale });
	}
	return chosen;
}

function options() {
	const y = chosenAxis();
	const { sweeps } = shown;
	const single = sweeps.length === 1;
	const models = shown.op === "model";
	const at = (point) => {
		const [low, value, high] = y.of(point).map((one) => (one === undefined ? undefined : one * y.scale));
		return { x: point.value, y: value, low, high };
	};
	const series = sweeps.map((sweep, tone) => ({ name: single ? `predicted${y.of(sweep.points[0])[0] === undefined ? "" : ", with its 90 % interval"}` : sweep.gpu, kind: "line", tone, points: sweep.points.map(at) }));
	const drops = sweeps.map((sweep, tone) => ({ name: tone === 0 ? `${models ? "MFU" : "rate"} falls by more than ${format.percent(sweep.drops_above)}` : "", kind: "points", symbol: "drop", tone, points: find(sweep, sweep.drops.map((drop) => drop.value)).map(at) }))
		.filter((one) => one.points.length && one.points.length <= MOST_MARKS);
	const extra = [];
	if (single && models) {
		const aligned = sweeps[0].points.filter((point) => point.alignment >= sweeps[0].alignment_wanted);
		if (aligned.length && aligned.length < sweeps[0].points.length && aligned.length <= MOST_MARKS) extra.push({ name: `${format.words(sweeps[0].alignment_of)} is a multiple of ${sweeps[0].alignment_wanted}`, kind: "points", symbol: "dot", tone: 0, points: aligned.map(at) });
	}
	if (models) sweeps.forEach((sweep, tone) => {
		const large = sweep.points.filter((point) => !point.fits);
		if (large.length && large.length <= MOST_MARKS) extra.push({ name: single ? "does not fit the memory" : `${sweep.gpu}: does not fit`, kind: "points", symbol: "ring", tone, points: large.map(at) });
	});
	const waves = single ? likely(sweeps[0]) : undefined;
	const byValue = sweeps.map((sweep) => new Map(sweep.points.map((point) => [point.value, point])));
	const values = [...new Set(sweeps.flatMap((sweep) => sweep.points.map((point) => point.value)))].sort((a, b) => a - b);
	const dimension = sweeps[0].dimension;
	const stops = values.map((value) => {
		const found = byValue.map((points, tone) => [points.get(value), tone]).filter(([point]) => point);
		return {
			x: value, value, found,
			spots: found.map(([point, tone]) => ({ y: at(point).y, tone })),
			get text() { return `${format.words(dimension)} ${value}: ${found.map(([point, tone]) => `${single ? "" : `${sweeps[tone].gpu} `}${reading(y, point)}`).join("; ")}`; },
		};
	});
	return {
		title: `${sweeps[0].subject} on ${single ? shown.titles[0] : sweeps.map((one) => one.gpu).join(", ")}: ${y.text} against ${dimension}`,
		subtitle: `${constants(sweeps[0])}; bands are 90 % intervals`,
		label: `${y.text} against ${format.words(dimension)}`,
		x: { label: format.words(dimension) },
		y: { label: y.label, zero: true },
		series: [...series, ...extra, ...drops],
		marks: waves && waves.starts.length <= MOST_MARKS ? waves.starts.map((start) => ({ x: start.value, label: `${start.waves} waves` })) : [],
		stops,
	};
}

const find = (sweep, values) => {
	const wanted = new Set(values);
	return sweep.points.filter((point) => wanted.has(point.value));
};

const likely = (sweep) => (sweep.waves[0]?.explains ? sweep.waves[0] : undefined);

/** One point in words: what the axis shows first, then the rest. */
function reading(y, point) {
	const [low, value, high] = y.of(point);
	const rest = [point.tokens_per_s === undefined ? undefined : AXES.tokens, AXES.time, point.mfu === undefined ? AXES.rate : undefined].filter((one) => one && one.text !== y.text);
	return [
		`${y.say(value)}${low === undefined ? "" : ` (90 %: ${y.say(low)} to ${y.say(high)})`}`,
		...rest.map((one) => one.say(one.of(point)[1])),
		point.mfu !== undefined && y.key !== "mfu" && `MFU ${format.percent(point.mfu)}`,
		point.memory_bytes !== undefined && y.key !== "memory" && format.bytes(point.memory_bytes),
		point.fits === false && "does not fit",
		point.waves !== undefined && `${point.waves} waves`,
		point.alignment && `aligned to ${point.alignment}`,
		point.tier_shares ? format.tierShares(point.tier_shares) : point.tier,
	].filter(Boolean).join(", ");
}

function render() {
	const { sweeps, titles } = shown;
	const y = chosenAxis();
	if (!sweeps.every((sweep) => sweep.points.length)) {
		put(work.output, p("note", "No size of this range is possible: ", sweeps.flatMap((sweep) => sweep.skipped.map((skip) => skip.reason)).join("; ")));
		return;
	}
	const all = options();
	const [first] = sweeps;
	const readout = h("div", { class: "readout" }, "Point at the curve, or focus it and use the arrow keys.");
	const { node } = plot({ ...all, pick: (stop) => put(readout, h("strong", null, `${format.words(first.dimension)} ${stop.value}`), stop.found.map(([point, tone]) => h("div", { class: `t${tone}` }, sweeps.length > 1 && span("key", sweeps[tone].gpu), " ", reading(y, point)))) });
	const switcher = h("fieldset", { class: "switch" }, h("legend", null, "y axis"), y.offered.map((key) =>
		h("label", null, h("input", { type: "radio", name: "explore-y", value: key, checked: key === y.key, onchange: () => { axis = key; adjust(name, state()); render(); work.output.querySelector(`[name=explore-y][value=${key}]`).focus(); } }), ` ${AXES[key].text}`)));
	const file = `${first.subject}-${first.dimension}`.replace(/[^\w.-]+/g, "-");
	put(work.output,
		h("h2", null, `${first.subject} on ${titles.join(", ")}`),
		p("sub", `${format.words(first.dimension)} from ${first.range.start} to ${first.range.end} by ${first.range.step}; ${constants(first)}; bands are 90 % intervals`),
		h("div", { class: "tools" }, switcher,
			button("Save CSV", () => save(`${file}.csv`, "text/csv", csv(sweeps))),
			button("Save SVG", () => save(`${file}.svg`, "image/svg+xml", svgFile(options())))),
		h("figure", null, node, h("figcaption", null, readout)),
		sweeps.map((sweep, at) => findings(sweep, sweeps.length > 1 ? titles[at] : undefined)),
		points(sweeps, y),
		commands(`sweep ${shown.op}`, `/v1/sweep/${shown.op}`, shown.requests));
}

/** Where the curve falls and why, what was left out, what to mind. */
function findings(sweep, gpu) {
	const rate = shown.op === "model" ? "MFU" : "rate";
	const above = format.percent(sweep.drops_above);
	const deepest = [...sweep.drops].sort((a, b) => b.depth - a.depth).slice(0, 16).sort((a, b) => a.value - b.value);
	const waves = likely(sweep);
	const starts = waves?.starts.map((start) => start.value) ?? [];
	const fell = new Set(sweep.drops.map((drop) => drop.value));
	const large = sweep.points.filter((point) => point.fits === false).length;
	return [gpu && h("h3", null, gpu), facts([
		["drops", sweep.drops.length === 0 ? `the ${rate} never falls by more than ${above} from one point to the next` : `the ${rate} falls by more than ${above} ${sweep.drops.length > 16 ? `${sweep.drops.length} times, most ` : ""}at ${format.words(sweep.dimension)} = ${deepest.map((drop) => `${drop.value} (−${format.percent(drop.depth)})`).join(", ")}`],
		sweep.waves.length > 0 && ["waves", waves
			? `${waves.tile} tiles explain the curve best (correlation ${waves.correlation.toFixed(2)}): a further wave at ${format.words(sweep.dimension)} = ${starts.slice(0, 16).join(", ")}${starts.length > 16 ? ` and ${starts.length - 16} more` : ""}; ${starts.filter((start) => fell.has(start)).length} of ${starts.length} are drops`
			: sweep.waves[0].correlation === null ? "their number does not change" : `no usual tile explains the curve (best correlation ${sweep.waves[0].correlation.toFixed(2)})`],
		large > 0 && ["memory", `${large} of ${sweep.points.length} points do not fit`],
		...sweep.skipped.map((skip) => ["skipped", `${skip.points} values, such as: ${skip.reason}`]),
		["based on", format.basis(sweep.basis)],
		sweep.caveats.length > 0 && ["caveats", h("ul", { class: "plain" }, sweep.caveats.map((one) => h("li", null, one.text)))],
	])];
}

/** Every size that stays, in words. */
function constants(sweep) {
	const models = shown.op === "model";
	const usual = (key, value) => {
		if (key === "kind") return true;
		if ((key === "batch" && !models) || ["tp", "pp", "dp", "microbatches"].includes(key)) return value === 1;
		if (key === "pass") return value === "forward";
		if (key === "recompute") return value === "none";
		return value === 0 || value === false;
	};
	return Object.entries(sweep.first)
		.filter(([key, value]) => !usual(key, value) && sweep.last[key] === value)
		.map(([key, value]) => (typeof value === "string" ? (key === "attention" ? `${value} attention` : value) : typeof value === "boolean" ? format.words(key) : `${format.words(key)} ${value}`))
		.join(", ");
}

function points(sweeps, y) {
	const total = sweeps.reduce((sum, sweep) => sum + sweep.points.length, 0);
	const every = Math.ceil(total / MOST_ROWS);
	const box = h("details", null, h("summary", null, `The ${total} points as a table`));
	box.addEventListener("toggle", () => {
		if (!box.open || box.childElementCount > 1) return;
		const models = shown.op === "model";
		const headings = ["GPU", { num: format.words(sweeps[0].dimension) }, { num: "time" }, { num: "90 % interval" }, { num: models ? "tokens/s" : "TFLOP/s" }, ...(models ? [{ num: "MFU" }, { num: "memory" }] : [{ num: "waves" }]), "tier"];
		const rows = sweeps.flatMap((sweep) => sweep.points.filter((_, at) => at % every === 0).map((point) => [
			sweep.gpu, point.value, format.time(point.time_us), `${format.time(point.low_us)} to ${format.time(point.high_us)}`,
			models ? format.tokens(point.tokens_per_s) : format.significant(point.tflops_per_s),
			...(models ? [format.percent(point.mfu), [format.bytes(point.memory_bytes), !point.fits && span("bad", " does not fit")]] : [point.waves ?? "–"]),
			point.tier_shares ? format.tierShares(point.tier_shares) : point.tier]));
		box.append(every > 1 ? p("hint", `One in ${every}; the CSV has all.`) : "", table("Points of the curve", headings, rows));
	});
	return box;
}

/** Every point with units in the heading, as `shapewise sweep --csv` writes it, and the GPU first. */
function csv(sweeps) {
	const models = shown.op === "model";
	const rate = models ? "tokens_per_s" : "tflops_per_s";
	const head = ["gpu", sweeps[0].dimension, "alignment", ...(models ? ["head_dim", "parameters"] : []), "time_us", "low_us", "high_us", rate, `${rate}_low`, `${rate}_high`, ...(models ? ["mfu", "memory_bytes", "fits"] : ["waves"]), "tier"];
	const line = (sweep, point) => {
		const [low, value, high] = AXES[models ? "tokens" : "rate"].of(point);
		return [sweep.gpu, point.value, point.alignment, ...(models ? [point.head_dim, point.parameters] : []), point.time_us, point.low_us, point.high_us, value, low, high, ...(models ? [point.mfu, point.memory_bytes, point.fits] : [point.waves]), point.tier].map((one) => one ?? "").join(",");
	};
	return `${[head.join(","), ...sweeps.flatMap((sweep) => sweep.points.map((point) => line(sweep, point)))].join("\n")}\n`;
}
