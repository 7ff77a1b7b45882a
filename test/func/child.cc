#include "child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <sstream>

namespace sluice::func {

bool Child::start(const std::vector<std::string>& words, Mode mode) {
  int in[2], out[2];
  if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) return false;
  std::vector<std::string> line{"func", "--node",
                                mode == Mode::kOwnLcore ? "own"
                                : mode == Mode::kTurned ? "turned"
                                                        : "host"};
  line.insert(line.end(), words.begin(), words.end());
  std::vector<char*> argv;
  for (std::string& word : line) argv.push_back(word.data());
  argv.push_back(nullptr);
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ == 0) {
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(125);
    (void)dup2(in[0], 0);
    (void)dup2(out[1], 1);
    (void)close_range(3, ~0u, 0);  // nothing of this process's libraries goes over
    execv("/proc/self/exe", argv.data());
    _exit(126);
  }
  close(in[0]);
  close(out[1]);
  to_ = in[1];
  from_ = out[0];
  if (pid_ < 0) return false;
  first_line = receive();
  return mode == Mode::kHost ? first_line == "host" : on_ready(first_line);
}

bool Child::on_ready(const std::string& line) {
  std::istringstream words(line);
  std::string ready;
  return (words >> ready >> address >> base_) && ready == "ready";
}

void Child::send(const std::string& line) {
  const std::string text = line + "\n";
  (void)!write(to_, text.data(), text.size());
}

std::string Child::receive(double seconds) {
  const double until = now_seconds() + seconds;
  while (true) {
    if (const size_t end = input_.find('\n'); end != std::string::npos) {
      const std::string line = input_.substr(0, end);
      input_.erase(0, end + 1);
      return line;
    }
    pollfd waiting{from_, POLLIN, 0};
    const double left = until - now_seconds();
    if (left <= 0 || poll(&waiting, 1, static_cast<int>(left * 1000) + 1) < 0) return "no answer";
    if (waiting.revents == 0) continue;
    char bytes[4096];
    const ssize_t n = ::read(from_, bytes, sizeof bytes);
    if (n <= 0) return "no answer";
    input_.append(bytes, static_cast<size_t>(n));
  }
}

uint64_t Child::private_bytes() const {
  std::ifstream file("/proc/" + std::to_string(pid_) + "/status");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("RssAnon:")) return std::stoull(line.substr(8)) * 1024;
  return 0;
}

std::map<std::string, uint64_t> Child::stats() {
  std::map<std::string, uint64_t> values;
  std::istringstream words(ask("stats"));
  for (std::string word; words >> word;)
    if (const size_t at = word.find('='); at != std::string::npos)
      values[word.substr(0, at)] = std::stoull(word.substr(at + 1));
  return values;
}

std::vector<std::byte> Child::read(uint64_t offset, uint64_t length) const {
  std::vector<std::byte> bytes(length);
  const iovec here{bytes.data(), length};
  const iovec there{reinterpret_cast<void*>(base_ + offset), length};
  if (process_vm_readv(pid_, &here, 1, &there, 1, 0) != static_cast<ssize_t>(length)) bytes.clear();
  return bytes;
}

bool Child::holds(uint64_t offset, uint64_t length, const std::byte* expected) const {
  const std::vector<std::byte> bytes = read(offset, length);
  return bytes.size() == length && std::memcmp(bytes.data(), expected, length) == 0;
}

void Child::signal(int number) const {
  if (pid_ > 0) (void)::kill(pid_, number);
}

void Child::kill() {
  if (pid_ > 0) {
    (void)::kill(pid_, SIGKILL);
    (void)waitpid(pid_, nullptr, 0);
  }
  pid_ = 0;
  if (to_ >= 0) close(to_);
  if (from_ >= 0) close(from_);
  to_ = from_ = -1;
  input_.clear();
}

int Child::quit() {
  send("quit");
  int status = 0;
  const bool ended = wait_for(30, [&] { return waitpid(pid_, &status, WNOHANG) == pid_; });
  if (ended) pid_ = 0;
  kill();
  return ended && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace sluice::func
