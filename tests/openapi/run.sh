#!/usr/bin/env bash
# Holds the running service against its own document with schemathesis: `tests/openapi/run.sh PROGRAM`.
#
# PROGRAM is a built shapewise. Python's venv module is needed; schemathesis is installed once, into the folder that
# SHAPEWISE_OPENAPI_TOOLS names (else target/openapi). Takes about a minute and a half; findings are a failure.
set -euo pipefail

program=$(realpath "${1:?usage: tests/openapi/run.sh PROGRAM}")
here=$(cd "$(dirname "$0")" && pwd)
tools=${SHAPEWISE_OPENAPI_TOOLS:-$here/../../target/openapi}
version=4.32.5

if [ "$("$tools/bin/schemathesis" --version 2>/dev/null)" != "schemathesis, version $version" ]; then
    python3 -m venv "$tools"
    "$tools/bin/pip" install --quiet "schemathesis==$version"
fi

work=$(mktemp -d)
"$program" serve --listen 127.0.0.1:0 2>"$work/said" &
server=$!
trap 'kill $server 2>/dev/null || true; wait $server 2>/dev/null || true; rm -rf "$work"' EXIT
until grep -q listening "$work/said"; do
    kill -0 $server
    sleep 0.05
done
base=$(sed -n 's/^listening on //p' "$work/said")

cd "$work"
"$tools/bin/python" "$here/answers.py" "$base"
"$tools/bin/schemathesis" --config-file "$here/schemathesis.toml" run "$base/openapi.json" \
    --seed 1 --max-time "${SHAPEWISE_OPENAPI_SECONDS:-75}" --no-color
# A bug is said there; nothing else may be.
if grep -v '^listening on ' "$work/said"; then
    exit 1
fi
