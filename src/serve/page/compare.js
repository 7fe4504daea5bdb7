// The view that compares GPUs and models, each with its best layout.

import { facts, h, span } from "./dom.js";
import * as format from "./format.js";
import { filled, heading, latencies, latencyHeadings, rates, view } from "./layouts.js";
import { gpuTitle } from "./lists.js";
import { interval } from "./plot.js";

export const { mount, show } = view({
	name: "compare",
	lead: "Which GPU for a model? Each with its best layout: tokens per second and GPU, node, watt and dollar, and how much of it is learned from measurements.",
	own: () => ({ usd_per_gpu_hour: { size: "double" }, gpu: { kind: "text", size: "double", label: "GPUs", value: "h100,h200,b200", hint: "Names with commas between them, or all" }, gpus: { label: "GPUs of each", value: "8", kind: "whole", hint: "" }, architecture: { label: "Models", hint: "Names with commas between them", list: "presets", value: "llama-3-8b", placeholder: "llama-3-8b, …" } }),
	questions: [
		["What eight H100s, H200s or B200s cost, each at its price", "#compare?usd_per_gpu_hour=h100=2.5,h200=3.2,b200=5"],
		["Qwen3 32B or GPT-OSS 20B, served on one GPU", "#compare?architecture=qwen3-32b,gpt-oss-20b&mode=decode&gpus=1"],
		["Llama 3 8B trained on eight of every GPU", "#compare?architecture=llama-3-8b&gpu=all&gpus=8"],
		["Llama 3 70B served on eight H100s, H200s or B200s", "#compare?architecture=llama-3-70b&mode=decode&gpus=8"],
	],
	render: compared,
});

function compared(answer) {
	const write = (value, text) => (value === undefined || value === null ? "" : text(value));
	const shown = answer.compared.filter((one) => one.layout);
	const scale = [0, Math.max(...shown.map((one) => one.layout.tokens_per_s_per_gpu_high ?? one.layout.tokens_per_s_per_gpu))];
	const bar = ({ tokens_per_s_per_gpu_low: low, tokens_per_s_per_gpu: rate, tokens_per_s_per_gpu_high: high }) => interval(low ?? undefined, rate, high, scale);
	const several = answer.compared.some((one) => one.model !== answer.model);
	const headings = ["GPU", ...(several ? ["model", "format"] : []), "best layout", { num: "requests each" }, { num: "tokens/s per GPU" }, "90 % interval", { num: "per node" }, { num: "per W" }, { num: "MFU" }, ...latencyHeadings(answer.limits), { num: "memory" }, "from", { num: "USD per M tokens" }, { num: "USD a run" }];
	const refused = answer.compared.filter((one) => one.refused);
	return [
		several ? h("h2", null, `Models on ${format.grouped(answer.gpus)} GPUs each`) : heading(answer, `${format.grouped(answer.gpus)} GPUs each`),
		filled("GPUs, most tokens per second first", headings, shown.map((one) => [
			h("span", { title: gpuTitle(one.gpu) }, one.gpu), ...(several ? [one.model, one.format] : []), format.layout(one.layout.workload), one.layout.request ? format.grouped(one.layout.request.in_flight) : "", h("strong", null, format.tokens(one.layout.tokens_per_s_per_gpu)), [bar(one.layout), span("ends", ` ${rates(one.layout)}`)],
			write(one.tokens_per_s_per_node, format.tokens), write(one.tokens_per_s_per_watt, format.significant), write(one.layout.step?.mfu, format.percent), ...latencies(one.layout.request),
			format.bytes(one.layout.memory_bytes), one.layout.step ? format.tierShares(one.layout.step.tier_shares) : "", write(one.layout.usd_per_million_tokens, format.significant), write(one.run?.usd, format.grouped)])),
		answer.notes && facts(answer.notes.map((note) => ["note", note])),
		refused.length > 0 && facts(refused.map((one) => [several ? `${one.gpu} ${one.model}` : one.gpu, one.refused])),
	];
}
