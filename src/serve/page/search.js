// The view that finds the fastest shapes for a number of parameters.

import { Problem, stream } from "./api.js";
import { commands } from "./commands.js";
import { desk, examples } from "./desk.js";
import { button, cards, facts, h, more, p, put, save, scroller, span, table } from "./dom.js";
import { Form } from "./form.js";
import * as format from "./format.js";
import { gpuField, gpuTitle } from "./lists.js";
import { defaults, fields } from "./openapi.js";
import { interval, plot } from "./plot.js";
import { go, href } from "./state.js";
import { TABS } from "./tabs.js";

const name = "search";

/** Fields that are always seen. */
const MAIN = ["params", "gpu", "mode", "vocab"];

const EXAMPLES = [
	["6.7 billion parameters, trained on an H200", "#search?params=6.7B"],
	["As large as GPT-3 2.7B, but faster on an A100", "#search?params=&gpu=a100&like=gpt3-2.7b"],
	["A Llama of 8 billion that decodes fast, 32 sequences at once on an H100", "#search?params=8B&gpu=h100&mode=decode&batch=32&vocab=128256&like=llama-3-8b"],
	["A mixture of experts of 30 billion parameters, 3 of them active, that decodes fast on an H200", "#search?params=30B&active_params=3B&mode=decode&batch=64"],
	["The best model for a thousand hours of an H100", "#search?params=&gpu=h100&objective=loss&budget=1000 gpu-hours"],
	["175 billion on H100s: states sharded where they do not fit", "#search?params=175B&gpu=h100"],
];

let form;
let work;

export function mount() {
	form = new Form(name, fields("/v1/search", { params: { value: "6.7B" }, gpu: gpuField(), export: { name: "configs", value: "1" } }));
	work = desk(form, TABS[name]);
	return [
		p("lead", "Which shape of transformer runs fastest for a number of parameters? Predicted from real kernel timings; every number has its 90 % interval."),
		h("form", { onsubmit: submit, novalidate: true }, form.nodes(MAIN), form.folded(MAIN), work.controls, examples(EXAMPLES)),
		work.alert, work.output];
}

function submit(event) {
	event.preventDefault();
	const query = form.query();
	if (!go(name, query)) show(query);
}

export function show(query) {
	form.fill(query);
	return work.run(async (signal) => {
		const request = form.request();
		const { found, refused } = await ask(request, signal);
		render(found, request, refused, gpuTitle(found.gpu));
		work.say(`${found.shapes.length} shapes found.`);
	});
}

/** Asks for configs, too; where the style cannot be written as one, asks again without and says so. */
async function ask(request, signal) {
	const progress = ({ done, total, best_time_ratio: best }) => {
		work.progress(done, total);
		work.note(`${format.grouped(done)} of ${format.grouped(total)}${best ? `; best so far ${format.significant(best)} of the baseline's time` : ""}`);
	};
	try {
		return { found: await stream("/v1/search", request, signal, progress) };
	} catch (error) {
		const style = error instanceof Problem && error.field === "export";
		if (!style) throw error;
		const { export: _, ...without } = request;
		return { found: await stream("/v1/search", without, signal, progress), refused: error.detail };
	}
}

function render(found, request, refused, gpu) {
	const { baseline } = found;
	put(work.output,
		h("h2", null, `${format.grouped(found.request.parameters)} ${found.request.count === "total" ? "" : "non-embedding "}parameters within ${format.percent(found.request.tolerance)} on ${gpu}`),
		p("sub", format.settings(found.workload, defaults("/v1/search"))),
		found.sharded && p("note", h("strong", null, "Layout: "), `each shape is timed under its own fastest one over ${format.grouped(gpus(found.workload))} GPUs; the line above shows the baseline’s. “Parallelism” under “More options” fixes parts of it; “Ranks as they are” keeps the ranks that are given.`),
		refused && p("note", h("strong", null, "No config.json: "), `these shapes cannot be written as one, so the search ran without. ${refused}`),
		found.request.kv_group === 1 && p("note", h("strong", null, "Kept: "), "every head has its own keys, as no config.json of this style holds fewer. Without “Export” under “More options” the search is free."),
		reached(found),
		ranking(found),
		reasons(found),
		elsewhere(found),
		losses(found),
		h("h3", null, "Throughput against memory"),
		pareto(found),
		h("h3", null, "What this rests on"),
		facts([
			["baseline", `${baseline.shape.name}, ${format.grouped(baseline.shape.parameters)} parameters, vocabulary ${baseline.shape.vocab}: ${format.tokens(baseline.tokens_per_s_per_gpu)} tokens/s per GPU, MFU ${format.percent(baseline.mfu)}${baseline.fits ? "" : ", does not fit"}; ${baseline.stands_in ? "the shape at the centre of the bounds, as no published model of this kind, size and vocabulary is built in" : "gains are at equal parameters"}`],
			["method", `${found.search.method}${found.search.seed === undefined ? "" : `, seed ${found.search.seed}`}: ${format.grouped(found.search.evaluations)} evaluations, ${format.grouped(found.search.refused)} ruled out, of ${format.grouped(found.search.lattice_shapes)} shapes in the lattice; stopped: ${found.search.stopped}`],
			["based on", format.basis(found.basis)],
			...Object.entries(found.request.free).map(([what, all]) => [`free ${what}`, `from ${all[0]} to ${all.at(-1)} in powers of two`]),
			found.request.free_attention && ["free attention", `${found.request.free_attention.join(", ")}; the fastest of each kind is among the shapes as far as Top goes`],
			found.request.relaxed?.length > 0 && ["relaxed", found.request.relaxed.map(format.words).join(", ")],
		]),
		commands("search", "/v1/search", refused ? { ...request, export: undefined } : request));
}

/** The best shape of the same search on other GPUs and in other formats. */
function elsewhere(found) {
	if (!found.elsewhere?.length) return null;
	const headings = ["GPU", "format", "best shape", { num: "tokens/s per GPU" }, { num: "MFU" }, { num: "memory" }, { num: "gain" }, "loss of the format"];
	const shape = (one) => `${one.layers} layers of ${one.hidden}, ${one.heads} heads (${one.kv_heads} kv) of ${one.head_dim}`;
	const refused = found.elsewhere.filter((one) => one.refused);
	return [
		h("h3", null, "On other GPUs and in other formats"),
		table("The best shape elsewhere", headings, found.elsewhere.filter((one) => one.best).map(({ gpu, dtype, best }) => [
			h("span", { title: gpuTitle(gpu) }, gpu), dtype, shape(best.shape), format.tokens(best.tokens_per_s_per_gpu), format.percent(best.mfu),
			format.bytes(best.memory_bytes), gained(best), best.format_loss ? loss(best.format_loss) : "–"])),
		refused.length > 0 && facts(refused.map((one) => [`${one.gpu} ${one.dtype}`, one.refused])),
	];
}

/** All GPUs of a layout. */
const gpus = (work) => work.tp * work.cp * work.pp * work.dp;

/** A gain over a published model, or a dash where none is near. */
const gained = ({ gain }) => (gain === undefined ? "–" : format.signed(gain));

/** GPU time to equal loss over the baseline's. */
const timeToLoss = ({ gpu_time_to_equal_loss: time, gpu_time_to_equal_loss_low: low, gpu_time_to_equal_loss_high: high }) => (time === undefined ? "–"
	: [time.toFixed(2), span("ends", ` ${low.toFixed(2)} to ${high === undefined ? "never" : high.toFixed(2)}`)]);

/** A colour only where the gain is larger than what is uncertain about this shape alone. */
function sure({ gain, cost_half_width: own }) {
	if (gain === undefined || Math.abs(gain) <= own) return "num";
	return gain < 0 ? "num worse" : "num better";
}

/** The inner width of the MLP, or of the experts: `8 of 128 x 768`. */
const inner = (shape) => (shape.experts === undefined ? shape.d_ff : `${shape.top_k} of ${shape.experts} x ${shape.moe_d_ff}${shape.moe_shared_d_ff > 0 ? ` + ${shape.moe_shared_d_ff}` : ""}`);

const perGpu = (shape, rate) => rate * (shape.tokens_per_s_per_gpu / shape.tokens_per_s);

function ranking(found) {
	const free = Object.keys(found.request.free).length > 0;
	const split = (one, work) => (found.sharded ? [num(work.batch), h("td", null, [format.layout(work), format.recomputed(work)].filter(Boolean).join(", recompute "))] : free && [num(one.batch), num(one.tp)]);
	const lows = found.shapes.map((one) => perGpu(one, one.tokens_per_s_low));
	const highs = found.shapes.map((one) => perGpu(one, one.tokens_per_s_high));
	const reference = found.baseline.tokens_per_s_per_gpu;
	const ends = [perGpu(found.baseline, found.baseline.tokens_per_s_low), perGpu(found.baseline, found.baseline.tokens_per_s_high)];
	const scale = [Math.min(ends[0], ...lows), Math.max(ends[1], ...highs)];
	const num = (text, attrs) => h("td", { class: "num", ...attrs }, text);
	const head = (text, title) => h("th", { scope: "col", class: "num", title }, text);
	const sizes = (shape) => [format.layers(shape), shape.hidden, shape.heads, shape.kv_lora_rank ? `latent ${shape.kv_lora_rank}` : shape.kv_heads, shape.head_dim, inner(shape), shape.vocab].map((size) => num(size)).concat(num(shape.active_parameters === undefined ? format.parameters(shape.parameters) : `${format.parameters(shape.parameters)} (${format.parameters(shape.active_parameters)})`, { title: `${format.grouped(shape.parameters)} parameters` }));
	const columns = 16 + (free || found.sharded ? 2 : 0);

	const row = (one, at) => {
		const [low, high] = [lows[at], highs[at]];
		const rate = one.tokens_per_s_per_gpu;
		return [
			h("tr", { class: "shape", "data-rank": one.rank },
				h("th", { scope: "row", class: "num" }, one.rank),
				num(h("strong", null, format.tokens(rate))),
				h("td", null, interval(low, rate, high, scale, reference), span("ends", ` ${format.tokens(low)} to ${format.tokens(high)}`)),
				num([gained(one), h("span", { class: "own", title: "half width of the 90 % interval of this shape alone, without what all shapes share" }, ` ± ${format.percent(one.cost_half_width)}`)], { class: sure(one) }),
				num(timeToLoss(one)),
				sizes(one.shape), split(one, one.layout),
				num(format.percent(one.mfu)), num(format.bytes(one.memory_bytes)),
				h("td", null, actions(found, one, at))),
			h("tr", { class: "why" }, h("td", null), h("td", { colspan: columns - 1 }, h("div", { class: "stay" }, why(one))))];
	};
	const groups = [...new Set(found.shapes.map((one) => one.tie_group))];
	return [scroller("Ranked shapes",
		cards(h("table", { class: "ranking" },
			h("caption", { class: "unseen" }, "Shapes in order; a group holds shapes that are at most 3 % apart within the uncertainty of the prediction"),
			h("thead", null, h("tr", null, head("#"), head("tokens/s", "tokens per second and GPU"), h("th", { scope: "col" }, "90 % interval"), head("gain", "tokens/s per GPU over the baseline, at equal parameters"),
				head("time to equal loss", "GPU time of training to the loss of the baseline's proportions at equal parameters, over theirs"),
				head("layers"), head("hidden"), head("heads"), head("kv", "key/value heads"), head("head dim"), head("d_ff", "width of the MLP; of a mixture, experts that a token visits of all, times the width of one"), head("vocab"), head("params", "those that a token meets in brackets"), found.sharded ? [head("batch"), h("th", { scope: "col" }, "layout")] : free && [head("batch"), head("tp")],
				head("MFU", "share of the peak that model FLOPs use"), head("memory", "of the fullest GPU"), h("th", { scope: "col" }, span("unseen", "config")))),
			h("tbody", { class: "baseline" }, h("tr", { "data-rank": "baseline" }, h("th", { scope: "row", class: "num" }, "–"),
				num(format.tokens(reference)), h("td", null, interval(ends[0], reference, ends[1], scale, reference), span("ends", ` ${found.baseline.shape.name}`)), num("baseline"), num(""),
				sizes(found.baseline.shape), split(found.workload, found.workload),
				num(format.percent(found.baseline.mfu)), num([format.bytes(found.baseline.memory_bytes), !found.baseline.fits && span("bad", " does not fit")]), h("td", null))),
			groups.map((group) => {
				const members = found.shapes.map((one, at) => [one, at]).filter(([one]) => one.tie_group === group);
				return h("tbody", { class: "tie", "data-tie": group },
					h("tr", { class: "group" }, h("th", { scope: "rowgroup", colspan: columns }, h("div", { class: "stay" }, members.length > 1 ? `Tie group ${group}: ${members.length} shapes at most 3 % apart within the uncertainty of the prediction` : `Group ${group}: one shape`))),
					members.map(([one, at]) => row(one, at)));
			})))),
	p("hint", "Rates are per GPU. Bar: 90 % interval and estimate; the upright line is the baseline. Most of it is common to all shapes; what is not stands beside the gain as ±, and decides what ties. Time: the roles that changed most, as a share of the baseline's time at equal parameters.")];
}

/** `+3.1 × 10⁻³ nats (−2.0 to +9.4), extrapolated`. */
function loss({ caveat, recalls_less: forgets, difference_mnat: middle, low_mnat: low, high_mnat: high }) {
	const known = `${caveat === undefined ? "" : `, ${caveat}`}${forgets ? "; may recall worse from far back, which a loss does not show" : ""}`;
	return middle === undefined ? known.slice(2) : `${mnat(middle)} × 10⁻³ nats (${mnat(low)} to ${mnat(high)})${known}`;
}

const mnat = (value) => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(1)}`;

/** What sizes or shapes reach under an objective that is a loss or a time. */
function outcomes(found, what, rows) {
	const time = found.request.objective === "train-time";
	const value = (behind) => (time ? format.signed(Math.expm1(behind)) : mnat(behind));
	return table(`What each ${what} reaches`,
		[what, { num: "tokens" }, { num: "GPU-hours" }, { num: time ? "time behind the best (90 %)" : "behind the best, 10⁻³ nats (90 %)" }, { num: "beats it", title: "share of the joint draws of throughput and loss; a tie from 20 % on, or less than 5 × 10⁻³ nats behind" }, { num: "best of all" }],
		rows.map(([name, one]) => [name, one.tokens === undefined ? "not reached" : `${format.significant(one.tokens / 1e9)}B`, one.gpu_hours === undefined ? "–" : format.significant(one.gpu_hours),
			`${value(one.behind)} (${value(one.behind_low)} to ${value(one.behind_high)})`, `${format.percent(one.beats_best)}${one.ties ? ", tie" : ""}`, format.percent(one.wins)]));
}

function reached(found) {
	const [first] = found.shapes;
	if (!first?.outcome) return null;
	const name = (shape) => `${shape.layers} × ${shape.hidden}`;
	return [
		found.sizes && [h("h3", null, "Sizes"),
			p("", `The best size lies between ${format.parameters(found.sizes.parameters_low)} and ${format.parameters(found.sizes.parameters_high)} parameters in two of three joint draws of throughput and loss.`),
			outcomes(found, "size", found.sizes.points.map((one) => [`${format.parameters(one.parameters)} (${name(one.shape)})`, one.outcome]))],
		h("h3", null, `Shapes by ${format.words(found.request.objective)}`),
		outcomes(found, "shape", found.shapes.map((one) => [`#${one.rank} (${name(one.shape)})`, one.outcome])),
		p("hint", `Loss of the first, nats per token, each on the scale of its law's data and tokenizer: ${Object.entries(first.outcome.loss_nats).map(([law, nats]) => `${nats.toFixed(3)} by ${law}`).join(", ")}.`)];
}

function losses(found) {
	const known = found.shapes.filter((one) => one.loss.difference_mnat !== undefined).sort((a, b) => a.tokens_per_s_per_gpu - b.tokens_per_s_per_gpu);
	if (known.length < 2) return null;
	const readout = p("readout", "Point at the plot, or focus it and use the arrow keys.");
	const at = (one) => ({ x: one.tokens_per_s_per_gpu, y: one.loss.difference_mnat, low: one.loss.low_mnat, high: one.loss.high_mnat });
	const { node } = plot({
		label: "Throughput against loss: recommended shapes with 90 % bands, baseline",
		flat: true,
		x: { label: "tokens/s per GPU", loose: true },
		y: { label: "loss over the baseline, 10⁻³ nats" },
		series: [
			{ name: "recommended, with the 90 % interval of the loss", kind: "points", whiskers: true, tone: 0, points: known.map((one) => ({ ...at(one), text: `#${one.rank}` })) },
			{ name: `baseline ${found.baseline.shape.name}`, kind: "points", symbol: "diamond", tone: 1, points: [{ x: found.baseline.tokens_per_s_per_gpu, y: 0 }] },
		],
		stops: known.map((one) => ({ x: at(one).x, spots: [{ y: at(one).y, tone: 0 }], text: `Shape ${one.rank}: ${format.tokens(at(one).x)} tokens/s per GPU, loss ${loss(one.loss)}` })),
		pick: (stop) => put(readout, stop.text),
	});
	return [h("h3", null, "Throughput against loss"), h("figure", null, node, h("figcaption", null, readout)),
		p("hint", `0.001 nat per token over the baseline's proportions at equal parameters after ${format.significant(found.request.tokens / 1e9)} billion tokens. No shape is slower than another and has the higher loss in every draw.`)];
}

const won = (one) => one.won.map((role) => `${format.words(role.role)} ${format.signed(role.time_change)}`).join(", ");

function why(one) {
	const parts = [
		`time: ${won(one)}`,
		one.rules_broken.length ? h("strong", null, `breaks ${one.rules_broken.join(", ")}`) : `meets all ${one.rules_met.length} rules`,
		...one.outside_usual.map((bound) => span("bad", `${format.words(bound.bound)} ${format.significant(bound.value)}, outside the usual ${bound.usual[0]} to ${bound.usual[1]}`)),
		h("span", { title: `tier of most of the time: ${one.tier}` }, format.tierShares(one.tier_shares)),
		`nearest ${one.nearest_model}`,
		h("span", { title: "0.001 nat per token over the baseline's proportions at equal parameters and tokens, with the 90 % band" }, `loss ${loss(one.loss)}`),
	];
	return parts.flatMap((part, at) => [at > 0 && span("dotted", " · "), part]);
}

function actions(found, one, at) {
	const config = found.configs?.[at];
	if (!config) return null;
	const text = JSON.stringify(config, null, 2);
	const query = new URLSearchParams({ config: JSON.stringify(config) });
	const usual = defaults("/v1/check");
	const run = { gpu: found.gpu, ...(one.layout ?? found.workload), batch: one.batch, tp: one.tp };
	for (const [key, value] of Object.entries(run)) {
		const text = value === true ? "1" : value === false ? "" : String(value);
		if (text !== usual[key]) query.set(key, text);
	}
	return h("span", { class: "actions" },
		button("config.json", () => save(`config-${one.rank}-${one.shape.layers}x${one.shape.hidden}.json`, "application/json", `${text}\n`), { "aria-label": `Save config.json of shape ${one.rank}` }),
		" ", h("a", { href: href("check", query), "aria-label": `Check shape ${one.rank}` }, "check"));
}

function reasons(found) {
	const [first] = found.shapes;
	const { fastest } = found;
	const equal = found.request.objective === "equal-loss";
	return [
		equal && p("", found.costs_loss ? "No shape was found that costs no loss against the baseline; these cost least." : "Ranked by tokens/s among shapes whose predicted loss is not above the baseline's at equal parameters; the objective throughput ranks by tokens/s alone."),
		p("", `Fastest by tokens/s alone: ${format.dimensions(fastest.shape)}: ${format.tokens(fastest.tokens_per_s_per_gpu)} tokens/s per GPU, gain ${gained(fastest)}, loss ${loss(fastest.loss)}, time to equal loss ${timeToLoss(fastest)}.`),
		first && more("Rules that the first shape meets", p("", first.rules_met.join(", "), ".")),
	];
}

function pareto(found) {
	const x = (one) => format.gib(one.memory_bytes);
	const front = [...found.pareto_front].sort((a, b) => a.memory_bytes - b.memory_bytes);
	const say = (what, one, low, high) => `${what}: ${format.tokens(one.tokens_per_s_per_gpu)} tokens/s per GPU${low ? ` (90 %: ${format.tokens(low)} to ${format.tokens(high)})` : ""}, ${format.bytes(one.memory_bytes)}; ${format.dimensions(one.shape)}${one.layout ? `; ${format.layout(one.layout)}` : Object.keys(found.request.free).length ? `; batch ${one.batch ?? found.workload.batch}, tp ${one.tp ?? found.workload.tp}` : ""}`;
	const point = (one, text) => ({ x: x(one), y: one.tokens_per_s_per_gpu, text });
	const stops = [
		...front.map((one) => ({ one, tone: 2, text: say("Pareto front", one) })),
		...found.shapes.map((one) => ({ one, tone: 0, text: say(`Shape ${one.rank}`, one, perGpu(one, one.tokens_per_s_low), perGpu(one, one.tokens_per_s_high)) })),
		{ one: found.baseline, tone: 1, text: say(`Baseline ${found.baseline.shape.name}`, found.baseline) },
	].sort((a, b) => x(a.one) - x(b.one) || a.one.tokens_per_s_per_gpu - b.one.tokens_per_s_per_gpu)
		.map(({ one, tone, text }) => ({ x: x(one), spots: [{ y: one.tokens_per_s_per_gpu, tone }], text }));
	const readout = p("readout", "Point at the plot, or focus it and use the arrow keys.");
	const capacity = format.gib(found.capacity_bytes);
	const { node } = plot({
		label: "Throughput against memory: Pareto front, recommended shapes, baseline",
		flat: true,
		x: { label: "memory of the fullest GPU, GiB", loose: true },
		y: { label: "tokens/s per GPU" },
		series: [
			{ name: "Pareto front", kind: "points", symbol: "ring", tone: 2, points: front.map((one) => point(one)) },
			{ name: "recommended", kind: "points", symbol: "dot", tone: 0, points: found.shapes.map((one) => point(one, found.shapes.length <= 12 ? `#${one.rank}` : "")) },
			{ name: `baseline ${found.baseline.shape.name}`, kind: "points", symbol: "diamond", tone: 1, points: [point(found.baseline)] },
		],
		stops,
		pick: (stop) => put(readout, stop.text),
	});
	return [h("figure", null, node, h("figcaption", null, readout)),
		p("hint", `No point of the front can be beaten in throughput, memory and closeness to habit at once. The GPU holds ${format.significant(capacity)} GiB.`),
		more(`Pareto front as a table (${front.length} shapes)`, table("Pareto front",
			["shape", { num: "tokens/s per GPU" }, { num: "memory" }, { num: "from centre", title: "distance from the centre of published shapes" }],
			found.pareto_front.map((one) => [format.dimensions(one.shape), format.tokens(one.tokens_per_s_per_gpu), format.bytes(one.memory_bytes), one.centre_distance.toFixed(2)])))];
}
