#include "child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

namespace sluice::bench {
namespace {
using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kReadyTime{20}, kStopTime{5}, kEndTime{2};
constexpr std::chrono::milliseconds kNap{2};

Status failed(const char* what) { return {Code::kSystemError, std::string(what) + ": " + std::strerror(errno)}; }
}  // namespace

Status Child::start(const std::vector<std::string>& words) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return failed("pipe for the target");
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ == 0) {  // only async-signal-safe calls from here
    (void)::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != parent) ::_exit(1);
    const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    (void)::dup2(null, 0);
    (void)::dup2(ends[1], 1);
    ::execv("/proc/self/exe", argv.data());
    ::_exit(127);
  }
  ::close(ends[1]);
  out_ = ends[0];
  return pid_ > 0 ? Status{} : failed("fork of the target");
}

Status Child::ready(std::string* address) {
  const auto until = Clock::now() + kReadyTime;
  std::string line;
  while (line.find('\n') == std::string::npos) {
    pollfd entry{out_, POLLIN, 0};
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
    if (left <= 0 || ::poll(&entry, 1, static_cast<int>(left)) == 0)
      return {Code::kTimeout, "the target was not ready after " + std::to_string(kReadyTime.count()) + " s"};
    char text[512];
    const ssize_t n = ::read(out_, text, sizeof text);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      (void)reap(kStopTime);
      return {Code::kSystemError, "the target did not start: " + ended()};
    }
    line.append(text, static_cast<size_t>(n));
  }
  const size_t at = std::strlen(kReadyLine);
  if (!line.starts_with(kReadyLine)) return {Code::kInternal, "the target said: " + line.substr(0, line.find('\n'))};
  *address = line.substr(at, line.find_first_of(" \n", at) - at);
  return Code::kOk;
}

bool Child::reap(std::chrono::milliseconds patience) {
  if (pid_ <= 0 || reaped_) return reaped_;
  const auto until = Clock::now() + patience;
  while (true) {
    const pid_t got = ::waitpid(pid_, &wait_status_, WNOHANG);
    reaped_ = got == pid_ || (got < 0 && errno == ECHILD);
    if (reaped_ || Clock::now() >= until) return reaped_;
    std::this_thread::sleep_for(kNap);
  }
}

std::string Child::ended() {
  if (!reap(kEndTime)) return {};
  if (WIFSIGNALED(wait_status_))
    return "the target was killed by signal " + std::to_string(WTERMSIG(wait_status_)) + " (" +
           ::strsignal(WTERMSIG(wait_status_)) + ")";
  return "the target ended with status " + std::to_string(WEXITSTATUS(wait_status_));
}

Status Child::stop() {
  if (pid_ <= 0) return Code::kOk;
  const bool early = reap(std::chrono::milliseconds(0));
  if (!early) (void)::kill(pid_, SIGTERM);
  Status status;
  if (!reap(kStopTime)) {
    (void)::kill(pid_, SIGKILL);
    (void)::waitpid(pid_, &wait_status_, 0);
    reaped_ = true;
    status = {Code::kTimeout, "the target did not stop within " + std::to_string(kStopTime.count()) + " s: killed"};
  } else if (early || !WIFEXITED(wait_status_) || WEXITSTATUS(wait_status_) != 0) {
    status = {Code::kSystemError, ended()};
  }
  ::close(out_);
  pid_ = -1;
  return status;
}

}  // namespace sluice::bench
