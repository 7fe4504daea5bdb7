#!/usr/bin/env bash
# Load on `shapewise serve` over loopback: latency at a fixed rate, the most it answers, what happens beyond, memory.
#
# benches/load.sh PROGRAM [SECONDS] [MINUTES]
#
# PROGRAM is a release build of shapewise; SECONDS is how long each measurement takes (10), MINUTES how long memory is
# watched at the end (0: not at all). Needs hey (Debian: apt-get install hey).
set -euo pipefail

program=${1:?usage: benches/load.sh PROGRAM [SECONDS] [MINUTES]}
seconds=${2:-10}
minutes=${3:-0}

if ! command -v hey >/dev/null; then
    echo "hey is missing: apt-get install hey, or https://github.com/rakyll/hey" >&2
    exit 1
fi

work=$(mktemp -d)
"$program" serve --listen 127.0.0.1:0 2>"$work/said" &
server=$!
trap 'kill $server 2>/dev/null || true; wait $server 2>/dev/null || true; rm -rf "$work"' EXIT
until grep -qs listening "$work/said"; do
    kill -0 $server
    sleep 0.05
done
base=$(sed -n 's/^listening on //p' "$work/said")

gemm='{"m":8192,"n":4096,"k":4096}'
model='{"architecture":"llama-3-8b"}'
search='{"params":"6.7B"}'

memory() { awk '/^VmRSS/ { printf "%.0f MiB", $2 / 1024 }' "/proc/$server/status"; }
load() { cut -d' ' -f1 /proc/loadavg; }

# Answers a second, percentiles in milliseconds and the statuses of a report of hey.
digest() {
    awk -v name="$1" '
        /Requests\/sec/ { rate = $2 }
        /50% in/ { p50 = $3 * 1e3 } /99% in/ { p99 = $3 * 1e3 } /Slowest/ { worst = $2 * 1e3 }
        /^ *\[[0-9]+\]\t/ { statuses = statuses " " $1 " " $2 }
        /Error distribution/ { errors = " with errors" }
        # Of fewer than a hundred answers there is no 99th percentile.
        function ms(value) { return value ? sprintf("%7.1f ms", value) : "      -   " }
        END { printf "%-34s %8.1f/s  p50 %s  p99 %s  worst %s %s%s\n", name, rate, ms(p50), ms(p99), ms(worst), statuses, errors }'
}

# What the server has computed so far, in seconds.
computed() { awk -v ticks="$(getconf CLK_TCK)" '{ print ($14 + $15) / ticks }' "/proc/$server/stat"; }

# fixed NAME PATH BODY CONNECTIONS RATE: RATE requests a second in all.
fixed() {
    hey -z "${seconds}s" -c "$4" -q $(($5 / $4)) -m POST -T application/json -d "$3" "$base$2" | digest "$1"
}

# closed NAME PATH BODY CONNECTIONS: each connection asks again as soon as it is answered.
closed() {
    hey -z "${seconds}s" -t 0 -c "$4" -m POST -T application/json -d "$3" "$base$2" | digest "$1"
}

# The server's share of a core for each answer tells more than latencies where the machine has other work.
before=$(computed)
hey -n 20000 -c 4 -m POST -T application/json -d "$gemm" "$base/v1/predict/gemm" >/dev/null
between=$(computed)
hey -n 5000 -c 4 -m POST -T application/json -d "$model" "$base/v1/predict/model" >/dev/null
after=$(computed)
awk -v a="$before" -v b="$between" -v c="$after" \
    'BEGIN { printf "computing time of the server: %.0f us a gemm, %.0f us a model\n", (b - a) / 20e3 * 1e6, (c - b) / 5e3 * 1e6 }'

echo "$(nproc) cores, load average before: $(load), memory: $(memory)"
hey -z "${seconds}s" -c 8 -q 250 "$base/healthz" | digest "healthz, 2,000 a second"
fixed "predict gemm, 2,000 a second" /v1/predict/gemm "$gemm" 8 2000
fixed "predict model, 500 a second" /v1/predict/model "$model" 4 500
closed "search 6.7B, 2 at once" /v1/search "$search" 2
closed "predict gemm, 32 connections" /v1/predict/gemm "$gemm" 32
closed "predict model, 32 connections" /v1/predict/model "$model" 32

echo "beyond saturation: 64 connections search, 8 ask for a gemm 500 times a second in all"
closed "  search, 64 connections" /v1/search "$search" 64 >"$work/searches" &
searching=$!
sleep 0.5
fixed "  predict gemm meanwhile" /v1/predict/gemm "$gemm" 8 500
wait $searching
cat "$work/searches"
fixed "predict gemm afterwards" /v1/predict/gemm "$gemm" 8 2000
echo "load average after: $(load), memory: $(memory)"

if [ "$minutes" -gt 0 ]; then
    echo "memory over $minutes minutes of mixed load, each minute:"
    seconds=$((minutes * 60))
    fixed "  gemm" /v1/predict/gemm "$gemm" 4 400 >"$work/gemm" &
    fixed "  model" /v1/predict/model "$model" 2 50 >"$work/model" &
    fixed "  search" /v1/search '{"params":"350M"}' 1 1 >"$work/search" &
    fixed "  sweep" /v1/sweep/gemm '{"m":2304,"n":"64:8192:64","k":4096}' 1 5 >"$work/sweep" &
    for minute in $(seq 0 "$minutes"); do
        echo "  minute $minute: $(memory)"
        [ "$minute" = "$minutes" ] || sleep 60
    done
    sleep 5
    cat "$work"/{gemm,model,search,sweep}
fi
