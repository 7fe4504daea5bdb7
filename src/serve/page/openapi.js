// Reads the service's own API document: schemas, and the fields of a form that follow from them.

import { once } from "./api.js";
import { label } from "./format.js";

/** The largest bound that says something; a larger one only keeps numbers sane. */
const TELLING = 1e6;

/** A whole number with fewer possible values than this is chosen from a list. */
const FEW = 10;

let spec;

/** Fetches the document, once; everything else here reads it. */
export async function load() {
	spec = await once("/openapi.json");
	return spec;
}

/** A schema with references followed, parts put together and null left out. */
export function resolve(schema, depth = 0) {
	if (!schema || depth > 8) return schema ?? {};
	if (schema.$ref) {
		const { $ref, ...own } = schema;
		return { ...resolve($ref.split("/").slice(1).reduce((at, key) => at?.[key], spec), depth + 1), ...own };
	}
	if (schema.allOf) {
		const { allOf, ...own } = schema;
		const parts = allOf.map((part) => resolve(part, depth + 1));
		return Object.assign({}, ...parts, own, { properties: Object.assign({}, ...parts.map((part) => part.properties), own.properties), required: [...parts.flatMap((part) => part.required ?? []), ...(own.required ?? [])] });
	}
	const choice = schema.oneOf ?? schema.anyOf;
	if (choice) {
		const { oneOf, anyOf, ...own } = schema;
		const parts = choice.filter((part) => part.type !== "null").map((part) => resolve(part, depth + 1));
		return parts.length === 1 ? { ...parts[0], ...own } : { ...own, choice: parts };
	}
	return schema;
}

/** What a schema takes, without null. */
export const types = (schema) => [schema.type].flat().filter((one) => one && one !== "null");

/** The values that a schema lists. */
export const listed = (schema) => (schema.choice ? schema.choice.flatMap(listed) : schema.enum ?? (schema.const === undefined ? [] : [schema.const])).filter((one) => one !== null);

/** The content of a request: the schema of the question, other forms of it, and an example. */
export function content(operation) {
	const media = operation.requestBody?.content["application/json"];
	if (!media) return {};
	const whole = resolve(media.schema);
	const [schema, ...others] = whole.choice ?? [whole];
	return { schema, others, about: whole.description, example: media.example ?? Object.values(media.examples ?? {})[0]?.value ?? schema.example ?? {} };
}

/** What can be asked below an address. */
export const below = (prefix) => Object.keys(spec.paths).filter((path) => path.startsWith(prefix)).map((path) => path.slice(prefix.length));

/** The example of a question. */
export const example = (path) => content(spec.paths[path].post).example;

/**
 * The fields of a form for a question, in the order of their groups. `own` overrides single ones by path, null leaves
 * one out.
 */
export function fields(path, own = {}) {
	const walk = (schema, prefix, taken) => Object.entries(schema.properties ?? {}).flatMap(([key, raw]) => {
		if (own[prefix + key] === null) return [];
		const one = resolve(raw);
		if (one.properties) return walk(one, `${prefix}${key}.`, Object.keys(schema.properties));
		const field = input(one);
		if (field.hint.toLowerCase().replace(/^the /, "") === key) field.hint = "";
		return { name: taken.includes(key) ? prefix + key : key, path: prefix + key, label: one.title ?? label(key), group: one["x-group"] ?? "Other", order: one["x-order"] ?? Infinity, required: schema.required?.includes(key), ...field, ...own[prefix + key] };
	});
	return walk(content(spec.paths[path].post).schema, "", []).sort((a, b) => a.order - b.order || 0);
}

/** What a question takes where sizes and flags are left out, by key. */
export const defaults = (path) => Object.fromEntries(fields(path).map((field) => [field.path.split(".").at(-1), field.api]));

/** How a schema is entered. `api` is what the service takes where nothing is sent. */
function input(schema) {
	const api = schema.default ?? "";
	const found = { api: api === true ? "1" : api === false ? "" : String(api), ...help(schema) };
	const parts = schema.choice ?? [schema];
	const part = (type) => parts.find((one) => types(one).includes(type));
	const from = (values) => values.map((value) => ({ value: String(value) }));
	if (part("boolean")) return { ...found, kind: "flag" };
	if (part("array")) {
		const values = listed(resolve(part("array").items));
		return values.length ? { ...found, kind: "set", options: from(values) } : { ...found, kind: "json" };
	}
	if (listed(schema).length) return { ...found, kind: "choice", options: from([...(found.api ? [] : [""]), ...listed(schema)]) };
	if (part("object")) return part("string") ? { ...found, kind: "text", list: part("object").properties ? undefined : "presets" } : { ...found, kind: "json" };
	const number = part("integer") ?? part("number");
	if (!number) return { ...found, kind: "text" };
	if (part("string")) return { ...found, kind: part("integer") && part("string").pattern?.includes(":") ? "range" : "text" };
	const { minimum, maximum } = number;
	if (number === part("integer") && maximum - minimum < FEW && found.api) return { ...found, kind: "choice", number: true, options: from(Array.from({ length: maximum - minimum + 1 }, (_, at) => minimum + at)) };
	return { ...found, kind: part("integer") ? "whole" : "number", hint: [found.hint, maximum <= TELLING && `from ${minimum} to ${maximum}`].filter(Boolean).join("; ") };
}

/** The description in plain words, without what names an address of the API; a short default goes into the empty field. */
function help({ description = "" }) {
	const text = description.split("\n\n")[0].replace(/\s+/g, " ").replace(/\.$/, "").replaceAll("`", "")
		.split("; ").filter((clause) => !clause.includes("/v1/")).join("; ");
	const [whole, placeholder] = / \[default: ([^\]]{1,20})\]/.exec(text) ?? [""];
	return { hint: text.replace(whole, ""), placeholder };
}
