// A model by its published name or by a config.json of one's own: pasted, dropped on the window, or chosen as a file.

import { button, h, p } from "./dom.js";
import { refuse } from "./form.js";
import { href } from "./state.js";

/** The field of a config of one's own; it and the name are the same key of the request. */
const CONFIG = { name: "config", path: "architecture", label: "config.json", kind: "long", size: "wide", placeholder: "{\n  \"model_type\": \"llama\",\n  \"hidden_size\": 4096,\n  …" };

/** A pasted config in another layout where it is JSON, else as it is. */
function laidOut(text, indent) {
	try {
		return JSON.stringify(JSON.parse(text), null, indent);
	} catch {
		return text;
	}
}

export class Source {
	/** `named` is the field of the published name in the form of this view. */
	constructor(view, legend, named) {
		this.view = view;
		this.legend = legend;
		this.named = named;
		this.texts = { [named]: "a published model", config: "your config.json" };
		this.names = Object.keys(this.texts);
		this.field = CONFIG;
		this.radios = {};
	}

	/** The form element with these nodes in it; `form` has the fields of both. */
	element(form, onsubmit, ...nodes) {
		this.form = form;
		for (const [source, text] of Object.entries(this.texts)) {
			const id = `${this.view}-source-${source}`;
			this.radios[source] = h("input", { type: "radio", name: `${this.view}-source`, value: source, id, onchange: () => this.choose(source) });
			this.radios[source].label = h("label", { for: id }, this.radios[source], ` ${text}`);
		}
		const file = h("input", { type: "file", class: "unseen", tabindex: "-1", accept: ".json,application/json", "aria-label": "config.json file", onchange: () => { this.take(file.files[0]); file.value = ""; } });
		form.wraps.get("config").append(p("hint", "Paste it, drop the file here, or ", button("choose a file", () => file.click()), file));
		const element = h("form", { onsubmit, novalidate: true },
			h("fieldset", { class: "sources" }, h("legend", null, this.legend), Object.values(this.radios).map((radio) => radio.label)), nodes);
		// Anywhere in the window: a file that misses would replace the page.
		for (const kind of ["dragover", "dragleave", "drop"]) {
			addEventListener(kind, (event) => {
				if (!element.getClientRects().length) return;
				event.preventDefault();
				element.classList.toggle("over", kind === "dragover");
				if (kind === "drop") this.take(event.dataTransfer.files[0]);
			});
		}
		this.choose(this.named);
		return element;
	}

	choose(source) {
		for (const one of this.names) {
			this.form.wraps.get(one).hidden = one !== source;
			this.radios[one].checked = one === source;
		}
	}

	get chosen() {
		return this.names.find((one) => this.radios[one].checked);
	}

	async take(file) {
		if (!file) return;
		this.choose("config");
		this.form.set("config", await file.text());
		this.form.input("config").focus();
	}

	/** Everything beside the model itself. */
	rest() {
		return [...this.form.fields.keys()].filter((one) => !this.names.includes(one));
	}

	/** The address of what the form says. */
	query() {
		const query = this.form.query(this.rest());
		const source = this.chosen;
		query.set(source, source === "config" ? laidOut(this.form.get("config")) : this.form.get(source));
		return query;
	}

	/** The address of the same model and workload in another view, whose mode may start with another one. */
	href(view) {
		const query = this.query();
		query.set("mode", this.form.get("mode"));
		return href(view, query);
	}

	/** Fills the form from an address. */
	fill(query) {
		this.form.fill(query);
		const source = query.has("config") ? "config" : this.named;
		this.choose(source);
		if (source === "config") this.form.set("config", laidOut(query.get("config"), 2));
	}

	/** The request of what the form says. Throws a Problem that names the field. */
	request() {
		return { architecture: this.architecture(), ...this.form.request(this.rest()) };
	}

	architecture() {
		const wrong = (detail) => refuse("architecture", detail);
		const source = this.chosen;
		const text = this.form.get(source);
		if (source === this.named) return text || wrong("Name a published model, or choose “your config.json”.");
		if (!text) return wrong("Paste a config.json, drop its file here, or choose a published model.");
		let config;
		try {
			config = JSON.parse(text);
		} catch (error) {
			return wrong(`This is not JSON: ${error.message}`);
		}
		return config && typeof config === "object" && !Array.isArray(config) ? config : wrong("A config.json is an object: { … }.");
	}
}
