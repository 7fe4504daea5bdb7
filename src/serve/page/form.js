// A form made from a list of fields: reads and writes them as query state and as a request, shows problems beside them.

import { Problem } from "./api.js";
import { h } from "./dom.js";
import { label } from "./format.js";

/** What cannot be asked, said before the service is. */
export function refuse(field, detail, value) {
	throw new Problem({ title: "This is not right yet", field, detail, value });
}

const RANGE = /^\d+(:\d+(:x?\d+)?|(,\d+)+)$/;
const DECIMAL = /^(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;

function whole(text) {
	const digits = text.replace(/[,_\s]/g, "");
	return /^\d{1,15}$/.test(digits) ? Number(digits) : undefined;
}

function json(text) {
	try {
		return JSON.parse(text);
	} catch {
		return undefined;
	}
}

/** How the text of a kind of field is read, and what it is not where that gives nothing. */
const READ = {
	flag: [(text) => text === "1"],
	set: [(text) => text.split(",")],
	whole: [whole, "a whole number"],
	range: [(text) => (RANGE.test(text) ? text : whole(text)), "a whole number, a range START:END:STEP or START:END:xFACTOR, or a list of whole numbers"],
	number: [(text) => (DECIMAL.test(text) ? Number(text) : undefined), "a number"],
	json: [json, "JSON"],
};

/**
 * A field: `name` in the address, `path` in the request, `label`, `hint`, and a `kind`: text, whole, number, range (a
 * whole number, a range or a list), choice, flag, set, json, long. `api` is what the service takes where nothing is
 * sent, `value` what the form starts with; the address leaves out the latter, the request the former unless `always`.
 */
export class Form {
	constructor(prefix, fields) {
		this.fields = new Map();
		this.inputs = new Map();
		this.wraps = new Map();
		this.counts = [];
		for (const field of fields) this.#build(prefix, { path: field.name, api: "", value: (["choice", "flag"].includes(field.kind) && field.api) || "", ...field });
	}

	#build(prefix, field) {
		const id = `${prefix}-${field.name}`;
		const common = { id, name: field.name, "aria-describedby": `${field.hint ? `${id}-hint ` : ""}${id}-error`, "aria-required": field.required };
		const notes = [field.hint && h("p", { class: "hint", id: `${id}-hint`, title: field.hint }, field.hint), h("p", { class: "error", id: `${id}-error` })];
		const labelled = (input) => h("div", { class: `field ${field.size ?? ""}` }, h("label", { for: id }, field.label), input, notes);
		let input;
		let wrap;
		if (field.kind === "flag") {
			input = h("input", { ...common, type: "checkbox" });
			wrap = h("div", { class: "field flag" }, h("label", { for: id }, input, " ", field.label), notes);
		} else if (field.kind === "set") {
			input = h("fieldset", { id, "aria-describedby": common["aria-describedby"] }, h("legend", null, field.label),
				field.options.map(({ value }) => h("label", null, h("input", { type: "checkbox", value, name: field.name }), " ", label(value))));
			wrap = h("div", { class: "field wide" }, input, notes);
		} else if (field.kind === "choice") {
			input = h("select", common, field.options.map(({ value, text }) => h("option", { value }, text ?? (value || field.placeholder || "not set"))));
			wrap = labelled(input);
		} else if (field.kind === "long") {
			input = h("textarea", { ...common, placeholder: field.placeholder, rows: 8, spellcheck: "false", autocomplete: "off" });
			wrap = labelled(input);
		} else {
			input = h("input", { ...common, type: "text", inputmode: field.kind === "whole" ? "numeric" : undefined, list: field.list, placeholder: field.api || field.placeholder, autocomplete: "off", autocapitalize: "off", spellcheck: "false" });
			wrap = labelled(input);
		}
		// A hint that folded again when its field is left would move the button that is being pressed.
		wrap.addEventListener("focusin", () => wrap.classList.add("read"));
		this.fields.set(field.name, field);
		this.inputs.set(field.name, input);
		this.wraps.set(field.name, wrap);
		this.set(field.name, field.value);
	}

	/** The nodes of some fields, in order. */
	nodes(names) {
		return h("div", { class: "fields" }, [...names].map((name) => this.wraps.get(name)));
	}

	/** Every field beside `shown`, folded away by group; the summary says how many of them are set. */
	folded(shown) {
		const late = ({ kind }) => ["set", "flag"].indexOf(kind);
		const rest = [...this.fields.values()].filter((field) => !shown.includes(field.name));
		const groups = [...new Set(rest.map((field) => field.group))];
		const summary = h("summary");
		const box = h("details", { class: "options" }, summary, groups.map((group) => [
			group && h("h3", null, group), this.nodes(rest.filter((field) => field.group === group).sort((a, b) => late(a) - late(b)).map((field) => field.name))]));
		const count = () => {
			const set = [...this.query(rest.map((field) => field.name))].length;
			summary.textContent = `More options${set ? ` (${set} set)` : ""}`;
		};
		count();
		box.addEventListener("input", count);
		this.counts.push(count);
		return box;
	}

	input(name) {
		return this.inputs.get(name);
	}

	get(name) {
		const input = this.input(name);
		const { kind } = this.fields.get(name);
		if (kind === "flag") return input.checked ? "1" : "";
		if (kind === "set") return [...input.querySelectorAll("input:checked")].map((one) => one.value).join(",");
		return input.value.trim();
	}

	set(name, value) {
		const input = this.input(name);
		const { kind } = this.fields.get(name);
		if (kind === "flag") input.checked = value === "1";
		else if (kind === "set") {
			const chosen = value.split(",");
			for (const one of input.querySelectorAll("input")) one.checked = chosen.includes(one.value);
		} else {
			// A value from an address that is not on offer stays to be seen; the service says what is allowed.
			if (kind === "choice" && ![...input.options].some((option) => option.value === value)) input.append(h("option", { value }, value));
			input.value = value;
		}
	}

	/** Fills every field from the address; what it does not name gets its default. `others` are read elsewhere. */
	fill(query, others = []) {
		this.unknown = [...query.keys()].filter((name) => !this.fields.has(name) && !others.includes(name));
		for (const [name, field] of this.fields) this.set(name, query.get(name) ?? field.value);
		for (const count of this.counts) count();
	}

	/** What differs from the defaults, for the address. */
	query(names = this.fields.keys()) {
		return new URLSearchParams([...names].map((name) => [name, this.get(name)]).filter(([name, value]) => value !== this.fields.get(name).value));
	}

	/** The request: what differs from what the service takes anyway, by path. Throws a Problem that names the field. */
	request(names = this.fields.keys(), instead = {}) {
		if (this.unknown?.length) refuse(undefined, `The address sets ${this.unknown.join(", ")}, which this form does not have; it has ${[...this.fields.keys()].join(", ")}.`);
		const body = {};
		for (const name of names) {
			const field = this.fields.get(name);
			const text = instead[name] ?? this.get(name);
			if ((text === "" && field.kind !== "flag") || (text === field.api && !field.always)) continue;
			const path = field.path.split(".");
			const last = path.pop();
			let object = body;
			for (const part of path) object = object[part] ??= {};
			const [read, wanted] = READ[field.number ? "whole" : field.kind] ?? [String];
			object[last] = read(text) ?? refuse(field.path, `${field.label}: “${text}” is not ${wanted}`, text);
		}
		return body;
	}

	clear() {
		for (const name of this.fields.keys()) this.#mark(name, "");
	}

	#mark(name, text) {
		const wrap = this.wraps.get(name);
		const input = this.input(name);
		wrap.querySelector(".error").textContent = text;
		wrap.classList.toggle("wrong", text !== "");
		if (text) input.setAttribute("aria-invalid", "true");
		else input.removeAttribute("aria-invalid");
	}

	/** Shows a problem beside the field it names and moves the focus there, but not from a slider. Returns whether there is one. */
	show({ field: wanted, title, detail, allowed }) {
		if (!wanted) return false;
		const fits = ({ path }) => (path === wanted ? 2 : Number(wanted.startsWith(`${path}.`) || wanted.startsWith(`${path}[`)));
		const [best] = [...this.fields.values()]
			.filter((field) => fits(field) && this.wraps.get(field.name).isConnected && !this.wraps.get(field.name).hidden)
			.sort((a, b) => fits(b) - fits(a));
		if (!best) return false;
		this.#mark(best.name, `${detail ?? title}${allowed && !detail?.includes("allowed") ? `; allowed: ${[allowed].flat().join(", ")}` : ""}`);
		this.wraps.get(best.name).closest("details:not([open])")?.setAttribute("open", "");
		const input = this.input(best.name);
		if (document.activeElement.type !== "range") (input.matches("fieldset") ? input.querySelector("input") : input).focus();
		return true;
	}
}
