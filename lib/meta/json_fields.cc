#include "meta/json_fields.h"

#include <algorithm>
#include <charconv>

namespace sluice {
namespace {
constexpr int kMaxDepth = 8;
constexpr char kHex[] = "0123456789abcdef";

int hex_value(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}
}  // namespace

Status parse_json_object(std::string_view what, std::string_view text, Json* out) {
  bool too_deep = false;
  const auto limit_depth = [&too_deep](int depth, Json::parse_event_t, Json&) {
    too_deep = too_deep || depth > kMaxDepth;
    return !too_deep;
  };
  *out = Json::parse(text.begin(), text.end(), limit_depth, false);
  if (too_deep) return Status(Code::kBadFrame, std::string(what) + ": nested deeper than " + std::to_string(kMaxDepth));
  if (out->is_discarded()) return Status(Code::kBadFrame, std::string(what) + ": not JSON");
  if (!out->is_object()) return Status(Code::kBadFrame, std::string(what) + ": not a JSON object");
  return {};
}

std::string json_text(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

bool is_control(char c) noexcept { return static_cast<unsigned char>(c) < ' ' || c == 0x7f; }

std::string hex_of(const std::vector<std::byte>& blob) {
  std::string out;
  out.reserve(blob.size() * 2);
  for (const std::byte b : blob) {
    out += kHex[static_cast<unsigned>(b) >> 4];
    out += kHex[static_cast<unsigned>(b) & 15];
  }
  return out;
}

void Fields::fail(const char* name, const std::string& why) {
  if (status_.ok()) status_ = Status(Code::kBadFrame, where_ + ": field '" + name + "' " + why);
}

const Json* Fields::find(const char* name, Need need) {
  if (!status_.ok()) return nullptr;
  const auto it = object_.find(name);
  if (it != object_.end()) return &*it;
  if (need == Need::kRequired) fail(name, "is missing");
  return nullptr;
}

const Json* Fields::find_list(const char* name, size_t max_count) {
  const Json* list = find(name, Need::kOptional);
  if (list == nullptr) return nullptr;
  if (!list->is_array()) {
    fail(name, "is no list");
    return nullptr;
  }
  if (list->size() > max_count) {
    fail(name,
         "has " + std::to_string(list->size()) + " entries, at most " + std::to_string(max_count) + " are allowed");
    return nullptr;
  }
  return list;
}

void Fields::read_number(const char* name, uint64_t* out, uint64_t max, Need need) {
  const Json* field = find(name, need);
  if (field == nullptr) return;
  if (!field->is_number_unsigned()) return fail(name, "is no whole number");
  const auto value = *field->get_ptr<const uint64_t*>();
  if (value > max)
    return fail(name, "is " + std::to_string(value) + ", at most " + std::to_string(max) + " is allowed");
  if (value == 0 && need == Need::kRequired) return fail(name, "is 0");
  *out = value;
}

namespace {
bool parse_digits(const Json& field, uint64_t* out) {
  if (!field.is_string()) return false;
  const std::string& digits = *field.get_ptr<const std::string*>();
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, *out);
  return error == std::errc{} && stop == end;
}
}  // namespace

void Fields::read_u64(const char* name, uint64_t* out, Need need) {
  const Json* field = find(name, need);
  if (field == nullptr) return;
  uint64_t value = 0;
  if (!parse_digits(*field, &value)) return fail(name, "is no string of digits of 64 bits");
  if (value == 0 && need == Need::kRequired) return fail(name, "is 0");
  *out = value;
}

Fields& Fields::u64s(const char* name, std::vector<uint64_t>* out, size_t max_count) {
  const Json* list = find_list(name, max_count);
  if (list == nullptr) return *this;
  for (const Json& item : *list)
    if (!parse_digits(item, &out->emplace_back())) {
      fail(name, "has an item that is no string of digits of 64 bits");
      break;
    }
  return *this;
}

Fields& Fields::flag(const char* name, bool* out) {
  const Json* field = find(name, Need::kOptional);
  if (field == nullptr) return *this;
  if (field->is_boolean())
    *out = *field->get_ptr<const bool*>();
  else
    fail(name, "is neither true nor false");
  return *this;
}

Fields& Fields::text(const char* name, std::string* out, size_t max_bytes, Need need) {
  const Json* field = find(name, need);
  if (field == nullptr) return *this;
  if (!field->is_string()) {
    fail(name, "is no string");
    return *this;
  }
  const std::string& value = *field->get_ptr<const std::string*>();
  if (value.size() > max_bytes)
    fail(name, "has " + std::to_string(value.size()) + " bytes, at most " + std::to_string(max_bytes) + " are allowed");
  else if (value.empty() && need == Need::kRequired)
    fail(name, "is empty");
  else if (std::any_of(value.begin(), value.end(), is_control))
    fail(name, "has control characters");
  else
    *out = value;
  return *this;
}

Fields& Fields::texts(const char* name, std::vector<std::string>* out, size_t max_count, size_t max_bytes) {
  const Json* list = find_list(name, max_count);
  if (list == nullptr) return *this;
  for (const Json& entry : *list) {
    const auto* value = entry.get_ptr<const std::string*>();
    if (value == nullptr || value->size() > max_bytes || std::any_of(value->begin(), value->end(), is_control)) {
      fail(name, "has an entry that is no plain string of at most " + std::to_string(max_bytes) + " bytes");
      return *this;
    }
    out->push_back(*value);
  }
  return *this;
}

Fields& Fields::blob(const char* name, std::vector<std::byte>* out, size_t max_bytes) {
  std::string hex;
  text(name, &hex, max_bytes * 2);
  if (hex.size() % 2 != 0) fail(name, "has an odd number of hexadecimal digits");
  if (!status_.ok()) return *this;
  std::vector<std::byte> bytes(hex.size() / 2);
  for (size_t i = 0; i < bytes.size(); ++i) {
    const int high = hex_value(hex[2 * i]), low = hex_value(hex[2 * i + 1]);
    if (high < 0 || low < 0) {
      fail(name, "has something other than lower-case hexadecimal digits");
      return *this;
    }
    bytes[i] = static_cast<std::byte>(high * 16 + low);
  }
  *out = std::move(bytes);
  return *this;
}

}  // namespace sluice
