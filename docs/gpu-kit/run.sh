#!/bin/sh
# Measures this GPU for N seconds and goes on where an earlier call ended: run.sh --seconds N [PART...]
exec "${PYTHON:-python3}" "$(dirname "$0")/run.py" "$@"
