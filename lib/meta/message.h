/// @file message.h
/// The out-of-band messages, and their JSON form.
///
/// Model    A message is one JSON object with a "type". Numbers of 64 bits travel as decimal strings, blobs as
///          hexadecimal. Unknown fields are ignored; a missing field has the default written here, unless it is marked
///          required. Lists, names and blobs have caps, which both encode and parse hold.
/// Threads  Pure.
/// Memory   Allocates no more than the text it reads calls for.
/// Errors   A parse error names the message and the field; nothing of the output is then meaningful.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "base/status.h"

namespace sluice {

inline constexpr uint32_t kOobVersion = 1;
inline constexpr size_t kMaxOobMessageBytes = size_t{1} << 20;
inline constexpr size_t kMaxHelloBytes = size_t{16} << 10;  ///< The cap until a peer has proved itself.
inline constexpr size_t kMaxNameBytes = 255;
inline constexpr size_t kMaxTextBytes = 1024;
inline constexpr size_t kMaxFeatures = 64;
inline constexpr size_t kMaxOfferLanes = 1024;
inline constexpr size_t kMaxAddressBlobBytes = 512;
inline constexpr size_t kMaxSegmentBuffers = 8192;
inline constexpr size_t kMaxBufferChunks = 4096;
inline constexpr size_t kMaxRails = 16;  ///< Of one node.

/// The first message in each direction.
struct Hello {
  uint32_t version = kOobVersion;  ///< Required.
  std::string name;                ///< Required, not empty.
  Incarnation incarnation{};       ///< Required, not 0.
  uint64_t nonce = 0;              ///< Required, not 0.
  std::string transport;           ///< "fabric_twosided"; for the caller to compare.
  std::string provider;
  std::vector<std::string> features;
  uint32_t max_message_bytes = 0;  ///< Largest data-plane message; both sides take the smaller. 0: not said.
  uint32_t lease_ms = 0;           ///< Required, not 0; both sides take the smaller.
  uint16_t port = 0;               ///< Where the sender listens; 0: nowhere.
  bool secret = false;             ///< The sender has a shared secret and demands one.

  bool has_feature(std::string_view feature) const noexcept;
};

/// The answer to a hello: it repeats that hello's nonce, so that an answer to another attempt is refused.
struct Welcome {
  uint64_t nonce = 0;
};
struct Ping {
  uint64_t nonce = 0;
};
struct Pong {
  uint64_t nonce = 0;
};

/// The last message of a connection.
struct Bye {
  std::string reason;
  bool duplicate = false;  ///< The pair has another connection.
  bool fenced = false;     ///< The sender places nothing of the receiver's any more.
};

/// One lane's end of a path.
struct LaneOffer {
  uint16_t rail = 0;
  uint16_t worker = 0;
  uint32_t lane = 0;
  SessionId session{};             ///< Required, not 0.
  std::vector<std::byte> address;  ///< Of the queue that serves the lane; the driver's own form.
};

/// What one node says to set up its paths with another. An answer is the same, for the other end.
struct PathOffer {
  uint64_t attempt = 0;  ///< Chosen by the offerer, repeated in the answer.
  std::string refusal;   ///< In an answer: why there are no paths; empty: accepted.
  std::vector<std::byte> ctrl_address;
  std::vector<LaneOffer> lanes;
  uint32_t slot_bytes = 0;  ///< Size of the sender's bounce slots.
  uint32_t slots = 0;       ///< Most slots that the sender may ever grant.
};
struct PathAnswer : PathOffer {};

/// A part of a buffer that is registered in one piece, with its key and address on each of the node's rails.
struct BufferChunk {
  uint64_t offset = 0, length = 0;
  std::vector<uint64_t> addrs, keys;

  bool operator==(const BufferChunk&) const = default;
};

struct SegmentBuffer {
  BufferId id{};
  uint64_t length = 0;
  std::vector<BufferChunk> chunks = {};  ///< One-sided only: in order, without gaps, all of the buffer.

  bool operator==(const SegmentBuffer&) const = default;
};

struct SegmentQuery {
  uint64_t request = 0;  ///< Chosen by the asker, repeated in the reply.
  std::string name;
};

struct SegmentReply {
  uint64_t request = 0;
  std::string refusal;  ///< Why there is no such segment; empty: found.
  std::vector<SegmentBuffer> buffers;
};

/// One-sided only: these buffers end. The receiver uses them no more, and says so (BuffersLeft) when nothing of its own
/// is under way to them.
struct BuffersEnd {
  uint64_t request = 0;  ///< Chosen by the sender, repeated in the answer.
  std::vector<uint64_t> ids;
};
struct BuffersLeft {
  uint64_t request = 0;
};

/// One-sided only: a queue was opened anew, so the paths to it lead here now.
struct PathMove {
  uint16_t rail = 0;
  uint16_t worker = 0;
  std::vector<std::byte> address;  ///< Required, not empty.
};

using OobMessage = std::variant<Hello, Welcome, Ping, Pong, Bye, PathOffer, PathAnswer, SegmentQuery, SegmentReply,
                                BuffersEnd, BuffersLeft, PathMove>;

/// The JSON text of @p message. @return kLimit when a list, name or blob is over its cap.
Status encode_message(const OobMessage& message, std::string* out);
/// @return kBadFrame, kUnsupported (a type that this version does not know: ignore it).
Status parse_message(std::string_view text, OobMessage* out);

}  // namespace sluice
