// What the service knows by name: GPUs and published models. Fetched once, before any form is made.

import { once } from "./api.js";
import { h, put } from "./dom.js";
import { parameters } from "./format.js";

let gpus;
let presets;

export async function load() {
	[{ gpus }, { presets }] = await Promise.all([once("/v1/gpus"), once("/v1/presets")]);
	put(document.getElementById("presets"), presets.map((one) => h("option", { value: one.name }, `${parameters(one.parameters)} parameters, ${one.layers} layers of ${one.hidden}`)));
}

/** A field that chooses a GPU, those with a model of their own first; it is always sent. */
export function gpuField(none) {
	const option = (gpu) => ({ value: gpu.name, text: `${gpu.name} · ${gpu.title}${gpu.models.length ? "" : " (transferred)"}` });
	const options = [...gpus.filter((gpu) => gpu.models.length), ...gpus.filter((gpu) => !gpu.models.length)].map(option);
	return { kind: "choice", size: "double", hint: "", always: true, options: none ? [{ value: "", text: none }, ...options] : options };
}

export function gpuTitle(name) {
	const found = gpus.find((gpu) => gpu.name === name);
	return found ? `${found.title} (${name})` : name;
}

/** The shape of a published model. */
export const preset = (name) => presets.find((one) => one.name === name || one.aliases.includes(name));
