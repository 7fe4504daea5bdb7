// Starts the page: the tabs, and which view the address asks for.

import * as check from "./check.js";
import { problemBox } from "./desk.js";
import { button, h, put } from "./dom.js";
import * as explore from "./explore.js";
import * as lists from "./lists.js";
import * as models from "./models.js";
import * as openapi from "./openapi.js";
import { compare, plan } from "./plan.js";
import * as predict from "./predict.js";
import * as search from "./search.js";
import { href, read } from "./state.js";
import { tabs } from "./tabs.js";

const views = [predict, search, plan, compare, check, explore, models];
const main = document.getElementById("main");
const sections = new Map();
const links = tabs("");
const last = new Map();

function route() {
	const { view: wanted, query } = read();
	const view = views.find((one) => one.name === wanted) ?? views[0];
	for (const [name, section] of sections) section.hidden = name !== view.name;
	for (const [name, link] of links) {
		if (name === view.name) link.setAttribute("aria-current", "page");
		else link.removeAttribute("aria-current");
	}
	document.title = `${view.title} · shapewise`;
	// A tab leads back to what its view showed last; what is shown already is not asked again.
	const state = query.toString();
	if (last.get(view.name) === state) return;
	last.set(view.name, state);
	links.get(view.name).href = href(view.name, query);
	view.show(query);
}

function start() {
	for (const view of views) {
		const section = h("section", { id: `view-${view.name}`, hidden: true, "aria-labelledby": `title-${view.name}` }, h("h1", { id: `title-${view.name}` }, view.title), view.mount());
		sections.set(view.name, section);
	}
	main.append(...sections.values());
	addEventListener("hashchange", route);
	addEventListener("adjusted", () => {
		const { view, query } = read();
		last.set(view, query.toString());
		links.get(view).href = href(view, query);
	});
	route();
}

document.getElementById("skip").addEventListener("click", (event) => {
	event.preventDefault();
	main.focus();
});
// Every form follows from what the service says of itself, so that is asked first.
const missing = await Promise.all([openapi.load(), lists.load()]).then(() => undefined, (error) => error);
if (missing) put(main, h("div", { class: "alert", role: "alert" }, problemBox(missing), button("Try again", () => location.reload())));
else start();
