#include "env/settings.h"

#include <algorithm>
#include <cassert>
#include <charconv>

namespace sluice {
namespace {
constexpr uint64_t kKilo = 1024;

uint64_t suffix_scale(std::string_view* text) noexcept {
  if (text->empty()) return 1;
  uint64_t scale = 1;
  switch (text->back()) {
    case 'k':
    case 'K': scale = kKilo; break;
    case 'm':
    case 'M': scale = kKilo * kKilo; break;
    case 'g':
    case 'G': scale = kKilo * kKilo * kKilo; break;
    default: return 1;
  }
  text->remove_suffix(1);
  return scale;
}

// "65536" as "64k", where nothing is lost.
std::string size_text(uint64_t bytes) {
  for (const auto& [scale, letter] : {std::pair{kKilo * kKilo * kKilo, "G"}, {kKilo * kKilo, "M"}, {kKilo, "k"}})
    if (bytes >= scale && bytes % scale == 0) return std::to_string(bytes / scale) + letter;
  return std::to_string(bytes);
}

std::string bound_text(const Setting& row, uint64_t bound) {
  return row.type == SettingType::kSize ? size_text(bound) : std::to_string(bound);
}

bool parse_number(const Setting& row, std::string_view text, uint64_t* number) noexcept {
  const uint64_t scale = row.type == SettingType::kSize ? suffix_scale(&text) : 1;
  uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end || value > UINT64_MAX / scale) return false;
  value *= scale;
  if (value < row.min || value > row.max) return false;
  *number = value;
  return true;
}

bool is_choice(std::string_view choices, std::string_view text) noexcept {
  while (true) {
    const size_t bar = choices.find('|');
    if (choices.substr(0, bar) == text) return true;
    if (bar == std::string_view::npos) return false;
    choices.remove_prefix(bar + 1);
  }
}

std::string commas(std::string_view choices) {
  std::string text;
  for (char c : choices) {
    if (c == '|') {
      text += ", ";
    } else {
      text += c;
    }
  }
  return text;
}

// What a value must be, for an error: "give a whole number from 1 to 64".
std::string wanted(const Setting& row) {
  const std::string range = range_text(row);
  switch (row.type) {
    case SettingType::kBool: return "give true or false";
    case SettingType::kChoice: return "give one of " + commas(row.choices);
    case SettingType::kSize:
      return "give a size such as 4k, 64k or 1M" + (range.empty() ? "" : ", " + range) + " bytes";
    default: return "give a whole number" + (range.empty() ? "" : ", " + range);
  }
}

std::string cell(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '|') out += '\\';
    out += c;
  }
  return out;
}

std::string_view type_name(SettingType type) noexcept {
  switch (type) {
    case SettingType::kBool: return "bool";
    case SettingType::kUint: return "number";
    case SettingType::kSize: return "size";
    case SettingType::kChoice: return "choice";
    case SettingType::kString: return "text";
    case SettingType::kSecret: return "secret";
    case SettingType::kList: return "list";
  }
  return "";
}
}  // namespace

std::string range_text(const Setting& row) {
  std::string text;
  if (row.type != SettingType::kUint && row.type != SettingType::kSize) return text;
  if (row.max != UINT64_MAX) {
    text = bound_text(row, row.min) + " to " + bound_text(row, row.max);
  } else if (row.min != 0) {
    text = "at least " + bound_text(row, row.min);
  } else {
    return text;
  }
  if (!row.unit.empty() && row.type != SettingType::kSize) text.append(" ").append(row.unit);
  return text;
}

Status check_setting(const Setting& row, std::string_view text, uint64_t* number) {
  bool fits = true;
  switch (row.type) {
    case SettingType::kBool: fits = text == "true" || text == "false"; break;
    case SettingType::kUint:
    case SettingType::kSize: fits = parse_number(row, text, number); break;
    case SettingType::kChoice: fits = is_choice(row.choices, text); break;
    case SettingType::kString:
    case SettingType::kSecret:
    case SettingType::kList: break;
  }
  if (fits) return Code::kOk;
  return {Code::kBadArgument, std::string(row.name) + " = \"" + std::string(text) + "\": " + wanted(row)};
}

Settings::Settings(std::vector<SettingRows> tables) : tables_(std::move(tables)) {
  for (SettingRows rows : tables_) {
    for (const Setting& row : rows) {
      Value value{&row, std::string(row.initial), 0, SettingSource::kDefault, "default"};
      [[maybe_unused]] const Status status = check_setting(row, row.initial, &value.number);
      assert(status.ok());
      values_.push_back(std::move(value));
    }
  }
}

// Check all, then apply all or nothing. @p errors holds what the reader found itself, one line each.
Status Settings::apply(SettingSource rank, const std::vector<Reading>& readings, std::string errors) {
  std::vector<uint64_t> numbers(readings.size());
  for (size_t i = 0; i < readings.size(); ++i) {
    const Status status = check_setting(*readings[i].row, readings[i].text, &numbers[i]);
    if (!status.ok()) errors.append(errors.empty() ? "" : "\n").append(readings[i].where + ": " + status.text());
  }
  if (!errors.empty()) return {Code::kBadArgument, std::move(errors)};
  for (size_t i = 0; i < readings.size(); ++i) {
    for (Value& value : values_) {
      if (value.row != readings[i].row || value.rank > rank) continue;
      value = {value.row, readings[i].text, numbers[i], rank, readings[i].where};
    }
  }
  return Code::kOk;
}

const Settings::Value& Settings::at(std::string_view name,
                                    [[maybe_unused]] std::initializer_list<SettingType> types) const noexcept {
  for (const Value& value : values_) {
    if (value.row->name != name) continue;
    assert(types.size() == 0 || std::ranges::find(types, value.row->type) != types.end());
    return value;
  }
  assert(false && "no such setting");
  static const Value kNone{nullptr, "", 0, SettingSource::kDefault, ""};
  return kNone;
}

bool Settings::flag(std::string_view name) const noexcept { return at(name, {SettingType::kBool}).text == "true"; }

uint64_t Settings::number(std::string_view name) const noexcept {
  return at(name, {SettingType::kUint, SettingType::kSize}).number;
}

const std::string& Settings::text(std::string_view name) const noexcept {
  return at(name, {SettingType::kString, SettingType::kSecret, SettingType::kChoice}).text;
}

std::vector<std::string> Settings::list(std::string_view name) const {
  std::vector<std::string> items;
  std::string_view rest = at(name, {SettingType::kList}).text;
  while (!rest.empty()) {
    const size_t comma = std::min(rest.find(','), rest.size());
    if (comma != 0) items.emplace_back(rest.substr(0, comma));
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  return items;
}

const std::string& Settings::source(std::string_view name) const noexcept { return at(name, {}).source; }

std::string Settings::effective() const {
  std::string out;
  for (const Value& value : values_) {
    const bool hidden = value.row->type == SettingType::kSecret && !value.text.empty();
    const std::string shown = value.row->type == SettingType::kSize ? size_text(value.number) : value.text;
    out.append(value.row->name).append(" = ").append(hidden ? "(set)" : shown);
    out.append("  # ").append(value.source).append("\n");
  }
  return out;
}

std::string settings_page(const std::vector<SettingRows>& tables) {
  std::string out =
      "# Settings\n\nThis page is made from the table in the source; `settings-doc` prints it.\n\n"
      "On the command line a setting is `--name value`; a bool is `--name` or `--no-name`. In a file (TOML,\n"
      "`--config FILE`) it is `name = value` at the top level, with underscores for hyphens. The command line wins\n"
      "over the file, and the file over the default. Sizes take `k`, `M` and `G` (1024).\n";
  std::string_view group;
  for (SettingRows rows : tables) {
    for (const Setting& row : rows) {
      if (row.group != group) {
        group = row.group;
        out.append("\n## ").append(group).append(
            "\n\n| name | type | default | range | what |\n|---|---|---|---|---|\n");
      }
      const std::string range = row.type == SettingType::kChoice ? commas(row.choices) : range_text(row);
      out.append("| `").append(row.name).append("` | ").append(type_name(row.type)).append(" | ");
      if (!row.initial.empty()) out.append("`").append(cell(row.initial)).append("`");
      out.append(" | ").append(cell(range)).append(" | ").append(cell(row.help)).append(" |\n");
    }
  }
  return out;
}

}  // namespace sluice
