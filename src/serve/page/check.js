// The view that holds a model against the sizing rules: what is broken, what it costs, which shape mends it.

import { Problem, send } from "./api.js";
import { commands } from "./commands.js";
import { desk } from "./desk.js";
import { button, facts, h, more, p, put, scroller, span, table } from "./dom.js";
import { Form } from "./form.js";
import * as format from "./format.js";
import { gpuField, gpuTitle, prepare, PRESETS, WORKLOAD, workloadFields } from "./options.js";
import { go } from "./state.js";

export const name = "check";
export const title = "Check";

const form = new Form("check", [
	{ name: "model", path: "architecture", label: "Published model", kind: "text", list: PRESETS, always: true, placeholder: "gpt3-2.7b, llama-3-8b, …" },
	{ name: "config", path: "architecture", label: "config.json", kind: "long", size: "wide", always: true, placeholder: "{\n  \"model_type\": \"llama\",\n  \"hidden_size\": 4096,\n  …" },
	gpuField({ always: true }),
	...workloadFields(),
]);

const EXAMPLES = [
	["GPT-3 2.7B, the classic: odd vocabulary, heads of 80", "#check?model=gpt3-2.7b"],
	["Llama 3 8B decoding 16 sequences on an A100", "#check?model=llama-3-8b&gpu=a100&mode=decode&batch=16"],
	["Pythia 12B over eight H100s", "#check?model=pythia-12b&gpu=h100&tp=8"],
];

const work = desk(form, "Check");
const sources = ["model", "config"];
const radios = {};
let hints;

function choose(source) {
	for (const one of sources) {
		form.wraps.get(one).hidden = one !== source;
		radios[one].checked = one === source;
	}
}

const chosen = () => sources.find((one) => radios[one].checked);

async function take(file) {
	if (!file) return;
	choose("config");
	form.set("config", await file.text());
	form.input("config").focus();
}

export function mount() {
	hints = prepare(form, work.wrong);
	for (const [source, text] of [["model", "a published model"], ["config", "your config.json"]]) {
		radios[source] = h("input", { type: "radio", name: "check-source", value: source, id: `check-source-${source}`, onchange: () => choose(source) });
		radios[source].label = h("label", { for: `check-source-${source}` }, radios[source], ` ${text}`);
	}
	const file = h("input", { type: "file", class: "unseen", tabindex: "-1", accept: ".json,application/json", "aria-label": "config.json file", onchange: () => { take(file.files[0]); file.value = ""; } });
	form.wraps.get("config").append(p("hint", "Paste it, drop the file here, or ", button("choose a file", () => file.click()), file));
	const element = h("form", { onsubmit: submit, novalidate: true },
		h("fieldset", { class: "sources" }, h("legend", null, "Check"), sources.map((source) => radios[source].label)),
		h("div", { class: "fields" }, form.nodes("model", "config", "gpu", "mode", "batch", "seq")),
		form.folded([WORKLOAD.filter((one) => !["mode", "batch", "seq"].includes(one))]),
		work.controls);
	// Anywhere in the window: a file that misses would replace the page.
	for (const kind of ["dragover", "dragleave", "drop"]) {
		addEventListener(kind, (event) => {
			if (!element.getClientRects().length) return;
			event.preventDefault();
			element.classList.toggle("over", kind === "dragover");
			if (kind === "drop") take(event.dataTransfer.files[0]);
		});
	}
	choose("model");
	return [p("lead", "Is a shape well sized for its GPU? Seventeen rules say what is wrong, what each costs, and which near shape with the same parameters mends it."), element, work.alert, work.output];
}

/** A pasted config as one line where it is JSON, else as it is. */
function compact(text) {
	try {
		return JSON.stringify(JSON.parse(text));
	} catch {
		return text;
	}
}

function submit(event) {
	event.preventDefault();
	const source = chosen();
	const query = form.query(["gpu", ...WORKLOAD]);
	query.set(source, source === "config" ? compact(form.get("config")) : form.get("model"));
	if (!go(name, query)) show(query);
}

export function show(query) {
	form.fill(query);
	hints();
	if (![...query].length) return work.rest(EXAMPLES);
	const source = query.has("config") ? "config" : "model";
	choose(source);
	if (source === "config") form.set("config", pretty(query.get("config")));
	return work.run(async (signal) => {
		const request = { architecture: architecture(source), ...form.request(["gpu", ...WORKLOAD]) };
		const checked = await send("/v1/check", request, signal);
		// The step operator by operator; a model that does not run has none.
		const step = checked.predicted ? await send("/v1/predict/model", request, signal) : undefined;
		const gpu = await gpuTitle(checked.gpu).catch(() => checked.gpu);
		render(checked, step, request, gpu);
		work.say(summary(checked));
	});
}

function pretty(text) {
	try {
		return JSON.stringify(JSON.parse(text), null, 2);
	} catch {
		return text;
	}
}

function architecture(source) {
	const refuse = (detail) => {
		throw new Problem({ title: "This is not right yet", field: "architecture", detail });
	};
	const text = form.get(source);
	if (source === "model") return text || refuse("Name a published model, or choose “your config.json”.");
	if (!text) return refuse("Paste a config.json, drop its file here, or choose a published model.");
	let config;
	try {
		config = JSON.parse(text);
	} catch (error) {
		return refuse(`This is not JSON: ${error.message}`);
	}
	return config && typeof config === "object" && !Array.isArray(config) ? config : refuse("A config.json is an object: { … }.");
}

const applicable = (checked) => checked.rules.filter((rule) => rule.verdict !== "not_applicable").length;

function summary(checked) {
	return checked.broken === 0 ? `All ${applicable(checked)} rules that apply are met.` : `${checked.broken} of ${applicable(checked)} rules that apply are broken.`;
}

function render(checked, step, request, gpu) {
	const broken = checked.rules.filter((rule) => rule.verdict === "broken");
	put(work.output,
		h("h2", null, `${checked.model.name} on ${gpu}`),
		p("sub", `${format.dimensions(checked.model)} · ${format.grouped(checked.model.parameters)} parameters · ${format.workload(checked.workload)}`),
		checked.impossible && p("note", h("strong", null, "Does not run: "), checked.impossible),
		checked.predicted && asIs(checked.predicted, step),
		h("h3", null, summary(checked)),
		checked.together && h("section", { class: "mend", id: "together" },
			h("h4", null, "All that one shape can mend, the workload unchanged"),
			sideBySide(checked, [["mended", checked.together]])),
		rulesTable(checked, [...broken, ...checked.rules.filter((rule) => rule.verdict !== "broken")]),
		broken.length > 0 && h("h3", null, "Broken rules, one by one"),
		broken.map((rule) => paragraph(checked, rule)),
		commands("check", "/v1/check", request));
}


function asIs(predicted, step) {
	const memory = step?.memory;
	const parts = Object.entries(memory?.parts_bytes ?? {}).filter(([, size]) => size > 0).sort((a, b) => b[1] - a[1]).map(([part, size]) => `${format.words(part)} ${format.bytes(size)}`);
	const perGpu = step && step.gpus_per_replica > 0 ? step.gpus_per_replica : 1;
	const rate = (value) => format.tokens(value / perGpu);
	return [
		facts([
			["step", h("strong", null, format.time(predicted.time_us)), ` (90 %: ${format.time(predicted.low_us)} to ${format.time(predicted.high_us)})`, !predicted.fits && span("bad", " does not fit the memory")],
			step && ["tokens/s", `${rate(step.tokens_per_s)} per GPU (90 %: ${rate(step.tokens_per_s_low)} to ${rate(step.tokens_per_s_high)})`],
			step && ["MFU", format.percent(step.mfu)],
			memory && ["memory", `${format.bytes(memory.memory_bytes)} of ${format.bytes(memory.capacity_bytes)} per GPU: `, memory.fits ? "fits" : span("bad", "does not fit"), ` (${parts.join(", ")})`],
			["tiers", format.tierShares(predicted.tier_shares)],
			step && ["based on", format.basis(step.basis)],
			step?.caveats.length > 0 && ["caveats", h("ul", { class: "plain" }, step.caveats.map((one) => h("li", null, `${format.percent(one.time_share)} of the time: ${one.text}`)))],
		]),
		step && more(`Where the time goes (${step.lines.length} operators)`, operators(step)),
	];
}

function operators(step) {
	const headings = ["operator", "shape", { num: "count" }, { num: "each" }, { num: "90 %" }, { num: "time" }, { num: "share" }, { num: "TFLOP/s" }, "tier"];
	const counted = ["gemm", "attention"];
	return table("Operators of one step", headings, step.lines.map((line) => [
		format.words(line.label), shapeText(line.op), format.grouped(line.count), format.time(line.each_us),
		`${format.time(line.each_low_us)} to ${format.time(line.each_high_us)}`, format.time(line.time_us), format.percent(line.share),
		counted.includes(line.op.kind) ? format.significant(line.tflops_per_s) : "–", line.tier]));
}

/** An operator as text: its own sizes and words, in the order of the document. */
function shapeText(op) {
	if (op.kind === "gemm") return `${op.batch > 1 ? `${op.batch} x ` : ""}(${op.m}, ${op.k}) x (${op.k}, ${op.n}) ${op.layout} ${op.dtype}`;
	if (op.kind === "attention") return `b ${op.batch} heads ${op.heads}/${op.kv_heads} q ${op.seq_q} kv ${op.seq_kv} d ${op.head_dim}${op.causal ? " causal" : ""}${op.pass === "backward" ? " backward" : ""} ${op.dtype}`;
	if (op.kind === "memory") return `${format.words(op.function)} (${op.rows}, ${op.cols}) ${op.dtype}`;
	if (op.kind === "collective") return `${format.words(op.pattern)} ${format.bytes(op.bytes)} over ${op.ranks} ranks`;
	return op.kind;
}

function paragraph(checked, rule) {
	const hard = rule.severity === "hard";
	return h("section", { class: "mend", "data-rule": rule.id },
		h("h4", null, rule.title, " ", h("span", { class: hard ? "badge bad" : "badge" }, hard ? "broken" : "broken (advice)")),
		p("", rule.detail),
		facts([["asks", rule.demand], ["because", rule.reason], ["source", rule.source], rule.no_mend && ["mend", `none near: ${rule.no_mend}`]]),
		rule.mend && sideBySide(checked, [["nearest mend", rule.mend], rule.faster && ["farther, faster", rule.faster]].filter(Boolean)));
}

function rulesTable(checked, rules) {
	const verdict = (rule) => {
		if (rule.verdict === "met") return span("good", "met");
		if (rule.verdict !== "broken") return span("faint", "not applicable");
		return span("bad", rule.severity === "hard" ? "broken" : "broken (advice)");
	};
	const columns = checked.broken ? 5 : 3;
	return table("What every rule says",
		["rule", "verdict", "what decides", "nearest mend", "it saves"].slice(0, columns),
		rules.map((rule) => [
			h("span", { title: rule.demand }, rule.title), verdict(rule), rule.detail,
			rule.mend ? changes(rule.mend) : rule.no_mend ? "none near" : "",
			rule.mend ? outcome(checked.workload, rule.mend, true) : ""].slice(0, columns)), { class: "rules" });
}

/** `heads 32 → 20, head dim 80 → 128`; where every head has its own keys, both change alike. */
function changes(mend) {
	const heads = mend.changes.find((one) => one.dimension === "heads");
	return mend.changes
		.filter((one) => one.dimension !== "kv_heads" || !heads || heads.from !== one.from || heads.to !== one.to)
		.map((one) => `${format.words(one.dimension)} ${one.from} → ${one.to}`).join(", ");
}

const WORK = ["batch", "seq", "context", "tp", "pp", "dp", "zero", "microbatches"];

/** As it is, beside one or two shapes that mend it; what changes is marked. */
function sideBySide(checked, mends) {
	const [now, work_] = [checked.model, checked.workload];
	const changed = new Set(mends.flatMap(([, mend]) => mend.changes.map((one) => one.dimension)));
	const lines = [];
	const line = (label, before, after, attrs) => lines.push(h("tr", attrs, h("th", { scope: "row" }, label), h("td", { class: "num" }, before), mends.map(([, mend]) => h("td", { class: "num" }, after(mend)))));
	const sizes = ["layers", "hidden", "heads", "kv_heads", "head_dim", "d_ff", "vocab"];
	const mark = (before, after) => (before === after ? String(after) : h("mark", null, after));
	for (const size of sizes.filter((one) => changed.has(one))) line(format.words(size), now[size], (mend) => mark(now[size], mend.architecture[size]));
	for (const size of WORK.filter((one) => mends.some(([, mend]) => mend.workload[one] !== work_[one]))) line(format.words(size), work_[size], (mend) => mark(work_[size], mend.workload[size]));
	line("parameters", format.parameters(now.parameters), (mend) => {
		const change = mend.parameter_change_fraction;
		return Math.abs(change) >= 5e-5 ? `${format.parameters(mend.architecture.parameters)} (${change < 0 ? "−" : "+"}${Math.abs(change * 100).toFixed(2)} %)` : format.parameters(mend.architecture.parameters);
	});
	line("step", checked.predicted ? format.time(checked.predicted.time_us) : "does not run", (mend) => h("strong", null, format.time(mend.predicted.time_us)), { class: "rule" });
	line("90 %", checked.predicted ? `${format.time(checked.predicted.low_us)} to ${format.time(checked.predicted.high_us)}` : "–", (mend) => `${format.time(mend.predicted.low_us)} to ${format.time(mend.predicted.high_us)}`);
	const rate = (step, { tp, pp }) => format.tokens(step.tokens_per_s / (tp * pp));
	line("tokens/s per GPU", checked.predicted ? rate(checked.predicted, work_) : "–", (mend) => [rate(mend.predicted, mend.workload), !mend.predicted.fits && span("bad", " does not fit")]);
	if (mends.some(([, mend]) => mend.gain)) line("it saves", "", (mend) => outcome(work_, mend));
	line("tiers", checked.predicted ? format.tierShares(checked.predicted.tier_shares) : "–", (mend) => format.tierShares(mend.predicted.tier_shares), { class: "soft" });
	line("mends", "", (mend) => mend.mends.join(", "), { class: "soft" });
	if (mends.some(([, mend]) => mend.breaks.length)) line("breaks", "", (mend) => span("bad", mend.breaks.join(", ")), { class: "soft" });
	return scroller("Before and after", h("table", { class: "sides" },
		h("thead", null, h("tr", null, h("th", { scope: "col" }, span("unseen", "what")), h("th", { scope: "col", class: "num" }, "as it is"), mends.map(([label]) => h("th", { scope: "col", class: "num" }, label)))),
		h("tbody", null, lines)));
}

/** What a gain means, and for what where a step is not the same work. */
function outcome(now, mend, short) {
	const { gain } = mend;
	if (!gain) return "–";
	if (short && gain.outlook === "faster") return span("good", `${format.percent(gain.time_saved_fraction)} (${format.signed(gain.low_fraction)} to ${format.signed(gain.high_fraction)})`);
	const alike = ["batch", "seq", "tp"].every((key) => now[key] === mend.workload[key]);
	const slower = gain.time_saved_fraction < 0;
	const verdict = { faster: "", slower: "; it does not pay" }[gain.outlook] ?? "; that it pays is not certain";
	return h("span", { class: gain.outlook === "faster" ? "good" : undefined },
		`${format.percent(Math.abs(gain.time_saved_fraction))} ${slower ? "more" : "less"} ${alike ? "time" : "GPU time per token"} (90 %: ${format.signed(gain.low_fraction)} to ${format.signed(gain.high_fraction)})${verdict}`);
}
