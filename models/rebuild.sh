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

# One native file with the rows of every stack that data/stacks.toml names.
import() { # importer, table
    local out="$rows/$2.parquet"
    [ -f "$out" ] || "$shapewise" import "$1" "$tables/$2.parquet" --recipes --out "$out"
}
import aiconfigurator aic_gemm_bf16
import aiconfigurator aic_gemm_fp8
import aiconfigurator aic_context_attention_bf16
import aiconfigurator aic_generation_attention_bf16
import cookbook cookbook_gemm_bmm

timings=("$rows"/aic_*.parquet)
for gpu in h200 h100 a100 b200 b300 gb200 gb300 l40s rtx-pro-6000 b60; do
    "$shapewise" train --data "${timings[@]}" --gpu "$gpu" --out "models/$gpu"
done
for gpu in a100-40gb v100 mi250x; do
    "$shapewise" train --data "$rows/cookbook_gemm_bmm.parquet" --gpu "$gpu" --out "models/$gpu"
done
"$shapewise" train --data "${timings[@]}" --across --out models/base
