// The API page: every operation of /openapi.json with its fields, an example, and a box to try it.

import { problemBox } from "./desk.js";
import { copyable, h, more, p, put, span, table } from "./dom.js";
import { content, listed, load, resolve, types } from "./openapi.js";
import { tabs } from "./tabs.js";

const PROBLEMS = [
	["not-json", 400, "The body is no JSON."],
	["not-found", 404, "Nothing is at this address."],
	["method", 405, "The address takes another method; the header Allow names it."],
	["too-slow", 408, "The body did not arrive in time."],
	["too-large", 413, "The body is too large."],
	["media-type", 415, "The body is not declared as application/json."],
	["host", 421, "The header Host is neither localhost, a loopback address nor a host that the service knows itself by."],
	["field", 422, "A value is not allowed."],
	["infeasible", 422, "The question is right, but no answer can meet it; the detail says what binds."],
	["busy", 429, "Too much at once; the header Retry-After says when to come back."],
	["headers", 431, "Address and headers have more than 64 KiB."],
	["fault", 500, "A fault of the service; instance names it in its log."],
	["over-time", 503, "The answer would take too long."],
];

const main = document.getElementById("main");

function typeText(schema) {
	if (schema.choice) return [...new Set(schema.choice.map(typeText))].join(" or ");
	const literal = listed(schema);
	if (literal.length) return literal.map((one) => JSON.stringify(one)).join(" | ");
	const type = types(schema).join(" or ");
	if (type === "array") return `list of ${typeText(resolve(schema.items))}`;
	const bound = (value) => (value === 2 ** 32 ? "2^32" : String(value));
	const bounds = [schema.minimum !== undefined && `from ${bound(schema.minimum)}`, schema.maximum !== undefined && `to ${bound(schema.maximum)}`].filter(Boolean).join(" ");
	return [type || "anything", bounds].filter(Boolean).join(" ");
}

/** Fields of an object, nested ones below their parent as `parent.child`. */
function fields(schema, prefix = "", depth = 0) {
	const found = resolve(schema);
	if (found.choice) return found.choice.flatMap((part) => fields(part, prefix, depth + 1));
	return Object.entries(found.properties ?? {}).flatMap(([name, raw]) => {
		const one = resolve(raw);
		const inner = types(one).includes("array") ? resolve(one.items) : one;
		const nested = depth < 3 && (inner.properties || inner.choice?.some((part) => part.properties));
		return [
			{ name: prefix + name, required: found.required?.includes(name), type: nested && !one.choice ? (inner === one ? "object" : "list of objects") : typeText(one), usual: one.default, text: one.description },
			...(nested ? fields(inner, `${prefix}${name}${inner === one ? "." : "[]."}`, depth + 1) : []),
		];
	});
}

function fieldTable(label, all) {
	return table(label, ["field", "type", "default", "meaning"], all.map((one) => [
		h("code", null, one.name), one.type, one.required ? "required" : one.usual === undefined || one.usual === null ? "–" : h("code", null, JSON.stringify(one.usual)), prose(one.text)]));
}

/** Descriptions with `code` in backquotes. */
const prose = (text) => span("prose", (text ?? "").split(/(`[^`]+`)/).map((part) => (part.startsWith("`") && part.length > 2 ? h("code", null, part.slice(1, -1)) : part)));

function operation(path, method, op) {
	const { schema, others = [], about, example: body } = content(op);
	const parameters = (op.parameters ?? []).map((one) => resolve(one));
	const filled = parameters.filter((one) => one.in === "path").reduce((at, one) => at.replace(`{${one.name}}`, one.example ?? resolve(one.schema).example ?? { name: "h200" }[one.name] ?? `{${one.name}}`), path);
	const id = `${method}${path.replace(/[^a-z0-9]+/gi, "-")}`;
	const curl = `curl -s ${location.origin}${filled}${body === undefined ? "" : ` \\\n  -H 'Content-Type: application/json' \\\n  -d '${JSON.stringify(body)}'`}`;
	const answer = Object.entries(op.responses ?? {}).find(([status]) => status.startsWith("2"))?.[1];
	const answered = resolve(answer).content?.["application/json"]?.schema;
	return h("section", { class: "fix", id },
		h("h3", null, h("code", { class: "method" }, method.toUpperCase()), " ", h("code", null, path)),
		p("", prose(op.summary ?? op.description)),
		op.summary && op.description && op.description !== op.summary && p("sub", prose(op.description)),
		parameters.length > 0 && fieldTable(`Parameters of ${path}`, parameters.map((one) => ({ name: `${one.name} (${one.in})`, required: one.required, type: typeText(resolve(one.schema)), usual: resolve(one.schema).default, text: one.description }))),
		schema && lazily("Fields", () => fieldTable(`Fields of ${path}`, fields(schema))),
		others.length > 0 && p("", prose(about)),
		p("hint", "Answers: ", Object.entries(op.responses ?? {}).map(([status, raw], at) => [at > 0 && "; ", h("strong", null, status), " ", prose(resolve(raw).description)])),
		answered && lazily("Fields of the answer", () => fieldTable(`Answer of ${path}`, fields(answered))),
		copyable("curl", curl),
		trial(id, method, filled, body));
}

/** Long tables are made when they are opened. */
function lazily(summary, make) {
	const box = more(summary);
	box.addEventListener("toggle", () => { if (box.childElementCount === 1) box.append(make()); }, { once: true });
	return box;
}

function trial(id, method, path, body) {
	const address = h("input", { type: "text", id: `${id}-path`, value: path, spellcheck: "false", autocomplete: "off" });
	const text = body === undefined ? undefined : h("textarea", { id: `${id}-body`, rows: 8, spellcheck: "false" });
	if (text) text.value = JSON.stringify(body, null, 2);
	const status = h("p", { class: "status", role: "status" });
	const answer = h("div");
	const submit = async (event) => {
		event.preventDefault();
		status.textContent = "Waiting…";
		put(answer);
		const start = performance.now();
		try {
			const response = await fetch(address.value, { method: method.toUpperCase(), ...(text && { body: text.value, headers: { "Content-Type": "application/json" } }) });
			const raw = await response.text();
			status.textContent = `${response.status} ${response.statusText} · ${(performance.now() - start).toFixed(0)} ms · ${raw.length.toLocaleString("en")} characters`;
			let shown = raw;
			if (/json/.test(response.headers.get("Content-Type") ?? "")) shown = JSON.stringify(JSON.parse(raw), null, 2);
			const most = 20_000;
			put(answer, h("pre", { class: "answer", tabindex: "0", role: "region", "aria-label": "Answer" }, h("code", null, shown.length > most ? `${shown.slice(0, most)}\n… ${shown.length - most} characters more` : shown)));
		} catch {
			status.textContent = "No answer: the server has stopped, or the connection is lost.";
		}
	};
	return more("Try it", h("form", { onsubmit: submit, novalidate: true },
		h("div", { class: "field" }, h("label", { for: address.id }, "Path"), address),
		text && h("div", { class: "field" }, h("label", { for: text.id }, "Body"), text),
		h("div", { class: "controls" }, h("button", { type: "submit", class: "main" }, "Send"), status), answer));
}

tabs("/", "api");
try {
	const spec = await load();
	const all = Object.entries(spec.paths).flatMap(([path, methods]) => Object.entries(methods).filter(([method]) => /^(get|post|put|delete)$/.test(method)).map(([method, op]) => [path, method, op]));
	const order = (spec.tags ?? []).map((tag) => tag.name);
	const rank = ([, , op]) => order.indexOf(op.tags?.[0]) + 1 || 99;
	all.sort((a, b) => rank(a) - rank(b));
	const place = (id) => (event) => {
		event.preventDefault();
		const section = document.getElementById(id);
		history.replaceState(null, "", `#${id}`);
		section.scrollIntoView();
		section.querySelector("summary").focus({ preventScroll: true });
	};
	put(main, h("h1", null, "API"),
		p("lead", prose(spec.info.description ?? "Answers are the documents of the command line, with units in the keys."), ` Version ${spec.info.version}.`),
		h("ul", { class: "index" }, all.map(([path, method, op]) => {
			const id = `${method}${path.replace(/[^a-z0-9]+/gi, "-")}`;
			return h("li", null, h("a", { href: `#${id}`, onclick: place(id) }, h("code", null, `${method.toUpperCase()} ${path}`)), " ", span("faint", prose((op.summary ?? op.description ?? "").split("\n")[0])));
		})),
		all.map((one) => operation(...one)));
	main.append(h("section", { class: "fix" }, h("h2", null, "Problems"),
		p("", "What goes wrong is answered as ", h("code", null, "application/problem+json"), ": ", h("code", null, "field"), " names what to fix, ", h("code", null, "value"), " what it holds and ", h("code", null, "allowed"), " what it may hold."),
		h("dl", { class: "facts" }, PROBLEMS.map(([id, status, text]) => h("div", { id }, h("dt", null, status), h("dd", null, h("code", null, id), ` ${text}`))))));
	const wanted = location.hash.slice(1);
	if (wanted) document.getElementById(wanted)?.scrollIntoView();
} catch (error) {
	put(main, h("h1", null, "API"), h("div", { class: "alert", role: "alert" }, problemBox(error)));
}
