#include "xport/registration.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <semaphore>
#include <system_error>
#include <thread>
#include <vector>

#include "base/log.h"
#include "base/meminfo.h"

namespace sluice {
namespace {

// Below it a thread costs more than it saves.
constexpr uint64_t kSmall = 64ull << 20;

using Step = std::function<Status(uint16_t device)>;

/// One step for each device.
class Run {
 public:
  Run(std::span<const uint16_t> devices, const Step& step, bool stop_at_error)
      : devices_(devices),
        step_(step),
        stop_at_error_(stop_at_error),
        results_(devices.size()),
        tried_(devices.size()) {}

  /// Take devices until none is left.
  void work() {
    for (size_t i = next_.fetch_add(1); i < devices_.size(); i = next_.fetch_add(1)) {
      if (stop_at_error_ && failed_.load()) break;
      tried_[i] = 1;
      results_[i] = step_(devices_[i]);
      if (!results_[i].ok()) failed_.store(true);
      done_.fetch_add(1);
    }
  }
  /// With @p threads beside the caller, who tells how far it is.
  void work_beside(uint32_t threads, const RegisterOptions& options, const std::string& what) {
    std::counting_semaphore<> ended{0};
    std::vector<std::thread> running;
    running.reserve(threads);
    try {
      while (running.size() < threads)
        running.emplace_back([&] {
          work();
          ended.release();
        });
    } catch (const std::system_error&) {
      work();  // no more threads: with those that there are, or alone
    }
    const std::chrono::milliseconds patience(std::max<uint64_t>(1, options.tell_ms));
    uint64_t waited = 0;
    for (size_t left = running.size(); left != 0;) {
      if (ended.try_acquire_for(patience)) {
        --left;
        continue;
      }
      waited += options.tell_ms;
      const std::string line = what + ": " + std::to_string(done_.load()) + " of " + std::to_string(devices_.size()) +
                               " devices done after " + std::to_string(waited) + " ms";
      options.tell ? options.tell(line) : log_warn("memory", line);
    }
    for (std::thread& one : running) one.join();
  }

  /// The place of the first device that failed; the number of devices when none did.
  size_t first_failed() const {
    for (size_t i = 0; i < results_.size(); ++i)
      if (!results_[i].ok()) return i;
    return results_.size();
  }
  const Status& result(size_t index) const { return results_[index]; }
  bool succeeded(size_t index) const { return tried_[index] != 0 && results_[index].ok(); }

 private:
  std::span<const uint16_t> devices_;
  const Step& step_;
  const bool stop_at_error_;
  std::vector<Status> results_;
  std::vector<uint8_t> tried_;  // bytes: threads write beside one another
  std::atomic<size_t> next_{0}, done_{0};
  std::atomic<bool> failed_{false};
};

void run(Run& work, uint64_t bytes, size_t devices, const RegisterOptions& options, const std::string& what) {
  if (devices == 1 && bytes < kSmall) return work.work();
  const size_t most = std::max<uint32_t>(1, options.max_parallel);
  work.work_beside(static_cast<uint32_t>(std::min(devices, most)), options, what);
}

std::string asked_for(const Region& region, size_t devices) {
  return std::to_string(region.bytes()) + " bytes on " + std::to_string(devices) +
         (devices == 1 ? " device" : " devices");
}

/// Which of @p devices get the region, by their index.
std::vector<uint16_t> choose(std::span<Device* const> devices, const RegisterOptions& options) {
  std::vector<uint16_t> near, all;
  for (size_t i = 0; i < devices.size(); ++i) {
    all.push_back(static_cast<uint16_t>(i));
    if (options.numa_node >= 0 && devices[i]->info().numa_node == options.numa_node) near.push_back(all.back());
  }
  return options.near_only && !near.empty() ? near : all;
}

/// Which limits of @p device or of the process what was asked for is near, for an error's text.
std::string limits(const Region& region, const Device& device, size_t devices, const RegisterOptions& options) {
  std::string out;
  const DeviceCaps& caps = device.caps();
  const uint64_t memlock = options.memlock_bytes != 0 ? options.memlock_bytes : memlock_bytes();
  if (region.bytes() > memlock / devices)
    out += "; locked memory is limited to " + std::to_string(memlock) +
           " bytes, and each device counts: raise it with `ulimit -l unlimited` or LimitMEMLOCK=infinity";
  if (caps.max_region_bytes != 0)
    out += "; a region of it has at most " + std::to_string(caps.max_region_bytes) + " bytes, so this took " +
           std::to_string((region.bytes() - 1) / std::min(caps.max_region_bytes, region.bytes()) + 1);
  if (caps.page_entries != 0) {
    const uint64_t page = region.page_bytes();
    out += "; this takes " + std::to_string((region.bytes() - 1) / page + 1) + " pages of " + std::to_string(page) +
           " bytes, and the device maps about " + std::to_string(caps.page_entries) +
           " of all regions together: use hugepages, or fewer devices";
  }
  return out;
}

/// In how many parts the region must be shared out, so that each of @p chosen can map its own: at most one for each.
uint32_t parts_of(const Region& region, std::span<Device* const> devices, std::span<const uint16_t> chosen) {
  uint64_t parts = 1, pages = 0;
  for (const uint16_t index : chosen) {
    const Device& device = *devices[index];
    if (device.caps().page_entries == 0) continue;
    if (pages == 0) pages = (region.bytes() - 1) / region.page_bytes() + 1;
    const uint64_t mapped = std::min(device.mapped_pages(), device.caps().page_entries);
    const uint64_t room = std::max<uint64_t>(1, device.caps().page_entries - mapped);
    parts = std::max(parts, (pages - 1) / room + 1);
  }
  return static_cast<uint32_t>(std::min<uint64_t>(parts, chosen.size()));
}

/// Chunks that all of @p devices take, no larger than a part.
uint64_t grid_of(const Region& region, std::span<Device* const> devices, uint32_t parts) {
  uint64_t chunk = region.bytes();
  for (const Device* device : devices)  // also of those that are not chosen, and may be later
    chunk = std::min(chunk, largest_chunk(region, device->caps().max_region_bytes, device->caps().page_entries));
  if (parts == 1) return chunk;
  const uint64_t page = region.page_bytes();
  return std::min(chunk, ((region.bytes() - 1) / page / parts + 1) * page);
}

}  // namespace

Status register_region(Region& region, std::span<Device* const> devices, const RegisterOptions& options) {
  if (devices.empty()) return {Code::kBadArgument, "registering " + asked_for(region, 0)};
  const std::vector<uint16_t> chosen = choose(devices, options);
  const uint32_t parts = options.share_out ? parts_of(region, devices, chosen) : 1;
  const uint64_t chunk = grid_of(region, devices, parts);
  for (size_t i = 0; i < chosen.size(); ++i) region.set_part(chosen[i], static_cast<uint32_t>(i % parts), parts);
  if (parts > 1)
    log_warn("memory", asked_for(region, chosen.size()) +
                           ": too many pages for one of them, so each gets one part of " + std::to_string(parts) +
                           "; hugepages would let all have all of it");
  region.set_chunk_bytes(chunk < region.bytes() ? chunk : region.chunk_bytes());
  region.keys(static_cast<uint16_t>(devices.size() - 1));  // the table has its size before threads fill it
  const Step reg = [&](uint16_t device) { return devices[device]->reg(region, device, options.remote); };
  Run work(chosen, reg, true);
  const std::string what = "registering " + asked_for(region, chosen.size());
  run(work, region.bytes(), chosen.size(), options, what);
  const size_t bad = work.first_failed();
  if (bad == chosen.size()) return Code::kOk;
  for (size_t i = 0; i < chosen.size(); ++i)  // the cause is what is told, not what undoing it says
    if (work.succeeded(i)) (void)devices[chosen[i]]->dereg(region, chosen[i]).ok();
  const Status& cause = work.result(bad);
  const bool limited = cause.code() != Code::kExists && cause.code() != Code::kUnsupported;
  return {cause.code(), what + ": " + cause.text() +
                            (limited ? limits(region, *devices[chosen[bad]], chosen.size(), options) : std::string())};
}

Status deregister_region(Region& region, std::span<Device* const> devices, const RegisterOptions& options) {
  std::vector<uint16_t> chosen;
  for (size_t i = 0; i < devices.size(); ++i)
    if (!region.keys(static_cast<uint16_t>(i)).empty()) chosen.push_back(static_cast<uint16_t>(i));
  if (chosen.empty()) return Code::kOk;
  const Step dereg = [&](uint16_t device) { return devices[device]->dereg(region, device); };
  Run work(chosen, dereg, false);
  run(work, region.bytes(), chosen.size(), options, "deregistering " + asked_for(region, chosen.size()));
  const size_t bad = work.first_failed();
  return bad == chosen.size() ? Status{} : work.result(bad);
}

}  // namespace sluice
