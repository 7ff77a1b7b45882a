/// @file child.h
/// A node in a process of its own: this program again, told what to do by lines on a pipe.
///
/// Model    Started with the words of its settings, it says where it listens and where its segment lies. The test sends
///          commands (node_process.cc lists them), each answered by one line, and reads the child's memory directly,
///          also while the child is stopped.
/// Threads  One. The child is killed when this process dies, and by the destructor.
/// Memory   Allocates.
/// Errors   An answer that does not come in time is the line "no answer".
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "node.h"

namespace sluice::func {

class Child {
 public:
  /// How its engine is run.
  enum class Mode { kOwnLcore, kTurned, kHost };  ///< kTurned: can be frozen; kHost: none until "new".

  Child() = default;
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() { kill(); }

  /// Start, and wait for its first line. @return that line is "ready ..."; else first_line says why not.
  bool start(const std::vector<std::string>& words, Mode mode = Mode::kOwnLcore);
  bool start(const Wire& wire, const std::string& name, const Options& changes = {}, Mode mode = Mode::kOwnLcore) {
    return start(words_of(wire, name, changes), mode);
  }
  void send(const std::string& line);
  std::string receive(double seconds = 60);
  std::string ask(const std::string& line, double seconds = 60) {
    send(line);
    return receive(seconds);
  }
  /// Take "ready ADDRESS BASE" from @p line.
  bool on_ready(const std::string& line);

  std::map<std::string, uint64_t> stats();
  /// Its private memory that is in use (RssAnon).
  uint64_t private_bytes() const;
  std::vector<std::byte> read(uint64_t offset, uint64_t length) const;
  bool holds(uint64_t offset, uint64_t length, const std::byte* expected) const;

  void signal(int number) const;
  /// SIGKILL, and wait until the process is gone.
  void kill();
  /// Ask it to end. @return its exit status; -1 when it had to be killed.
  int quit();
  bool running() const { return pid_ > 0; }

  std::string address, first_line;

 private:
  pid_t pid_ = 0;
  int to_ = -1, from_ = -1;
  uint64_t base_ = 0;
  std::string input_;
};

/// What the child's program does; argv as main got it.
int node_process(int argc, char** argv);

}  // namespace sluice::func
