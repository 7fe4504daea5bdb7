// The part of a view that works: runs a question, shows that it runs, what went wrong, and the answer.

import { Problem } from "./api.js";
import { h, more, p, put, span } from "./dom.js";

/** Says a problem in words of its own, with what may help. */
export function problemBox(problem) {
	return [h("strong", null, problem.title ?? "This did not work"), p("", problem.detail ?? problem.message),
		problem.instance && p("hint", `The server's log knows this as ${problem.instance}.`)];
}

/** Other questions of a view: pairs of text and address. */
export const examples = (all) => more("Examples", h("ul", { class: "plain examples" }, all.map(([text, address]) => h("li", null, h("a", { href: address }, text)))));

/** Alert, status line, cancel button and output of a form. */
export function desk(form, submitLabel) {
	const alert = h("div", { class: "alert", role: "alert" });
	const status = h("p", { class: "status", role: "status" });
	const bar = h("progress", { max: 1, hidden: true, "aria-label": "progress" });
	const note = span("hint");
	const output = h("div", { class: "output" });
	const cancel = h("button", { type: "button", hidden: true, onclick: () => running?.abort() }, "Cancel");
	const submit = h("button", { type: "submit", class: "main" }, submitLabel);
	let running;

	const busy = (is) => {
		output.setAttribute("aria-busy", is);
		cancel.hidden = !is;
		bar.hidden = !is;
		bar.removeAttribute("value");
		note.textContent = "";
	};
	const wrong = (error) => {
		status.textContent = "";
		put(alert, problemBox(error));
		// A bug of the page is shown, too, and goes on to the console.
		if (!(error instanceof Problem)) throw error;
		form.show(error);
	};

	return {
		alert, output,
		controls: h("div", { class: "controls" }, submit, cancel, bar, note, status),
		/** What changes often is not read out. */
		note: (text) => { note.textContent = text; },
		say: (text) => { status.textContent = text; },
		progress: (done, total) => { bar.max = total || 1; bar.value = Math.min(done, total); },
		wrong,
		/** Runs `work(signal)`; an earlier run is dropped. Fields that are wrong are shown before anything is asked. */
		async run(work) {
			running?.abort();
			const mine = new AbortController();
			running = mine;
			form.clear();
			put(alert);
			status.textContent = "";
			try {
				busy(true);
				await work(mine.signal);
			} catch (error) {
				if (running !== mine) return;
				if (error.name === "AbortError") status.textContent = output.childElementCount ? "Cancelled; below is the answer before." : "Cancelled.";
				else {
					put(output);
					wrong(error);
				}
			} finally {
				if (running === mine) {
					running = undefined;
					busy(false);
				}
			}
		},
	};
}
