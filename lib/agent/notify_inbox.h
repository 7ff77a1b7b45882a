/// @file notify_inbox.h
/// Notifies that came in and wait for the application.
///
/// Model    A fixed number of text buffers; their indices go round two rings: free, and full in order of arrival. With
///          each goes its sender's name, since the sender may be gone when it is read.
/// Threads  put: the control core. take: one application thread at a time (the engine serialises them).
/// Memory   Allocated by open(); put does not allocate.
/// Errors   put says false when every buffer is full: the sender is told, and nothing is lost silently.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <string_view>

#include "agent/mailbox.h"
#include "base/ids.h"

namespace sluice {

class NotifyInbox {
 public:
  struct Item {
    uint32_t index;
    uint16_t peer_bytes;
    uint16_t name_bytes;
    uint16_t message_bytes;
    std::array<uint16_t, 3> pad;
  };
  static_assert(sizeof(Item) == 16);

  Status open(uint32_t count, uint32_t text_bytes) {
    text_bytes_ = text_bytes;
    text_ = std::make_unique<char[]>(size_t{count} * text_bytes);
    if (Status status = free_.open(count * 2); !status.ok()) return status;
    if (Status status = full_.open(count * 2); !status.ok()) return status;
    for (uint32_t i = 0; i < count; ++i) (void)free_.put(Item{i, 0, 0, 0, {}});
    return Code::kOk;
  }

  bool has_room() const noexcept { return !free_.empty(); }
  /// @pre all three fit text_bytes together.
  bool put(std::string_view peer, std::string_view name, std::string_view message) noexcept {
    Item item;
    if (peer.size() + name.size() + message.size() > text_bytes_ || free_.take({&item, 1}) == 0) return false;
    char* to = text_.get() + size_t{item.index} * text_bytes_;
    for (const std::string_view part : {peer, name, message}) to = std::copy(part.begin(), part.end(), to);
    item.peer_bytes = static_cast<uint16_t>(peer.size());
    item.name_bytes = static_cast<uint16_t>(name.size());
    item.message_bytes = static_cast<uint16_t>(message.size());
    return full_.put(item);
  }
  /// The oldest, to be given back with done().
  bool take(Item* item) noexcept { return full_.take({item, 1}) == 1; }
  std::string_view peer(const Item& item) const noexcept { return {text(item), item.peer_bytes}; }
  std::string_view name(const Item& item) const noexcept { return {text(item) + item.peer_bytes, item.name_bytes}; }
  std::string_view message(const Item& item) const noexcept {
    return {text(item) + item.peer_bytes + item.name_bytes, item.message_bytes};
  }
  void done(const Item& item) noexcept { (void)free_.put(item); }

 private:
  const char* text(const Item& item) const noexcept { return text_.get() + size_t{item.index} * text_bytes_; }
  uint32_t text_bytes_ = 0;
  std::unique_ptr<char[]> text_;
  Mailbox<Item> free_, full_;
};

}  // namespace sluice
