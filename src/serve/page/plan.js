// The views that lay a model out over GPUs: the fastest layouts on one GPU, and GPUs beside each other.

import { send } from "./api.js";
import { commands } from "./commands.js";
import { desk, examples } from "./desk.js";
import { facts, h, p, put, span, table } from "./dom.js";
import { Form } from "./form.js";
import * as format from "./format.js";
import { gpuField, gpuTitle } from "./lists.js";
import { fields } from "./openapi.js";
import { plot } from "./plot.js";
import { Source } from "./source.js";
import { go } from "./state.js";
import { TABS } from "./tabs.js";

/** Fields that are always seen. */
const MAIN = ["architecture", "config", "gpu", "gpus", "mode"];

/** A view of one question. */
function view({ name, lead, path, own, questions, render }) {
	const source = new Source(name, "Model", "architecture");
	const title = TABS[name];
	let form;
	let work;
	return {
		name, title,
		mount() {
			form = new Form(name, [source.field, ...fields(path, { architecture: { label: "Model", hint: "", list: "presets", value: "llama-3-70b", placeholder: "llama-3-70b, deepseek-v3, …" }, gpus: { label: "Number of GPUs", value: "64", hint: "8:1024 scales in doublings" }, mode: { hint: "" }, model: { label: "Predictor" }, ...own() })]);
			work = desk(form, title);
			const submit = (event) => {
				event.preventDefault();
				const query = source.query();
				if (!go(name, query)) this.show(query);
			};
			return [p("lead", lead), source.element(form, submit, form.nodes(MAIN), form.folded(MAIN), work.controls, examples(questions)), work.alert, work.output];
		},
		show(query) {
			source.fill(query);
			return work.run(async (signal) => {
				const request = source.request();
				const answer = await send(path, request, signal);
				put(work.output, render(answer), commands(name, path, request));
				work.say("Done.");
			});
		},
	};
}

export const plan = view({
	name: "plan",
	lead: "Which layout of a model runs fastest over so many GPUs? Every legal one that fits is predicted: ranks, virtual stages, sharding, micro-batches, recomputation.",
	path: "/v1/plan",
	own: () => ({ gpu: gpuField() }),
	questions: [
		["Llama 3 70B trained on 512 H100s, and what 15 trillion tokens take", "#plan?architecture=llama-3-70b&gpu=h100&gpus=512&tokens=15T"],
		["DeepSeek-V3 in fp8 on 256 GB200s", "#plan?architecture=deepseek-v3&gpu=gb200&gpus=256&dtype=fp8"],
		["Serving Llama 3 70B on 16 H100s within 30 ms per token", "#plan?architecture=llama-3-70b&gpu=h100&gpus=16&mode=decode&tpot_ms=30"],
		["How training Llama 3 8B scales from 8 to 512 H100s", "#plan?architecture=llama-3-8b&gpu=h100&gpus=8:512"],
	],
	render: planned,
});

export const compare = view({
	name: "compare",
	lead: "Which GPU for a model? Each with its best layout: tokens per second and GPU, node, watt and dollar, and how much of it is learned from measurements.",
	path: "/v1/compare",
	own: () => ({ gpu: { kind: "text", size: "double", label: "GPUs", value: "h100,h200,b200", hint: "Names with commas between them, or all" }, gpus: { label: "GPUs of each", value: "8", kind: "whole", hint: "" }, architecture: { label: "Model", hint: "", list: "presets", value: "llama-3-8b", placeholder: "llama-3-8b, …" } }),
	questions: [
		["Llama 3 8B trained on eight of every GPU", "#compare?architecture=llama-3-8b&gpu=all&gpus=8"],
		["Llama 3 70B served on eight H100s, H200s or B200s", "#compare?architecture=llama-3-70b&mode=decode&gpus=8"],
	],
	render: compared,
});

const ends = (low, high, write) => (low === undefined || low === null ? "" : `${write(low)} to ${write(high)}`);

const rank = (one) => (one.tied && one.rank > 1 ? `= ${one.rank}` : one.rank);

function heading(answer, gpu) {
	const batch = answer.global_batch ? `steps of ${format.grouped(answer.global_batch)} sequences of ${format.grouped(answer.seq)} tokens` : `prompts of ${format.grouped(answer.seq)} tokens${answer.output ? ` that generate ${format.grouped(answer.output)}` : ""}`;
	return [h("h2", null, `${answer.model} on ${gpu}`),
		p("sub", `${format.grouped(answer.parameters)} parameters · ${answer.mode} · ${batch} · ${answer.format}`)];
}

function planned(answer) {
	const several = answer.plans.length > 1;
	const [first] = answer.plans;
	return [
		heading(answer, `${several ? "" : `${format.grouped(first.gpus)} × `}${gpuTitle(answer.gpu)}`),
		p("note", h("strong", null, "Framework: "), `${answer.framework.name}${answer.framework.assumed ? ", assumed" : ""}: ${answer.framework.title}`),
		several ? scaling(answer) : [first.layouts[0].step ? training(first) : serving(answer, first), remarks(answer, first), first.tried.length > 0 && plane(answer, first)],
	];
}

function training(plan) {
	const headings = [{ num: "#" }, "layout", "micro-batch", "recompute", { num: "tokens/s" }, { num: "per GPU" }, { num: "MFU" }, { num: "step" }, "90 %", { num: "exposed", title: "traffic that no kernel hides" }, { num: "bubble" }, { num: "memory", title: "of the fullest GPU" }];
	return table("Ranked layouts", headings, plan.layouts.map((one) => [
		rank(one), format.layout(one.workload), `${one.workload.batch} × ${one.workload.microbatches}`, format.recomputed(one.workload),
		h("strong", null, format.tokens(one.tokens_per_s_of_all_gpus)), format.tokens(one.tokens_per_s_per_gpu), format.percent(one.step.mfu),
		format.time(one.step.time_us), ends(one.step.low_us, one.step.high_us, format.time),
		format.percent(one.step.lanes.exposed_traffic.share), format.percent(one.step.lanes.bubble.share), format.bytes(one.memory_bytes)]));
}

/** A table without the columns that no row has anything in. */
function filled(caption, headings, rows) {
	const kept = headings.map((_, column) => rows.some((row) => row[column] !== ""));
	const of = (cells) => cells.filter((_, column) => kept[column]);
	return table(caption, of(headings), rows.map(of));
}

/** Headings of both times of a request, each with its interval and the probability that it keeps its limit. */
function latencyHeadings(limits) {
	const within = (limit) => ({ num: limit ? `within ${format.time(limit)}` : "", title: "probability that the limit is kept, by the interval of the time" });
	return [{ num: "first token" }, "90 %", within(limits?.ttft_us), { num: "per token" }, "90 %", within(limits?.tpot_us)];
}

function latencies(request) {
	const write = (value, text) => (value === undefined || value === null ? "" : text(value));
	if (!request) return ["", "", "", "", "", ""];
	return [format.time(request.ttft_us), ends(request.ttft_low_us, request.ttft_high_us, format.time), write(request.ttft_kept_probability, format.percent),
		write(request.tpot_us, format.time), ends(request.tpot_low_us, request.tpot_high_us, format.time), write(request.tpot_kept_probability, format.percent)];
}

const rates = (one) => ends(one.tokens_per_s_per_gpu_low, one.tokens_per_s_per_gpu_high, format.tokens);

function serving(answer, plan) {
	const headings = [{ num: "#" }, "engine", { num: "engines" }, { num: "requests each" }, { num: "tokens/s" }, { num: "per GPU" }, "90 %", ...latencyHeadings(answer.limits), { num: "memory", title: "of the fullest GPU with every cache full" }];
	return filled("Ranked engines", headings, plan.layouts.map((one) => [
		rank(one), format.layout(one.workload, false), format.grouped(one.workload.dp), format.grouped(one.workload.batch),
		h("strong", null, format.tokens(one.tokens_per_s_of_all_gpus)), format.tokens(one.tokens_per_s_per_gpu), rates(one),
		...latencies(one.request), format.bytes(one.memory_bytes)]));
}

function remarks(answer, plan) {
	const changes = Object.entries(plan.decided_by).filter(([, change]) => Math.abs(change) >= 0.001);
	const tied = plan.layouts.filter((one) => one.tied).length > 1;
	return facts([
		tied && ["=", `tied with the first: layouts within ${format.percent(Math.expm1(answer.order.tie))} of each other were ranked wrongly more than one time in five (${answer.order.pairs} measured pairs)`],
		changes.length > 0 && ["second against first", changes.map(([lane, change]) => `${format.words(lane)} ${format.signed(change)}`).join(", ")],
		["layouts", `${format.grouped(plan.fitting)} of ${format.grouped(plan.legal)} fit; one takes at most ${format.percent(plan.memory_share)} of ${format.bytes(answer.capacity_bytes)}`],
		plan.run && ["the run", run(plan.run)],
	]);
}

const run = (one) => `${format.grouped(one.tokens)} tokens: ${format.significant(one.days)} days (90 %: ${format.significant(one.days_low)} to ${format.significant(one.days_high)}), ${format.grouped(one.gpu_hours)} GPU-hours${one.usd ? `, ${format.grouped(one.usd)} USD` : ""}`;

function plane(answer, plan) {
	const point = (one, text) => ({ x: format.gib(one.memory_bytes), y: one.tokens_per_s_per_gpu, text });
	const stops = plan.layouts.map((one) => ({ x: format.gib(one.memory_bytes), spots: [{ y: one.tokens_per_s_per_gpu, tone: 0 }], text: `#${one.rank}: ${format.tokens(one.tokens_per_s_per_gpu)} tokens/s per GPU, ${format.bytes(one.memory_bytes)}; ${format.layout(one.workload)}` })).sort((a, b) => a.x - b.x);
	const readout = p("readout", "Point at the plot, or focus it and use the arrow keys.");
	const { node } = plot({
		label: "Throughput against memory: layouts that fit, and the fastest",
		flat: true,
		x: { label: "memory of the fullest GPU, GiB", loose: true },
		y: { label: "tokens/s per GPU" },
		series: [
			{ name: "layouts that fit", kind: "points", symbol: "ring", tone: 2, points: plan.tried.map((one) => point(one)) },
			{ name: "the fastest", kind: "points", symbol: "dot", tone: 0, points: plan.layouts.map((one) => point(one, plan.layouts.length <= 12 ? `#${one.rank}` : "")) },
		],
		stops,
		pick: (stop) => put(readout, stop.text),
	});
	return [h("h3", null, "Throughput against memory"), h("figure", null, node, h("figcaption", null, readout))];
}

function scaling(answer) {
	const found = answer.plans.find((plan) => plan.layouts.length > 0);
	const [base] = found.layouts;
	const headings = [{ num: "GPUs" }, "layout", { num: "tokens/s" }, { num: "per GPU" }, { num: "efficiency", title: "tokens per second and GPU over those of the fewest GPUs" }, { num: "MFU" }, "run"];
	return table("The best layout for each number of GPUs", headings, answer.plans.map((plan) => {
		const [best] = plan.layouts;
		if (!best) return [format.grouped(plan.gpus), span("bad", plan.refused), "", "", "", "", ""];
		return [format.grouped(plan.gpus), format.layout(best.workload), format.tokens(best.tokens_per_s_of_all_gpus), format.tokens(best.tokens_per_s_per_gpu),
			format.percent(best.tokens_per_s_per_gpu / base.tokens_per_s_per_gpu), best.step ? format.percent(best.step.mfu) : "", plan.run ? `${format.significant(plan.run.days)} days` : ""];
	}));
}

function compared(answer) {
	const write = (value, text) => (value === undefined || value === null ? "" : text(value));
	const headings = ["GPU", "best layout", { num: "requests each" }, { num: "tokens/s per GPU" }, "90 %", { num: "per node" }, { num: "per W" }, { num: "MFU" }, ...latencyHeadings(answer.limits), { num: "memory" }, "from", { num: "USD per M tokens" }, { num: "USD a run" }];
	const refused = answer.compared.filter((one) => one.refused);
	return [
		heading(answer, `${format.grouped(answer.gpus)} GPUs each`),
		filled("GPUs, most tokens per second first", headings, answer.compared.filter((one) => one.layout).map((one) => [
			h("span", { title: gpuTitle(one.gpu) }, one.gpu), format.layout(one.layout.workload), one.layout.request ? format.grouped(one.layout.workload.batch) : "", h("strong", null, format.tokens(one.layout.tokens_per_s_per_gpu)), rates(one.layout),
			write(one.tokens_per_s_per_node, format.tokens), write(one.tokens_per_s_per_watt, format.significant), write(one.layout.step?.mfu, format.percent), ...latencies(one.layout.request),
			format.bytes(one.layout.memory_bytes), one.layout.step ? format.tierShares(one.layout.step.tier_shares) : "", write(one.layout.usd_per_million_tokens, format.significant), write(one.run?.usd, format.grouped)])),
		refused.length > 0 && facts(refused.map((one) => [one.gpu, one.refused])),
	];
}
