// The view that lays a model out over GPUs: the fastest layouts for training, engines for serving.

import { send } from "./api.js";
import { facts, h, p, put, span, table } from "./dom.js";
import * as format from "./format.js";
import { ends, filled, heading, latencies, latencyHeadings, rates, view } from "./layouts.js";
import { launches } from "./launch.js";
import { gpuField, gpuTitle, preset } from "./lists.js";
import { plot } from "./plot.js";

export const { mount, show } = view({
	name: "plan",
	lead: "Which layout of a model runs fastest over so many GPUs? Every legal one that fits is predicted: ranks, virtual stages, sharding, micro-batches, recomputation.",
	own: () => ({ gpu: gpuField() }),
	questions: [
		["Llama 3 70B trained on 512 H100s, and what 15 trillion tokens take", "#plan?architecture=llama-3-70b&gpu=h100&gpus=512&tokens=15T"],
		["DeepSeek-V3 in fp8 on 256 GB200s", "#plan?architecture=deepseek-v3&gpu=gb200&gpus=256&dtype=fp8"],
		["Serving Llama 3 70B on 16 H100s within 30 ms per token", "#plan?architecture=llama-3-70b&gpu=h100&gpus=16&mode=decode&tpot_ms=30"],
		["How training Llama 3 8B scales from 8 to 512 H100s", "#plan?architecture=llama-3-8b&gpu=h100&gpus=8:512"],
	],
	besides: engines,
	launched: ({ model, seq, output, plans: [{ layouts: [first] }] }) => (first ? launches(model, preset(model), first.workload, seq + (output ?? 0)) : []),
	render: planned,
});

const rank = (one) => (one.tied && one.rank > 1 ? `= ${one.rank}` : one.rank);

function planned(answer, beside) {
	const several = answer.plans.length > 1;
	const [first] = answer.plans;
	return [
		heading(answer, `${several ? "" : `${format.grouped(first.gpus)} × `}${gpuTitle(answer.gpu)}`),
		several ? scaling(answer) : [beside && tradeoff(answer, beside), first.layouts[0].step ? training(first) : serving(answer, first), remarks(answer, first), first.tried.length > 0 && plane(answer, first)],
	];
}

/** Every engine that serves the model, whether or not it keeps the limits. */
function engines({ ttft_ms, tpot_ms, concurrency, confidence, ...request }, answer, signal) {
	if (answer.mode !== "decode" || answer.plans.length > 1) return undefined;
	return send("/v1/plan", { ...request, top: 100 }, signal).then(({ plans: [plan] }) => plan.layouts);
}

/** The points that no other beats in both, from left to right; more `x` is better by a sign of 1, worse by one of -1. */
function front(points, sign) {
	const sorted = [...points].sort((a, b) => sign * (b.x - a.x) || b.y - a.y);
	return sorted.filter((one, at) => sorted.slice(0, at).every((other) => other.y < one.y)).sort((a, b) => a.x - b.x);
}

/** Throughput against the speed that each user sees, with the limit of the time per token. */
function tradeoff(answer, all) {
	const { tpot_us: tpot = Infinity, ttft_us: ttft = Infinity } = answer.limits ?? {};
	const at = (one) => ({ x: 1e6 / one.request.tpot_us, y: one.tokens_per_s_per_gpu });
	const timed = all.filter((one) => one.request?.tpot_us);
	if (timed.length < 2) return undefined;
	const keeps = (one) => one.request.tpot_us <= tpot && one.request.ttft_us <= ttft;
	const limited = Number.isFinite(Math.min(tpot, ttft));
	const best = answer.plans[0].layouts.slice(0, 3);
	const readout = p("readout", "Point at the plot, or focus it and use the arrow keys.");
	const say = (one) => `${format.layout(one.workload, false)}, ${format.grouped(one.request.in_flight)} requests each: ${format.tokens(at(one).y)} tokens/s per GPU, ${format.tokens(at(one).x)} per user; first token ${format.time(one.request.ttft_us)}, then ${format.time(one.request.tpot_us)} a token${limited && !keeps(one) ? "; misses a limit" : ""}`;
	const dots = (one) => timed.filter(one).map(at);
	const { node } = plot({
		label: "Throughput against the speed of each user: engines, their front and the limits",
		flat: true,
		x: { label: "tokens/s per user", loose: true },
		y: { label: "tokens/s per GPU", zero: true },
		series: [
			{ name: "best of all engines", kind: "line", tone: 2, points: front(timed.map(at), 1) },
			{ name: limited ? "engines within the limits" : "engines", kind: "points", symbol: "dot", tone: 0, points: dots(keeps) },
			{ name: "beyond a limit", kind: "points", symbol: "ring", tone: 6, points: dots((one) => !keeps(one)) },
			{ name: "ranked first", kind: "points", symbol: "diamond", tone: 1, points: best.map((one) => ({ ...at(one), text: `#${one.rank}` })) },
		].filter((one) => one.points.length),
		marks: Number.isFinite(tpot) ? [{ x: 1e6 / tpot, label: `${format.time(tpot)} a token` }] : [],
		stops: [...timed, ...best].map((one) => ({ x: at(one).x, spots: [{ y: at(one).y, tone: 0 }], text: say(one) })).sort((a, b) => a.x - b.x),
		pick: (stop) => put(readout, stop.text),
	});
	return [h("h3", null, "Throughput against the speed of each user"), h("figure", null, node, h("figcaption", null, readout)),
		Number.isFinite(ttft) && p("hint", `The limit of the first token, ${format.time(ttft)}, has no place on these axes; engines that miss it are beyond a limit.`)];
}

function training(plan) {
	const headings = [{ num: "#" }, "layout", "micro-batch", "recompute", { num: "tokens/s" }, { num: "per GPU" }, { num: "MFU" }, { num: "step" }, "90 %", { num: "exposed", title: "traffic that no kernel hides" }, { num: "bubble" }, { num: "memory", title: "of the fullest GPU" }];
	return table("Ranked layouts", headings, plan.layouts.map((one) => [
		rank(one), format.layout(one.workload), `${one.workload.batch} × ${one.workload.microbatches}`, format.recomputed(one.workload),
		h("strong", null, format.tokens(one.tokens_per_s_of_all_gpus)), format.tokens(one.tokens_per_s_per_gpu), format.percent(one.step.mfu),
		format.time(one.step.time_us), ends(one.step.low_us, one.step.high_us, format.time),
		format.percent(one.step.lanes.exposed_traffic.share), format.percent(one.step.lanes.bubble.share), format.bytes(one.memory_bytes)]));
}

function serving(answer, plan) {
	const headings = [{ num: "#" }, "engine", { num: "engines" }, { num: "requests each" }, { num: "tokens/s" }, { num: "per GPU" }, "90 %", ...latencyHeadings(answer.limits), { num: "memory", title: "of the fullest GPU with every cache full" }];
	return filled("Ranked engines", headings, plan.layouts.map((one) => [
		rank(one), format.layout(one.workload, false), format.grouped(one.workload.dp), format.grouped(one.request.in_flight),
		h("strong", null, format.tokens(one.tokens_per_s_of_all_gpus)), format.tokens(one.tokens_per_s_per_gpu), rates(one),
		...latencies(one.request), format.bytes(one.memory_bytes)]));
}

function remarks(answer, plan) {
	const changes = Object.entries(plan.decided_by).filter(([, change]) => Math.abs(change) >= 0.001);
	const tied = plan.layouts.filter((one) => one.tied).length > 1;
	return facts([
		tied && ["=", `tied with the first: layouts within ${format.percent(Math.expm1(answer.order.tie))} of each other were ranked wrongly more than one time in five (${answer.order.pairs} measured pairs)${answer.mode === "train" ? "" : "; fewer GPUs an engine come first"}`],
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
			{ name: "best for its memory", kind: "line", tone: 2, points: front([...plan.tried, ...plan.layouts].map((one) => point(one)), -1).map(({ x, y }) => ({ x, y })) },
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
