// Talks to the server: documents, problems, and the event stream of a search.

/** What went wrong, in the terms of a problem document; `field` names what to fix. */
export class Problem extends Error {
	constructor({ title, detail, status = 0, field, value, allowed, instance, retryAfter }) {
		super(detail || title);
		Object.assign(this, { title, detail, status, field, value, allowed, instance, retryAfter });
	}
}

const gone = () => new Problem({
	title: "The server does not answer",
	detail: "Nothing came back: the server has stopped or the connection is lost. Your entries are still here; try again when `shapewise serve` runs.",
});

async function ask(path, options) {
	let answer;
	try {
		answer = await fetch(path, options);
	} catch (error) {
		if (error.name === "AbortError") throw error;
		throw gone();
	}
	if (!answer.ok) throw await problem(answer);
	return answer;
}

async function problem(answer) {
	const said = await answer.json().catch(() => ({}));
	const { status } = answer;
	const retryAfter = Number(answer.headers.get("Retry-After")) || undefined;
	if (status === 429 || (status === 503 && retryAfter)) {
		const wait = retryAfter ? `It asks to wait ${retryAfter} s; then try again.` : "Try again in a moment.";
		return new Problem({ ...said, status, retryAfter, title: "The server is busy", detail: `${said.detail ? `${said.detail}. ` : ""}${wait}` });
	}
	return new Problem({ title: `The server answered ${status}`, detail: "It did not say more.", ...said, status });
}

const post = (body, signal, accept) => ({
	method: "POST",
	headers: { "Content-Type": "application/json", Accept: accept },
	body: JSON.stringify(body),
	signal,
});

async function json(answer) {
	try {
		return await answer.json();
	} catch (error) {
		if (error.name === "AbortError") throw error;
		throw gone();
	}
}

export async function get(path, signal) {
	return json(await ask(path, { headers: { Accept: "application/json" }, signal }));
}

export async function send(path, body, signal) {
	return json(await ask(path, post(body, signal, "application/json")));
}

/** Posts, calls `progress` while the server works, and returns the result. */
export async function stream(path, body, signal, progress) {
	const answer = await ask(path, post(body, signal, "text/event-stream"));
	if (!(answer.headers.get("Content-Type") ?? "").startsWith("text/event-stream")) return json(answer);
	try {
		for await (const event of events(answer.body)) {
			if (event.name === "progress") progress(JSON.parse(event.data));
			else if (event.name === "result") return JSON.parse(event.data);
			else if (event.name === "problem") throw new Problem(JSON.parse(event.data));
		}
	} catch (error) {
		if (error instanceof Problem || error.name === "AbortError") throw error;
		throw gone();
	}
	throw gone();
}

async function* events(body) {
	const reader = body.getReader();
	const decoder = new TextDecoder();
	let text = "";
	for (;;) {
		const { done, value } = await reader.read();
		if (done) return;
		text = (text + decoder.decode(value, { stream: true })).replaceAll("\r\n", "\n");
		for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
			yield event(text.slice(0, end));
			text = text.slice(end + 2);
		}
	}
}

function event(block) {
	const found = { name: "message", data: "" };
	for (const line of block.split("\n")) {
		const colon = line.indexOf(":");
		if (colon < 1) continue;
		const value = line.slice(colon + 1).replace(/^ /, "");
		if (line.slice(0, colon) === "event") found.name = value;
		if (line.slice(0, colon) === "data") found.data += (found.data && "\n") + value;
	}
	return found;
}

const kept = new Map();

/** A list that does not change while the server runs; asked for once. */
export function once(path) {
	if (!kept.has(path)) kept.set(path, get(path).catch((error) => { kept.delete(path); throw error; }));
	return kept.get(path);
}
