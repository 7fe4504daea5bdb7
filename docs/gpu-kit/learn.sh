#!/bin/sh
# Makes a model, constants of frameworks and judged tables of what run.sh measured on one GPU:
#
#     learn.sh RESULTS [--out DIR] [OPTION OF `shapewise train`...]
#
# RESULTS holds timing tables (*.parquet), steps (*.jsonl of steps.py, or pytorch*.csv) and linear.jsonl; what is absent
# is left out. ALSO is a folder with tables of the same GPU to learn beside them, SHAPEWISE the program, PYTHON the
# interpreter. An interrupted training goes on.
set -eu
kit=$(cd "$(dirname "$0")" && pwd)
shapewise=${SHAPEWISE:-shapewise}
python=${PYTHON:-python3}
results=${1:?usage: learn.sh RESULTS [--out DIR] [OPTION OF shapewise train...]}
shift
out=$results/learned
if [ "${1:-}" = --out ]; then out=${2:?--out needs a folder} && shift 2; fi
mkdir -p "$out"
say() { printf '\n== %s\n' "$*"; }
# shown FILE COMMAND...: what it prints is in the file, too.
shown() {
    to=$1
    shift
    "$@" >"$to" && cat "$to"
}
there() { for file; do [ -s "$file" ] && printf '%s\n' "$file"; done; }

# A second run of a plan (repeat) judges and is not learned; choices and wgpu's kernels are tables of their own.
tables=$(there "$results"/*.parquet ${ALSO:+"$ALSO"/*.parquet} | grep -vE '/(choices|wgpu|repeat|.*\.steps|.*\.loads)\.parquet$') || true
if [ -s "$results/linear.jsonl" ] && grep -q '"environment"' "$results/linear.jsonl"; then
    first=$(there "$results/gaps.out" "$results"/*.out | head -n 1)
    gpu=$("$python" -c 'import json, sys; print(json.load(open(sys.argv[1]))["gpu"])' "$first")
    "$python" "$kit/tables.py" rows "$results/linear.jsonl" "$gpu" >"$out/linear.csv"
    tables="$tables
$out/linear.csv"
fi
[ -n "$tables" ] || { echo "learn.sh: $results has no timing table; allowed: the results of run.sh" >&2; exit 1; }
# What a library says of shapes that were not timed labels them by the kernels of those that were.
if [ -s "$results/choices.parquet" ] && [ -s "$results/gaps.parquet" ]; then set -- --choices "$results/choices.parquet" "$@"; fi
IFS='
'
# shellcheck disable=SC2086 # one path a line
{
    say "model of $(echo $tables | wc -w) tables"
    shown "$out/trained.txt" "$shapewise" train --data $tables --out "$out/model" --force "$@"
}
for table in $(there "$results/repeat.parquet"); do
    say "$table, which was not learned"
    shown "$out/repeat.txt" "$shapewise" evaluate --data "$table" --model "$out/model"
done

# runs NAME FILE...: steps as runs, judged by the shipped constants and by ones that are fitted, each configuration kept out.
runs() {
    name=$1 framework=$2
    shift 2
    [ $# -gt 0 ] || return 0
    case $1 in
    *.csv) cat "$@" >"$out/$name.csv" ;;
    *) "$python" "$kit/tables.py" runs "$@" >"$out/$name.csv" ;;
    esac
    say "steps of $name by the new model, constants as shipped"
    shown "$out/$name.txt" "$shapewise" evaluate --runs "$out/$name.csv" --framework "$framework" --model "$out/model" \
        --csv "$out/$name-judged.csv" --force
    say "constants of $name fitted to them"
    shown "$out/$name-fit.txt" "$shapewise" calibrate --runs "$out/$name.csv" --framework "$framework" --model "$out/model" \
        --out "$out/$name.toml" --force || echo "learn.sh: too few steps of $name to fit constants to"
}
# shellcheck disable=SC2046 # one path a line
{
    runs pytorch pytorch $(there "$results"/pytorch*.csv "$results"/steps-*.jsonl "$results/recompute.jsonl")
    runs compiled pytorch-compiled $(there "$results/compiled.jsonl" "$results/fp8.jsonl")
    runs transformers pytorch $(there "$results/transformers.jsonl")
}
for list in steps-2.7b steps-1.3b steps-gated steps-again; do
    [ -s "$results/$list.jsonl" ] || continue
    say "$list"
    judged=$kit/$list.jsonl
    gpu=$("$python" -c 'import json, sys; print(json.loads(open(sys.argv[1]).readline())["gpu"])' "$results/$list.jsonl")
    if "$python" "$kit/judge.py" "$judged" "$results/$list.jsonl" | grep 'predictions for no GPU' >/dev/null; then
        # None was committed for this GPU: the new model, which saw operators and no step, predicts.
        "$python" "$kit/lists.py" predict "$judged" --gpu "$gpu" --model "$out/model" --program "$shapewise" >"$out/$list.jsonl"
        judged=$out/$list.jsonl
    fi
    shown "$out/$list.txt" "$python" "$kit/judge.py" "$judged" "$results/$list.jsonl"
done
