#include "meta/message.h"

#include <algorithm>

#include "meta/json_fields.h"
#include "meta/segment_json.h"

namespace sluice {
namespace {

std::string digits(uint64_t value) { return std::to_string(value); }

Status over(const char* what, size_t have, size_t cap) {
  if (have <= cap) return {};
  return Status(Code::kLimit, std::string(what) + " has " + std::to_string(have) + ", at most " + std::to_string(cap) +
                                  " fit into one message");
}

/// A text for people, so short and plain that the peer's parser takes it (a byte that is no UTF-8 becomes three).
std::string cut(const std::string& text) {
  size_t end = std::min(text.size(), kMaxTextBytes / 3);
  if (end < text.size())
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;  // not inside a character
  std::string out = text.substr(0, end);
  std::replace_if(out.begin(), out.end(), is_control, '?');
  return out;
}

// ---- encode: one function for each message; its type name comes from the table below.

Status encode(const Hello& m, Json* j) {
  *j = {{"version", m.version},     {"name", m.name},
        {"nonce", digits(m.nonce)}, {"incarnation", digits(raw(m.incarnation))},
        {"port", m.port},           {"transport", m.transport},
        {"secret", m.secret},       {"provider", m.provider},
        {"features", m.features},   {"max_message_bytes", m.max_message_bytes},
        {"lease_ms", m.lease_ms}};
  if (Status bad = over("features", m.features.size(), kMaxFeatures); !bad.ok()) return bad;
  for (const std::string& feature : m.features)
    if (Status bad = over("a feature's name", feature.size(), kMaxNameBytes); !bad.ok()) return bad;
  return over("the longest of name, transport and provider",
              std::max({m.name.size(), m.transport.size(), m.provider.size()}), kMaxNameBytes);
}

template <typename Nonce>
Status encode_nonce(const Nonce& m, Json* j) {
  *j = {{"nonce", digits(m.nonce)}};
  return {};
}
Status encode(const Welcome& m, Json* j) { return encode_nonce(m, j); }
Status encode(const Ping& m, Json* j) { return encode_nonce(m, j); }
Status encode(const Pong& m, Json* j) { return encode_nonce(m, j); }

Status encode(const Bye& m, Json* j) {
  *j = {{"reason", cut(m.reason)}, {"duplicate", m.duplicate}, {"fenced", m.fenced}};
  return {};
}

Status encode(const PathOffer& m, Json* j) {
  *j = {{"attempt", digits(m.attempt)},
        {"refusal", cut(m.refusal)},
        {"ctrl_address", hex_of(m.ctrl_address)},
        {"slot_bytes", m.slot_bytes},
        {"slots", m.slots}};
  Json lanes = Json::array();
  size_t longest = m.ctrl_address.size();
  for (const LaneOffer& lane : m.lanes) {
    longest = std::max(longest, lane.address.size());
    lanes.push_back({{"rail", lane.rail},
                     {"worker", lane.worker},
                     {"lane", lane.lane},
                     {"session", digits(raw(lane.session))},
                     {"address", hex_of(lane.address)}});
  }
  (*j)["lanes"] = std::move(lanes);
  if (Status bad = over("lanes", m.lanes.size(), kMaxOfferLanes); !bad.ok()) return bad;
  return over("the longest address blob", longest, kMaxAddressBlobBytes);
}
Status encode(const PathAnswer& m, Json* j) { return encode(static_cast<const PathOffer&>(m), j); }

Status encode(const SegmentQuery& m, Json* j) {
  *j = {{"request", digits(m.request)}, {"name", m.name}};
  return over("the segment's name", m.name.size(), kMaxNameBytes);
}

Status encode(const SegmentReply& m, Json* j) {
  *j = {{"request", digits(m.request)}, {"refusal", cut(m.refusal)}};
  Json buffers = Json::array();
  for (const SegmentBuffer& buffer : m.buffers) {
    if (Status bad = over("chunks of a buffer", buffer.chunks.size(), kMaxBufferChunks); !bad.ok()) return bad;
    buffers.push_back(buffer_json(buffer));
  }
  (*j)["buffers"] = std::move(buffers);
  return over("buffers", m.buffers.size(), kMaxSegmentBuffers);
}

Status encode(const BuffersEnd& m, Json* j) {
  Json ids = Json::array();
  for (const uint64_t id : m.ids) ids.push_back(digits(id));
  *j = {{"request", digits(m.request)}, {"ids", std::move(ids)}};
  return over("buffers", m.ids.size(), kMaxSegmentBuffers);
}
Status encode(const BuffersLeft& m, Json* j) {
  *j = {{"request", digits(m.request)}};
  return {};
}
Status encode(const PathMove& m, Json* j) {
  *j = {{"rail", m.rail}, {"worker", m.worker}, {"address", hex_of(m.address)}};
  return over("an address blob", m.address.size(), kMaxAddressBlobBytes);
}

// ---- parse

void parse(Fields& f, Hello* m) {
  f.number("version", &m->version, Need::kRequired);
  if (f.status().ok() && m->version != kOobVersion) return;  // another version's fields may have other meanings
  f.text("name", &m->name, kMaxNameBytes, Need::kRequired)
      .u64("incarnation", &m->incarnation, Need::kRequired)
      .u64("nonce", &m->nonce, Need::kRequired)
      .text("transport", &m->transport, kMaxNameBytes)
      .text("provider", &m->provider, kMaxNameBytes)
      .texts("features", &m->features, kMaxFeatures, kMaxNameBytes)
      .number("max_message_bytes", &m->max_message_bytes)
      .number("lease_ms", &m->lease_ms, Need::kRequired)
      .number("port", &m->port)
      .flag("secret", &m->secret);
}

void parse(Fields& f, Welcome* m) { f.u64("nonce", &m->nonce, Need::kRequired); }
void parse(Fields& f, Ping* m) { f.u64("nonce", &m->nonce, Need::kRequired); }
void parse(Fields& f, Pong* m) { f.u64("nonce", &m->nonce, Need::kRequired); }

void parse(Fields& f, Bye* m) {
  f.text("reason", &m->reason, kMaxTextBytes).flag("duplicate", &m->duplicate).flag("fenced", &m->fenced);
}

void parse(Fields& f, PathOffer* m) {
  f.u64("attempt", &m->attempt)
      .text("refusal", &m->refusal, kMaxTextBytes)
      .blob("ctrl_address", &m->ctrl_address, kMaxAddressBlobBytes)
      .number("slot_bytes", &m->slot_bytes)
      .number("slots", &m->slots)
      .objects("lanes", kMaxOfferLanes, [m](Fields& lane) {
        LaneOffer& made = m->lanes.emplace_back();
        lane.number("rail", &made.rail)
            .number("worker", &made.worker)
            .number("lane", &made.lane)
            .u64("session", &made.session, Need::kRequired)
            .blob("address", &made.address, kMaxAddressBlobBytes);
      });
}

void parse(Fields& f, SegmentQuery* m) {
  f.u64("request", &m->request).text("name", &m->name, kMaxNameBytes, Need::kRequired);
}

void parse(Fields& f, SegmentReply* m) {
  f.u64("request", &m->request)
      .text("refusal", &m->refusal, kMaxTextBytes)
      .objects("buffers", kMaxSegmentBuffers,
               [m](Fields& buffer) { parse_buffer(buffer, &m->buffers.emplace_back()); });
}

void parse(Fields& f, BuffersEnd* m) {
  f.u64("request", &m->request, Need::kRequired).u64s("ids", &m->ids, kMaxSegmentBuffers);
}
void parse(Fields& f, BuffersLeft* m) { f.u64("request", &m->request, Need::kRequired); }
void parse(Fields& f, PathMove* m) {
  f.number("rail", &m->rail).number("worker", &m->worker).blob("address", &m->address, kMaxAddressBlobBytes);
  if (f.status().ok() && m->address.empty()) f.fail("address", "is missing");
}

// ---- the table: the name of each alternative of OobMessage, in its order.

template <size_t kIndex>
Status parse_as(Fields& fields, OobMessage* out) {
  std::variant_alternative_t<kIndex, OobMessage> made;
  parse(fields, &made);
  if (fields.status().ok()) *out = std::move(made);
  return fields.status();
}

struct TypeRow {
  const char* name;
  Status (*parse)(Fields&, OobMessage*);
};
constexpr TypeRow kTypes[] = {
    {"hello", parse_as<0>},       {"welcome", parse_as<1>},       {"ping", parse_as<2>},
    {"pong", parse_as<3>},        {"bye", parse_as<4>},           {"offer", parse_as<5>},
    {"answer", parse_as<6>},      {"segment_query", parse_as<7>}, {"segment_reply", parse_as<8>},
    {"buffers_end", parse_as<9>}, {"buffers_left", parse_as<10>}, {"path_move", parse_as<11>},
};
static_assert(std::size(kTypes) == std::variant_size_v<OobMessage>, "one row for each message");
}  // namespace

bool Hello::has_feature(std::string_view feature) const noexcept {
  return std::find(features.begin(), features.end(), feature) != features.end();
}

Status encode_message(const OobMessage& message, std::string* out) {
  Json object;
  if (Status bad = std::visit([&object](const auto& m) { return encode(m, &object); }, message); !bad.ok()) return bad;
  object["type"] = kTypes[message.index()].name;
  *out = json_text(object);
  return over("bytes", out->size(), kMaxOobMessageBytes);
}

Status parse_message(std::string_view text, OobMessage* out) {
  Json object;
  if (Status bad = parse_json_object("message", text, &object); !bad.ok()) return bad;
  std::string type;
  Fields head("message", object);
  if (!head.text("type", &type, kMaxNameBytes, Need::kRequired).status().ok()) return head.status();
  for (const TypeRow& row : kTypes) {
    if (type != row.name) continue;
    Fields fields(type, object);
    return row.parse(fields, out);
  }
  return Status(Code::kUnsupported, "message: type is none that this version knows");
}

}  // namespace sluice
