#!/bin/bash
# Install what is missing, build every flavour, run every suite that belongs in CI, and count what ran.
#
# Usage: test.sh [--fast] [--suite NAME]...
#   --fast        the g++ build only: no second compiler, no sanitizers, no fuzzing
#   --suite NAME  only this suite: check, unit, contract, model, sim, func, verbs, fuzz or mutants (may be repeated)
#
# One line for each phase, with its time. The last line is "N passed, N failed, N skipped": GoogleTest programs count as
# their cases, other tests as one, a build that fails as one failure. A case that runs in two flavours counts twice.
# Exit status 0 only if something ran and nothing failed.
set -u -o pipefail
cd "$(dirname "$0")/.."

fast=no
wanted=()
while [ $# -gt 0 ]; do
  case $1 in
    --fast) fast=yes ;;
    --suite) wanted+=("${2:?--suite needs a name}"); shift ;;
    -h | --help) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
    *) echo "test.sh: unknown option '$1'; see --help" >&2; exit 2 ;;
  esac
  shift
done
for suite in "${wanted[@]}"; do
  case $suite in
    check | unit | contract | model | sim | func | verbs | fuzz | mutants) ;;
    *)
      echo "test.sh: unknown suite '$suite': use check, unit, contract, model, sim, func, verbs, fuzz or mutants" >&2
      exit 2
      ;;
  esac
done

logs=()            # what meson wrote, for count.py
failed_builds=0

wants() { [ ${#wanted[@]} -eq 0 ] || [[ " ${wanted[*]} " == *" $1 "* ]]; }

say() { printf '%-8s %-9s %-5s %4d s  %s\n' "$@"; }

# build FLAVOUR [TARGET...]
build() {
  local from=$SECONDS
  if usertools/build.sh "$@"; then
    say build "$1" ok $((SECONDS - from)) ''
  else
    failed_builds=$((failed_builds + 1))
    say build "$1" FAIL $((SECONDS - from)) ''
    return 1
  fi
}

# suite FLAVOUR NAME [ARGUMENT OF meson test...]
suite() {
  local flavour=$1 name=$2 from=$SECONDS log=build-$1/meson-logs/$2.json result=ok counted
  shift 2
  wants "$name" || return 0
  rm -f "$log" "${log%.json}.junit.xml"
  meson test -C "build-$flavour" --no-rebuild --suite "$name" --logbase "$name" --print-errorlogs "$@" \
    >"build-$flavour/$name.out" 2>&1 </dev/null || result=FAIL
  if [ ! -s "$log" ]; then
    say "$name" "$flavour" none $((SECONDS - from)) 'no tests'
    return 0
  fi
  counted=$(usertools/count.py "$log") || result=FAIL
  [ $result = ok ] || sed 's/^/    /' "build-$flavour/$name.out"
  say "$name" "$flavour" $result $((SECONDS - from)) "$counted"
  logs+=("$log")
}

# The names of the unit tests in which threads meet.
threaded_tests() {
  meson introspect build-gcc --tests 2>/dev/null | grep -oE '"name": "unit_(agent|engine)[a-z_]*"' | cut -d'"' -f4
}

run_gcc() {
  build gcc || return
  suite gcc check
  suite gcc unit
  suite gcc contract
  suite gcc model
  suite gcc sim --num-processes 2
  suite gcc func --num-processes 1
  suite gcc verbs
}

# The wires of libfabric, which is not built for the sanitizers, are left to the g++ flavour.
without_libfabric='-*/tcp_rxm*:*/net*:*/shm*'

# With all suites, everything is built: for clang's warnings, and to show that each header stands alone under it.
build_clang() {
  if [ ${#wanted[@]} -eq 0 ]; then
    build clang
  else
    local words=() name
    for name in unit contract fuzz; do wants $name && words+=(--suite $name); done
    [ ${#words[@]} -ne 0 ] && build clang "${words[@]}"
  fi
}

run_clang() {
  build_clang || return 0
  GTEST_FILTER=$without_libfabric suite clang unit --timeout-multiplier 4
  suite clang contract --timeout-multiplier 4 contract_loop contract_fault_loop contract_of_loop_alone \
    contract_of_fault_alone
  suite clang fuzz
}

run_tsan() {
  local threaded
  threaded=$(threaded_tests)
  if wants unit && [ -n "$threaded" ] && build tsan $threaded; then
    GTEST_FILTER=$without_libfabric suite tsan unit --timeout-multiplier 6 $threaded
  fi
}

# Asked for by name only: a build of its own, and many minutes.
run_mutants() {
  [[ " ${wanted[*]} " == *" mutants "* ]] || return 0
  build mutants test/sim/sluice-sim && suite mutants mutants
}

usertools/packages.sh || exit 1
export ASAN_OPTIONS=${ASAN_OPTIONS:-abort_on_error=1:detect_stack_use_after_return=0}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-halt_on_error=1:abort_on_error=1:print_stacktrace=1}
export TSAN_OPTIONS=${TSAN_OPTIONS:-halt_on_error=1:second_deadlock_stack=1:suppressions=$PWD/test/tsan.supp}
[ -f test/tsan.supp ] || TSAN_OPTIONS=${TSAN_OPTIONS%:suppressions=*}

if [ ${#wanted[@]} -ne 1 ] || { [ "${wanted[0]}" != fuzz ] && [ "${wanted[0]}" != mutants ]; }; then
  run_gcc
fi
run_mutants
if [ $fast = no ]; then
  run_clang
  run_tsan
fi
echo "${SECONDS} s in all"
usertools/count.py --failed $failed_builds "${logs[@]}"
