#!/bin/sh
# Before a commit, and in CI: the suite 'check' (rules of doc/style.md, headers alone, clang-format, clang-tidy).
set -eu
cd "$(dirname "$0")/.."
usertools/packages.sh
[ -f build-gcc/build.ninja ] || usertools/build.sh gcc sluice_base   # check needs only the compile commands
exec meson test -C build-gcc --no-rebuild --suite check --print-errorlogs "$@" </dev/null
