// The view that draws what one size does: the curve with its interval, where it falls, several GPUs in one plot.

import { Problem, send } from "./api.js";
import { commands } from "./commands.js";
import { desk, examples } from "./desk.js";
import { button, facts, h, p, put, save, span, table } from "./dom.js";
import { Form, refuse } from "./form.js";
import * as format from "./format.js";
import { gpuField, gpuTitle, preset } from "./lists.js";
import { below, defaults, example, fields } from "./openapi.js";
import { plot, svgFile } from "./plot.js";
import { adjust, go } from "./state.js";

const name = "explore";

const SWEEP = "/v1/sweep/";
const MOST_MARKS = 120;
const MOST_ROWS = 400;

const COMPARED = ["gpu", "gpu2", "gpu3", "gpu4"];

/** Fields that are seen beside those of the model itself. */
const MAIN = ["mode", "batch", "seq", "seq_kv", "causal", "dtype"];

const EXAMPLES = [
	["Waves of tiles on an A100", "#explore?op=gemm&vary=n&range=1536:6144:64&gpu=a100"],
	["The same GEMM on three generations", "#explore?op=gemm&vary=n&range=1536:6144:64&gpu=a100&gpu2=h100&gpu3=b200"],
	["What an odd vocabulary costs GPT-3 2.7B", "#explore?op=model&architecture=gpt3-2.7b&vary=vocab&range=50240:50320:1"],
	["How many heads GPT-3 2.7B should have had", "#explore?op=model&architecture=gpt3-2.7b&vary=heads&range=16:64:1"],
	["Head size of flash attention", "#explore?op=attention&vary=head_dim&range=32:256:8&causal=1"],
];

/** The model of the first curve. */
const MODEL = "gpt3-2.7b";

const subjects = new Map();
const place = h("div");
let head;
let work;
let shown; // What is drawn now, for the y axis and the downloads.
let axis = "rate";

/** What is swept: its form, its sizes by name, and what stands in fields that must be filled, from the document's example. */
function subject() {
	const op = below(SWEEP).includes(head.get("op")) ? head.get("op") : head.fields.get("op").api;
	if (!subjects.has(op)) {
		const all = fields(SWEEP + op, { architecture: { label: "Published model" } }).filter((field) => field.path !== "gpu");
		const form = new Form(name, all);
		const visible = all.filter((field) => field.required || MAIN.includes(field.name) || (field.group === "Model" && field.name !== "window")).map((field) => field.name);
		const shown = example(SWEEP + op);
		const given = new Map(all.filter((field) => field.required).map((field) => [field.name, field.path === "architecture" ? MODEL : String(shown[field.path]).split(":").slice(0, 2).at(-1)]));
		const sizes = new Map(all.filter((field) => field.kind === "range").map((field) => [field.name, { ...field, shown: String(shown[field.path]) }]));
		subjects.set(op, { op, form, given, sizes, node: [form.nodes(visible), form.folded(visible)] });
	}
	return subjects.get(op);
}

/** A range that shows something: that of the document's example where it has many values, else around the size as it is. */
function suggested(vary) {
	const { form, sizes } = subject();
	const { required, shown, api } = sizes.get(vary);
	const [start, end, step] = shown.split(":").map(Number);
	if (required && end - start > 16 * step) return shown;
	const now = Number(form.get(vary) || preset(form.get("architecture") ?? "")?.[vary] || api);
	if (!now) return /seq|context|window/.test(vary) ? "512:8192:256" : "1:16:1";
	if (now <= 32) return `1:${Math.max(8, 2 * now)}:1`;
	if (now % 8) return `${now - 48}:${now + 48}:1`;
	return `${now / 2}:${2 * now}:${2 ** Math.floor(Math.log2(now / 32))}`;
}

/** Shows the fields of the subject; the size that varies is given as a range instead. */
function arrange(vary) {
	const { form, given, sizes, node } = subject();
	put(place, node);
	put(head.input("vary"), [...sizes.values()].map((size) => h("option", { value: size.name }, size.label)));
	const chosen = vary || [...sizes.values()].find((size) => size.shown.includes(":")).name;
	head.set("vary", chosen);
	for (const [one, wrap] of form.wraps) wrap.hidden = one === chosen;
	for (const [one, value] of given) if (form.get(one) === "") form.set(one, value);
}

function restart(vary) {
	arrange(vary);
	head.set("range", suggested(head.get("vary")));
}

export function mount() {
	head = new Form(name, [
		{ name: "op", label: "What", kind: "choice", api: "gemm", options: below(SWEEP).map((value) => ({ value, text: format.label(value) })) },
		{ name: "vary", label: "Vary", kind: "choice", options: [] },
		{ name: "range", label: "From : to : step", kind: "text", hint: "both ends included" },
		...fields(`${SWEEP}gemm`, { gpu: gpuField() }).filter((field) => field.path === "gpu"),
		...COMPARED.slice(1).map((one, at) => ({ name: one, label: at ? "and" : "Compare with", ...gpuField("none") })),
	]);
	const form = {
		clear: () => [head, subject().form].forEach((one) => one.clear()),
		show: (problem) => head.show(problem) || subject().form.show(problem),
	};
	work = desk(form, "Draw");
	head.input("op").addEventListener("change", () => restart());
	head.input("vary").addEventListener("change", () => restart(head.get("vary")));
	restart();
	return [
		p("lead", "What does one size do? Rates rise in waves and fall where a GPU needs one more round of tiles, or where a size is odd."),
		h("form", { onsubmit: submit, novalidate: true }, head.nodes(["op", "vary", "range"]), place, head.nodes(COMPARED), work.controls, examples(EXAMPLES)),
		work.alert, work.output];
}

/** The fields of the subject that stay as they are. */
const constant = ({ form }) => [...form.fields.keys()].filter((one) => one !== head.get("vary"));

function state() {
	const query = new URLSearchParams({ op: head.get("op"), vary: head.get("vary"), range: head.get("range") });
	for (const [key, value] of [...subject().form.query(constant(subject())), ...head.query(COMPARED)]) query.set(key, value);
	if (axis !== "rate") query.set("y", axis);
	return query;
}

function submit(event) {
	event.preventDefault();
	const query = state();
	if (!go(name, query)) show(query);
}

export function show(query) {
	head.fill(query);
	subject().form.fill(query, [...head.fields.keys(), "y"]);
	arrange(query.get("vary"));
	if (!query.get("range") && subject().sizes.has(head.get("vary"))) head.set("range", suggested(head.get("vary")));
	axis = query.get("y") ?? "rate";
	return work.run(async (signal) => {
		const { op, form, sizes } = subject();
		const [wanted, vary] = [head.get("op"), head.get("vary")];
		if (wanted !== op) refuse("op", `“${wanted}” cannot be swept; allowed: ${below(SWEEP).join(", ")}`);
		if (!sizes.has(vary)) refuse("vary", `“${vary}” is no size of ${op}; allowed: ${[...sizes.keys()].join(", ")}`);
		const range = head.get("range").replace(/\s/g, "");
		if (!/^\d+(:\d+(:x?\d+)?|(,\d+)+)$/.test(range)) refuse("range", `“${range}” is not a range; START:END:STEP, START:END:xFACTOR or a list wanted, such as ${suggested(vary)}`);
		const request = form.request(form.fields.keys(), { [vary]: range });
		const gpus = [...new Set(COMPARED.map((one) => head.get(one)).filter(Boolean))];
		const requests = gpus.map((gpu) => ({ ...request, gpu }));
		let sweeps;
		try {
			sweeps = await Promise.all(requests.map((one) => send(SWEEP + op, one, signal)));
		} catch (error) {
			// The size that varies has no field of its own while it varies.
			if (error instanceof Problem && [sizes.get(vary).path, vary].includes(error.field)) error.field = "range";
			throw error;
		}
		shown = { op, sweeps, titles: gpus.map(gpuTitle), requests };
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
	const drops = sweeps.map((sweep, tone) => ({ name: tone === 0 ? `${RATES[sweep.drops_of]} falls by more than ${format.percent(sweep.drops_above)}` : "", kind: "points", symbol: "drop", tone, points: find(sweep, sweep.drops.map((drop) => drop.value)).map(at) }))
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
		stops,
	};
}

const find = (sweep, values) => {
	const wanted = new Set(values);
	return sweep.points.filter((point) => wanted.has(point.value));
};

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
		commands(`sweep ${shown.op}`, SWEEP + shown.op, shown.requests));
}

/** What falls at a drop, by the key of the points that has it. */
const RATES = { mfu: "MFU", bandwidth_fraction: "share of the bandwidth", tflops_per_s: "rate" };

/** Where the curve falls and why, what was left out, what to mind. */
function findings(sweep, gpu) {
	const rate = RATES[sweep.drops_of];
	const above = format.percent(sweep.drops_above);
	const deepest = [...sweep.drops].sort((a, b) => b.depth - a.depth).slice(0, 16).sort((a, b) => a.value - b.value);
	const large = sweep.points.filter((point) => point.fits === false).length;
	return [gpu && h("h3", null, gpu), facts([
		["drops", sweep.drops.length === 0 ? `the ${rate} never falls by more than ${above} from one point to the next` : `the ${rate} falls by more than ${above} ${sweep.drops.length > 16 ? `${sweep.drops.length} times, most ` : ""}at ${format.words(sweep.dimension)} = ${deepest.map((drop) => `${drop.value} (−${format.percent(drop.depth)})`).join(", ")}`],
		large > 0 && ["memory", `${large} of ${sweep.points.length} points do not fit`],
		...sweep.skipped.map((skip) => ["skipped", `${skip.points} values, such as: ${skip.reason}`]),
		["based on", format.basis(sweep.basis)],
		sweep.caveats.length > 0 && ["caveats", h("ul", { class: "plain" }, sweep.caveats.map((one) => h("li", null, one.text)))],
	])];
}

/** Every size that stays, in words. */
function constants({ first: { kind, ...first }, last }) {
	return format.settings(Object.fromEntries(Object.entries(first).filter(([key, value]) => last[key] === value)), defaults(SWEEP + shown.op));
}

function points(sweeps, y) {
	const total = sweeps.reduce((sum, sweep) => sum + sweep.points.length, 0);
	const every = Math.ceil(total / MOST_ROWS);
	const box = h("details", null, h("summary", null, `The ${total} points as a table`));
	box.addEventListener("toggle", () => {
		if (!box.open || box.childElementCount > 1) return;
		const models = shown.op === "model";
		const decodes = sweeps[0].drops_of === "bandwidth_fraction";
		const headings = ["GPU", { num: format.words(sweeps[0].dimension) }, { num: "time" }, { num: "90 % interval" }, { num: models ? "tokens/s" : "TFLOP/s" }, ...(models ? [{ num: decodes ? "bandwidth" : "MFU" }, { num: "memory" }] : []), "tier"];
		const rows = sweeps.flatMap((sweep) => sweep.points.filter((_, at) => at % every === 0).map((point) => [
			sweep.gpu, point.value, format.time(point.time_us), `${format.time(point.low_us)} to ${format.time(point.high_us)}`,
			models ? format.tokens(point.tokens_per_s) : format.significant(point.tflops_per_s),
			...(models ? [format.percent(decodes ? point.bandwidth_fraction : point.mfu), [format.bytes(point.memory_bytes), !point.fits && span("bad", " does not fit")]] : []),
			point.tier_shares ? format.tierShares(point.tier_shares) : point.tier]));
		box.append(every > 1 ? p("hint", `One in ${every}; the CSV has all.`) : "", table("Points of the curve", headings, rows));
	});
	return box;
}

/** Tiers, the best first. */
const TIERS = ["measured", "learned", "transferred", "roofline"];

/** Every point with units in the heading, the GPU first. */
function csv(sweeps) {
	const models = shown.op === "model";
	const rate = models ? "tokens_per_s" : "tflops_per_s";
	const head = ["gpu", sweeps[0].dimension, "alignment", ...(models ? ["head_dim", "parameters"] : []), "time_us", "low_us", "high_us", rate, `${rate}_low`, `${rate}_high`, ...(models ? ["mfu", "bandwidth_fraction", "memory_bytes", "fits", ...TIERS.map((tier) => `${tier}_share`)] : ["tier"])];
	const line = (sweep, point) => {
		const [low, value, high] = AXES[models ? "tokens" : "rate"].of(point);
		return [sweep.gpu, point.value, point.alignment, ...(models ? [point.head_dim, point.parameters] : []), point.time_us, point.low_us, point.high_us, value, low, high, ...(models ? [point.mfu, point.bandwidth_fraction, point.memory_bytes, point.fits, ...TIERS.map((tier) => point.tier_shares[tier])] : [point.tier])].map((one) => one ?? "").join(",");
	};
	return `${[head.join(","), ...sweeps.flatMap((sweep) => sweep.points.map((point) => line(sweep, point)))].join("\n")}\n`;
}
