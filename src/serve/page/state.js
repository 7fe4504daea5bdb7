// Keeps what a view was asked in the part of the address after #, so that a result can be shared and reloaded.

/** The view and its settings: `#search?params=6.7B&gpu=h200`. */
export function read() {
	const text = location.hash.slice(1);
	const cut = text.indexOf("?");
	const view = cut < 0 ? text : text.slice(0, cut);
	return { view, query: new URLSearchParams(cut < 0 ? "" : text.slice(cut + 1)) };
}

/** The address of a view; what may stand as it is stays readable. */
export function href(view, query) {
	const text = new URLSearchParams(query).toString().replaceAll("%3A", ":").replaceAll("%2C", ",").replaceAll("%2F", "/");
	return `#${view}${text && `?${text}`}`;
}

/** Goes to a state as if a link was followed. Returns whether this was a change. */
export function go(view, query) {
	const next = href(view, query);
	if (location.hash === next) return false;
	location.hash = next;
	return true;
}

/** Changes how a result is looked at, without a new entry in the history; whoever listens to `adjusted` is told. */
export function adjust(view, query) {
	history.replaceState(null, "", href(view, query));
	dispatchEvent(new Event("adjusted"));
}
