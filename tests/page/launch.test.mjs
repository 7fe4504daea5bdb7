// Launch lines against `launch-flags.json`: the flags that the real programs have, with what each may be.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

const file = (path) => readFileSync(new URL(path, import.meta.url), "utf8");
const { launches } = await import(`data:text/javascript,${encodeURIComponent(file("../../src/serve/page/launch.js"))}`);
const { programs } = JSON.parse(file("launch-flags.json"));

/** A dense model, and one with every kind of expert and attention. */
const DENSE = { layers: 80, hidden: 8192, d_ff: 28672, heads: 64, kv_heads: 8, head_dim: 128, mlp: "swiglu", vocab: 128256, experts: 0, source: "config.json of meta-llama/Llama-3.3-70B; x" };
const SPARSE = { ...DENSE, kv_heads: 64, kv_lora_rank: 512, experts: 256, top_k: 8, moe_d_ff: 2048 };

const WORK = { mode: "train", tp: 1, cp: 1, pp: 1, dp: 8, ep: 1, vp: 1, expert_tp: 0, zero: 0, seq: 4096, batch: 1, microbatches: 8, recompute: "none", recompute_layers: 0, offload: "none", dtype: "bf16", recipe: "tensorwise", kv_cache_dtype: "bf16" };

/** Every recipe of the program. */
const RECIPES = [.../ Recipe \{(.*?)\n    \}/s.exec(file("../../src/core/arch/workload.rs"))[1].matchAll(/ = "(\w+)"/g)].map(([, name]) => name);

/** Every value of every field by itself, of training and of serving. */
const VARIED = {
  train: { tp: [8], cp: [2], pp: [4], vp: [2], ep: [8], expert_tp: [2], zero: [1, 2, 3], recompute: ["full", "selective", "pointwise", "mlp", "latent-up"], recompute_layers: [21], offload: ["optimizer", "all"], dtype: ["fp16", "fp8"], sequence_parallel: [true] },
  decode: { tp: [8], pp: [2], dp: [16], ep: [16], dtype: ["fp8"], kv_cache_dtype: ["fp8"] },
};

function lines() {
  const all = [];
  for (const [mode, fields] of Object.entries(VARIED)) {
    const works = Object.entries(fields).flatMap(([field, values]) => values.map((value) => ({ ...WORK, mode, [field]: value })));
    const wide = { ...WORK, mode, tp: 2, dp: 8, ep: 16, dtype: "fp8", zero: 3 };
    for (const work of [...works, { ...WORK, mode, recompute: "full", recompute_layers: 21 }, ...RECIPES.map((recipe) => ({ ...WORK, mode, dtype: /^w|int/.test(recipe) ? "bf16" : "fp8", recipe })), wide]) {
      for (const shape of [DENSE, SPARSE, undefined]) for (const [name, line] of launches("deepseek-v3", shape, work, 8192)) all.push({ name, line, work, shape });
    }
  }
  return all;
}

/** Flags with their values, and the words before them. */
function parsed(line) {
  const [start, ...rest] = line.replaceAll("\\\n", " ").replace(/^(#.*\n)*/, "").split(/\s--/);
  return [start.trim(), rest.map((text) => text.trim().split(/\s+/))];
}

test("every flag is one of the program, with a value that it takes", () => {
  const used = new Set();
  for (const { name, line } of lines()) {
    const flags = Object.assign({}, ...programs.filter((program) => program.lines.includes(name)).map((program) => program.flags));
    for (const [flag, ...values] of parsed(line)[1]) {
      const allowed = flags[flag];
      assert.ok(allowed !== undefined, `${name} has no --${flag}: ${line}`);
      used.add(`${name} ${flag}`);
      const program = values.filter((value) => value.endsWith(".py"));
      const rest = values.filter((value) => !program.includes(value));
      if (allowed === "flag") assert.deepEqual(rest, [], `--${flag} takes no value: ${line}`);
      else if (allowed === "number") assert.ok(rest.length === 1 && /^[1-9][0-9]*$/.test(rest[0]), `--${flag} ${rest}: ${line}`);
      else if (allowed === "text") assert.equal(rest.length, 1, `--${flag} ${rest}: ${line}`);
      else assert.ok(rest.length > 0 && rest.every((value) => allowed.includes(value)), `--${flag} ${rest}: ${line}`);
    }
  }
  // A flag that no line has is forgotten.
  const known = programs.flatMap((program) => program.lines.flatMap((name) => Object.keys(program.flags).map((flag) => `${name} ${flag}`)));
  assert.deepEqual([...used].sort(), known.sort());
});

test("a line has the flag of a recipe, or says that there is none", () => {
  const flags = { tensorwise: /fp8-recipe tensorwise/, fp8_block: /fp8-recipe blockwise/, mxfp8: /fp8-recipe mxfp8/, nvfp4: /fp4-format e2m1 \\\n  --fp4-recipe nvfp4/ };
  assert.ok(RECIPES.length >= 9, `${RECIPES}`);
  for (const { line, work } of lines().filter(({ work }) => work.recipe !== "tensorwise" || work.dtype === "fp8")) {
    const named = new RegExp(`^#.* ${work.recipe}, `, "m").test(line);
    if (work.mode === "train") {
      assert.ok(flags[work.recipe]?.test(line) ?? (named || work.dtype !== "fp8"), line);
      assert.equal(/--fp[48]-/.test(line), work.recipe in flags, line);
    } else {
      const loads = ["tensorwise", "rowwise"].includes(work.recipe);
      assert.equal(named, !loads, line);
      assert.equal(line.includes("--quantization fp8"), loads || work.recipe === "fp8_block", line);
    }
  }
});

test("Megatron-LM's own checks hold", () => {
  for (const { line, work, shape } of lines().filter(({ work }) => work.mode === "train")) {
    const flags = Object.fromEntries(parsed(line)[1].map(([flag, ...values]) => [flag, values]));
    assert.ok(flags["max-position-embeddings"], line);
    assert.equal(Boolean(flags["ckpt-format"]), Boolean(flags["use-megatron-fsdp"]), line);
    if (flags["recompute-granularity"]?.[0] === "selective" && !work.recompute_layers) assert.ok(!flags["recompute-method"], line);
    if (flags["recompute-modules"]?.includes("moe_act")) assert.ok(flags["moe-grouped-gemm"] && shape.experts, line);
    assert.equal(line.startsWith("CUDA_DEVICE_MAX_CONNECTIONS=1 "), (work.tp > 1 || work.cp > 1) && !flags["use-megatron-fsdp"], line);
  }
});
