// The same question for a shell or a script: command line, curl, Python.

import { copyable, more } from "./dom.js";

const quote = (text) => (/^[\w.,:/+-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

/** Flags with another name than the key of the request. */
const FLAGS = { attention: { seq_q: "seq", seq_kv: "kv_seq" }, gemm: { batch: "batch_count" } };

function option(name, value) {
	const flag = (name.length === 1 ? "-" : "--") + name.replaceAll("_", "-");
	if (value === true) return [flag];
	return [flag, quote(Array.isArray(value) ? value.join(",") : String(value))];
}

/** `shapewise search --params 6.7B --gpu h200`. */
export function commandLine(command, request) {
	const parts = ["shapewise", command];
	const { architecture, workload, export: configs, ...rest } = request;
	if (architecture) parts.push(typeof architecture === "string" ? quote(architecture) : "config.json");
	const flags = FLAGS[command.split(" ").at(-1)];
	for (const [name, value] of Object.entries({ ...rest, ...workload })) parts.push(...option(flags?.[name] ?? name, value));
	if (configs) parts.push("--export", "configs");
	return parts.join(" ");
}

const origin = () => location.origin;

function curl(path, request) {
	if (typeof request.architecture === "object") {
		const { architecture, ...rest } = request;
		return `jq ${quote(`{architecture: .} + ${JSON.stringify(rest)}`)} config.json | curl -s ${origin()}${path} -H 'Content-Type: application/json' -d @-`;
	}
	return `curl -s ${origin()}${path} -H 'Content-Type: application/json' -d ${quote(JSON.stringify(request))}`;
}

function python(path, request) {
	const own = typeof request.architecture === "object";
	const literal = JSON.stringify(own ? { ...request, architecture: "@" } : request, null, 4)
		.replace(/: true\b/g, ": True").replace(/: false\b/g, ": False").replace('"@"', 'json.load(open("config.json"))');
	return `import json, urllib.request

request = ${literal}
answer = json.load(urllib.request.urlopen(urllib.request.Request(
    "${origin()}${path}", json.dumps(request).encode(), {"Content-Type": "application/json"})))`;
}

/** All three, folded away, and what `started` starts: pairs of a name and a command. */
export function commands(command, path, requests, started = []) {
	const all = [requests].flat();
	return more(`The same from a shell or a script${started.length ? `; launch flags of ${started.map(([name]) => name).join(", ")}` : ""}`,
		copyable("Command line", all.map((one) => commandLine(command, one)).join("\n")),
		copyable("curl", all.map((one) => curl(path, one)).join("\n")),
		copyable("Python", python(path, all[0])),
		started.map(([name, text]) => copyable(name, text)));
}
