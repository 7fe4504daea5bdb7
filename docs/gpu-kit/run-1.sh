#!/bin/sh
# First run, under eight minutes: what is there, is it right, does it agree with PyTorch, how fast
# are rows made. Nothing later is worth its time unless this one ends well.
set -u
cd "$(dirname "$0")" || exit 1
. ./common.sh
{
    date -u
    nvidia-smi
    nvidia-smi -q -d CLOCK,POWER,PERFORMANCE
    ldd --version | head -n 1
    ldconfig -p | grep -E 'cublasLt|nvrtc|cudnn|libcuda'
    env | grep -iE 'cuda|LD_LIB'
    nproc
} >"$RESULTS/environment.txt" 2>&1
./shapewise --version || stop "the program does not start; is glibc older than where it was built?"
if [ "$DEVICE" = cuda:0 ]; then
    say "probe"
    limited 110 ./shapewise measure --device "$DEVICE" --probe --format json >"$RESULTS/probe.json" 2>"$RESULTS/probe.log" ||
        say "the probe found something wrong; rows of that path are left out, see probe.json"
    [ -s "$RESULTS/probe.json" ] || stop "no device answers: $(tail -n 1 "$RESULTS/probe.log")"
fi
from_torch operators 140
from_torch sustained 50
measured training 100 training || stop "no rows: $(tail -n 1 "$RESULTS/training.log")"
brought
say "go on with run-2.sh if the probe is right, the clock is told and over 2,000 rows came"
