/// @file descriptor.h
/// What a node publishes of itself: who it is and which segments it exports.
///
/// Model    One JSON object, versioned: strict on types, lenient on unknown fields, which a later version may add.
///          Nothing publishes it yet: nodes ask for one segment at a time (message.h). It is what a directory will
///          publish, and stands here with its tests until then.
/// Threads  Pure.
/// Memory   Allocates no more than the text calls for.
/// Errors   A parse error names the field.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "meta/message.h"

namespace sluice {

inline constexpr uint32_t kDescriptorVersion = 1;
inline constexpr size_t kMaxDescriptorBytes = kMaxOobMessageBytes;
inline constexpr size_t kMaxSegments = 1024;

struct SegmentDescriptor {
  std::string name;  ///< Required, not empty, unique in its node.
  std::vector<SegmentBuffer> buffers;

  bool operator==(const SegmentDescriptor&) const = default;
};

struct NodeDescriptor {
  uint32_t version = kDescriptorVersion;  ///< Required.
  std::string name;                       ///< Required, not empty.
  Incarnation incarnation{};              ///< Required, not 0.
  std::string transport;
  std::string provider;
  std::vector<SegmentDescriptor> segments;

  bool operator==(const NodeDescriptor&) const = default;
};

/// @return kLimit when a list or name is over its cap.
Status encode_descriptor(const NodeDescriptor& node, std::string* out);
/// @return kBadFrame, kUnsupported (another version).
Status parse_descriptor(std::string_view text, NodeDescriptor* out);

}  // namespace sluice
