/// @file service_thread.h
/// The thread that turns the service, and the calls that wait for what it does.
///
/// Model    Each call begins something at the service and waits for its end, against a deadline.
/// Threads  Calls from any thread. Where the caller turns the agents itself (no lcores of our own), a call that waits
///          for an agent turns them through pump.
/// Memory   Allocates freely.
/// Errors   As Service says; kTimeout for a deadline.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>

#include "engine/service.h"

namespace sluice {

class ServiceThread {
 public:
  ServiceThread(std::unique_ptr<Service> service, std::function<void()> pump)
      : service_(std::move(service)), pump_(std::move(pump)) {}
  ~ServiceThread() { stop(0); }
  ServiceThread(const ServiceThread&) = delete;
  ServiceThread& operator=(const ServiceThread&) = delete;

  /// Listen and start the thread. @return what Service::open says.
  Status start();
  /// Say goodbye to every peer, within @p deadline_ms, and end the thread.
  void stop(uint32_t deadline_ms);

  /// Returns when the segment is open or the connect deadline has passed.
  Status open_segment(std::string_view node, std::string_view name, SegmentHandle* out);
  void add_port(PortRings* port);
  /// These return when the agents have let go. @return false: they do not answer (an lcore is blocked), and may use it
  /// until they have ended.
  bool remove_port(PortRings* port);
  bool clear_buffer(uint32_t id);
  /// Returns when no peer uses these buffers any more. @return false: one still does, after @p wait.
  bool end_buffers(const std::vector<uint32_t>& ids, std::chrono::milliseconds wait);

  Service& service() noexcept { return *service_; }
  const Service& service() const noexcept { return *service_; }

 private:
  using Deadline = std::chrono::steady_clock::time_point;
  void run();
  bool wait_answer(std::unique_lock<std::mutex>& lock, uint64_t token);
  bool wait(std::unique_lock<std::mutex>& lock, Deadline until, const std::function<bool()>& done);

  const std::unique_ptr<Service> service_;
  const std::function<void()> pump_;
  std::atomic<bool> end_{false};
  std::thread thread_;
};

}  // namespace sluice
