#!/bin/sh
# Configure (once) and build one flavour in its own folder, quietly. Every flavour stands here and nowhere else.
# Usage: build.sh gcc|clang|tsan|mutants [--suite NAME]... [TARGET]...
# The folder is build-FLAVOUR. --suite builds what the tests of a suite run; without suites and targets, everything.
set -eu
cd "$(dirname "$0")/.."
flavour=${1:?which flavour: gcc, clang, tsan or mutants}
shift

# Lines in backtraces are all that is wanted of debug information; more of it is half of a build's time.
lines='-Ddebug=false -Dcpp_args=-g1'
# Of the tests; lib/ and drivers/ get more (lib/meson.build). Under clang a sanitizer's symbols stay undefined.
sanitized="-Db_lundef=false -Doptimization=0 $lines"
case $flavour in
  gcc)   compiler=g++     options=$lines ;;                               # what is tested, measured and shipped
  clang) compiler=clang++ options="-Db_sanitize=address,undefined -Dfuzz=true $sanitized" ;;
  # g++ under TSan refuses the fences of rte_ring.
  tsan)  compiler=clang++ options="-Db_sanitize=thread -Dperf=false $sanitized" ;;
  mutants) compiler=g++   options="-Dmutants=true -Dperf=false $lines" ;;  # deliberate faults, for their suite
  *) echo "build.sh: unknown flavour '$flavour': use gcc, clang, tsan or mutants" >&2; exit 2 ;;
esac
folder=build-$flavour
# The targets that the tests of suite $1 depend on; ids are HASH@@NAME@TYPE.
programs_of() {
  meson introspect "$folder" --tests | python3 -c '
import json, sys
tests = [test for test in json.load(sys.stdin) if any(s.endswith(":" + sys.argv[1]) for s in test["suite"])]
names = sorted({target.split("@@")[-1].split("@")[0] for test in tests for target in test["depends"]})
print(" ".join(names))' "$1"
}
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
targets=''
while [ $# -gt 0 ]; do
  case $1 in
    --suite) targets="$targets $(programs_of "$2")"; shift ;;
    *) targets="$targets $1" ;;
  esac
  shift
done
if ! meson compile -C "$folder" $targets >"$log" 2>&1 </dev/null; then
  grep -v '^\[' "$log" | tail -60 >&2
  echo "build.sh: the $flavour build failed; again by: meson compile -C $folder$targets" >&2
  exit 1
fi
