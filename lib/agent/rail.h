/// @file rail.h
/// Which rail a transfer takes, and which are left alone for a while.
///
/// Model    RailCost says what a rail is expected to need for so many bytes more: those in flight and these, over its
///          smoothed bandwidth. PathMonitor watches one peer on one rail: three errors in ten seconds pause it for
///          thirty, and each probe that fails doubles the pause, up to five minutes; a success ends it.
/// Threads  Plain data of its worker.
/// Memory   No heap.
/// Errors   None.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

namespace sluice {

class PathMonitor {
 public:
  static constexpr uint64_t kWindowUs = 10'000'000, kFirstPauseUs = 30'000'000, kMaxPauseUs = 300'000'000;
  static constexpr uint32_t kErrors = 3;

  /// Whether it is taken like any other.
  bool open() const noexcept { return until_ == 0; }
  /// Whether one op may be sent to see how it is. @p now in ticks.
  bool may_probe(uint64_t now) const noexcept { return until_ != 0 && !probing_ && now >= until_; }
  uint64_t paused_until() const noexcept { return until_; }  ///< 0: not paused.
  void probe_sent() noexcept { probing_ = true; }
  /// An op that was a probe, or any other of this path, came back well.
  void success() noexcept { *this = PathMonitor{}; }
  /// An op failed. @return whether this began or renewed a pause.
  bool error(uint64_t now, uint64_t ticks_per_us, bool probe) noexcept {
    if (until_ != 0) {
      if (!probe) return false;  // one that was out when the pause began
      probing_ = false;
      pause_ = std::min(pause_ * 2, kMaxPauseUs * ticks_per_us);
      until_ = now + pause_;
      return true;
    }
    if (count_ == kErrors) std::copy(errors_.begin() + 1, errors_.end(), errors_.begin());
    errors_[count_ == kErrors ? kErrors - 1 : count_++] = now;
    if (count_ < kErrors || now - errors_[0] > kWindowUs * ticks_per_us) return false;
    pause(now, ticks_per_us);
    return true;
  }
  /// Begin a pause, whatever errors there were. @pre open().
  void pause(uint64_t now, uint64_t ticks_per_us) noexcept {
    pause_ = kFirstPauseUs * ticks_per_us;
    until_ = now + pause_;
  }

 private:
  std::array<uint64_t, kErrors> errors_{};
  uint32_t count_ = 0;
  bool probing_ = false;
  uint64_t until_ = 0, pause_ = 0;  // ticks
};

class RailCost {
 public:
  /// @p bits_per_s: what the device says of itself; 0: unknown.
  void open(uint64_t bits_per_s, uint64_t ticks_per_us) noexcept {
    constexpr uint64_t kUnknown = 10'000'000'000;
    const double bytes_per_us = static_cast<double>(bits_per_s == 0 ? kUnknown : bits_per_s) / 8e6;
    rate_ = bytes_per_us / static_cast<double>(ticks_per_us);
    window_ = kWindowUs * ticks_per_us;
  }
  void sent(uint64_t bytes, uint64_t now) noexcept {
    if (in_flight_ == 0) {
      since_ = now;
      moved_ = 0;
    }
    in_flight_ += bytes;
  }
  /// @p ok: they arrived; else they count for nothing.
  void home(uint64_t bytes, uint64_t now, bool ok) noexcept {
    in_flight_ -= bytes;
    if (ok) moved_ += bytes;
    if (now - since_ < window_) return;  // a rail that is seldom busy keeps what is known of it
    rate_ += (static_cast<double>(moved_) / static_cast<double>(now - since_) - rate_) / kSmooth;
    rate_ = std::max(rate_, kLeastRate);
    since_ = now;
    moved_ = 0;
  }
  /// In ticks, times @p penalty for distance. Less is better.
  double of(uint64_t bytes, uint32_t penalty) const noexcept {
    return static_cast<double>(in_flight_ + bytes) / rate_ * penalty;
  }
  uint64_t in_flight() const noexcept { return in_flight_; }
  double rate() const noexcept { return rate_; }  ///< Bytes per tick.

 private:
  static constexpr uint64_t kWindowUs = 1000;
  static constexpr double kSmooth = 8, kLeastRate = 1e-9;
  double rate_ = 1;
  uint64_t window_ = 0, in_flight_ = 0, since_ = 0, moved_ = 0;
};

}  // namespace sluice
