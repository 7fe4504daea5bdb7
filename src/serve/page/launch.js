// What starts a workload where it really runs: flags of Megatron-LM, vLLM and SGLang. `tests/page/launch-flags.json` lists them.

/** `--flag value` of each that is set; a flag that is true has no value. */
const flags = (all) => Object.entries(all).filter(([, value]) => value).map(([flag, value]) => ` \\\n  --${flag}${value === true ? "" : ` ${value}`}`).join("");

const above = (least, value) => value > least && value;

/** Recomputation in the words of Megatron-LM. */
const RECOMPUTED = {
	full: { "recompute-granularity": "full", "recompute-method": "uniform", "recompute-num-layers": 1 },
	selective: { "recompute-granularity": "selective", "recompute-modules": "core_attn" },
	pointwise: { "recompute-granularity": "selective", "recompute-modules": "layernorm" },
	mlp: { "recompute-granularity": "selective", "recompute-modules": "mlp" },
	"latent-up": { "recompute-granularity": "selective", "recompute-modules": "mla_up_proj" },
};

const SHARDED = { 2: "optim_grads", 3: "optim_grads_params" };

/** Recipes of low precision in the words of Megatron-LM. */
const LOW_PRECISION = {
	tensorwise: { "fp8-format": "hybrid", "fp8-recipe": "tensorwise" },
	fp8_block: { "fp8-format": "e4m3", "fp8-recipe": "blockwise" },
	mxfp8: { "fp8-format": "e4m3", "fp8-recipe": "mxfp8" },
	nvfp4: { "fp4-format": "e2m1", "fp4-recipe": "nvfp4" },
};

/** Recipes that vLLM and SGLang quantize to while they load 16 bits. */
const WHILE_LOADING = ["tensorwise", "rowwise"];

/** The shape of a published model, if it is one. */
const shaped = (shape) => shape && {
	"num-layers": shape.layers, "hidden-size": shape.hidden, "ffn-hidden-size": shape.d_ff, "num-attention-heads": shape.heads, "kv-channels": shape.head_dim,
	"group-query-attention": shape.kv_heads !== shape.heads, "num-query-groups": shape.kv_heads !== shape.heads && shape.kv_heads,
	"multi-latent-attention": shape.kv_lora_rank > 0, "kv-lora-rank": shape.kv_lora_rank, swiglu: shape.mlp === "swiglu", "vocab-size": shape.vocab,
	"num-experts": shape.experts, "moe-router-topk": shape.top_k, "moe-ffn-hidden-size": shape.moe_d_ff, "moe-grouped-gemm": shape.experts > 0,
};

function training(work, shape) {
	const gpus = work.tp * work.cp * work.pp * work.dp;
	const node = Math.min(8, gpus);
	const sharded = work.zero > 1;
	// Before Blackwell, Megatron-LM starts with tensor or context parallelism only like this, and with its FSDP only without.
	const alone = !sharded && (work.tp > 1 || work.cp > 1) ? "CUDA_DEVICE_MAX_CONNECTIONS=1 " : "";
	const low = work.dtype === "fp8" && LOW_PRECISION[work.recipe];
	const without = low === undefined ? `# Megatron-LM has no flag for ${work.recipe}, so this trains in bf16:\n` : "";
	return `${without}${alone}torchrun --nnodes ${Math.ceil(gpus / node)} --nproc-per-node ${node} pretrain_gpt.py${flags({
		...shaped(shape),
		"seq-length": work.seq, "max-position-embeddings": work.seq, "micro-batch-size": work.batch, "global-batch-size": work.batch * work.microbatches * work.dp,
		"tensor-model-parallel-size": work.tp, "sequence-parallel": work.sequence_parallel, "context-parallel-size": above(1, work.cp),
		"pipeline-model-parallel-size": work.pp, "num-virtual-stages-per-pipeline-rank": above(1, work.vp),
		"expert-model-parallel-size": above(1, work.ep), "expert-tensor-parallel-size": above(0, work.expert_tp),
		"use-distributed-optimizer": work.zero === 1, "use-megatron-fsdp": sharded, "data-parallel-sharding-strategy": SHARDED[work.zero],
		"ckpt-format": sharded && "fsdp_dtensor", ...RECOMPUTED[work.recompute], ...(work.recompute === "pointwise" && shape?.experts && { "recompute-modules": "layernorm moe_act" }),
		...(work.recompute_layers && { "recompute-method": "block", "recompute-num-layers": work.recompute_layers }),
		"optimizer-cpu-offload": /optimizer|all/.test(work.offload), bf16: work.dtype !== "fp16", fp16: work.dtype === "fp16", ...low,
	})}`;
}

/** Pairs of a name and a command for a workload as an answer has it, of a model and its shape if it is published; `length` is the most tokens of a sequence. */
export function launches(model, shape, work, length) {
	if (work.mode === "train") return [["torchrun and Megatron-LM", training(work, shape)]];
	const id = / of ([\w-]+\/[^\s;]+)/.exec(shape?.source ?? "")?.[1] ?? model;
	// Experts over more ranks than share an attention: the attention is replicated inside one engine.
	const inside = Math.max(1, Math.floor(work.ep / work.tp));
	const engines = Math.max(1, Math.floor(work.dp / inside));
	// One micro-batch a stage is in flight.
	const requests = work.batch * (work.microbatches ?? 1);
	const loaded = WHILE_LOADING.includes(work.recipe);
	const stored = loaded ? "" : `# ${id} must be a checkpoint in ${work.recipe}, for no flag quantizes to it:\n`;
	const before = `${engines > 1 ? `# ${engines} times, each:\n` : ""}${stored}`;
	const fp8 = work.dtype === "fp8" && (loaded || work.recipe === "fp8_block") && "fp8";
	const cache = work.kv_cache_dtype === "fp8";
	return [
		["vLLM", `${before}vllm serve ${id}${flags({
			"tensor-parallel-size": work.tp, "pipeline-parallel-size": above(1, work.pp), "data-parallel-size": above(1, inside), "enable-expert-parallel": work.ep > 1,
			"max-num-seqs": requests, "max-model-len": length, quantization: fp8, "kv-cache-dtype": cache && "fp8",
		})}`],
		["SGLang", `${before}python -m sglang.launch_server --model-path ${id}${flags({
			"tp-size": work.tp * inside, "pp-size": above(1, work.pp), "ep-size": above(1, work.ep), "dp-size": above(1, inside), "enable-dp-attention": inside > 1,
			"max-running-requests": requests * inside, "context-length": length, quantization: fp8, "kv-cache-dtype": cache && "fp8_e4m3",
		})}`],
	];
}
