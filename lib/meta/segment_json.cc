#include "meta/segment_json.h"

namespace sluice {
namespace {
Json digits(const std::vector<uint64_t>& values) {
  Json list = Json::array();
  for (const uint64_t value : values) list.push_back(std::to_string(value));
  return list;
}
}  // namespace

Json buffer_json(const SegmentBuffer& buffer) {
  Json object = {{"id", raw(buffer.id)}, {"length", std::to_string(buffer.length)}};
  if (buffer.chunks.empty()) return object;
  Json chunks = Json::array();
  for (const BufferChunk& chunk : buffer.chunks)
    chunks.push_back({{"offset", std::to_string(chunk.offset)},
                      {"length", std::to_string(chunk.length)},
                      {"addrs", digits(chunk.addrs)},
                      {"keys", digits(chunk.keys)}});
  object["chunks"] = std::move(chunks);
  return object;
}

void parse_buffer(Fields& fields, SegmentBuffer* out) {
  uint64_t end = 0;
  fields.number("id", &out->id)
      .u64("length", &out->length)
      .objects("chunks", kMaxBufferChunks, [out, &end](Fields& chunk) {
        BufferChunk& made = out->chunks.emplace_back();
        chunk.u64("offset", &made.offset)
            .u64("length", &made.length, Need::kRequired)
            .u64s("addrs", &made.addrs, kMaxRails)
            .u64s("keys", &made.keys, kMaxRails);
        if (!chunk.status().ok()) return;
        if (made.keys.empty() || made.keys.size() != made.addrs.size())
          return chunk.fail("keys", "are not as many as the addresses, one for each rail");
        if (made.keys.size() != out->chunks.front().keys.size())
          return chunk.fail("keys", "are not as many as those of the first chunk");
        if (made.offset != end || made.length > out->length - end)
          return chunk.fail("offset", "does not follow the chunk before it, or its end is beyond the buffer");
        end += made.length;
      });
  if (fields.status().ok() && !out->chunks.empty() && end != out->length)
    fields.fail("chunks", "do not cover the buffer");
}

}  // namespace sluice
