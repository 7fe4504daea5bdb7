// What the views share that lay a model out over GPUs: the form, the heading, intervals and latencies.

import { send } from "./api.js";
import { commands } from "./commands.js";
import { desk, examples } from "./desk.js";
import { h, p, put, table } from "./dom.js";
import { Form } from "./form.js";
import * as format from "./format.js";
import { fields } from "./openapi.js";
import { Source } from "./source.js";
import { go } from "./state.js";
import { TABS } from "./tabs.js";

/** Fields that are always seen. */
const MAIN = ["architecture", "config", "gpu", "gpus", "mode", "usd_per_gpu_hour"];

/** Fields that are seen in one mode, or where an address sets them. */
const OF = { train: ["global_batch", "tokens"], decode: ["concurrency", "ttft_ms", "tpot_ms"] };

/** A view of one question. */
export function view({ name, lead, own, questions, besides, render, launched }) {
	const path = `/v1/${name}`;
	const source = new Source(name, "Model", "architecture");
	let form;
	let work;
	const arrange = () => {
		for (const [mode, fields] of Object.entries(OF)) for (const field of fields) form.wraps.get(field).hidden = mode !== form.get("mode") && form.get(field) === "";
	};
	const show = (query) => {
		source.fill(query);
		arrange();
		return work.run(async (signal) => {
			const request = source.request();
			const answer = await send(path, request, signal);
			const beside = await besides?.(request, answer, signal);
			put(work.output, render(answer, beside), commands(name, path, request, launched?.(answer)));
			work.say(`${format.grouped((answer.compared ?? answer.plans.flatMap((one) => one.layouts)).length)} ranked.`);
		});
	};
	const mount = () => {
		form = new Form(name, [source.field, ...fields(path, { architecture: { label: "Model", hint: "", list: "presets", value: "llama-3-70b", placeholder: "llama-3-70b, deepseek-v3, …" }, gpus: { value: "64", hint: "8:1024 scales in doublings" }, mode: { hint: "" }, ...own() })]);
		form.input("mode").addEventListener("change", () => {
			for (const field of Object.values(OF).flat()) form.set(field, "");
			arrange();
		});
		work = desk(form, TABS[name]);
		const seen = [...MAIN, ...Object.values(OF).flat()];
		const submit = (event) => {
			event.preventDefault();
			const query = source.query();
			if (!go(name, query)) show(query);
		};
		return [p("lead", lead), source.element(form, submit, form.nodes(seen), form.folded(seen), work.controls, examples(questions)), work.alert, work.output];
	};
	return { mount, show };
}

export const ends = (low, high, write) => (low === undefined || low === null ? "" : `${write(low)} to ${write(high)}`);

export function heading(answer, gpu) {
	const batch = answer.global_batch ? `steps of ${format.grouped(answer.global_batch)} sequences of ${format.grouped(answer.seq)} tokens` : `prompts of ${format.grouped(answer.seq)} tokens${answer.output ? ` that generate ${format.grouped(answer.output)}` : ""}`;
	return [h("h2", null, `${answer.model} on ${gpu}`),
		p("sub", `${format.grouped(answer.parameters)} parameters · ${answer.mode} · ${batch} · ${answer.format}${answer.framework ? ` · ${answer.framework.name}${answer.framework.assumed ? ", assumed" : ""}` : ""}`)];
}

/** A table without the columns that no row has anything in. */
export function filled(caption, headings, rows) {
	const kept = headings.map((_, column) => rows.some((row) => row[column] !== ""));
	const of = (cells) => cells.filter((_, column) => kept[column]);
	return table(caption, of(headings), rows.map(of));
}

/** Headings of both times of a request, each with its interval and the probability that it keeps its limit. */
export function latencyHeadings(limits) {
	const within = (limit) => ({ num: limit ? `within ${format.time(limit)}` : "", title: "probability that the limit is kept, by the interval of the time" });
	return [{ num: "first token" }, "90 %", within(limits?.ttft_us), { num: "per token" }, "90 %", within(limits?.tpot_us)];
}

export function latencies(request) {
	const write = (value, text) => (value === undefined || value === null ? "" : text(value));
	if (!request) return ["", "", "", "", "", ""];
	return [format.time(request.ttft_us), ends(request.ttft_low_us, request.ttft_high_us, format.time), write(request.ttft_kept_probability, format.percent),
		write(request.tpot_us, format.time), ends(request.tpot_low_us, request.tpot_high_us, format.time), write(request.tpot_kept_probability, format.percent)];
}

export const rates = (one) => ends(one.tokens_per_s_per_gpu_low, one.tokens_per_s_per_gpu_high, format.tokens);
