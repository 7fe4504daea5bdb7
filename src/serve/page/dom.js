// Builds elements without ever parsing text as HTML: what comes from a document can only become text.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attrs, children) {
  for (const [name, value] of Object.entries(attrs ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** An HTML element; `on…` attributes are listeners, null and false children are left out. */
export function h(tag, attrs, ...children) {
  return fill(document.createElement(tag), attrs, children);
}

/** An SVG element. */
export function s(tag, attrs, ...children) {
  return fill(document.createElementNS(SVG, tag), attrs, children);
}

/** Replaces everything in `parent`. */
export function put(parent, ...children) {
  parent.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
}

/** A table in a box of its own that scrolls sideways; `numeric` says which columns stand right. */
export function table(caption, headings, rows, attrs) {
  const side = (heading) => (heading.text ? undefined : "num");
  return scroller(caption,
    h("table", attrs,
      h("caption", { class: "unseen" }, caption),
      h("thead", null, h("tr", null, headings.map((heading) => h("th", { scope: "col", class: side(heading), title: heading.title }, heading.name)))),
      h("tbody", null, rows.map((row) => h("tr", { class: row.class }, row.cells.map((cell, at) =>
        at === 0 ? h("th", { scope: "row", class: side(headings[at]) }, cell) : h("td", { class: side(headings[at]) }, cell)))))));
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
    h("div", { class: "copyhead" }, h("span", null, label), state, h("button", { type: "button", class: "small", onclick: copy, "aria-label": `Copy: ${label}` }, "Copy")),
    h("pre", { tabindex: "0", role: "region", "aria-label": label }, code));
}
