// Draws plots as SVG: axes with round ticks, bands, lines, points, marks, a cross-hair for pointer and keyboard; bars of shares.

import { h, s } from "./dom.js";

const CHARACTER = 7.1; // Width of a letter of the labels, in pixels, for the layout.

/** Even ticks that cover `low` to `high`. */
export function ticks(low, high, wanted) {
	const raw = (high - low || Math.abs(high) || 1) / Math.max(1, wanted);
	const power = 10 ** Math.floor(Math.log10(raw));
	const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((one) => one >= raw * 0.999);
	const first = Math.floor(low / step + 1e-9);
	const last = Math.ceil(high / step - 1e-9);
	const all = [];
	for (let at = first; at <= Math.max(last, first + 1); at += 1) all.push(Number((at * step).toPrecision(12)));
	return all;
}

/** Ticks of a logarithmic axis from `low` to `high`: powers of two, or 1, 2 and 5 of each power of ten as far as there is room. */
function logTicks(low, high, wanted, base) {
	const all = [];
	const digits = base === 2 ? [1] : Math.log10(high / low) * 3 > wanted ? [1] : [1, 2, 5];
	for (let power = Math.floor(Math.log(low) / Math.log(base) - 1e-9); base ** power <= high * 1.001; power += 1) all.push(...digits.map((digit) => Number((digit * base ** power).toPrecision(12))));
	const inside = all.filter((tick) => tick >= low * 0.999 && tick <= high * 1.001);
	const every = Math.ceil(inside.length / Math.max(2, wanted));
	return inside.filter((_, at) => at % every === 0);
}

/** Ticks as text; from ten thousand on, all with commas. */
function labels(values) {
	const large = Math.max(...values.map(Math.abs)) >= 1e4;
	return values.map((value) => (large ? value.toLocaleString("en") : String(value)).replace("-", "−"));
}

// A loop, as sweeps may have more points than a call takes arguments.
function extent(values) {
	let [low, high] = [Infinity, -Infinity];
	for (const value of values) {
		low = Math.min(low, value);
		high = Math.max(high, value);
	}
	return [low, high];
}

/** The rectangle that holds every point and interval; from zero where that leaves the curve room. */
function range(options) {
	const all = options.series.flatMap((one) => one.points);
	const [left, right] = extent([...all, ...(options.marks ?? [])].map((point) => point.x));
	const [bottom, top] = extent(all.flatMap((point) => [point.y, point.low ?? point.y, point.high ?? point.y]));
	// Room for the symbols at the ends of a logarithmic axis.
	if (options.y.log) return { left, right, bottom: bottom / 1.6, top: top * 1.6 };
	return { left, right, bottom: options.y.zero && bottom < top * 0.6 ? 0 : bottom, top };
}

/** Draws once, `width` wide; returns the drawing and where things are on it. */
function draw(options, width, height) {
	const bounds = range(options);
	const heading = [options.title, ...(options.subtitle ? [options.subtitle] : [])].filter((line) => options.headed && line);
	const named = options.series.filter((one) => one.name);
	let top = 12 + heading.length * 20;

	// The legend flows over as many lines as it needs.
	const legend = [];
	let cursor = 8;
	for (const one of named) {
		const wide = one.name.length * CHARACTER + 34;
		if (cursor + wide > width && cursor > 8) { cursor = 8; top += 20; }
		legend.push({ one, x: cursor, y: top });
		cursor += wide;
	}
	top += named.length ? 20 : 0;
	const strong = (options.marks ?? []).filter((mark) => mark.label);
	top += strong.length ? 16 : 4;

	const bottom = height - 44;
	const yRoom = Math.max(3, Math.round((bottom - top) / 52));
	const yTicks = options.y.log ? logTicks(bounds.bottom, bounds.top, yRoom, options.y.log) : ticks(bounds.bottom, bounds.top, yRoom);
	const yLabels = labels(yTicks);
	const left = 34 + CHARACTER * Math.max(...yLabels.map((text) => text.length));
	const right = width - 24;
	const xRoom = Math.max(2, Math.floor((right - left) / (options.x.log ? 46 : 84)));
	const xTicks = options.x.log ? logTicks(bounds.left, bounds.right, xRoom, options.x.log)
		: ticks(bounds.left, bounds.right, xRoom).filter((tick) => options.x.loose || (tick >= bounds.left && tick <= bounds.right));
	const span = options.x.loose ? [xTicks[0], xTicks.at(-1)] : [bounds.left, bounds.right];
	const rise = options.y.log ? [bounds.bottom, bounds.top] : [yTicks[0], yTicks.at(-1)];
	const scale = (log, [from, to]) => (log ? (value) => Math.log(value / from) / (Math.log(to / from) || 1) : (value) => (value - from) / (to - from || 1));
	const [across, up] = [scale(options.x.log, span), scale(options.y.log, rise)];
	const x = (value) => left + across(value) * (right - left);
	const y = (value) => bottom - up(value) * (bottom - top);
	const spot = (point, value = point.y) => `${x(point.x).toFixed(1)},${y(value).toFixed(1)}`;

	const parts = [];
	heading.forEach((line, at) => parts.push(s("text", { class: at ? "label" : "title", x: 8, y: 18 + at * 19 }, line)));
	for (const { one, x: at, y: line } of legend) {
		parts.push(s("g", { class: `t${one.tone}` }, swatch(one, at, line), s("text", { class: "label", x: at + 24, y: line + 4 }, one.name)));
	}
	for (const [at, tick] of yTicks.entries()) {
		parts.push(s("line", { class: "grid", x1: left, x2: right, y1: y(tick), y2: y(tick) }),
			s("text", { class: "label", x: left - 6, y: y(tick) + 4, "text-anchor": "end" }, yLabels[at]));
	}
	for (const tick of xTicks) {
		parts.push(s("line", { class: "axis", x1: x(tick), x2: x(tick), y1: bottom, y2: bottom + 4 }),
			s("text", { class: "label", x: x(tick), y: bottom + 17, "text-anchor": "middle" }, tick >= 1e4 ? tick.toLocaleString("en") : tick));
	}
	parts.push(s("line", { class: "axis", x1: left, x2: right, y1: bottom, y2: bottom }),
		s("text", { class: "label", x: (left + right) / 2, y: height - 8, "text-anchor": "middle" }, options.x.label),
		s("text", { class: "label", x: 0, y: 0, "text-anchor": "middle", transform: `translate(13 ${(top + bottom) / 2}) rotate(-90)` }, options.y.label));

	let free = -Infinity;
	for (const mark of options.marks ?? []) {
		const at = x(mark.x);
		parts.push(s("line", { class: mark.label ? "mark strong" : "mark", x1: at, x2: at, y1: top, y2: bottom }));
		const wide = (mark.label?.length ?? 0) * CHARACTER;
		if (mark.label && at - wide / 2 > Math.max(free, left - 6) && at + wide / 2 < width) {
			parts.push(s("text", { class: "label", x: at, y: top - 4, "text-anchor": "middle" }, mark.label));
			free = at + wide / 2 + 6;
		}
	}
	const taken = options.series.filter((one) => one.kind === "points").flatMap((one) => one.points.map((point) => [x(point.x) - 5, y(point.y) - 5, 10, 10]));
	for (const one of options.series) parts.push(s("g", { class: `t${one.tone}` }, body(one, spot, x, y, taken)));
	const drawing = s("svg", { viewBox: `0 0 ${width} ${height}`, width, height, "aria-hidden": "true", focusable: "false" }, parts);
	return { drawing, x, y, top, bottom, left, right };
}

function swatch(one, x, y) {
	if (one.kind === "points") return symbol(one.symbol, x + 12, one.symbol === "drop" ? y + 5 : y);
	return [one.points.some((point) => point.low !== undefined) && s("rect", { class: "band", x: x + 2, y: y - 5, width: 18, height: 10 }), s("line", { class: `line d${one.tone}`, x1: x + 2, x2: x + 20, y1: y, y2: y })].filter(Boolean);
}

function symbol(kind, x, y, size = 4) {
	if (kind === "drop") return s("path", { class: "drop", d: `M${x - 5},${y - 9}h10l-5,8z` });
	if (kind === "ring") return s("circle", { class: "ring", cx: x, cy: y, r: 4 });
	if (kind === "diamond") return s("path", { class: "dot", d: `M${x},${y - 6}l6,6l-6,6l-6,-6z` });
	return s("circle", { class: "dot", cx: x, cy: y, r: size });
}

/** A label right, left, above or below its point, where nothing else is; else none. */
function beside(text, x, y, taken) {
	const wide = text.length * CHARACTER;
	const free = [[x + 7, y - 6], [x - 7 - wide, y - 6], [x - wide / 2, y - 20], [x - wide / 2, y + 7]]
		.find(([left, top]) => !taken.some(([x0, y0, w, h]) => left < x0 + w && x0 < left + wide && top < y0 + h && y0 < top + 12));
	if (!free) return "";
	taken.push([...free, wide, 12]);
	return s("text", { class: "label", x: free[0], y: free[1] + 10 }, text);
}

function body(one, spot, x, y, taken) {
	const points = one.points;
	const parts = [];
	const banded = one.kind === "line" ? points.filter((point) => point.low !== undefined) : [];
	if (banded.length > 1) {
		const up = banded.map((point) => spot(point, point.high));
		const down = banded.map((point) => spot(point, point.low)).reverse();
		parts.push(s("path", { class: "band", d: `M${up.join("L")}L${down.join("L")}z` }));
	}
	if (one.kind === "points") {
		for (const point of points) {
			if (one.whiskers) parts.push(s("line", { class: "whisker", x1: x(point.x), x2: x(point.x), y1: y(point.low), y2: y(point.high) }));
			parts.push(symbol(one.symbol, x(point.x), y(point.y), point.size));
			if (point.text) parts.push(beside(point.text, x(point.x), y(point.y), taken));
		}
	} else {
		const dense = points.length > 1_000 ? " dense" : "";
		parts.push(s("path", { class: `line d${one.tone}${dense}`, d: `M${points.map((point) => spot(point)).join("L")}` }));
	}
	return parts;
}

/**
 * A plot that follows the width of its place. `stops` are what pointer and arrow keys walk through, from left to
 * right: `{ x, spots: [{ y, tone }], text }`; `pick` is told the one that is looked at.
 */
export function plot(options) {
	const stops = options.stops;
	const layer = h("div", { class: "canvas" });
	// The cross-hair is a picture of its own, so that moving it does not draw a long curve again.
	const over = s("svg", { class: "cross", width: "100%", height: "100%", "aria-hidden": "true" });
	const node = h("div", { class: "plot", tabindex: "0", role: "slider", "aria-label": options.label, "aria-orientation": "horizontal", "aria-valuemin": 0, "aria-valuemax": Math.max(0, stops.length - 1), "aria-valuenow": 0, "aria-valuetext": stops[0]?.text ?? "" }, layer);
	let scene;
	let at = -1;

	const cross = () => {
		const stop = stops[at];
		if (!stop) return;
		const line = s("line", { class: "hair", x1: scene.x(stop.x), x2: scene.x(stop.x), y1: scene.top, y2: scene.bottom });
		const dots = stop.spots.map((one) => s("circle", { class: `halo t${one.tone}`, cx: scene.x(stop.x), cy: scene.y(one.y), r: 5.5 }));
		over.replaceChildren(line, ...dots);
	};
	const look = (next) => {
		const one = Math.min(stops.length - 1, Math.max(0, next));
		if (one === at || stops.length === 0) return;
		at = one;
		node.setAttribute("aria-valuenow", at);
		node.setAttribute("aria-valuetext", stops[at].text);
		cross();
		options.pick?.(stops[at], at);
	};
	const redraw = () => {
		const width = Math.floor(layer.clientWidth);
		if (width < 60) return;
		scene = draw(options, width, width < 560 ? 300 : 360);
		layer.replaceChildren(scene.drawing, over);
		cross();
	};
	const nearest = (event) => {
		const box = scene.drawing.getBoundingClientRect();
		const [px, py] = [event.clientX - box.left, event.clientY - box.top];
		let best = 0;
		let least = Infinity;
		stops.forEach((stop, index) => {
			const across = (scene.x(stop.x) - px) ** 2;
			const far = options.flat ? across + Math.min(...stop.spots.map((one) => (scene.y(one.y) - py) ** 2)) : across;
			if (far < least) { least = far; best = index; }
		});
		look(best);
	};
	node.addEventListener("pointermove", nearest);
	node.addEventListener("pointerdown", nearest);
	node.addEventListener("focus", () => look(at < 0 ? options.start ?? 0 : at));
	node.addEventListener("keydown", (event) => {
		const page = Math.max(1, Math.round(stops.length / 10));
		const to = { ArrowLeft: at - 1, ArrowDown: at - 1, ArrowRight: at + 1, ArrowUp: at + 1, PageUp: at + page, PageDown: at - page, Home: 0, End: stops.length - 1 }[event.key];
		if (to === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
		event.preventDefault();
		look(to);
	});
	new ResizeObserver(redraw).observe(layer);
	return { node, look };
}

const LOOKS = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-linejoin", "font-family", "font-size", "font-weight"];

/** The same plot as a file of its own: light, with its title, and no style sheet needed. */
export function svgFile(options) {
	const place = h("div", { class: "plot light away", "aria-hidden": "true" });
	document.body.append(place);
	const { drawing } = draw({ ...options, headed: true }, 960, 500);
	place.append(drawing);
	for (const element of drawing.querySelectorAll("*")) {
		const style = getComputedStyle(element);
		for (const name of LOOKS) {
			const value = style.getPropertyValue(name);
			if (value && (element.tagName === "text" || !name.startsWith("font"))) element.setAttribute(name, value);
		}
	}
	for (const element of drawing.querySelectorAll("[class]")) element.removeAttribute("class");
	drawing.prepend(s("rect", { width: "100%", height: "100%", fill: "#ffffff" }));
	for (const name of ["aria-hidden", "focusable"]) drawing.removeAttribute(name);
	place.remove();
	return `<?xml version="1.0" encoding="UTF-8"?>\n${new XMLSerializer().serializeToString(drawing)}\n`;
}

/** A small bar on a common scale: the interval as a line, the estimate as a dot, a reference as a tick. */
export function interval(low, value, high, [from, to], reference) {
	const wide = 80;
	const x = (rate) => 3 + ((rate - from) / (to - from || 1)) * (wide - 6);
	return s("svg", { class: "interval", viewBox: `0 0 ${wide} 14`, width: wide, height: 14, "aria-hidden": "true" },
		reference !== undefined && s("line", { class: "reference", x1: x(reference), x2: x(reference), y1: 0, y2: 14 }),
		low !== undefined && s("line", { class: "whisker", x1: x(low), x2: x(high), y1: 7, y2: 7 }),
		s("circle", { class: "dot", cx: x(value), cy: 7, r: 3 }));
}

/** A bar of parts that make a whole: `{ name, share, tone, text }`; what is pointed at or focused is told to `pick`. */
export function shares(label, parts, pick) {
	let start = 0;
	const segments = parts.map((part) => {
		const from = start;
		start += part.share;
		const look = () => pick(part);
		const middle = `${(100 * (from + part.share / 2)).toFixed(2)}%`;
		return s("g", { class: `t${part.tone}`, tabindex: "0", role: "img", "aria-label": `${part.name}: ${part.text}`, onpointerenter: look, onfocus: look },
			s("rect", { class: "share", x: `${(100 * from).toFixed(2)}%`, width: `${(100 * part.share).toFixed(2)}%`, height: "100%" }),
			part.share > 0.1 && s("text", { x: middle, y: "50%", "text-anchor": "middle", "dominant-baseline": "central" }, `${Math.round(100 * part.share)} %`));
	});
	return s("svg", { class: "shares", width: "100%", height: 30, role: "group", "aria-label": label }, segments);
}

/** The bar with names and values of its parts below; `text` is short, `detail` is shown when it is looked at. */
export function sharesWithNames(label, parts) {
	const readout = h("p", { class: "readout short" });
	const pick = (part) => readout.replaceChildren(h("strong", null, part.name), ` ${part.text}${part.detail ? `: ${part.detail}` : ""}`);
	pick(parts.reduce((most, part) => (part.share > most.share ? part : most)));
	return h("figure", null, shares(label, parts, pick),
		readout,
		h("ul", { class: "names" }, parts.map((part) => h("li", { class: `t${part.tone}`, onpointerenter: () => pick(part) }, h("span", { class: "swatch" }), h("span", null, part.name), h("span", { class: "num" }, part.text)))));
}
