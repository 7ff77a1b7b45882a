// Settings files: what is refused changes nothing, what is accepted can be read back, and no secret is shown.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "env/node_settings.h"

using namespace sluice;

namespace {

void require(bool good) {
  if (!good) __builtin_trap();
}

// A file in memory, with a path.
class MemoryFile {
 public:
  MemoryFile(const uint8_t* data, size_t size) : fd_(memfd_create("settings", MFD_CLOEXEC)) {
    require(fd_ >= 0 && write(fd_, data, size) == static_cast<ssize_t>(size));
  }
  ~MemoryFile() { close(fd_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  int fd_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const MemoryFile file(data, size);
  Settings settings({node_rows()});
  const std::string before = settings.effective();
  const Status status = settings.parse_file(file.path());
  if (!status.ok()) {
    require(status.code() == Code::kBadArgument && !status.text().empty());
    require(settings.effective() == before);
    return 0;
  }
  const std::string& secret = settings.text("secret");
  if (secret.size() > 40) require(settings.effective().find(secret) == std::string::npos);
  NodeSettings node;
  (void)read_node_settings(settings, &node).ok();
  require(settings.parse_file(file.path()).ok());
  return 0;
}
