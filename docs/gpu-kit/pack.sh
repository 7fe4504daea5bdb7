#!/bin/sh
# Packs what a machine with an NVIDIA GPU needs into one archive: the program with CUDA and wgpu, the Vulkan loader, and
# the scripts and lists of this folder. That machine needs neither Rust nor a network.
#
#     docs/gpu-kit/pack.sh [OUT.tar.xz]
#
# SHAPEWISE names a program that is built already, VULKAN the libvulkan.so.1 to carry, MOST the most bytes of the archive, GLIBC the newest
# version of the C library that it may need.
set -eu
kit=$(cd "$(dirname "$0")" && pwd)
out=${1:-shapewise-gpu-kit.tar.xz}
program=${SHAPEWISE:-}
# Bytes of the archive, as much as a short visit to a machine has time to copy.
most=${MOST:-35000000}
glibc=${GLIBC:-2.34}
if [ -z "$program" ]; then
    (cd "$kit/../.." && cargo build --release --locked --features wgpu)
    program=${CARGO_TARGET_DIR:-$kit/../../target}/release/shapewise
fi
[ -x "$program" ] || { echo "pack.sh: $program is no program; allowed: an executable" >&2; exit 1; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder/gpu-kit/lib"
cp "$program" "$folder/gpu-kit/shapewise"
strip "$folder/gpu-kit/shapewise" 2>/dev/null || true
cp "$kit/run.sh" "$kit"/*.py "$kit"/*.jsonl "$folder/gpu-kit/"
vulkan=${VULKAN:-$(ldconfig -p | sed -n 's/.*libvulkan\.so\.1 .*x86-64.* => //p' | head -n 1)}
if [ -n "$vulkan" ]; then cp -L "$vulkan" "$folder/gpu-kit/lib/libvulkan.so.1"; else echo "pack.sh: no libvulkan.so.1 here, so wgpu needs one there"; fi
# The newest versions that any file asks of the C library there.
needed=$(objdump -T "$folder/gpu-kit/shapewise" "$folder"/gpu-kit/lib/* 2>/dev/null | sed -n 's/.*GLIBC_\([0-9.]*\).*/\1/p' | sort -Vu | tail -n 1)
echo "needs glibc ${needed:-?} of at most $glibc"
[ "$(printf '%s\n' "$needed" "$glibc" | sort -V | tail -n 1)" = "$glibc" ] || { echo "pack.sh: $program needs glibc $needed; allowed: $glibc or older, as of a program built on an older system or by \`cargo zigbuild --target x86_64-unknown-linux-gnu.$glibc\`" >&2; exit 1; }
tar -C "$folder" -c gpu-kit | xz -9e -T1 >"$folder/kit.tar.xz"
size=$(wc -c <"$folder/kit.tar.xz")
echo "program $(wc -c <"$folder/gpu-kit/shapewise") bytes, packed $size of at most $most"
[ "$size" -le "$most" ] || { echo "pack.sh: $out is not written: the kit has $size bytes; allowed: at most $most" >&2; exit 1; }
cp "$folder/kit.tar.xz" "$out"
echo "$out: unpack it on the machine of the GPU and start gpu-kit/run.sh --seconds 560"
