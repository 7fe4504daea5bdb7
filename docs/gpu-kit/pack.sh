#!/bin/sh
# Packs what a machine with an NVIDIA GPU needs into one archive: the program, three runs and the
# comparison with PyTorch. Plans are built in. That machine needs neither Rust nor a network.
#
#     docs/gpu-kit/pack.sh [OUT.tar.xz]
#
# Build on a machine whose glibc is not newer than that of the GPU's machine (`ldd --version`).
# SHAPEWISE names a program that is built already.
set -eu
kit=$(cd "$(dirname "$0")" && pwd)
out=${1:-shapewise-gpu-kit.tar.xz}
program=${SHAPEWISE:-}
if [ -z "$program" ]; then
    (cd "$kit/../.." && cargo build --release --locked)
    program=$kit/../../target/release/shapewise
fi
[ -x "$program" ] || { echo "pack.sh: $program is no program; allowed: an executable" >&2; exit 1; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/gpu-kit"
cp "$program" "$folder/gpu-kit/shapewise"
cp "$kit/common.sh" "$kit/run-1.sh" "$kit/run-2.sh" "$kit/run-3.sh" "$kit"/torch_*.py "$kit/compare.py" "$kit/runs.py" "$kit/laws.py" "$kit/rows.py" "$folder/gpu-kit/"
tar -C "$folder" -cJf "$out" gpu-kit
echo "$out: $(wc -c <"$out") bytes; unpack it on the machine of the GPU and start gpu-kit/run-1.sh"
