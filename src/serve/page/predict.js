// The view that says what one step of a model takes: where its time goes, what bounds it, what batch and context change.

import { once, send } from "./api.js";
import { commands } from "./commands.js";
import { desk, examples, problemBox } from "./desk.js";
import { facts, h, p, put, span, table } from "./dom.js";
import { Form } from "./form.js";
import * as format from "./format.js";
import { launches } from "./launch.js";
import { gpuField, gpuTitle, preset } from "./lists.js";
import { defaults, fields } from "./openapi.js";
import { plot, sharesWithNames } from "./plot.js";
import { Source } from "./source.js";
import { adjust, go } from "./state.js";
import { TABS } from "./tabs.js";

const name = "predict";

const STEP = "/v1/predict/model";
const SWEEP = "/v1/sweep/model";

const EXAMPLES = [
	["Llama 3 70B served in fp8 on eight H200s, 64 sequences at once", "#predict?architecture=llama-3-70b&tp=8&batch=64&dtype=fp8"],
	["DeepSeek-V3 served on eight H200s", "#predict?architecture=deepseek-v3&tp=8&batch=64&dtype=fp8"],
	["Prompts of 8,192 tokens of Llama 3 8B on an H100", "#predict?architecture=llama-3-8b&gpu=h100&mode=prefill&seq=8192"],
	["Llama 3 70B trained on 64 H100s", "#predict?architecture=llama-3-70b&gpu=h100&mode=train&tp=8&pp=4&dp=2&microbatches=16&batch=1"],
	["GPT-3 2.7B trained on an A100", "#predict?architecture=gpt3-2.7b&gpu=a100&mode=train"],
];

/** Fields that are always seen. */
const MAIN = ["architecture", "config", "gpu", "mode", "batch", "seq"];

/** Parts of a step in the order of the bar, each with the roles of its operators; the first that fits has an operator. */
const PARTS = [
	["Communication", 5, ({ op }) => op?.kind === "collective"],
	["Bubble", 6, ({ role }) => role === "bubble"],
	["Overhead", 7, ({ role }) => /^(overhead|host|offload)/.test(role)],
	["Optimizer and gradients", 4, ({ role }) => /^optimizer|accumulation|autocast/.test(role)],
	["Norms and other pointwise kernels", 3, ({ op, role }) => op?.kind === "memory" || role === "fused_into_neighbours"],
	["Embedding and logits", 2, ({ role }) => /^(embedding|position_embedding|logits|loss)/.test(role)],
	["MLP", 1, ({ role }) => /^(mlp|router|experts|shared)/.test(role)],
	["Attention", 0, () => true],
];

/** What the sliders change: powers of two from one end to the other. */
const SLIDERS = [["batch", "Sequences at once", 0, 10], ["seq", "Tokens of each", 7, 17]];

const source = new Source(name, "Model", "architecture");
const sliders = new Map();
let form;
let work;

export function mount() {
	form = new Form(name, [source.field, ...fields(STEP, {
		architecture: { label: "Published model", hint: "", value: "llama-3-8b", placeholder: "llama-3-8b, deepseek-v3, …" },
		gpu: gpuField(), "workload.mode": { value: "decode" },
	})]);
	work = desk(form, TABS[name]);
	const panel = h("div", { class: "sliders" }, SLIDERS.map(([field, label, least, most]) => {
		const input = h("input", { type: "range", id: `predict-slide-${field}`, min: least, max: most, step: 1, oninput: () => slide(field, 2 ** Number(input.value)) });
		const text = h("output", { for: input.id });
		sliders.set(field, { input, text });
		return h("div", null, h("label", { for: input.id }, label, " ", text), input);
	}));
	return [
		p("lead", "What does one step of a model take on a GPU? Its time with the 90 % interval, where the time goes, what bounds each operator."),
		source.element(form, submit, form.nodes(MAIN), form.folded(MAIN), work.controls, examples(EXAMPLES)),
		work.alert, panel, work.output];
}

function submit(event) {
	event.preventDefault();
	const query = source.query();
	if (!go(name, query)) show(query);
}

/** A size by its slider: the address follows without an entry in the history. */
function slide(field, value) {
	form.set(field, String(value));
	if (field === "seq" && form.fields.has("context")) form.set("context", "");
	adjust(name, source.query());
	ask();
}

export function show(query) {
	source.fill(query);
	return ask();
}

function ask() {
	return work.run(async (signal) => {
		const request = source.request();
		const { tokens, usd_per_gpu_hour, ...swept } = request;
		const batches = { ...swept, workload: { ...request.workload, batch: `1:${2 ** SLIDERS[0][3]}:x2` } };
		const [step, figures, sweep] = await Promise.all([
			send(STEP, request, signal),
			once(`/v1/gpus/${encodeURIComponent(request.gpu)}`).catch(() => undefined),
			send(SWEEP, batches, signal).catch((problem) => { if (problem.name === "AbortError") throw problem; return { problem }; }),
		]);
		render(step, figures, sweep, request);
		work.say(`${format.time(step.time_us)} a step.`);
	});
}

const decodes = (step) => step.workload.mode === "decode";

/** Tokens of a sequence that the step meets. */
const length = ({ workload }) => (workload.mode === "decode" ? workload.context : workload.seq);

function render(step, figures, sweep, request) {
	for (const [field, { input, text }] of sliders) {
		const value = field === "seq" ? length(step) : step.workload[field];
		input.value = Math.round(Math.log2(value));
		text.textContent = format.grouped(value);
	}
	const open = work.output.querySelector("details.operators")?.open;
	put(work.output,
		h("h2", null, `${step.model} on ${step.gpus > 1 ? `${format.grouped(step.gpus)} × ` : ""}${gpuTitle(step.gpu)}`),
		p("sub", `${format.grouped(step.parameters)} parameters · ${format.settings(step.workload, defaults(STEP))} · ${step.framework.name}${step.framework.assumed ? ", assumed" : ""}`),
		answer(step, figures),
		h("h3", null, "Where the time goes"), sharesWithNames("Shares of the step", timeParts(step)),
		h("h3", null, "Memory of the fullest GPU"), memory(step.memory),
		h("div", { class: "pair" },
			h("section", null, h("h3", null, "What the batch changes"), batchCurve(step, sweep)),
			h("section", null, h("h3", null, "Roofline of its operators"), roofline(step, figures))),
		h("h3", null, "What this rests on"),
		facts([
			["tiers", format.tierShares(step.tier_shares)],
			step.framework.evidence && ["runs", step.framework.evidence],
			["based on", format.basis(step.basis)],
			step.caveats.length > 0 && ["caveats", h("ul", { class: "plain" }, step.caveats.map((one) => h("li", null, `${format.percent(one.time_share)} of the time: ${one.text}`)))],
			step.notes?.length > 0 && ["notes", h("ul", { class: "plain" }, step.notes.map((one) => h("li", null, one)))],
			["rules", h("a", { href: source.href("check") }, "Check this shape against the sizing rules")],
		]),
		h("details", { class: "operators", open }, h("summary", null, `All ${step.lines.length} operators`), operators(step)),
		commands("predict model", STEP, request, launches(step.model, preset(step.model), step.workload, length(step))));
}

/** A figure of the GPU, if it was answered. */
const figure = (figures, wanted) => figures?.figures.find((one) => one.figure === wanted)?.value;

/** The figures that people ask for, each with its interval. */
function answer(step, figures) {
	const perGpu = step.tokens_per_s_per_gpu / step.tokens_per_s;
	const tile = (what, value, ...rest) => h("div", null, h("dt", null, what), h("dd", null, h("strong", null, value), h("span", { class: "hint" }, rest)));
	const between = (low, high, write) => `90 %: ${write(low)} to ${write(high)}`;
	const each = (us) => 1e6 / us;
	const bandwidth = figure(figures, "memory_bandwidth_bytes_per_s");
	const bytes = step.lines.reduce((sum, line) => sum + line.bytes, 0);
	return h("dl", { class: "tiles" },
		tile(decodes(step) ? "time per token" : step.workload.mode === "prefill" ? "time to first token" : "time of a step", format.time(step.time_us), between(step.low_us, step.high_us, format.time)),
		tile("tokens/s per GPU", format.tokens(step.tokens_per_s_per_gpu), between(step.tokens_per_s_low * perGpu, step.tokens_per_s_high * perGpu, format.tokens)),
		decodes(step) && tile("tokens/s per user", format.tokens(each(step.time_us)), between(each(step.high_us), each(step.low_us), format.tokens)),
		step.gpus > 1 && tile(`tokens/s of ${format.grouped(step.gpus)} GPUs`, format.tokens(step.tokens_per_s_of_all_gpus)),
		decodes(step) && bandwidth ? tile("bandwidth", format.percent(bytes / (step.time_us * 1e-6) / bandwidth), "share of that of the memory") : tile("MFU", format.percent(step.mfu), "share of the dense peak"),
		step.usd_per_million_tokens && tile("USD per million tokens", format.significant(step.usd_per_million_tokens)),
		step.run && tile("the run", `${format.significant(step.run.days)} days`, `${format.grouped(step.run.gpu_hours)} GPU-hours`),
		tile("memory", format.bytes(step.memory.memory_bytes), step.memory.fits ? "fits" : span("bad", "does not fit"), ` ${format.bytes(step.memory.capacity_bytes)}`));
}

function timeParts(step) {
	const all = [...step.lines, ...step.rest];
	const found = new Map();
	for (const one of all) {
		const [part, tone] = PARTS.find(([, , has]) => has(one));
		const into = found.get(part) ?? { name: part, tone, share: 0, time: 0, roles: new Map() };
		into.share += one.share;
		into.time += one.time_us;
		into.roles.set(one.role, (into.roles.get(one.role) ?? 0) + one.share);
		found.set(part, into);
	}
	// What is fused into neighbours may be more than the pointwise kernels that are left.
	const shown = PARTS.map(([part]) => found.get(part)).filter((part) => part?.share > 0.0005).reverse();
	const whole = shown.reduce((sum, part) => sum + part.share, 0);
	return shown.map(({ roles, time, share, ...part }) => ({
		...part, share: share / whole, text: `${format.time(time)}, ${format.percent(share)}`,
		detail: roles.size > 1 && [...roles].sort((a, b) => b[1] - a[1]).map(([role, of]) => `${format.words(role)} ${format.percent(of)}`).join(", "),
	}));
}

function memory({ parts_bytes: parts, capacity_bytes: capacity, memory_bytes: used, fits }) {
	const whole = Math.max(capacity, used);
	const held = Object.entries(parts).filter(([, bytes]) => bytes > whole / 2000).sort((a, b) => b[1] - a[1]);
	const all = held.map(([part, bytes], tone) => ({ name: format.label(part), tone: tone % 6, share: bytes / whole, text: format.bytes(bytes) }));
	// At the peak not every part is there at once, so their sum may be more than what is used.
	const sum = held.reduce((total, [, bytes]) => total + bytes, 0);
	if (sum < capacity) all.push({ name: "Free", tone: 7, share: (capacity - sum) / whole, text: format.bytes(capacity - sum) });
	else for (const part of all) part.share *= whole / sum;
	return [!fits && p("bad", `Does not fit: ${format.bytes(used)} of ${format.bytes(capacity)}.`), sharesWithNames("Shares of the memory", all)];
}

const HOW = "Point at the plot, or focus it and use the arrow keys.";

function batchCurve(step, sweep) {
	if (sweep.problem) return h("div", { class: "note" }, problemBox(sweep.problem));
	const perGpu = step.tokens_per_s_per_gpu / step.tokens_per_s;
	const at = (point) => ({ x: point.value, y: point.tokens_per_s * perGpu, low: point.tokens_per_s_low * perGpu, high: point.tokens_per_s_high * perGpu });
	const say = (point) => `batch ${format.grouped(point.value)}: ${format.tokens(point.tokens_per_s * perGpu)} tokens/s per GPU, ${format.time(point.time_us)}${decodes(step) ? `, ${format.tokens(1e6 / point.time_us)} tokens/s per user` : ""}, ${format.bytes(point.memory_bytes)}${point.fits ? "" : ", does not fit"}`;
	const large = sweep.points.filter((point) => !point.fits);
	const readout = p("readout", HOW);
	const { node } = plot({
		label: "Tokens per second and GPU against batch",
		x: { label: "sequences at once", log: 2 },
		y: { label: "tokens/s per GPU", zero: true },
		series: [
			{ name: "predicted, with its 90 % interval", kind: "line", tone: 0, points: sweep.points.map(at) },
			...(large.length ? [{ name: "does not fit the memory", kind: "points", symbol: "ring", tone: 5, points: large.map(at) }] : []),
			{ name: "this step", kind: "points", symbol: "diamond", tone: 1, points: [{ x: step.workload.batch, y: step.tokens_per_s_per_gpu }] },
		],
		stops: sweep.points.map((point) => ({ x: point.value, spots: [{ y: at(point).y, tone: 0 }], text: say(point) })),
		pick: (stop) => put(readout, stop.text),
	});
	return h("figure", null, node, h("figcaption", null, readout));
}

function roofline(step, figures) {
	const peak = (figure(figures, `peak_${step.workload.dtype}_flops_per_s`) ?? figure(figures, "peak_bf16_flops_per_s")) / 1e12;
	const bandwidth = figure(figures, "memory_bandwidth_bytes_per_s") / 1e12;
	const dots = step.lines.filter((one) => one.flops > 0 && one.bytes > 0 && one.tflops_per_s > 0).map((one) => ({ ...one, x: one.flops / one.bytes, y: one.tflops_per_s }));
	if (!peak || !bandwidth || !dots.length) return p("note", "The figures of this GPU did not arrive, so there is no roof to draw.");
	const ridge = peak / bandwidth;
	const ends = [Math.min(ridge, ...dots.map((one) => one.x)) / 2, Math.max(ridge, ...dots.map((one) => one.x)) * 2];
	const roof = (x) => Math.min(peak, x * bandwidth);
	const groups = PARTS.map(([part, tone, has]) => ({ name: part, tone, points: dots.filter((one) => PARTS.find(([, , fits]) => fits(one))[2] === has) })).filter((one) => one.points.length).reverse();
	const readout = p("readout", HOW);
	const { node } = plot({
		label: "Operators under the roofline: achieved rate against arithmetic intensity",
		flat: true,
		x: { label: "FLOPs per byte", log: 10 },
		y: { label: "TFLOP/s", log: 10 },
		series: [
			{ name: `${format.significant(peak)} TFLOP/s, ${format.significant(bandwidth)} TB/s`, kind: "line", tone: 6, points: [ends[0], ridge, ends[1]].map((x) => ({ x, y: roof(x) })) },
			...groups.map((group) => ({ ...group, kind: "points", points: group.points.map((one) => ({ x: one.x, y: one.y, size: 3 + 14 * Math.sqrt(one.share) })) })),
		],
		stops: dots.sort((a, b) => a.x - b.x).map((one) => ({
			x: one.x, spots: [{ y: one.y, tone: groups.find((group) => group.points.includes(one)).tone }],
			text: `${format.words(one.label)}: ${format.percent(one.share)} of the time, ${format.significant(one.y)} TFLOP/s, ${format.percent(one.y / roof(one.x))} of the ${one.x < ridge ? "memory" : "compute"} roof, ${one.tier}`,
		})),
		pick: (stop) => put(readout, stop.text),
	});
	return [h("figure", null, node, h("figcaption", null, readout)),
		p("hint", "An area is a share of the time. A dot above the roof of the memory finds its operands in the L2 cache.")];
}

function operators(step) {
	const headings = ["operator", "shape", { num: "count" }, { num: "each" }, { num: "90 %" }, { num: "time" }, { num: "share" }, { num: "TFLOP/s" }, "tier"];
	const counted = ["gemm", "attention"];
	const rest = step.rest.map((one) => [format.words(one.role), "–", "–", "–", "–", format.time(one.time_us), format.percent(one.share), "–", "–"]);
	return table("Operators of one step", headings, [...step.lines.map(({ op: { kind, ...op }, ...line }) => [
		format.words(line.label), format.settings(op, { batch: "1" }), format.grouped(line.count), format.time(line.each_us),
		`${format.time(line.each_low_us)} to ${format.time(line.each_high_us)}`, format.time(line.time_us), format.percent(line.share),
		counted.includes(kind) ? format.significant(line.tflops_per_s) : "–", line.tier]), ...rest]);
}
