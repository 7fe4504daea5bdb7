// Writes numbers as people read them, each with its unit; the same digits as the command line.

/** Four significant digits, no exponent. */
export function significant(value) {
	if (value === 0 || !Number.isFinite(value)) return String(value);
	const digits = Math.min(6, Math.max(0, 3 - Math.floor(Math.log10(Math.abs(value)))));
	return value.toFixed(digits);
}

/** A whole number with commas between thousands. */
export function grouped(value) {
	return String(Math.round(value)).replace(/\B(?=(\d{3})+(?!\d))/g, ",");
}

/** Thin spaces keep a number and its unit on one line. */
const unit = (value, name) => `${value}\u00a0${name}`;

export function time(us) {
	const size = Math.abs(us);
	if (size >= 1e6) return unit(significant(us / 1e6), "s");
	if (size >= 1e3) return unit(significant(us / 1e3), "ms");
	return unit(significant(us), "µs");
}

export function bytes(value) {
	let name = "B";
	for (const next of ["KiB", "MiB", "GiB", "TiB"]) {
		if (Math.abs(value) < 1024) break;
		value /= 1024;
		name = next;
	}
	return unit(significant(value), name);
}

export const gib = (value) => value / 2 ** 30;

/** A fraction: `94 %`, `3.4 %`. */
export function percent(fraction) {
	const value = fraction * 100;
	return unit(value.toFixed(Math.abs(value) >= 9.95 ? 0 : 1), "%");
}

/** A change: `+4.2 %`, `−12 %`. */
export const signed = (fraction) => (fraction < 0 ? "−" : "+") + percent(Math.abs(fraction));

/** A rate of tokens: whole above a hundred. */
export const tokens = (rate) => (rate >= 100 ? grouped(rate) : significant(rate));

/** `6.763 B`: billions or millions of parameters. */
export const parameters = (count) => (count >= 1e9 ? `${significant(count / 1e9)}B` : `${significant(count / 1e6)}M`);

export const TIERS = ["measured", "learned", "transferred", "roofline"];

export const TIER_TEXT = {
	measured: "this exact shape is in a timing table that was handed over",
	learned: "a net trained on this GPU and software stack",
	transferred: "carried over from another GPU, format, layout, direction or alignment by a stated assumption",
	roofline: "traffic over reachable bandwidth, nothing learned",
};

/** `28 % learned, 58 % transferred, 14 % roofline`. */
export function tierShares(shares) {
	return TIERS.filter((tier) => shares?.[tier] > 0).map((tier) => `${percent(shares[tier])} ${tier}`).join(", ");
}

/** `gemm bf16: trtllm 1.3.0rc20 on h200; …`. */
export function basis(list) {
	const all = (Array.isArray(list) ? list : [list]).filter(Boolean);
	if (all.length === 0) return "a roofline, nothing learned";
	return all.map((one) => `${one.family} ${one.dtype}: ${one.stack ?? "roofline, nothing learned"}`).join("; ");
}

/** Named values as `batch 4, seq 2048, dtype bf16`; what is zero, off, none or as in `usual` is left out. */
export function settings(values, usual = {}) {
	const kept = ([key, value]) => value && value !== "none" && typeof value !== "object" && String(value) !== usual[key];
	const text = ([key, value]) => (value === true ? words(key) : `${words(key)} ${key === "bytes" ? bytes(value) : value}`);
	return Object.entries(values).filter(kept).map(text).join(", ");
}

/** `31 layers of 4096, 32 heads (8 kv) of 128, d_ff 10880, vocab 50304`. */
export function dimensions(shape) {
	const kv = shape.kv_lora_rank ? ` (latent ${shape.kv_lora_rank})` : shape.kv_heads === shape.heads ? "" : ` (${shape.kv_heads} kv)`;
	return `${layers(shape)} layers of ${shape.hidden}, ${shape.heads} heads${kv} of ${shape.head_dim}, d_ff ${shape.d_ff}, vocab ${shape.vocab}`;
}

/** The layers, `24 (20 windowed)` where some see a sliding window. */
export const layers = (shape) => (shape.window_layers ? `${shape.layers} (${shape.window_layers} windowed)` : shape.layers);

/** The name of a key in words; `d_ff` is a word. */
export const words = (name) => (name === "d_ff" ? name : String(name).replaceAll("_", " "));

/** The same above a field: `KV heads`, `TP`, `Head dim`. */
export const label = (name) => words(name).replace(/^(ffn|gemm|gpu|mlp|kv|tp|pp|dp)\b/, (found) => found.toUpperCase()).replace(/^[a-z](?=[a-z])/, (first) => first.toUpperCase());

/** The sizes of a layout as people write them. */
const RANKS = [["tp", "tp"], ["cp", "cp"], ["ep", "ep"], ["pp", "pp"], ["vp", "vp"], ["dp", "dp"]];

/** `tp 4, pp 8, vp 5, dp 16, ZeRO 1`. */
export function layout(work, copies = true) {
	const sizes = RANKS.filter(([key]) => work[key] > 1 && (copies || key !== "dp")).map(([key, text]) => `${text} ${work[key]}`);
	if (work.zero > 0) sizes.push(`ZeRO ${work.zero}`);
	if (work.offload && work.offload !== "none") sizes.push(`offload ${work.offload}`);
	return sizes.join(", ") || "one GPU each";
}

/** What a layout recomputes. */
export const recomputed = (work) => (work.recompute === "none" ? "" : `${work.recompute}${work.recompute_layers ? `, ${work.recompute_layers} layers` : ""}`);
