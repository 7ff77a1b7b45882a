/// @file notify_inbox.h
/// Notifies that came in and wait for the application.
///
/// Model    A fixed number of text buffers; their indices go round two rings: free, and full in order of arrival.
/// Threads  put: the control core. take: one application thread at a time (the engine serialises them).
/// Memory   Allocated by open(); put does not allocate.
/// Errors   put says false when every buffer is full: the sender is told, and nothing is lost silently.
#pragma once

#include <array>
#include <cstring>
#include <memory>
#include <string_view>

#include "agent/mailbox.h"
#include "base/ids.h"

namespace sluice {

class NotifyInbox {
 public:
  struct Item {
    uint32_t index;
    PeerId peer;
    uint16_t peer_generation;
    uint16_t name_bytes;
    uint16_t message_bytes;
    uint32_t pad;
  };
  static_assert(sizeof(Item) == 16);

  Status open(uint32_t count, uint32_t text_bytes) {
    text_bytes_ = text_bytes;
    text_ = std::make_unique<char[]>(size_t{count} * text_bytes);
    if (Status status = free_.open(count * 2); !status.ok()) return status;
    if (Status status = full_.open(count * 2); !status.ok()) return status;
    for (uint32_t i = 0; i < count; ++i) (void)free_.put(Item{i, PeerId{}, 0, 0, 0, 0});
    return Code::kOk;
  }

  bool has_room() const noexcept { return !free_.empty(); }
  /// @pre name and message fit text_bytes together.
  bool put(PeerId peer, uint16_t generation, std::string_view name, std::string_view message) noexcept {
    Item item;
    if (name.size() + message.size() > text_bytes_ || free_.take({&item, 1}) == 0) return false;
    char* text = text_.get() + size_t{item.index} * text_bytes_;
    if (!name.empty()) std::memcpy(text, name.data(), name.size());
    if (!message.empty()) std::memcpy(text + name.size(), message.data(), message.size());
    item.peer = peer;
    item.peer_generation = generation;
    item.name_bytes = static_cast<uint16_t>(name.size());
    item.message_bytes = static_cast<uint16_t>(message.size());
    return full_.put(item);
  }
  /// The oldest, to be given back with done().
  bool take(Item* item) noexcept { return full_.take({item, 1}) == 1; }
  std::string_view name(const Item& item) const noexcept { return {text(item), item.name_bytes}; }
  std::string_view message(const Item& item) const noexcept {
    return {text(item) + item.name_bytes, item.message_bytes};
  }
  void done(const Item& item) noexcept { (void)free_.put(item); }

 private:
  const char* text(const Item& item) const noexcept { return text_.get() + size_t{item.index} * text_bytes_; }
  uint32_t text_bytes_ = 0;
  std::unique_ptr<char[]> text_;
  Mailbox<Item> free_, full_;
};

}  // namespace sluice
