#!/bin/sh
# Configure (once) and build one flavour in its own folder, quietly. Every flavour stands here and nowhere else.
# Usage: build.sh gcc|clang|asan|tsan|fuzz [TARGET...]    the folder is build-FLAVOUR; no target: everything
set -eu
cd "$(dirname "$0")/.."
flavour=${1:?which flavour: gcc, clang, asan, tsan or fuzz}
shift

sanitized='-Db_lundef=false -Dwerror=false -Doptimization=1 -Ddebug=true -Dperf=false'
case $flavour in
  gcc)   compiler=g++     options='' ;;                                   # what is tested, measured and shipped
  clang) compiler=clang++ options='-Doptimization=0 -Ddebug=true' ;;      # for its warnings
  asan)  compiler=g++     options="-Db_sanitize=address,undefined $sanitized" ;;
  tsan)  compiler=clang++ options="-Db_sanitize=thread $sanitized" ;;     # g++ refuses the fences of rte_ring under TSan
  fuzz)  compiler=clang++ options="-Db_sanitize=address,undefined -Dfuzz=true $sanitized" ;;
  *) echo "build.sh: unknown flavour '$flavour': use gcc, clang, asan, tsan or fuzz" >&2; exit 2 ;;
esac
folder=build-$flavour
log=$(mktemp)
trap 'rm -f "$log"' EXIT

if [ ! -f "$folder/build.ninja" ]; then
  rm -rf "$folder"
  if ! CXX=$compiler meson setup "$folder" $options >"$log" 2>&1 </dev/null; then
    cat "$log" >&2
    rm -rf "$folder"
    exit 1
  fi
  grep 'is skipped:' "$log" >&2 || true
fi
if ! ninja -C "$folder" "$@" >"$log" 2>&1 </dev/null; then
  grep -v '^\[' "$log" | tail -60 >&2
  echo "build.sh: the $flavour build failed; again by: ninja -C $folder $*" >&2
  exit 1
fi
