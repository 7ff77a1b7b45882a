#include "meta/descriptor.h"

#include <algorithm>

#include "meta/json_fields.h"
#include "meta/segment_json.h"

namespace sluice {

Status encode_descriptor(const NodeDescriptor& node, std::string* out) {
  if (node.segments.size() > kMaxSegments)
    return Status(Code::kLimit, "node '" + node.name + "' has " + std::to_string(node.segments.size()) +
                                    " segments, at most " + std::to_string(kMaxSegments) + " can be published");
  Json segments = Json::array();
  for (const SegmentDescriptor& segment : node.segments) {
    if (segment.name.size() > kMaxNameBytes || segment.buffers.size() > kMaxSegmentBuffers)
      return Status(Code::kLimit, "segment '" + segment.name.substr(0, kMaxNameBytes) +
                                      "' is too large to publish: at most " + std::to_string(kMaxSegmentBuffers) +
                                      " buffers and a name of " + std::to_string(kMaxNameBytes) + " bytes");
    Json buffers = Json::array();
    for (const SegmentBuffer& buffer : segment.buffers) buffers.push_back(buffer_json(buffer));
    segments.push_back({{"name", segment.name}, {"buffers", std::move(buffers)}});
  }
  *out = json_text({{"version", node.version},
                    {"name", node.name},
                    {"incarnation", std::to_string(raw(node.incarnation))},
                    {"transport", node.transport},
                    {"provider", node.provider},
                    {"segments", std::move(segments)}});
  if (out->size() > kMaxDescriptorBytes)
    return Status(Code::kLimit, "the descriptor of node '" + node.name + "' has " + std::to_string(out->size()) +
                                    " bytes, at most " + std::to_string(kMaxDescriptorBytes) + " can be published");
  return {};
}

Status parse_descriptor(std::string_view text, NodeDescriptor* out) {
  *out = NodeDescriptor{};
  if (text.size() > kMaxDescriptorBytes)
    return Status(Code::kBadFrame, "descriptor: " + std::to_string(text.size()) + " bytes, at most " +
                                       std::to_string(kMaxDescriptorBytes) + " are read");
  Json object;
  if (Status bad = parse_json_object("descriptor", text, &object); !bad.ok()) return bad;
  Fields fields("descriptor", object);
  fields.number("version", &out->version, Need::kRequired);
  if (fields.status().ok() && out->version != kDescriptorVersion)
    return Status(Code::kUnsupported, "descriptor: version " + std::to_string(out->version) +
                                          ", this build reads version " + std::to_string(kDescriptorVersion) +
                                          ": run the same release on both nodes");
  fields.text("name", &out->name, kMaxNameBytes, Need::kRequired)
      .u64("incarnation", &out->incarnation, Need::kRequired)
      .text("transport", &out->transport, kMaxNameBytes)
      .text("provider", &out->provider, kMaxNameBytes)
      .objects("segments", kMaxSegments, [out](Fields& segment) {
        SegmentDescriptor& made = out->segments.emplace_back();
        segment.text("name", &made.name, kMaxNameBytes, Need::kRequired)
            .objects("buffers", kMaxSegmentBuffers,
                     [&made](Fields& buffer) { parse_buffer(buffer, &made.buffers.emplace_back()); });
        const auto same = [&made](const SegmentDescriptor& other) { return other.name == made.name; };
        if (std::count_if(out->segments.begin(), out->segments.end(), same) > 1) segment.fail("name", "stands twice");
      });
  return fields.status();
}

}  // namespace sluice
