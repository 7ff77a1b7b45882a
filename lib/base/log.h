/// @file log.h
/// One logger for the library: lines on stderr, through spdlog.
///
/// Model    Slow calls log; a turn never does (test/check refuses this header in hot files).
/// Threads  Any. A LogLimit: one at a time.
/// Memory   Formatting allocates.
/// Errors   A line that cannot be written is lost; nothing else happens.
#pragma once

#include <cstdint>
#include <string_view>

namespace sluice {

enum class LogLevel : uint8_t { kDebug, kInfo, kWarn, kError, kOff };

/// Lines below @p level are dropped. Default: kWarn.
void set_log_level(LogLevel level) noexcept;
LogLevel log_level() noexcept;
/// @return false when @p name is none of debug, info, warn, error, off.
bool parse_log_level(std::string_view name, LogLevel* level) noexcept;

void log_line(LogLevel level, std::string_view area, std::string_view text) noexcept;

/// At most a line in each @p every_ns: for what strangers can cause as often as they like.
class LogLimit {
 public:
  explicit LogLimit(uint64_t every_ns = 1'000'000'000) noexcept : every_ns_(every_ns) {}
  /// log_warn, unless a line went out lately; the next one says how many did not.
  void warn(uint64_t now_ns, std::string_view area, std::string_view text) noexcept;

 private:
  const uint64_t every_ns_;
  uint64_t after_ns_ = 0, dropped_ = 0;
};

inline void log_debug(std::string_view area, std::string_view text) noexcept { log_line(LogLevel::kDebug, area, text); }
inline void log_info(std::string_view area, std::string_view text) noexcept { log_line(LogLevel::kInfo, area, text); }
inline void log_warn(std::string_view area, std::string_view text) noexcept { log_line(LogLevel::kWarn, area, text); }
inline void log_error(std::string_view area, std::string_view text) noexcept { log_line(LogLevel::kError, area, text); }

}  // namespace sluice
