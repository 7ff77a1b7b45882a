/// @file json_fields.h
/// Reads typed fields out of untrusted JSON, for the parsers of this folder.
///
/// Model    A Fields stands on one JSON object. Each call reads one field into an output, if the field is there; the
///          first fault is kept and later calls do nothing, so that a parser reads as the list of its fields.
/// Threads  Pure.
/// Memory   Outputs only; a cap is checked before anything is copied.
/// Errors   status() is kBadFrame with "hello: field 'name' ...".
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/status.h"

namespace sluice {

using Json = nlohmann::json;

enum class Need : uint8_t { kOptional, kRequired };  ///< Required: there, and neither 0 nor empty.

/// Parse @p text: an object, nested no deeper than 8. @return kBadFrame, with @p what in the text.
Status parse_json_object(std::string_view what, std::string_view text, Json* out);
/// One line, whatever bytes its strings have.
std::string json_text(const Json& value);

/// Whether @p c could forge a line of a log.
bool is_control(char c) noexcept;
std::string hex_of(const std::vector<std::byte>& blob);

class Fields {
 public:
  /// @p where is named in errors. @pre @p object is an object and outlives this.
  Fields(std::string where, const Json& object) : where_(std::move(where)), object_(object) {}

  /// A JSON number that fits @p out, which may be a strong id.
  template <typename T>
  Fields& number(const char* name, T* out, Need need = Need::kOptional) {
    using Plain = typename std::conditional_t<std::is_enum_v<T>, std::underlying_type<T>, std::type_identity<T>>::type;
    auto value = static_cast<uint64_t>(*out);
    read_number(name, &value, std::numeric_limits<Plain>::max(), need);
    *out = static_cast<T>(value);
    return *this;
  }
  /// 64 bits, as a decimal string. @p out may be a strong id.
  template <typename T>
  Fields& u64(const char* name, T* out, Need need = Need::kOptional) {
    auto value = static_cast<uint64_t>(*out);
    read_u64(name, &value, need);
    *out = static_cast<T>(value);
    return *this;
  }
  Fields& flag(const char* name, bool* out);
  Fields& text(const char* name, std::string* out, size_t max_bytes, Need need = Need::kOptional);
  Fields& texts(const char* name, std::vector<std::string>* out, size_t max_count, size_t max_bytes);
  /// A list of 64-bit numbers, each a decimal string.
  Fields& u64s(const char* name, std::vector<uint64_t>* out, size_t max_count);
  /// Hexadecimal.
  Fields& blob(const char* name, std::vector<std::byte>* out, size_t max_bytes);
  /// A list of objects; @p each(Fields&) reads one.
  template <typename Each>
  Fields& objects(const char* name, size_t max_count, Each&& each) {
    const Json* list = find_list(name, max_count);
    if (list == nullptr) return *this;
    for (size_t i = 0; i < list->size() && status_.ok(); ++i) {
      std::string at = where_ + "." + name + "[" + std::to_string(i) + "]";
      if (!(*list)[i].is_object()) {
        status_ = Status(Code::kBadFrame, at + " is no object");
        break;
      }
      Fields fields(std::move(at), (*list)[i]);
      each(fields);
      if (!fields.status().ok()) status_ = fields.status();
    }
    return *this;
  }

  /// Refuse the field @p name by hand.
  void fail(const char* name, const std::string& why);
  const Status& status() const noexcept { return status_; }

 private:
  const Json* find(const char* name, Need need);
  const Json* find_list(const char* name, size_t max_count);
  void read_number(const char* name, uint64_t* out, uint64_t max, Need need);
  void read_u64(const char* name, uint64_t* out, Need need);

  std::string where_;
  const Json& object_;
  Status status_;
};

}  // namespace sluice
