#!/usr/bin/env bash
# Builds the wheel as `cargo test` builds the library, installs it into a fresh environment and tests it there.
# $1 is cargo's target folder.
set -euo pipefail
cd "$(dirname "$0")/../.."
target=$(mkdir -p "$1" && cd "$1" && pwd)
environment="$target/python"

rm -rf "$environment" "$target/wheels"
python3 -m venv "$environment"
pip() { "$environment/bin/pip" --quiet --disable-pip-version-check "$@"; }
pip install 'maturin==1.16.0' 'matplotlib>=3' 'mypy==2.*' 'numpy>=2' 'pandas>=2' 'pytest>=8' 'transformers>=5'
# Ray has wheels for some versions of Python only; its test skips where there is none.
pip install --only-binary :all: ray || echo "no ray for this Python"

"$environment/bin/maturin" build --quiet --manifest-path python/Cargo.toml --target-dir "$target" \
    --interpreter "$environment/bin/python" --out "$target/wheels"
pip install --no-index "$target"/wheels/shapewise-*.whl
"$environment/bin/mypy" --strict python/shapewise/__init__.pyi
# Outside the checkout, so that what is tested is what was installed.
cd "$environment"
bin/pytest --quiet -rs -p no:cacheprovider --rootdir "$environment" "$OLDPWD/python/tests"
