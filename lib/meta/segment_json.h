/// @file segment_json.h
/// The JSON form of a segment's buffer, in messages and descriptors.
///
/// Model    Numbers of 64 bits are decimal strings, so that a key above 2^53 survives every JSON library.
/// Threads  Pure.
/// Memory   As json_fields.h.
/// Errors   parse_buffer: the status of the fields. A chunk has a key and an address for each rail; chunks follow one
///          another from offset 0 and add up to the buffer.
#pragma once

#include "meta/json_fields.h"
#include "meta/message.h"

namespace sluice {

Json buffer_json(const SegmentBuffer& buffer);
void parse_buffer(Fields& fields, SegmentBuffer* out);

}  // namespace sluice
