#include "base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <array>
#include <memory>
#include <string>

namespace sluice {
namespace {
constexpr std::array<std::string_view, 5> kNames{"debug", "info", "warn", "error", "off"};

spdlog::logger& logger() {
  static const std::shared_ptr<spdlog::logger> instance = [] {
    auto made = std::make_shared<spdlog::logger>("sluice", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%H:%M:%S.%e %l sluice %v");
    made->set_level(spdlog::level::warn);
    made->flush_on(spdlog::level::debug);
    return made;
  }();
  return *instance;
}

spdlog::level::level_enum to_spdlog(LogLevel level) noexcept {
  switch (level) {
    case LogLevel::kDebug: return spdlog::level::debug;
    case LogLevel::kInfo: return spdlog::level::info;
    case LogLevel::kWarn: return spdlog::level::warn;
    case LogLevel::kError: return spdlog::level::err;
    case LogLevel::kOff: break;
  }
  return spdlog::level::off;
}
}  // namespace

void set_log_level(LogLevel level) noexcept { logger().set_level(to_spdlog(level)); }

LogLevel log_level() noexcept {
  switch (logger().level()) {
    case spdlog::level::trace:
    case spdlog::level::debug: return LogLevel::kDebug;
    case spdlog::level::info: return LogLevel::kInfo;
    case spdlog::level::warn: return LogLevel::kWarn;
    case spdlog::level::err:
    case spdlog::level::critical: return LogLevel::kError;
    default: return LogLevel::kOff;
  }
}

bool parse_log_level(std::string_view name, LogLevel* level) noexcept {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] != name) continue;
    *level = static_cast<LogLevel>(i);
    return true;
  }
  return false;
}

void LogLimit::warn(uint64_t now_ns, std::string_view area, std::string_view text) noexcept {
  if (now_ns < after_ns_) {
    ++dropped_;
    return;
  }
  after_ns_ = now_ns + every_ns_;
  if (dropped_ == 0) return log_line(LogLevel::kWarn, area, text);
  log_line(LogLevel::kWarn, area, std::string(text) + " (and " + std::to_string(dropped_) + " lines not shown)");
  dropped_ = 0;
}

void log_line(LogLevel level, std::string_view area, std::string_view text) noexcept {
  if (level == LogLevel::kOff) return;
  logger().log(to_spdlog(level), "{}: {}", area, text);
}

}  // namespace sluice
