// Builds elements without ever parsing text as HTML: what comes from a document can only become text.

const SVG = "http://www.w3.org/2000/svg";

const solid = (children) => children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);

function fill(element, attrs, children) {
	for (const [name, value] of Object.entries(attrs ?? {})) {
		if (value === undefined || value === null || value === false) continue;
		if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
		else if (name === "value") element.value = value;
		else element.setAttribute(name, value === true ? "" : String(value));
	}
	element.append(...solid(children));
	return element;
}

/** An HTML element; `on…` attributes are listeners, null and false children are left out. */
export function h(tag, attrs, ...children) {
	return fill(document.createElement(tag), attrs, children);
}

export const p = (kind, ...children) => h("p", { class: kind || undefined }, children);

export const span = (kind, ...children) => h("span", { class: kind }, children);

/** A button that does something beside the form it stands in. */
export const button = (text, onclick, attrs) => h("button", { type: "button", class: "small", onclick, ...attrs }, text);

/** An SVG element. */
export function s(tag, attrs, ...children) {
	return fill(document.createElementNS(SVG, tag), attrs, children);
}

/** Replaces everything in `parent`. */
export function put(parent, ...children) {
	parent.replaceChildren(...solid(children));
}

/** A table whose rows are cards on a narrow window, each value below the heading of its column. */
export function cards(table) {
	const headings = [...table.tHead.rows[0].cells].map((cell) => cell.textContent);
	for (const row of [...table.tBodies].flatMap((body) => [...body.rows])) {
		if (row.cells.length === headings.length) headings.forEach((text, at) => { row.cells[at].dataset.label = text; });
	}
	table.classList.add("cards");
	return table;
}

/** A table in a box of its own that scrolls sideways. A heading is text, or `{ num, title }` over numbers. */
export function table(caption, headings, rows, attrs) {
	const side = (at) => (headings[at].num ? "num" : undefined);
	const shape = attrs?.class === "tight" ? (one) => one : cards;
	return scroller(caption, shape(h("table", attrs,
		h("caption", { class: "unseen" }, caption),
		h("thead", null, h("tr", null, headings.map((one, at) => h("th", { scope: "col", class: side(at), title: one.title }, one.num ?? one)))),
		h("tbody", null, rows.map((cells) => h("tr", null, cells.map((cell, at) => h(at ? "td" : "th", { scope: at ? undefined : "row", class: side(at) }, cell))))))));
}

/** A box that scrolls sideways by itself and can be reached by keyboard. */
export function scroller(label, child) {
	return h("div", { class: "scroll", role: "region", "aria-label": label, tabindex: "0" }, child);
}

/** A short list of names and values. */
export function facts(pairs) {
	return h("dl", { class: "facts" }, pairs.filter(Boolean).map(([name, ...value]) =>
		h("div", null, h("dt", null, name), h("dd", null, value))));
}

/** Something that opens, closed at first. */
export function more(summary, ...children) {
	return h("details", null, h("summary", null, summary), children);
}

/** Lets a person save `text` as a file. */
export function save(name, type, text) {
	const address = URL.createObjectURL(new Blob([text], { type }));
	const link = h("a", { href: address, download: name, hidden: true });
	document.body.append(link);
	link.click();
	link.remove();
	setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** A command with a button that copies it. */
export function copyable(label, text) {
	const state = h("span", { class: "copied", role: "status" });
	const code = h("code", null, text);
	const copy = async () => {
		try {
			await navigator.clipboard.writeText(text);
			state.textContent = "copied";
		} catch {
			// Without a secure context there is no clipboard: select it, so that Ctrl+C does.
			const range = document.createRange();
			range.selectNodeContents(code);
			const selection = getSelection();
			selection.removeAllRanges();
			selection.addRange(range);
			state.textContent = "selected";
		}
		setTimeout(() => { state.textContent = ""; }, 2_000);
	};
	return h("div", { class: "copyable" },
		h("div", { class: "copyhead" }, h("span", null, label), state, button("Copy", copy, { "aria-label": `Copy: ${label}` })),
		h("pre", { tabindex: "0", role: "region", "aria-label": label }, code));
}
