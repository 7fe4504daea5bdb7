#!/usr/bin/env bash
# Trains every shipped model again from the public tables in the folder $1; see models/README.md.
# Finished nets are kept when it is killed: start it again and it goes on.
set -euo pipefail
tables=$(cd "${1:?usage: models/rebuild.sh FOLDER_WITH_THE_TABLES}" && pwd)
cd "$(dirname "$0")/.."
cargo build --release
shapewise=target/release/shapewise
rows=target/rows
mkdir -p "$rows"

# The stacks that data/stacks.toml names, as their own tables or as auxiliary ones.
stacks=("trtllm 1.3.0rc20" "trtllm 1.3.0rc10" "trtllm 1.2.0rc5" "trtllm 1.0.0" "sglang 0.5.9" "sglang 0.5.10"
    "sglang 0.5.14" "sglang 0.5.14 fp8_block" "sglang 0.5.14 flashinfer_trtllm"
    "sglang 0.5.14 fp8_block flashinfer_trtllm" "vllm 0.14.0" "vllm 0.20.0" "vllm 0.22.0"
    "vllm 0.24.0" "vllm 0.24.0 fp8_block")
for table in aic_gemm_{bf16,fp8,fp4_int} aic_{context,generation}_attention_{bf16,fp8} aic_moe aic_moe_more aic_mla \
    aic_quantize; do
    [ -f "$rows/$table.parquet" ] ||
        "$shapewise" import aiconfigurator "$tables/$table.parquet" --stack "${stacks[@]}" --out "$rows/$table.parquet"
done
encoder=aic_encoder_attention
[ -f "$rows/$encoder.parquet" ] ||
    "$shapewise" import aiconfigurator "$tables/$encoder.parquet" --stack "sglang 0.5.14" "vllm 0.24.0" \
        --out "$rows/$encoder.parquet"
sparse=aic_sparse_attention
[ -f "$rows/$sparse.parquet" ] ||
    "$shapewise" import aiconfigurator "$tables/$sparse.parquet" --stack "sglang 0.5.14" "vllm 0.24.0" \
        "trtllm 1.3.0rc20" --gpu h200 b200 --out "$rows/$sparse.parquet"
linear=aic_linear_attention
[ -f "$rows/$linear.parquet" ] ||
    "$shapewise" import aiconfigurator "$tables/$linear.parquet" --stack "vllm 0.24.0" "sglang 0.5.16" \
        --out "$rows/$linear.parquet"
[ -f "$rows/cookbook.parquet" ] ||
    "$shapewise" import cookbook "$tables/cookbook_gemm_bmm.parquet" --out "$rows/cookbook.parquet"
[ -f "$rows/aiter.parquet" ] ||
    "$shapewise" import aiter "$tables"/aiter_amd_{gemm,moe}.parquet --gpu mi355x mi300x --out "$rows/aiter.parquet"

# Collectives: NCCL's own tables, those of serving engines, XLA's for domains of more than four GPUs, vidur's of sends.
collectives="$rows/collectives"
mkdir -p "$collectives"
[ -f "$collectives/nccl.parquet" ] ||
    "$shapewise" import aiconfigurator "$tables/aic_comm.parquet" --stack "nccl 2.29.2" "nccl 2.27.3" \
        --out "$collectives/nccl.parquet"
engines=("vllm 0.24.0" "vllm 0.22.0" "vllm 0.14.0" "sglang 0.5.14" "sglang 0.5.10" "trtllm 1.3.0rc20" "trtllm 1.0.0"
    "sglang 0.5.12 deepep ll" "trtllm 1.3.0rc10 NVLinkOneSided alltoall_dispatch"
    "trtllm 1.3.0rc10 NVLinkOneSided alltoall_combine")
[ -f "$collectives/engines.parquet" ] ||
    "$shapewise" import aiconfigurator "$tables"/aic_{comm,all_to_all}.parquet --stack "${engines[@]}" \
        --out "$collectives/engines.parquet"
[ -f "$collectives/xla.parquet" ] ||
    "$shapewise" import xla "$tables/xla_collectives.parquet" --gpu gb200 gb300 --out "$collectives/xla.parquet"
[ -f "$collectives/vidur.parquet" ] ||
    "$shapewise" import vidur "$tables/vidur_pipeweave_collectives.parquet" --stack vidur \
        --out "$collectives/vidur.parquet"

# The folder of a model.
folder() {
    local models=models/others
    [ -d "models/hopper/$1" ] && models=models/hopper
    echo "$models/$1"
}

timings=("$rows"/aic_*.parquet)
for gpu in h200 h100 a100 b200 b300 gb200 gb300 l40s rtx-pro-6000 b60; do
    # What our own harness measured there, which answers before the tables of others.
    own=()
    # Kernels of memory and of single tokens are left out: nobody runs ours, nor cuDNN's against a cache.
    [ -d "data/measurements/$gpu" ] && own=(data/measurements/h*/gemm-*.parquet "data/measurements/$gpu/attention-bf16.parquet")
    [ -f "data/measurements/$gpu/linear.parquet" ] && own+=("data/measurements/$gpu/linear.parquet")
    "$shapewise" train --force --data "${timings[@]}" "${own[@]}" --gpu "$gpu" --out "$(folder "$gpu")"
done
for gpu in a100-40gb v100 mi250x; do
    "$shapewise" train --force --data "$rows/cookbook.parquet" --gpu "$gpu" --out "$(folder "$gpu")"
done
for gpu in mi355x mi300x; do
    "$shapewise" train --force --data "$rows/aiter.parquet" --gpu "$gpu" --out "$(folder "$gpu")"
done
"$shapewise" train --force --data "${timings[@]}" --across --out models/others/base
"$shapewise" train --force --data "$collectives"/*.parquet --across --out models/others/collectives

# The constants of frameworks, from what the programs just built predict; fsdp1, ddp and maxtext keep their priors,
# pytorch-compiled the constants of pytorch. What inherits is fitted after what it inherits from.
fit() {
    local framework=data/frameworks/$1.toml
    "$shapewise" calibrate --refit --framework "$framework" --out "$rows/$1.toml" --force --runs "${@:2}"
    mv "$rows/$1.toml" "$framework"
}
cargo build --release
steps=$tables/training_steps.parquet
fit pytorch data/measurements/h{200,100}/pytorch-h*.csv
fit megatron "$steps"
fit fsdp2 "$steps"
fit llm-foundry-ampere "$tables/llmfoundry_training_throughput.parquet"
fit llm-foundry-hopper "$tables/llmfoundry_training_throughput.parquet"
fit megatron-deepspeed "$tables/vtrain_training_iterations.parquet"
fit servers "$tables/inference_runs.parquet" "$tables/pipeweave_e2e_inference.parquet"
