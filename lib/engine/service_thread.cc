#include "engine/service_thread.h"

#include <pthread.h>
#include <signal.h>

namespace sluice {
namespace {
constexpr std::chrono::seconds kAgentAnswer{3};
}  // namespace

Status ServiceThread::start() {
  if (Status s = service_->open(); !s.ok()) return s;
  thread_ = std::thread([this] { run(); });
  return Code::kOk;
}

void ServiceThread::run() {
  (void)pthread_setname_np(pthread_self(), "sluice-service");
  sigset_t all;
  sigfillset(&all);
  (void)pthread_sigmask(SIG_SETMASK, &all, nullptr);  // signals are the application's threads' business
  while (!end_.load()) service_->turn();
}

// Until done() or the deadline; done() is asked under the lock. @return done().
bool ServiceThread::wait(std::unique_lock<std::mutex>& lock, Deadline until, const std::function<bool()>& done) {
  if (!pump_) return service_->changed().wait_until(lock, until, done);
  while (!done()) {
    if (std::chrono::steady_clock::now() >= until) return false;
    lock.unlock();
    pump_();
    std::this_thread::yield();
    lock.lock();
  }
  return true;
}

// The control core answers as long as it is turned.
bool ServiceThread::wait_answer(std::unique_lock<std::mutex>& lock, uint64_t token) {
  const auto until = std::chrono::steady_clock::now() + kAgentAnswer;
  if (wait(lock, until, [&] { return service_->answered(token); })) return true;
  service_->forget(token);
  return false;
}

void ServiceThread::add_port(PortRings* port) {
  const std::lock_guard lock(service_->lock());
  service_->add_port(port);
}

bool ServiceThread::remove_port(PortRings* port) {
  std::unique_lock lock(service_->lock());
  return wait_answer(lock, service_->begin_remove_port(port));
}

bool ServiceThread::clear_buffer(uint32_t id) {
  std::unique_lock lock(service_->lock());
  return wait_answer(lock, service_->begin_clear_buffer(id));
}

bool ServiceThread::end_buffers(const std::vector<uint32_t>& ids, std::chrono::milliseconds wait_for) {
  std::unique_lock lock(service_->lock());
  const uint64_t request = service_->begin_end_buffers(ids);
  const auto until = std::chrono::steady_clock::now() + wait_for;
  const bool ended = wait(lock, until, [&] { return service_->buffers_ended(request); });
  if (!ended) service_->forget_buffers(request);
  return ended;
}

Status ServiceThread::open_segment(std::string_view node, std::string_view name, SegmentHandle* out) {
  std::shared_ptr<Service::OpenRequest> request;
  if (Status s = service_->begin_open(node, name, &request); !s.ok()) return s;
  const NodeSettings& settings = service_->settings();
  std::unique_lock lock(service_->lock());
  const auto until =
      std::chrono::steady_clock::now() + std::chrono::milliseconds(settings.connect_timeout_ms + settings.heartbeat_ms);
  if (!wait(lock, until, [&] { return request->done; })) {
    service_->give_up(request);
    return {Code::kTimeout, "open segment '" + request->name + "' of " + request->shown + ": no answer within " +
                                std::to_string(settings.connect_timeout_ms) + " ms (" +
                                (request->asked     ? "the peer did not answer the query"
                                 : request->dialing ? "not connected"
                                                    : "the paths did not come up; data goes from device " +
                                                          service_->device_text() + ", see --device") +
                                "); is the node alive, and reachable by transport " + settings.transport + "?"};
  }
  *out = request->handle;
  return request->status;
}

// Fence every session, tell the peers, and give them their time to hear it.
void ServiceThread::stop(uint32_t deadline_ms) {
  if (!thread_.joinable()) return;
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(deadline_ms);
  if (deadline_ms != 0) {
    std::unique_lock lock(service_->lock());
    service_->begin_drain(deadline_ms);
    service_->wake();
    (void)wait(lock, until, [&] { return service_->drained(); });
    service_->begin_close();
    service_->wake();
    (void)wait(lock, until, [&] { return service_->closed(); });
  }
  end_.store(true);
  service_->wake();
  thread_.join();
  const std::lock_guard lock(service_->lock());
  service_->fail_all_requests({Code::kClosed, "the engine is stopping"});
  service_->changed().notify_all();
}

}  // namespace sluice
