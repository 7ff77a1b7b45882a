#include "shm_names.h"

#include <dirent.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/random.h"

namespace sluice::fabric {
namespace {

constexpr char kFolder[] = "/dev/shm";

uint64_t pid_namespace() noexcept {
  struct stat info;
  return ::stat("/proc/self/ns/pid", &info) == 0 ? info.st_ino : 0;
}

bool is_stale(const char* file, uint64_t here) noexcept {
  uint64_t space = 0;
  int pid = 0;
  if (std::sscanf(file, "sluice.%" SCNu64 ".%d.", &space, &pid) != 2) return false;
  return here != 0 && space == here && pid > 0 && ::kill(pid, 0) != 0 && errno == ESRCH;
}

}  // namespace

Status set_unique_name(fi_info* info) {
  static std::atomic<uint32_t> count{0};
  char name[96];
  std::snprintf(name, sizeof name, "fi_shm://sluice.%" PRIu64 ".%d.%u.%08x", pid_namespace(),
                static_cast<int>(::getpid()), count.fetch_add(1), static_cast<uint32_t>(random_u64()));
  std::free(info->src_addr);
  info->src_addr = ::strdup(name);
  if (info->src_addr == nullptr) return {Code::kNoMemory, "no memory for an endpoint's name"};
  info->src_addrlen = std::strlen(name) + 1;
  info->addr_format = FI_ADDR_STR;
  return Code::kOk;
}

void remove_stale_names() noexcept {
  DIR* folder = ::opendir(kFolder);
  if (folder == nullptr) return;
  const uint64_t here = pid_namespace();
  while (const dirent* entry = ::readdir(folder))
    if (is_stale(entry->d_name, here)) ::unlinkat(::dirfd(folder), entry->d_name, 0);
  ::closedir(folder);
}

}  // namespace sluice::fabric
