// What a killed process left in /dev/shm is removed by the next one that opens a device; nothing else is.
#include "fabric/shm_names.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace sluice::fabric {
namespace {

class ShmFile {
 public:
  explicit ShmFile(const std::string& name) : path_("/dev/shm/" + name) {
    const int fd = ::open(path_.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
    EXPECT_GE(fd, 0) << path_;
    ::close(fd);
  }
  ~ShmFile() { ::unlink(path_.c_str()); }
  ShmFile(const ShmFile&) = delete;
  ShmFile& operator=(const ShmFile&) = delete;
  bool there() const { return ::access(path_.c_str(), F_OK) == 0; }

 private:
  const std::string path_;
};

uint64_t pid_namespace() {
  struct stat info;
  return ::stat("/proc/self/ns/pid", &info) == 0 ? info.st_ino : 0;
}

// The pid of a process that was, and is no more.
pid_t dead_pid() {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return child;
}

TEST(ShmNames, OnlyFilesOfDeadProcessesOfThisNamespaceAreRemoved) {
  const uint64_t here = pid_namespace();
  ASSERT_NE(here, 0u);
  const std::string dead = std::to_string(dead_pid()), live = std::to_string(::getpid());
  const std::string mine = "sluice." + std::to_string(here) + ".", other = "sluice." + std::to_string(here + 1) + ".";
  const std::string end = ".0.unit" + live;
  const ShmFile of_dead(mine + dead + end), of_live(mine + live + end), of_init(mine + "1" + end);
  const ShmFile elsewhere(other + dead + end), not_ours("other." + std::to_string(here) + "." + dead + end);
  const ShmFile without_pid(mine + "x" + end), negative(mine + "-1" + end);
  remove_stale_names();
  EXPECT_FALSE(of_dead.there());
  EXPECT_TRUE(of_live.there());
  EXPECT_TRUE(of_init.there()) << "of a process that lives, whoever owns it";
  EXPECT_TRUE(elsewhere.there()) << "its pid means nothing here";
  EXPECT_TRUE(not_ours.there());
  EXPECT_TRUE(without_pid.there());
  EXPECT_TRUE(negative.there());
}

TEST(ShmNames, ANameTellsWhoseItIsAndComesOnce) {
  fi_info first{}, second{};
  ASSERT_TRUE(set_unique_name(&first).ok());
  ASSERT_TRUE(set_unique_name(&second).ok());
  const std::string a(static_cast<const char*>(first.src_addr)), b(static_cast<const char*>(second.src_addr));
  EXPECT_NE(a, b);
  const std::string mine =
      "fi_shm://sluice." + std::to_string(pid_namespace()) + "." + std::to_string(::getpid()) + ".";
  EXPECT_EQ(a.rfind(mine, 0), 0u) << a;
  EXPECT_EQ(first.src_addrlen, a.size() + 1);
  std::free(first.src_addr);
  std::free(second.src_addr);
}

}  // namespace
}  // namespace sluice::fabric
