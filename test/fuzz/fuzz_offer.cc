// Out-of-band messages of every type, JSON or nearly (json_mutator.cc): what is accepted keeps its caps and comes back
// the same through its own text.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "meta/message.h"

using namespace sluice;

namespace {

void require(bool good) {
  if (!good) __builtin_trap();
}

void judge_paths(const PathOffer& offer) {
  require(offer.lanes.size() <= kMaxOfferLanes && offer.ctrl_address.size() <= kMaxAddressBlobBytes);
  require(offer.refusal.size() <= kMaxTextBytes);
  for (const LaneOffer& lane : offer.lanes)
    require(raw(lane.session) != 0 && lane.address.size() <= kMaxAddressBlobBytes);
}

struct Judge {
  void operator()(const Hello& m) const {
    if (m.version != kOobVersion) return;  // refused by its version alone; the rest was not read
    require(!m.name.empty() && m.name.size() <= kMaxNameBytes && raw(m.incarnation) != 0 && m.nonce != 0);
    require(m.lease_ms != 0 && m.features.size() <= kMaxFeatures);
  }
  void operator()(const PathOffer& m) const { judge_paths(m); }
  void operator()(const PathAnswer& m) const { judge_paths(m); }
  void operator()(const SegmentQuery& m) const { require(m.name.size() <= kMaxNameBytes); }
  void operator()(const SegmentReply& m) const {
    require(m.buffers.size() <= kMaxSegmentBuffers && m.refusal.size() <= kMaxTextBytes);
    for (const SegmentBuffer& buffer : m.buffers) {
      uint64_t end = 0;
      for (const BufferChunk& chunk : buffer.chunks) {
        require(chunk.offset == end && chunk.length != 0 && chunk.length <= buffer.length - end);
        require(!chunk.keys.empty() && chunk.keys.size() <= kMaxRails && chunk.keys.size() == chunk.addrs.size());
        require(chunk.keys.size() == buffer.chunks[0].keys.size());
        end += chunk.length;
      }
      require(buffer.chunks.empty() || end == buffer.length);
    }
  }
  void operator()(const BuffersEnd& m) const { require(m.request != 0 && m.ids.size() <= kMaxSegmentBuffers); }
  void operator()(const BuffersLeft& m) const { require(m.request != 0); }
  void operator()(const PathMove& m) const { require(!m.address.empty() && m.address.size() <= kMaxAddressBlobBytes); }
  void operator()(const Bye& m) const { require(m.reason.size() <= kMaxTextBytes); }
  void operator()(const Welcome&) const {}
  void operator()(const Ping&) const {}
  void operator()(const Pong&) const {}
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  OobMessage message, again;
  if (!parse_message({reinterpret_cast<const char*>(data), size}, &message).ok()) return 0;
  std::visit(Judge{}, message);
  std::string once, twice;
  if (!encode_message(message, &once).ok()) return 0;  // our form can be longer than what was read
  require(parse_message(once, &again).ok() && again.index() == message.index());
  require(encode_message(again, &twice).ok() && once == twice);
  return 0;
}
