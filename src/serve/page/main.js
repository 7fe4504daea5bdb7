// Starts the page: which view the address asks for, its script loaded when it is first shown.

import { problemBox } from "./desk.js";
import { button, h, p, put } from "./dom.js";
import * as lists from "./lists.js";
import * as openapi from "./openapi.js";
import { href, read } from "./state.js";
import { TABS, tabs } from "./tabs.js";

const main = document.getElementById("main");
const sections = new Map(Object.entries(TABS).map(([name, title]) => [name, h("section", { id: `view-${name}`, hidden: true, "aria-labelledby": `title-${name}` }, h("h1", { id: `title-${name}` }, title))]));
const links = tabs("");
const views = new Map();
const last = new Map();

const failed = (error) => h("div", { class: "alert", role: "alert" }, problemBox(error), button("Try again", () => location.reload()));

/** A view, whose script and form are made once; undefined where the script did not arrive. */
function made(name) {
	if (!views.has(name)) {
		const section = sections.get(name);
		const wait = p("status", "Loading…");
		section.append(wait);
		views.set(name, import(`./${name}.js`).then((view) => { wait.replaceWith(...[view.mount()].flat()); return view; }, () => {
			wait.replaceWith(failed(new Error("Nothing came back: the server has stopped or the connection is lost.")));
		}));
	}
	return views.get(name);
}

async function route() {
	const { view: wanted, query } = read();
	const name = sections.has(wanted) ? wanted : Object.keys(TABS)[0];
	for (const [one, section] of sections) section.hidden = one !== name;
	for (const [one, link] of links) {
		if (one === name) link.setAttribute("aria-current", "page");
		else link.removeAttribute("aria-current");
	}
	document.title = `${TABS[name]} · shapewise`;
	// A tab leads back to what its view showed last; what is shown already is not asked again.
	const state = query.toString();
	if (last.get(name) === state) return;
	last.set(name, state);
	links.get(name).href = href(name, query);
	const view = await made(name);
	// While the script was on its way another state may have been asked for.
	if (last.get(name) === state) view?.show(query);
}

document.getElementById("skip").addEventListener("click", (event) => {
	event.preventDefault();
	main.focus();
});
addEventListener("hashchange", route);
addEventListener("adjusted", () => {
	const { view, query } = read();
	last.set(view, query.toString());
	links.get(view).href = href(view, query);
});
// Every form follows from what the service says of itself, so that is asked first.
const missing = await Promise.all([openapi.load(), lists.load()]).then(() => undefined, (error) => error);
if (missing) put(main, failed(missing));
else {
	main.append(...sections.values());
	route();
}
