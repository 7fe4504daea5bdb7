#!/bin/sh
# Third run, under ten minutes: whole layers and sustained load by our own chains, whole models by
# PyTorch, and attention once more with other shapes.
set -u
cd "$(dirname "$0")" || exit 1
. ./common.sh
[ -e "$RESULTS/training.parquet" ] || stop "there is no $RESULTS/training.parquet; allowed: run-1.sh first"
measured layers 220 layers || say "no layers: $(tail -n 1 "$RESULTS/layers.log")"
from_torch layers 150
measured attention 120 attention --seed 1 || say "no attention: $(tail -n 1 "$RESULTS/attention.log")"
brought
