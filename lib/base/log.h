/// @file log.h
/// One logger for the library: lines on stderr, through spdlog.
///
/// Model    Slow calls log; a turn never does (test/check refuses this header in hot files).
/// Threads  Any.
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

inline void log_debug(std::string_view area, std::string_view text) noexcept { log_line(LogLevel::kDebug, area, text); }
inline void log_info(std::string_view area, std::string_view text) noexcept { log_line(LogLevel::kInfo, area, text); }
inline void log_warn(std::string_view area, std::string_view text) noexcept { log_line(LogLevel::kWarn, area, text); }
inline void log_error(std::string_view area, std::string_view text) noexcept { log_line(LogLevel::kError, area, text); }

}  // namespace sluice
