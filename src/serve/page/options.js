// The fields that several views share: GPU, architecture, workload, and what they are called.

import { once } from "./api.js";
import { h, put } from "./dom.js";
import { parameters } from "./format.js";

const plain = (...values) => values.map((value) => ({ value }));
const ONE = "1";

export const DTYPES = plain("bf16", "fp16", "fp8", "tf32", "fp32");

/** Fields of the workload; their paths are those of the request. `ranges` lets sizes be ranges. */
export function workloadFields({ ranges = false } = {}) {
	const size = ranges ? "range" : "whole";
	const fields = [
		{ name: "mode", label: "Mode", kind: "choice", value: "train", options: [{ value: "train", text: "training" }, { value: "prefill" }, { value: "decode" }], hint: "what one step does" },
		{ name: "batch", label: "Batch", kind: size, hint: "sequences per micro-batch" },
		{ name: "seq", label: "Sequence", kind: size, hint: "tokens; in decode the cached ones" },
		{ name: "context", label: "Context", kind: size, hint: "cached tokens per sequence" },
		{ name: "dtype", label: "Number format", kind: "choice", value: "bf16", options: DTYPES },
		{ name: "tp", label: "Tensor parallel", kind: size, placeholder: ONE, hint: "ranks" },
		{ name: "pp", label: "Pipeline", kind: "whole", placeholder: ONE, hint: "stages" },
		{ name: "dp", label: "Data parallel", kind: "whole", placeholder: ONE, hint: "replicas" },
		{ name: "zero", label: "ZeRO stage", kind: "choice", value: "0", number: true, options: [{ value: "0", text: "0: nothing sharded" }, { value: "1", text: "1: optimizer" }, { value: "2", text: "2: and gradients" }, { value: "3", text: "3: and weights" }] },
		{ name: "recompute", label: "Recompute", kind: "choice", value: "none", options: plain("none", "selective", "full") },
		{ name: "attention", label: "Attention", kind: "choice", value: "flash", options: plain("flash", "unfused") },
		{ name: "microbatches", label: "Micro-batches", kind: "whole", placeholder: ONE, hint: "per step" },
		{ name: "sequence_parallel", label: "sequence parallel norms", kind: "flag" },
	];
	return fields.map((field) => ({ ...field, path: `workload.${field.name}` }));
}

export const WORKLOAD = workloadFields().map((field) => field.name);

/** Fills lists from the server, and shows in empty fields what it takes for them in this mode; returns what shows it. */
export function prepare(form, wrong) {
	gpuOptions().then((options) => form.offer("gpu", options)).catch(wrong);
	offerPresets().catch(() => {});
	const show = () => {
		const mode = form.get("mode");
		form.input("batch").placeholder = { train: "4", prefill: "1", decode: "8" }[mode] ?? "";
		form.input("seq").placeholder = "2048";
		form.input("context").placeholder = mode === "decode" ? "2048" : "0";
	};
	form.input("mode").addEventListener("change", show);
	show();
	return show;
}

export function gpuField(extra) {
	return { name: "gpu", label: "GPU", kind: "choice", size: "double", value: "h200", options: [{ value: "h200" }], ...extra };
}

/** GPUs to choose from, those with a model of their own first; `none` adds the choice of no GPU. */
export async function gpuOptions(none) {
	const { gpus } = await once("/v1/gpus");
	const option = (gpu) => ({ value: gpu.name, text: `${gpu.name} · ${gpu.title}${gpu.models.length ? "" : " (transferred)"}` });
	const own = gpus.filter((gpu) => gpu.models.length);
	const others = gpus.filter((gpu) => !gpu.models.length);
	return [...(none ? [{ value: "", text: none }] : []), ...own.map(option), ...others.map(option)];
}

export async function gpuTitle(name) {
	const found = (await once("/v1/gpus")).gpus.find((gpu) => gpu.name === name);
	return found ? `${found.title} (${name})` : name;
}

export const PRESETS = "presets";

/** Fills the one list of model names that all fields share. */
async function offerPresets() {
	const { presets } = await once("/v1/presets");
	const list = document.getElementById(PRESETS);
	if (!list.childElementCount) {
		put(list, presets.map((one) => h("option", { value: one.name }, `${parameters(one.parameters)} parameters, ${one.layers} layers of ${one.hidden}`)));
	}
}
