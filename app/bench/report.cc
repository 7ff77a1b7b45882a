#include "report.h"

#include <unistd.h>

#include <cstdio>

namespace sluice::bench {
namespace {
constexpr double kLongRun = 5;  // seconds from which progress is shown

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < 0x20) {
      char code[8];
      std::snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned>(c));
      out += code;
    } else {
      out += c;
    }
  }
  return out + '"';
}

double us(uint64_t ns) { return static_cast<double>(ns) / 1000; }
double gb_per_s(const Run& r) { return r.seconds > 0 ? static_cast<double>(r.bytes) / r.seconds / 1e9 : 0; }
double mops(const Run& r) { return r.seconds > 0 ? static_cast<double>(r.ops) / r.seconds / 1e6 : 0; }

std::string number(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

const char* verdict(const Run& r) { return !r.checked ? "-" : r.verified ? "yes" : "NO"; }
}  // namespace

std::string size_text(uint64_t bytes) {
  if (bytes != 0 && bytes % (1u << 20) == 0) return std::to_string(bytes >> 20) + "M";
  if (bytes != 0 && bytes % (1u << 10) == 0) return std::to_string(bytes >> 10) + "k";
  return std::to_string(bytes);
}

std::string json_line(const Run& r) {
  const auto pair = [](const char* key, const std::string& value) { return "\"" + std::string(key) + "\":" + value; };
  const auto count = [&](const char* key, uint64_t value) { return pair(key, std::to_string(value)); };
  const auto at = [&](const char* key, double p) {
    return pair(key, number("%.3f", us(p < 1 ? r.latency_ns.percentile(p) : r.latency_ns.max())));
  };
  std::string out = "{" + pair("mode", quoted(r.mode)) + "," + pair("transport", quoted(r.transport.transport)) + "," +
                    pair("provider", quoted(r.transport.provider)) + "," + pair("device", quoted(r.transport.device));
  out += "," + pair("op", quoted(r.op)) + "," + count("block_bytes", r.block) + "," + count("batch", r.batch);
  out += "," + count("depth", r.depth) + "," + count("threads", r.threads);
  out += "," + pair("seconds", number("%.6f", r.seconds)) + "," + count("ops", r.ops) + "," + count("bytes", r.bytes);
  out += "," + pair("gb_per_s", number("%.6f", gb_per_s(r))) + "," + pair("mops", number("%.6f", mops(r)));
  out += ",\"lat_us\":{" + at("p50", 0.5) + "," + at("p90", 0.9) + "," + at("p99", 0.99) + "," + at("p999", 0.999);
  out += "," + at("max", 1) + "}," + pair("verified", r.verified ? "true" : "false") + ",";
  out += count("failed_ops", r.failed) + "," + pair("submit_ns", number("%.1f", r.submit_ns)) + ",\"waiting\":{" +
         count("count", r.waits) + ",";
  out += count("max_us", r.wait_max_us) + "},\"extents\":{" + count("min", r.extents_min) + ",";
  out += count("max", r.extents_max) + "," + count("end", r.extents_end) + "},";
  return out + pair("shape", quoted(r.note)) + "}";
}

void Report::row(const Run& r) {
  if (runs_ == 0) {
    const TransportInfo& t = r.transport;
    std::printf("%s over %s", r.mode.c_str(), t.transport.c_str());
    if (!t.provider.empty()) std::printf(", provider %s", t.provider.c_str());
    std::printf(", device %s, %s\n", t.device.c_str(),
                r.threads == 0 ? "generator on the worker's lcore" : (std::to_string(r.threads) + " threads").c_str());
    if (!r.note.empty()) std::printf("%s\n", r.note.c_str());
    std::printf("%-7s %6s %6s %6s %10s %9s %9s %9s %9s %9s %9s %9s %9s %7s %9s\n", "op", "block", "batch", "depth",
                "ops", "GB/s", "Mops/s", "p50 us", "p90 us", "p99 us", "p999 us", "max us", "verified", "failed",
                "submit ns");
  }
  const auto at = [&](double p) { return us(r.latency_ns.percentile(p)); };
  std::printf("%-7s %6s %6u %6u %10llu %9.3f %9.4f %9.1f %9.1f %9.1f %9.1f %9.1f %9s %7llu %9.1f\n", r.op.c_str(),
              size_text(r.block).c_str(), r.batch, r.depth, static_cast<unsigned long long>(r.ops), gb_per_s(r),
              mops(r), at(0.5), at(0.9), at(0.99), at(0.999), us(r.latency_ns.max()), verdict(r),
              static_cast<unsigned long long>(r.failed), r.submit_ns);
}

void Report::add(const Run& run) {
  if (json_)
    std::printf("%s\n", json_line(run).c_str());
  else
    row(run);
  (void)std::fflush(stdout);
  if (!run.trouble.empty()) std::fprintf(stderr, "sluice-bench: %s\n", run.trouble.c_str());
  ok_ = ok_ && run.failed == 0 && run.trouble.empty() && (run.verified || !run.checked);
  ++runs_;
}

Progress::Progress(double seconds) noexcept : seconds_(seconds), on_(seconds >= kLongRun && ::isatty(2) != 0) {}

Progress::~Progress() {
  if (shown_) std::fprintf(stderr, "\r\033[K");
}

void Progress::show(std::string_view what, double done_seconds, double rate) {
  if (!on_) return;
  std::fprintf(stderr, "\r%.*s: %.0f of %.0f s, %.3f GB/s\033[K", static_cast<int>(what.size()), what.data(),
               done_seconds, seconds_, rate);
  shown_ = true;
}

}  // namespace sluice::bench
