// A form made from a list of fields: reads and writes them as query state and as a request, shows problems beside them.

import { Problem } from "./api.js";
import { h, put } from "./dom.js";

const DECIMAL = /^(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;

/**
 * A field: `name` in the address, `path` in the request (default: the name), `label`, and a `kind`:
 * text, whole, number, range (a whole number or START:END:STEP), choice, flag, set, long.
 * `value` is the default, left out of address and request; `size` is a class: double, wide.
 */
export class Form {
	constructor(prefix, fields) {
		this.fields = new Map(fields.map((field) => [field.name, field]));
		this.inputs = new Map();
		this.wraps = new Map();
		this.counts = [];
		for (const field of fields) this.#build(prefix, field);
	}

	#build(prefix, field) {
		const id = `${prefix}-${field.name}`;
		const hints = field.hint ? `${id}-hint` : "";
		const common = { id, name: field.name, "aria-describedby": `${hints} ${id}-error`.trim() };
		const error = h("p", { class: "error", id: `${id}-error` });
		const hint = field.hint && h("p", { class: "hint", id: hints }, field.hint);
		let input;
		let wrap;
		if (field.kind === "flag") {
			input = h("input", { ...common, type: "checkbox" });
			wrap = h("div", { class: "field flag" }, h("label", { for: id }, input, " ", field.label), hint, error);
		} else if (field.kind === "set") {
			input = h("fieldset", { id, "aria-describedby": common["aria-describedby"] }, h("legend", null, field.label),
				field.options.map((option) => h("label", { title: option.title }, h("input", { type: "checkbox", value: option.value, name: field.name }), " ", option.text ?? option.value)));
			wrap = h("div", { class: "field wide" }, input, hint, error);
		} else {
			if (field.kind === "choice") {
				input = h("select", common);
				this.#options(input, field.options);
			} else if (field.kind === "long") {
				input = h("textarea", { ...common, rows: 8, spellcheck: "false", autocomplete: "off" });
			} else {
				input = h("input", { ...common, type: "text", inputmode: field.kind === "whole" ? "numeric" : undefined, list: field.list, placeholder: field.placeholder, autocomplete: "off", autocapitalize: "off", spellcheck: "false" });
			}
			wrap = h("div", { class: `field ${field.size ?? ""}` }, h("label", { for: id }, field.label), input, hint, error);
		}
		this.inputs.set(field.name, input);
		this.wraps.set(field.name, wrap);
		this.set(field.name, field.value ?? "");
	}

	#options(select, options) {
		put(select, options.map((option) => h("option", { value: option.value }, option.text ?? option.value)));
	}

	/** The nodes of some fields, in order. */
	nodes(...names) {
		return names.map((name) => this.wraps.get(name));
	}

	/** Seldom needed fields, folded away; the summary says how many of them are set. */
	folded(parts) {
		const names = parts.flat().filter((part) => typeof part === "string");
		const summary = h("summary", null, "More options");
		const box = h("details", { class: "options" }, summary, parts.map((part) => (Array.isArray(part) ? h("div", { class: "fields" }, this.nodes(...part)) : h("h3", null, part.title))));
		const count = () => {
			const set = [...this.query(names)].length;
			summary.textContent = `More options${set ? ` (${set} set)` : ""}`;
		};
		box.addEventListener("input", count);
		this.counts.push(count);
		return box;
	}

	input(name) {
		return this.inputs.get(name);
	}

	/** Gives a choice what it chooses from, and keeps what is chosen. */
	offer(name, options) {
		const before = this.wanted?.get(name) ?? this.get(name);
		this.fields.get(name).options = options;
		this.#options(this.input(name), options);
		this.set(name, before || this.fields.get(name).value || "");
	}

	get(name) {
		const input = this.input(name);
		const kind = this.fields.get(name).kind;
		if (kind === "flag") return input.checked ? "1" : "";
		if (kind === "set") return [...input.querySelectorAll("input:checked")].map((one) => one.value).join(",");
		return input.value.trim();
	}

	set(name, value) {
		const input = this.input(name);
		const kind = this.fields.get(name).kind;
		if (kind === "flag") input.checked = value === "1" || value === true;
		else if (kind === "set") {
			const chosen = new Set(String(value).split(","));
			for (const one of input.querySelectorAll("input")) one.checked = chosen.has(one.value);
		} else if (kind === "choice" && ![...input.options].some((option) => option.value === value) && value !== "") {
			// A value from an address that is not on offer stays to be seen; the server says what is allowed.
			input.append(h("option", { value }, value));
			input.value = value;
		} else input.value = value;
	}

	/** Fills every field from the address; what it does not name gets its default. */
	fill(query) {
		this.wanted = query;
		for (const [name, field] of this.fields) this.set(name, query.get(name) ?? field.value ?? "");
		for (const count of this.counts) count();
	}

	/** What differs from the defaults, for the address. */
	query(names = this.fields.keys()) {
		const all = [...names].map((name) => [name, this.get(name)]);
		return new URLSearchParams(all.filter(([name, value]) => value !== (this.fields.get(name).value ?? "")));
	}

	/** The request: fields with a value that is not the default, by path. Throws a Problem that names the field. */
	request(names = this.fields.keys()) {
		const body = {};
		for (const name of names) {
			const field = this.fields.get(name);
			const text = this.get(name);
			if (text === "" || (text === (field.value ?? "") && !field.always)) continue;
			const path = (field.path ?? name).split(".");
			const last = path.pop();
			let object = body;
			for (const part of path) object = object[part] ??= {};
			object[last] = this.#value(field, text);
		}
		return body;
	}

	#value(field, text) {
		const refuse = (wanted) => {
			throw new Problem({ title: "This is not right yet", field: field.path ?? field.name, value: text, detail: `${field.label}: “${text}” is not ${wanted}` });
		};
		if (field.kind === "flag") return true;
		if (field.kind === "set") return text.split(",");
		if (field.kind === "whole" || (field.kind === "range" && !text.includes(":"))) {
			const digits = text.replace(/[,_\s]/g, "");
			return /^\d{1,15}$/.test(digits) ? Number(digits) : refuse("a whole number");
		}
		if (field.kind === "range") return /^\d+:\d+(:\d+)?$/.test(text) ? text : refuse("a range START:END:STEP of whole numbers");
		if (field.kind === "number") return DECIMAL.test(text) ? Number(text) : refuse("a number");
		return field.number && /^\d+$/.test(text) ? Number(text) : text;
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

	/** Shows a problem beside the field it names and moves the focus there. Returns whether there is one. */
	show(problem) {
		if (!problem.field) return false;
		const fits = (field) => {
			const path = field.path ?? field.name;
			return path === problem.field ? 2 : Number(problem.field.startsWith(`${path}.`) || problem.field.startsWith(`${path}[`));
		};
		const best = [...this.fields.values()]
			.filter((field) => this.wraps.get(field.name).isConnected && !this.wraps.get(field.name).hidden)
			.map((field) => [fits(field), field])
			.filter(([fit]) => fit > 0)
			.sort((a, b) => b[0] - a[0])[0];
		if (!best) return false;
		const { name } = best[1];
		const allowed = problem.allowed && !problem.detail?.includes("allowed") ? `; allowed: ${[problem.allowed].flat().join(", ")}` : "";
		this.#mark(name, `${problem.detail ?? problem.title}${allowed}`);
		this.wraps.get(name).closest("details:not([open])")?.setAttribute("open", "");
		const input = this.input(name);
		(input.matches("fieldset") ? input.querySelector("input") : input).focus();
		return true;
	}
}
