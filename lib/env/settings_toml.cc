#include <toml++/toml.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "env/settings.h"

namespace sluice {
namespace {
bool scalar_text(const toml::node& node, std::string* text) {
  if (const auto* word = node.as_string()) {
    *text = word->get();
  } else if (const auto* number = node.as_integer()) {
    *text = std::to_string(number->get());
  } else {
    return false;
  }
  return true;
}

// The value of @p node as text; what is wrong with its type, or empty.
std::string_view node_text(const Setting& row, const toml::node& node, std::string* text) {
  switch (row.type) {
    case SettingType::kBool:
      if (!node.is_boolean()) return "give true or false, without quotes";
      *text = node.as_boolean()->get() ? "true" : "false";
      return {};
    case SettingType::kUint:
      if (!node.is_integer()) return "give a whole number, without quotes";
      return scalar_text(node, text), std::string_view{};
    case SettingType::kSize: return scalar_text(node, text) ? "" : "give a number of bytes, or a text such as \"64k\"";
    case SettingType::kChoice:
    case SettingType::kString:
    case SettingType::kSecret:
      if (!node.is_string()) return "give a text in quotes";
      return scalar_text(node, text), std::string_view{};
    case SettingType::kList: break;
  }
  if (const toml::array* items = node.as_array()) {
    for (const toml::node& item : *items) {
      std::string one;
      if (!scalar_text(item, &one)) return "give texts or numbers in the list";
      text->append(text->empty() ? "" : ",").append(one);
    }
    return {};
  }
  return scalar_text(node, text) ? "" : "give a list of texts, such as [\"a\", \"b\"]";
}

std::string place(const std::string& path, const toml::source_region& source) {
  return path + ":" + std::to_string(source.begin.line);
}
}  // namespace

Status Settings::parse_file(const std::string& path) {
  std::ifstream file(path);
  file.peek();  // a folder opens and does not read
  if (!file.is_open() || file.bad())
    return {Code::kNotFound, "settings file " + path + " cannot be read (" + std::strerror(errno) +
                                 "): give the path of a readable TOML file"};
  std::stringstream content;
  if (!file.eof()) content << file.rdbuf();
  std::vector<Reading> readings;
  std::string errors;
  const auto complain = [&](const std::string& line) { errors.append(errors.empty() ? "" : "\n").append(line); };
  try {
    const toml::table table = toml::parse(content, path);
    for (const auto& [key, node] : table) {
      const std::string where = place(path, node.source());
      std::string name(key.str());
      const bool hyphen = name.find('-') != std::string::npos;
      std::ranges::replace(name, '_', '-');
      const auto value = std::ranges::find_if(values_, [&](const Value& v) { return v.row->name == name; });
      if (value == values_.end() || hyphen) {
        complain(where + ": unknown setting " + std::string(key.str()) +
                 (hyphen ? ": a file spells names with underscores" : ": --help lists the settings"));
        continue;
      }
      std::string text;
      const std::string_view wrong = node_text(*value->row, node, &text);
      if (!wrong.empty()) {
        complain(where + ": " + std::string(key.str()) + ": " + std::string(wrong));
        continue;
      }
      readings.push_back({value->row, std::move(text), where});
    }
  } catch (const toml::parse_error& error) {
    return {Code::kBadArgument, place(path, error.source()) + ": " + std::string(error.description())};
  }
  return apply(SettingSource::kFile, readings, std::move(errors));
}

}  // namespace sluice
