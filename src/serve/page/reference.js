// The API page: every operation of /openapi.json with its fields, an example, and a box to try it.

import { get } from "./api.js";
import { problemBox } from "./desk.js";
import { copyable, h, more, put, table } from "./dom.js";

const main = document.getElementById("main");
let spec;

/** A schema with references followed and parts put together. */
function resolve(schema, depth = 0) {
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
    const parts = choice.filter((part) => part.type !== "null");
    if (parts.length === 1) return { ...resolve(parts[0], depth + 1), ...Object.fromEntries(Object.entries(schema).filter(([key]) => !["oneOf", "anyOf"].includes(key))) };
    return { ...schema, choice: parts.map((part) => resolve(part, depth + 1)) };
  }
  return schema;
}

function typeText(schema) {
  if (schema.choice) return [...new Set(schema.choice.map(typeText))].join(" or ");
  const literal = schema.enum ?? (schema.const === undefined ? undefined : [schema.const]);
  if (literal) return literal.filter((one) => one !== null).map((one) => JSON.stringify(one)).join(" | ");
  const type = [schema.type].flat().filter((one) => one && one !== "null").join(" or ");
  if (type === "array") return `list of ${typeText(resolve(schema.items))}`;
  const bounds = [schema.minimum !== undefined && `at least ${schema.minimum}`, schema.maximum !== undefined && `at most ${schema.maximum}`].filter(Boolean).join(", ");
  return `${type || "anything"}${bounds ? ` (${bounds})` : ""}`;
}

/** Fields of an object, nested ones below their parent as `parent.child`. */
function fields(schema, prefix = "", depth = 0) {
  const found = resolve(schema);
  if (found.choice) return found.choice.flatMap((part) => fields(part, prefix, depth + 1));
  return Object.entries(found.properties ?? {}).flatMap(([name, raw]) => {
    const one = resolve(raw);
    const inner = one.type === "array" || [one.type].flat().includes("array") ? resolve(one.items) : one;
    const nested = depth < 3 && (inner.properties || inner.choice?.some((part) => part.properties));
    return [
      { name: prefix + name, required: found.required?.includes(name), type: nested && !one.choice ? (inner === one ? "object" : "list of objects") : typeText(one), usual: one.default, text: one.description, sample: sample(one) },
      ...(nested ? fields(inner, `${prefix}${name}${inner === one ? "." : "[]."}`, depth + 1) : []),
    ];
  });
}

/** A value to show, of the field itself or of the first kind it may be. */
const sample = (one) => one.examples?.[0] ?? one.example ?? (one.choice ?? []).map(sample).find((value) => value !== undefined);

function fieldTable(label, all) {
  return table(label, ["field", "type", "default", "meaning"].map((name) => ({ name, text: true })), all.map((one) => ({ cells: [
    h("code", null, one.name), one.type, one.required ? "required" : one.usual === undefined || one.usual === null ? "–" : h("code", null, JSON.stringify(one.usual)), prose(one.text)] })));
}

/** Descriptions with `code` in backquotes. */
const prose = (text) => h("span", { class: "prose" }, (text ?? "").split(/(`[^`]+`)/).map((part) => (part.startsWith("`") && part.length > 2 ? h("code", null, part.slice(1, -1)) : part)));

function example(content) {
  const media = content?.["application/json"];
  if (!media) return undefined;
  const schema = resolve(media.schema);
  return media.example ?? Object.values(media.examples ?? {})[0]?.value ?? schema.example ?? schema.examples?.[0]
    ?? Object.fromEntries(fields(schema).filter((one) => !/[.[]/.test(one.name) && (one.required || one.sample !== undefined)).map((one) => [one.name, one.sample ?? one.usual ?? ""]));
}

function operation(path, method, op) {
  const content = op.requestBody?.content;
  const body = example(content);
  const parameters = (op.parameters ?? []).map((one) => resolve(one));
  const filled = parameters.filter((one) => one.in === "path").reduce((at, one) => at.replace(`{${one.name}}`, one.example ?? resolve(one.schema).example ?? { name: "h200" }[one.name] ?? `{${one.name}}`), path);
  const id = `${method}${path.replace(/[^a-z0-9]+/gi, "-")}`;
  const curl = `curl -s ${location.origin}${filled}${body === undefined ? "" : ` \\\n  -H 'Content-Type: application/json' \\\n  -d '${JSON.stringify(body)}'`}`;
  const schema = content?.["application/json"]?.schema;
  return h("section", { class: "mend", id },
    h("h3", null, h("code", { class: "method" }, method.toUpperCase()), " ", h("code", null, path)),
    h("p", null, prose(op.summary ?? op.description)),
    op.summary && op.description && op.description !== op.summary && h("p", { class: "sub" }, prose(op.description)),
    parameters.length > 0 && fieldTable(`Parameters of ${path}`, parameters.map((one) => ({ name: `${one.name} (${one.in})`, required: one.required, type: typeText(resolve(one.schema)), usual: resolve(one.schema).default, text: one.description }))),
    schema && fieldTable(`Fields of ${path}`, fields(schema)),
    h("p", { class: "hint" }, "Answers: ", Object.entries(op.responses ?? {}).map(([status, raw], at) => [at > 0 && "; ", h("strong", null, status), ` ${resolve(raw).description ?? ""}`])),
    copyable("curl", curl),
    trial(id, method, filled, body));
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

try {
  spec = await get("/openapi.json");
  const all = Object.entries(spec.paths).flatMap(([path, methods]) => Object.entries(methods).filter(([method]) => /^(get|post|put|delete)$/.test(method)).map(([method, op]) => [path, method, op]));
  const place = (id) => (event) => {
    event.preventDefault();
    const section = document.getElementById(id);
    history.replaceState(null, "", `#${id}`);
    section.scrollIntoView();
    section.querySelector("summary").focus({ preventScroll: true });
  };
  put(main, h("h1", null, "API"),
    h("p", { class: "lead" }, prose(spec.info.description ?? "Answers are the documents of the command line, with units in the keys."), ` Version ${spec.info.version}.`),
    h("ul", { class: "index" }, all.map(([path, method, op]) => {
      const id = `${method}${path.replace(/[^a-z0-9]+/gi, "-")}`;
      return h("li", null, h("a", { href: `#${id}`, onclick: place(id) }, h("code", null, `${method.toUpperCase()} ${path}`)), " ", h("span", { class: "faint" }, prose((op.summary ?? op.description ?? "").split("\n")[0])));
    })),
    all.map((one) => operation(...one)));
  const wanted = location.hash.slice(1);
  if (wanted) document.getElementById(wanted)?.scrollIntoView();
} catch (error) {
  put(main, h("h1", null, "API"), h("div", { class: "alert", role: "alert" }, problemBox(error)));
}
