#!/bin/sh
# Second run, under ten minutes: the rows that a predictor of training steps learns from.
set -u
cd "$(dirname "$0")" || exit 1
. ./common.sh
[ -e "$RESULTS/training.parquet" ] || stop "there is no $RESULTS/training.parquet; allowed: run-1.sh first"
measured training 480 training || stop "no rows: $(tail -n 1 "$RESULTS/training.log")"
measured adam 20 adam
from_torch memory 50
brought
