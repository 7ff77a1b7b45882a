#include "env/eal.h"

#include <pthread.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_launch.h>
#include <rte_lcore.h>
#include <signal.h>

#include <array>
#include <atomic>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "base/log.h"

namespace sluice {
namespace {
// EAL is one for a process, and so is what we know of it.
std::mutex eal_mutex;
EalState state;

struct Job {
  std::function<void()> body;
  std::atomic<bool> running{false};
};
std::array<Job, RTE_MAX_LCORE> jobs;

// On a thread of its own: rte_eal_init pins the thread that calls it. Threads that EAL makes inherit the mask.
int init_here(std::vector<std::string> words, int* error) {
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
  ::pthread_setname_np(::pthread_self(), "sluice-eal");
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const int result = rte_eal_init(static_cast<int>(words.size()), argv.data());
  *error = result < 0 ? rte_errno : 0;
  return result;
}

Status start_failed(const std::vector<std::string>& words, int error) {
  std::string line = "EAL does not start (" + std::string(rte_strerror(error)) + ") with";
  for (size_t i = 1; i < words.size(); ++i) line += " " + words[i];
  line += "; its own line on stderr names the cause, and the options before -- on the command line can change it";
  return {error == ENOMEM ? Code::kNoMemory : error == EINVAL ? Code::kBadArgument : Code::kSystemError, line};
}

int run_job(void* arg) {
  Job& job = *static_cast<Job*>(arg);
  job.body();
  job.body = nullptr;
  job.running.store(false, std::memory_order_release);
  job.running.notify_all();
  return 0;
}
}  // namespace

Status start_eal(const EalOptions& options) {
  const std::lock_guard lock(eal_mutex);
  static bool tried = false;
  if (state.up) return Code::kOk;
  if (!tried && rte_lcore_count() != 0) {
    state = {.up = true, .taken_over = true, .hugepages = rte_eal_has_hugepages() != 0};
    log_info("env", "EAL was already up and is used as it is");
    return Code::kOk;
  }
  EalArgs args;
  Status status = make_eal_args(options, read_eal_facts(), &args);
  if (!status.ok()) return status;
  std::vector<std::string> words{options.program};
  words.insert(words.end(), args.list.begin(), args.list.end());
  tried = true;
  int error = 0;
  int result = -1;
  try {
    std::thread([&] { result = init_here(words, &error); }).join();
  } catch (const std::system_error& reason) {
    return {Code::kSystemError, std::string("no thread to start EAL in: ") + reason.what()};
  }
  if (result < 0) return start_failed(words, error);
  state = {.up = true, .taken_over = false, .hugepages = rte_eal_has_hugepages() != 0};
  if (!state.hugepages)
    log_line(options.hugepages == HugePolicy::kAuto ? LogLevel::kWarn : LogLevel::kInfo, "env",
             "running without hugepages; all works, large transfers are somewhat slower");
  return Code::kOk;
}

EalState eal_state() {
  const std::lock_guard lock(eal_mutex);
  return state;
}

std::vector<unsigned> worker_lcores() {
  std::vector<unsigned> lcores;
  unsigned lcore = 0;
  RTE_LCORE_FOREACH_WORKER(lcore) { lcores.push_back(lcore); }
  return lcores;
}

Status launch(unsigned lcore, std::function<void()> body) {
  const std::lock_guard lock(eal_mutex);
  if (lcore >= RTE_MAX_LCORE || !rte_lcore_is_enabled(lcore) || lcore == rte_get_main_lcore())
    return {Code::kNotFound, "lcore " + std::to_string(lcore) + " is no worker of this EAL"};
  Job& job = jobs[lcore];
  Status busy{Code::kBusy, "lcore " + std::to_string(lcore) + " already runs something; choose another"};
  if (job.running.load(std::memory_order_acquire)) return busy;
  // When our last body has just ended, its lcore needs a moment to be back in its loop.
  for (int i = 0; i < 10000 && rte_eal_get_lcore_state(lcore) == RUNNING; ++i) std::this_thread::yield();
  job.body = std::move(body);
  job.running.store(true, std::memory_order_release);
  const int error = rte_eal_remote_launch(run_job, &job, lcore);
  if (error == 0) return Code::kOk;
  job.running.store(false, std::memory_order_release);
  job.body = nullptr;
  if (error == -EBUSY) return busy;
  return {Code::kSystemError, "lcore " + std::to_string(lcore) + " does not answer: " + rte_strerror(-error)};
}

void join(unsigned lcore) {
  if (lcore >= RTE_MAX_LCORE) return;
  jobs[lcore].running.wait(true, std::memory_order_acquire);
}

}  // namespace sluice
