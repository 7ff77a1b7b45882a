#!/bin/bash
# Run a command in an emulated machine that has RDMA devices: QEMU, Debian's kernel, this file system, soft-RoCE.
#
# Usage: sluice-vm.sh [-m MB] [-c CPUS] [-t SECONDS] [-w DIR]... [-e NAME[=VALUE]]... [-k] COMMAND [ARGUMENT]...
#   -m, -c    memory (2048) and processors (2) of the machine
#   -t        wall-clock limit (600); beyond it the status is 124
#   -w DIR    can be written, and the host sees it. Everything else is read-only below a layer that is thrown away
#   -e NAME   passes an environment variable, besides PATH, HOME, LANG and LD_LIBRARY_PATH
#   -k        prints the kernel's console at the end
# Output of the command comes on stdout; the status is the command's, or 125 with one line when there is no machine.
#
# Two rails, each a veth pair whose ends talk over the wire although they are in one machine:
#   rail a   rxe_a0 10.0.1.1 <-> rxe_a1 10.0.1.2        rail b   rxe_b0 10.0.2.1 <-> rxe_b1 10.0.2.2
# Kernel and initramfs are made once (100 MB of download) in $SLUICE_VM_CACHE, by default ~/.cache/sluice-vm.
# Everything is 20 to 50 times slower than here: be patient, move little data. SLUICE_VM_ACCEL=kvm uses /dev/kvm, which
# is not the default since it fails inside some virtual machines. Files of the host must not change while the machine
# runs, since it caches them.
set -u -o pipefail
self=$0
cache=${SLUICE_VM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/sluice-vm}
memory=2048 cpus=2 limit=600 console=no
shares=() names=(PATH HOME LANG LD_LIBRARY_PATH)
die() { echo "sluice-vm.sh: $*" >&2; exit 125; }

while getopts m:c:t:w:e:k option; do
  case $option in
    m) memory=$OPTARG ;;
    c) cpus=$OPTARG ;;
    t) limit=$OPTARG ;;
    w) shares+=("$(realpath -e "$OPTARG")") || die "no folder $OPTARG" ;;
    e) names+=("$OPTARG") ;;
    k) console=yes ;;
    *) exit 125 ;;
  esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || die "what shall it run? See the head of this script"

# ---- what the host must have
need() { command -v "$1" >/dev/null || [ -x "/sbin/$1" ] || die "$1 is missing: install the package $2"; }
need qemu-system-x86_64 qemu-system-x86
need busybox busybox-static
need modprobe kmod
need cpio cpio
need xz xz-utils
need rdma iproute2
PATH=$PATH:/usr/sbin:/sbin

# ---- once: the kernel and its modules, unpacked and not installed
modules='virtio_pci virtio_console 9pnet_virtio 9p overlay veth sch_netem ib_uverbs rdma_ucm
         crc32_generic crc32c_generic crc32c_intel libcrc32c rdma_rxe'

make_kernel() {
  local package unpacked at version module
  package=$(apt-cache depends linux-image-amd64 2>/dev/null | awk '/Depends: linux-image/ {print $2; exit}')
  [ -n "$package" ] || die "apt knows no kernel package (linux-image-amd64): run apt-get update"
  unpacked=$(mktemp -d "$cache/unpack.XXXXXX") || die "cannot write in $cache"
  (cd "$unpacked" && apt-get -qq download "$package" >apt.log 2>&1 && dpkg-deb -x "$package"*.deb .) ||
    { rm -rf "$unpacked"; die "the kernel package $package could not be fetched (apt-get download)"; }
  # Booted as the ELF file that is packed inside: to unpack it under emulation takes longer than all the rest.
  at=$(LC_ALL=C grep -abo $'\xfd7zXZ' "$unpacked"/boot/vmlinuz-* | head -n 1 | cut -d: -f1)
  tail -c +$((${at:-0} + 1)) "$unpacked"/boot/vmlinuz-* | xz -dc >"$cache/vmlinux.new" 2>/dev/null
  [ -s "$cache/vmlinux.new" ] || { rm -rf "$unpacked"; die "no xz-packed kernel in $package"; }
  version=$(basename "$unpacked"/lib/modules/*)
  depmod -b "$unpacked" "$version"
  rm -rf "$cache/modules"
  mkdir "$cache/modules"
  for module in $modules; do
    modprobe -d "$unpacked" -S "$version" --show-depends "$module" | awk '$1 == "insmod" {print $2}'
  done | awk '!seen[$0]++' | while read -r module; do
    cp "$module" "$cache/modules/" && basename "$module"
  done >"$cache/modules/order"
  rm -rf "$unpacked"
  mv "$cache/vmlinux.new" "$cache/vmlinux"
}

make_initramfs() {
  local top=$cache/initramfs.d
  rm -rf "$top"
  mkdir -p "$top"/{bin,modules,proc,sys,dev,low,high,new}
  cp "$(command -v busybox)" "$top/bin/busybox"
  cp "$cache"/modules/* "$top/modules/"
  cat >"$top/init" <<'INIT'
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
while read -r module; do insmod /modules/$module || echo "init: $module does not load"; done </modules/order
p9=trans=virtio,version=9p2000.L,msize=512000
mount -t 9p -o ro,cache=loose,$p9 host /low || echo 'init: the file system of the host is not there'
mount -t tmpfs -o size=90% high /high; mkdir /high/upper /high/scratch
mount -t overlay -o lowerdir=/low,upperdir=/high/upper,workdir=/high/scratch,xino=off all /new
for there in dev proc sys; do mount -o move /$there /new/$there; done
mkdir -p /new/dev/shm /new/dev/pts /new/run /new/tmp /new/sluice-job
mount -t tmpfs shm /new/dev/shm; mount -t devpts pts /new/dev/pts; mount -t tmpfs run /new/run
mount -t 9p -o cache=none,$p9 job /new/sluice-job
chroot /new /bin/bash /sluice-job/guest </new/dev/null
reboot -f
INIT
  chmod +x "$top/init"
  (cd "$top" && find . | cpio -o -H newc --quiet) >"$cache/initramfs.new" || die "the initramfs could not be made"
  rm -rf "$top"
  mv "$cache/initramfs.new" "$cache/initramfs"
}

# The machine is told the speed of its clock: on a loaded host it would measure it wrong, and every timeout with it.
measure_clock() {
  cat >"$cache/clock.c" <<'CLOCK'
#include <stdio.h>
#include <time.h>
#include <x86intrin.h>
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC_RAW, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}
int main(void) {  /* of five, the one whose two readings took the least time */
  double least = 1e9, khz = 0;
  for (int i = 0; i < 5; i++) {
    double a = now();
    unsigned long long from = __rdtsc();
    double b = now();
    struct timespec pause = {0, 100000000};
    nanosleep(&pause, 0);
    double c = now();
    unsigned long long to = __rdtsc();
    double d = now();
    if (b - a + d - c < least) least = b - a + d - c, khz = (to - from) / ((c + d) / 2 - (a + b) / 2) / 1e3;
  }
  printf("%.0f\n", khz);
}
CLOCK
  "${CC:-gcc}" -O1 -o "$cache/clock" "$cache/clock.c" && "$cache/clock" >"$cache/clock_khz" ||
    die "the clock's speed could not be measured: install the package gcc"
}

mkdir -p "$cache" || die "cannot make $cache"
exec 9>"$cache/lock"
flock 9
[ -s "$cache/vmlinux" ] && [ -s "$cache/modules/order" ] || make_kernel
[ -s "$cache/initramfs" ] && [ "$cache/initramfs" -nt "$self" ] && [ "$cache/initramfs" -nt "$cache/vmlinux" ] ||
  make_initramfs
[ -s "$cache/clock_khz" ] || measure_clock
flock -u 9

# ---- this run: what the machine does after its start
job=$(mktemp -d) || die "no temporary folder"
trap 'rm -rf "$job"' EXIT
{
  printf 'cd %q\n' "$PWD"
  for name in "${names[@]}"; do
    case $name in
      *=*) printf 'export %s=%q\n' "${name%%=*}" "${name#*=}" ;;
      *) [ -z "${!name+x}" ] || printf 'export %s=%q\n' "$name" "${!name}" ;;
    esac
  done
  printf 'exec'
  printf ' %q' "$@"
  echo
} >"$job/command"
{
  for i in "${!shares[@]}"; do
    printf 'mount -t 9p -o cache=none,trans=virtio,version=9p2000.L,msize=512000 share%d %q\n' "$i" "${shares[i]}"
  done
  cat <<'GUEST'
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
ulimit -l unlimited
ulimit -c 0
mkdir -p /run/lock
ip link set lo up
conf=/proc/sys/net/ipv4/conf
for where in all default; do
  echo 0 >$conf/$where/rp_filter
  echo 1 >$conf/$where/accept_local
done
echo 1 >$conf/all/arp_ignore
# In a file, since a link that goes down loses some of it: "ip -force -batch /run/rails" brings it back.
# Both ends' addresses are this machine's, so the table of local addresses would keep all traffic off the wire: it comes
# last, but for what arrives on a rail.
number=0
for rail in a b; do
  number=$((number + 1))
  net=10.0.$number
  cat <<RAIL
link add ${rail}0 mtu 4200 type veth peer name ${rail}1 mtu 4200
link set ${rail}0 address 02:00:00:00:0$number:01
link set ${rail}1 address 02:00:00:00:0$number:02
link set ${rail}0 up
link set ${rail}1 up
addr add $net.1/24 dev ${rail}0
addr add $net.2/24 dev ${rail}1
neigh replace $net.2 lladdr 02:00:00:00:0$number:02 dev ${rail}0 nud permanent
neigh replace $net.1 lladdr 02:00:00:00:0$number:01 dev ${rail}1 nud permanent
route add $net.0/24 dev ${rail}0 table ${number}01
route add $net.0/24 dev ${rail}1 table ${number}02
rule add pref 10 iif ${rail}0 lookup local
rule add pref 10 iif ${rail}1 lookup local
rule add pref 20 to $net.2 oif ${rail}0 lookup ${number}01
rule add pref 20 to $net.1 oif ${rail}1 lookup ${number}02
rule add pref 21 from $net.1 to $net.2 lookup ${number}01
rule add pref 21 from $net.2 to $net.1 lookup ${number}02
RAIL
done >/run/rails
printf 'rule add pref 100 lookup local\nrule del pref 0\n' >>/run/rails
ip -batch /run/rails
mkdir -p /dev/infiniband
for end in a0 a1 b0 b1; do rdma link add rxe_$end type rxe netdev $end; done
for class in /sys/class/infiniband_verbs/uverbs*; do
  node=/dev/infiniband/${class##*/}
  [ -e $node ] || mknod $node c $(tr : ' ' <$class/dev)
done
out=/dev/vport0p1
for port in /sys/class/virtio-ports/*; do [ "$(<$port/name)" != out ] || out=/dev/${port##*/}; done
bash /sluice-job/command >$out 2>&1
echo $? >/sluice-job/status
GUEST
} >"$job/guest"

devices=()
for i in "${!shares[@]}"; do
  devices+=(-fsdev "local,id=share$i,path=${shares[i]},security_model=passthrough,multidevs=remap"
            -device "virtio-9p-pci,fsdev=share$i,mount_tag=share$i")
done
mkfifo "$job/out"
cat "$job/out" &
reader=$!
speed=(-accel tcg,thread=multi,tb-size=256 -cpu max,la57=off)
[ "${SLUICE_VM_ACCEL:-tcg}" != kvm ] || speed=(-accel kvm -cpu host)
words="tsc_early_khz=$(<"$cache/clock_khz") tsc=reliable no_timer_check console=ttyS0 quiet loglevel=4 panic=-1
  reboot=t nokaslr mitigations=off nopti no5lvl audit=0 selinux=0 apparmor=0 init_on_alloc=0 random.trust_cpu=on
  cryptomgr.notests 8250.nr_uarts=1 rcupdate.rcu_expedited=1 nmi_watchdog=0 nowatchdog"
timeout -k 5 "$limit" qemu-system-x86_64 -M q35,smm=off,sata=off,smbus=off,hpet=off -bios qboot.rom "${speed[@]}" \
  -smp "$cpus" -m "$memory" -nodefaults -no-user-config -display none -no-reboot \
  -kernel "$cache/vmlinux" -initrd "$cache/initramfs" -append "$(echo $words)" -serial "file:$job/console" \
  -chardev "file,id=out,path=$job/out" -device virtio-serial-pci -device virtserialport,chardev=out,name=out \
  -fsdev local,id=host,path=/,security_model=none,readonly=on,multidevs=remap \
  -device virtio-9p-pci,fsdev=host,mount_tag=host \
  -fsdev "local,id=job,path=$job,security_model=none" -device virtio-9p-pci,fsdev=job,mount_tag=job \
  "${devices[@]}" </dev/null
qemu=$?
if [ $qemu = 0 ]; then wait $reader; else kill $reader 2>/dev/null; fi
[ $console = no ] || sed 's/^/[console] /' "$job/console" >&2
[ -s "$job/status" ] && exit "$(<"$job/status")"
if [ $qemu = 124 ] || [ $qemu = 137 ]; then
  echo "sluice-vm.sh: not done after $limit s: $*" >&2
  exit 124
fi
tail -n 5 "$job/console" >&2
die "the machine ended without a result (QEMU's status $qemu)"
