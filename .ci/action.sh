#!/usr/bin/env bash
# What action.yml runs: fetches the program of a release from $RELEASE, compares its checksum, checks the models.
set -euo pipefail
folder=$RUNNER_TEMP/shapewise-release
mkdir -p "$folder"
cd "$folder"
fetch() { curl --fail --silent --show-error --location --output "$1" "$RELEASE/$1"; }
fetch SHA256SUMS
archive=$(grep -o 'shapewise-[^ ]*-x86_64-linux-gnu\.tar\.gz$' SHA256SUMS)
fetch "$archive"
sha256sum --check --quiet --ignore-missing SHA256SUMS
tar -xzf "$archive"
cd "$OLDPWD"
# Both lists are words between spaces. The findings are written first, as a failed check ends the step.
read -ra files <<<"$FILES"
read -ra options <<<"$OPTIONS"
check=("$folder/shapewise/shapewise" check "${files[@]}" --gpu "$GPU" "${options[@]}")
"${check[@]}" --format sarif >"$SARIF"
"${check[@]}" --fail-above "$FAIL_ABOVE"
