#!/bin/sh
# Show the main job: two nodes on this host move blocks both ways through the two-sided protocol, every byte verified,
# and then exchange notifies. Installs and builds first what is missing; says nothing of it when nothing is.
# Usage: demo.sh [PROVIDER]    a libfabric provider: 'tcp;ofi_rxm', shm, net ...; the default is the bench's
set -eu
cd "$(dirname "$0")/.."
usertools/packages.sh
[ -f build-gcc/build.ninja ] || echo 'Building (a few minutes, once) ...'
usertools/build.sh gcc sluice-bench
bench=$(find build-gcc/app -type f -name sluice-bench -perm -u+x | head -n 1)

run() {
  echo
  echo "\$ sluice-bench $*"
  "$bench" "$@" </dev/null
}
if [ $# -gt 0 ]; then
  provider=$1
  set -- --provider "$provider"
fi
run --self --transport fabric_twosided "$@" --op both --block 64k,1M --seconds 3
run --self --transport fabric_twosided "$@" --mode notify --seconds 2
