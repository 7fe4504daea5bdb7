# shellcheck shell=sh
# What the three runs share; sourced by them, in the folder of the kit.
#
# DEVICE is the device of `shapewise measure`, RESULTS the folder for everything that is written.
DEVICE=${DEVICE:-cuda:0}
RESULTS=${RESULTS:-results}
mkdir -p "$RESULTS"
export PYTHONUNBUFFERED=1

# The libraries of CUDA that come with PyTorch are found beside the interpreter that imports it.
PYTHON=$(command -v python3 || true)
TORCH=
if [ -n "$PYTHON" ]; then
    VIRTUAL_ENV=$("$PYTHON" -c 'import sys; print(sys.prefix)')
    export VIRTUAL_ENV
    if "$PYTHON" -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null; then TORCH=1; fi
fi

say() { echo "== $*"; }

stop() {
    echo "== STOP: $*" >&2
    exit 1
}

# limited SECONDS COMMAND...: an interrupt ends `measure` after the case in flight, with its file.
limited() {
    seconds=$1
    shift
    timeout --signal=INT --kill-after=20 "$seconds" "$@"
}

# measured PLAN BUDGET_S FILE [OPTION...]: one plan into one file, continued where there is one.
measured() {
    plan=$1 budget=$2 file=$3
    shift 3
    if [ -e "$RESULTS/$file.parquet" ] || [ -e "$RESULTS/$file.parquet.journal" ]; then set -- "$@" --resume; fi
    say "measure --plan $plan, $budget s"
    # Soak, checks and the last row may take longer than the budget alone.
    limited $((budget + 30)) ./shapewise measure --device "$DEVICE" --plan "$plan" --budget "${budget}s" \
        --out "$RESULTS/$file.parquet" --format json "$@" >"$RESULTS/$file.json" 2>>"$RESULTS/$file.log"
    code=$?
    tail -n 3 "$RESULTS/$file.log"
    # A path with wrong results costs its rows and ends with 1, the rows of the others are there.
    [ $code -eq 0 ] || say "measure ended with $code, see $RESULTS/$file.log"
    [ -e "$RESULTS/$file.parquet" ]
}

# from_torch PART SECONDS: what PyTorch reaches, where it is installed.
from_torch() {
    if [ -z "$TORCH" ]; then
        say "no PyTorch with CUDA: $1 is left out"
        return 0
    fi
    say "PyTorch, $1, $2 s"
    limited $(($2 + 20)) "$PYTHON" torch_truth.py "$RESULTS/torch.json" "$1" --seconds "$2" >>"$RESULTS/torch.log" 2>&1 ||
        say "PyTorch ended with $?, see $RESULTS/torch.log"
}

brought() {
    say "$RESULTS holds $(du -sk "$RESULTS" | cut -f1) KiB:"
    ls -l "$RESULTS"
}
