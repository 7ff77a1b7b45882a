#!/bin/sh
# The one list of Debian packages: to build, to run, to test. Installs what is missing; says nothing when nothing is.
# Usage: packages.sh [--list]
set -eu

packages='
meson ninja-build g++ pkg-config python3 git
libdpdk-dev libnuma-dev libhwloc-dev libfabric-dev libfabric1
nlohmann-json3-dev libcli11-dev libtomlplusplus-dev libspdlog-dev libssl-dev libgtest-dev
clang libclang-rt-dev clang-format clang-tidy
valgrind strace iproute2 spin
libibverbs-dev ibverbs-providers perftest
qemu-system-x86 busybox-static kmod cpio xz-utils
'
if [ "${1:-}" = --list ]; then
  echo $packages
  exit 0
fi

if ! command -v dpkg-query >/dev/null; then
  echo "packages.sh: this system has no dpkg; install by hand the equivalents of:" $packages >&2
  exit 1
fi
missing=''
for package in $packages; do
  case $(dpkg-query -W -f '${Status}' "$package" 2>/dev/null || true) in
    *' installed') ;;
    *) missing="$missing $package" ;;
  esac
done
[ -n "$missing" ] || exit 0

root=''
if [ "$(id -u)" != 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "packages.sh: missing:$missing; installing needs root or sudo: apt-get install$missing" >&2
    exit 1
  fi
  root='sudo'
fi
echo "Installing:$missing"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
install() {
  $root env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends $missing
}
if ! install >"$log" 2>&1 </dev/null; then   # the lists may be old, or not there at all
  if ! { $root apt-get update -q && install; } >"$log" 2>&1 </dev/null; then
    cat "$log" >&2
    echo "packages.sh: apt-get could not install:$missing" >&2
    exit 1
  fi
fi
