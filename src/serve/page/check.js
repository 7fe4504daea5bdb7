// The view that judges a model by the sizing rules: what is broken, what it costs, which shape fixes it.

import { send } from "./api.js";
import { commands } from "./commands.js";
import { desk, examples } from "./desk.js";
import { facts, h, p, put, scroller, span, table } from "./dom.js";
import { Form } from "./form.js";
import * as format from "./format.js";
import { gpuField, gpuTitle } from "./lists.js";
import { defaults, fields } from "./openapi.js";
import { Source } from "./source.js";
import { go } from "./state.js";
import { TABS } from "./tabs.js";

const name = "check";

const EXAMPLES = [
	["GPT-3 2.7B, the classic: odd vocabulary, heads of 80", "#check?architecture=gpt3-2.7b"],
	["Llama 3 8B decoding 16 sequences on an A100", "#check?architecture=llama-3-8b&gpu=a100&mode=decode&batch=16"],
	["Pythia 12B over eight H100s", "#check?architecture=pythia-12b&gpu=h100&tp=8"],
];

/** Fields that are always seen. */
const MAIN = ["architecture", "config", "gpu", "mode", "batch", "seq"];

const source = new Source(name, "Check", "architecture");
let form;
let work;

export function mount() {
	form = new Form(name, [
		source.field,
		...fields("/v1/check", { architecture: { label: "Published model", hint: "", value: "gpt3-2.7b", placeholder: "gpt3-2.7b, llama-3-8b, …" }, gpu: gpuField() }),
	]);
	work = desk(form, TABS[name]);
	const element = source.element(form, submit, form.nodes(MAIN), form.folded(MAIN), work.controls, examples(EXAMPLES));
	return [p("lead", "Is a shape well sized for its GPU? The sizing rules say what is wrong, what each costs, and which near shape with the same parameters fixes it."), element, work.alert, work.output];
}

function submit(event) {
	event.preventDefault();
	const query = source.query();
	if (!go(name, query)) show(query);
}

export function show(query) {
	source.fill(query);
	return work.run(async (signal) => {
		const request = source.request();
		const checked = await send("/v1/check", request, signal);
		render(checked, request, gpuTitle(checked.gpu));
		work.say(summary(checked));
	});
}

const applicable = (checked) => checked.rules.filter((rule) => rule.verdict !== "not_applicable").length;

function summary(checked) {
	const withoutGain = checked.rules.filter((rule) => rule.severity === "no_gain").length;
	if (checked.broken + withoutGain === 0) return `All ${applicable(checked)} rules that apply are met.`;
	return `${checked.broken} of ${applicable(checked)} rules that apply are broken${withoutGain ? `; ${withoutGain} more with no fix that is predicted to be faster` : ""}.`;
}

function render(checked, request, gpu) {
	const broken = checked.rules.filter((rule) => rule.verdict === "broken");
	put(work.output,
		h("h2", null, `${checked.model.name} on ${gpu}`),
		p("sub", `${format.dimensions(checked.model)} · ${format.grouped(checked.model.parameters)} parameters · ${format.settings(checked.workload, defaults("/v1/check"))}`),
		checked.impossible && p("note", h("strong", null, "Does not run: "), checked.impossible),
		checked.predicted && asIs(checked.predicted),
		h("h3", null, summary(checked)),
		checked.together && h("section", { class: "fix", id: "together" },
			h("h4", null, "All that one shape can fix, the workload unchanged"),
			sideBySide(checked, [["fixed", checked.together]])),
		rulesTable(checked, [...broken, ...checked.rules.filter((rule) => rule.verdict !== "broken")]),
		broken.length > 0 && h("h3", null, "Broken rules, one by one"),
		broken.map((rule) => paragraph(checked, rule)),
		commands("check", "/v1/check", request));
}

function asIs(predicted) {
	return facts([
		["step", h("strong", null, format.time(predicted.time_us)), ` (90 %: ${format.time(predicted.low_us)} to ${format.time(predicted.high_us)})`, !predicted.fits && span("bad", " does not fit the memory")],
		["tiers", format.tierShares(predicted.tier_shares)],
		["its parts", h("a", { href: source.href("predict") }, "Where the time goes")],
	]);
}

const severities = { hard: "broken", advice: "broken (advice)", no_gain: "broken, no gain" };

function paragraph(checked, rule) {
	return h("section", { class: "fix", "data-rule": rule.id },
		h("h4", null, rule.title, " ", h("span", { class: rule.severity === "hard" ? "badge bad" : "badge" }, severities[rule.severity])),
		p("", rule.detail),
		facts([["asks", rule.demand], ["because", rule.reason], ["source", rule.source], rule.no_fix && ["fix", `${rule.severity === "no_gain" ? "breaks the rule, but no fix is predicted to be faster" : "none near"}: ${rule.no_fix}`]]),
		rule.fix && sideBySide(checked, [["nearest fix", rule.fix], rule.faster && ["farther, faster", rule.faster]].filter(Boolean)));
}

function rulesTable(checked, rules) {
	const verdict = (rule) => {
		if (rule.verdict === "met") return span("good", "met");
		if (rule.verdict !== "broken") return span("faint", "not applicable");
		return span(rule.severity === "no_gain" ? "faint" : "bad", severities[rule.severity]);
	};
	const columns = checked.broken ? 5 : 3;
	return table(`What each of the ${rules.length} rules says`,
		["rule", "verdict", "what decides", "nearest fix", "it saves"].slice(0, columns),
		rules.map((rule) => [
			h("span", { title: rule.demand }, rule.title), verdict(rule), rule.detail,
			rule.fix ? changes(rule.fix) : rule.no_fix ? "none near" : "",
			rule.fix ? outcome(checked.workload, rule.fix, true) : ""].slice(0, columns)), { class: "rules" });
}

/** `heads 32 → 20, head dim 80 → 128`; where every head has its own keys, both change alike. */
function changes(fix) {
	const heads = fix.changes.find((one) => one.dimension === "heads");
	return fix.changes
		.filter((one) => one.dimension !== "kv_heads" || !heads || heads.from !== one.from || heads.to !== one.to)
		.map((one) => `${format.words(one.dimension)} ${one.from} → ${one.to}`).join(", ");
}

/** As it is, beside one or two shapes that fix it; what changes is marked. */
function sideBySide(checked, fixes) {
	const [now, work_] = [checked.model, checked.workload];
	const changed = new Set(fixes.flatMap(([, fix]) => fix.changes.map((one) => one.dimension)));
	const lines = [];
	const line = (label, before, after, attrs) => lines.push(h("tr", attrs, h("th", { scope: "row" }, label), h("td", { class: "num" }, before), fixes.map(([, fix]) => h("td", { class: "num" }, after(fix)))));
	const mark = (before, after) => (before === after ? String(after) : h("mark", null, after));
	for (const size of Object.keys(now).filter((one) => changed.has(one))) line(format.words(size), now[size], (fix) => mark(now[size], fix.architecture[size]));
	for (const size of Object.keys(work_).filter((one) => fixes.some(([, fix]) => fix.workload[one] !== work_[one]))) line(format.words(size), work_[size], (fix) => mark(work_[size], fix.workload[size]));
	line("parameters", format.parameters(now.parameters), (fix) => {
		const change = fix.parameter_change_fraction;
		return Math.abs(change) >= 5e-5 ? `${format.parameters(fix.architecture.parameters)} (${change < 0 ? "−" : "+"}${Math.abs(change * 100).toFixed(2)} %)` : format.parameters(fix.architecture.parameters);
	});
	line("step", checked.predicted ? format.time(checked.predicted.time_us) : "does not run", (fix) => h("strong", null, format.time(fix.predicted.time_us)), { class: "rule" });
	line("90 %", checked.predicted ? `${format.time(checked.predicted.low_us)} to ${format.time(checked.predicted.high_us)}` : "–", (fix) => `${format.time(fix.predicted.low_us)} to ${format.time(fix.predicted.high_us)}`);
	const rate = (step, { tp, pp }) => format.tokens(step.tokens_per_s / (tp * pp));
	line("tokens/s per GPU", checked.predicted ? rate(checked.predicted, work_) : "–", (fix) => [rate(fix.predicted, fix.workload), !fix.predicted.fits && span("bad", " does not fit")]);
	if (fixes.some(([, fix]) => fix.gain)) line("it saves", "", (fix) => outcome(work_, fix));
	line("tiers", checked.predicted ? format.tierShares(checked.predicted.tier_shares) : "–", (fix) => format.tierShares(fix.predicted.tier_shares), { class: "soft" });
	line("fixes", "", (fix) => fix.fixes.join(", "), { class: "soft" });
	if (fixes.some(([, fix]) => fix.breaks.length)) line("breaks", "", (fix) => span("bad", fix.breaks.join(", ")), { class: "soft" });
	return scroller("Before and after", h("table", { class: "sides" },
		h("thead", null, h("tr", null, h("th", { scope: "col" }, span("unseen", "what")), h("th", { scope: "col", class: "num" }, "as it is"), fixes.map(([label]) => h("th", { scope: "col", class: "num" }, label)))),
		h("tbody", null, lines)));
}

/** What a gain means, and for what where a step is not the same work. */
function outcome(now, fix, short) {
	const { gain } = fix;
	if (!gain) return "–";
	if (short && gain.outlook === "faster") return span("good", `${format.percent(gain.time_saved_fraction)} (${format.signed(gain.low_fraction)} to ${format.signed(gain.high_fraction)})`);
	const alike = ["batch", "seq", "tp"].every((key) => now[key] === fix.workload[key]);
	const slower = gain.time_saved_fraction < 0;
	const verdict = { faster: "", slower: "; it does not pay" }[gain.outlook] ?? "; that it pays is not certain";
	return h("span", { class: gain.outlook === "faster" ? "good" : undefined },
		`${format.percent(Math.abs(gain.time_saved_fraction))} ${slower ? "more" : "less"} ${alike ? "time" : "GPU time per token"} (90 %: ${format.signed(gain.low_fraction)} to ${format.signed(gain.high_fraction)})${verdict}`);
}
