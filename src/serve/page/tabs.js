// The tabs of every page, from one list.

import { h, put } from "./dom.js";

/** The title of each view. */
export const TABS = { predict: "Predict", search: "Search", plan: "Plan", compare: "Compare", check: "Check", explore: "Explore", models: "Models" };

/** Makes the tabs of a page; returns the links of the views by name. `base` is the address of the page with the views. */
export function tabs(base, here) {
	const links = new Map(Object.entries(TABS).map(([name, title]) => [name, h("a", { href: `${base}#${name}` }, title)]));
	const api = h("a", { href: "/api", "aria-current": here === "api" && "page" }, "API");
	put(document.getElementById("tabs"), [...links.values()].map((link) => h("li", null, link)), h("li", { class: "apart" }, api));
	return links;
}
