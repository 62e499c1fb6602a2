#include "lists.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

#include "owned.hpp"
#include "values.hpp"

namespace gapless {
namespace {

template <class T>
void put(std::vector<uint8_t>& out, T value) {
  const size_t end = out.size();
  out.resize(end + sizeof value);
  std::memcpy(&out[end], &value, sizeof value);
}

void put_bytes(std::vector<uint8_t>& out, const uint8_t* data, size_t size) {
  if (size > 0) out.insert(out.end(), data, data + size);
}

void put_text(std::vector<uint8_t>& out, const Span& span) {
  put(out, span.size);
  put_bytes(out, span.data, span.size);
}

// `at` counts from where the parent's rows begin; a child's own offset is added here.
void encode_element(const Node& node, const ArrowArray& array, size_t at,
                    std::vector<uint8_t>& out) {
  at += static_cast<size_t>(array.offset);
  const uint8_t* validity = validity_of(array);
  const bool is_null = validity != nullptr && !bit(validity, at);
  out.push_back(!is_null);
  if (is_null) return;
  switch (node.kind) {
    case Kind::boolean: return put(out, uint8_t{bit(buffer(array, 1), at)});
    case Kind::float16: return put(out, canonical(load<uint16_t>(buffer(array, 1) + at * 2)));
    case Kind::float32: return put(out, canonical(load<uint32_t>(buffer(array, 1) + at * 4)));
    case Kind::float64: return put(out, canonical(load<uint64_t>(buffer(array, 1) + at * 8)));
    case Kind::text32: return put_text(out, text_at<int32_t>(node, array, at));
    case Kind::text64: return put_text(out, text_at<int64_t>(node, array, at));
    case Kind::list: return encode_list(node, array, at, out);
    case Kind::structure:
      for (size_t i = 0; i < node.items.size(); ++i)
        encode_element(node.items[i], *array.children[i], at, out);
      return;
    default:
      return put_bytes(out, buffer(array, 1) + at * node.width, node.width);
  }
}

int64_t buffers_of(const Node& node) {
  switch (node.kind) {
    case Kind::structure: return 1;
    case Kind::text32:
    case Kind::text64: return 3;
    default: return 2;
  }
}

bool has_offsets(const Node& node) {
  return node.kind == Kind::text32 || node.kind == Kind::text64 || node.kind == Kind::list;
}

Buffer copied(const std::vector<uint8_t>& bytes) {
  Buffer out = zeros(bytes.size());
  if (!bytes.empty()) std::memcpy(out.get(), bytes.data(), bytes.size());
  return out;
}

}  // namespace

void check_list(const Node& node, const ArrowArray& array) {
  if (array.dictionary != nullptr || array.n_buffers != buffers_of(node) ||
      static_cast<size_t>(array.n_children) != node.items.size())
    bad(node, "not the type of the table's");
  for (size_t i = 0; i < node.items.size(); ++i) check_list(node.items[i], *array.children[i]);
}

void encode_list(const Node& list, const ArrowArray& array, size_t at, std::vector<uint8_t>& out) {
  const ArrowArray& elements = *array.children[0];
  const auto begin = load<int32_t>(buffer(array, 1) + at * 4);
  const auto end = load<int32_t>(buffer(array, 1) + (at + 1) * 4);
  if (begin < 0 || end < begin) bad(list, "list offsets that run backwards");
  if (end > elements.length) bad(list, "a list past the end of its elements");
  put(out, static_cast<uint32_t>(end - begin));
  for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i)
    encode_element(list.items[0], elements, i, out);
}

Elements::Elements(const Node& node) : node_(node) {
  for (const Node& item : node.items) children_.emplace_back(item);
  if (has_offsets(node)) append_offset(0);
}

void Elements::append_offset(size_t end) {
  if (node_.kind == Kind::text64) return put(offsets_, static_cast<int64_t>(end));
  if (end > INT32_MAX)
    throw std::length_error("column '" + node_.path +
                            "': more than 2 GB of values; ask for fewer rows at once");
  put(offsets_, static_cast<int32_t>(end));
}

const uint8_t* Elements::append_list(const uint8_t* from) {
  const auto count = load<uint32_t>(from);
  from += sizeof count;
  for (uint32_t i = 0; i < count; ++i) from = append(from);
  return from;
}

const uint8_t* Elements::append(const uint8_t* from) {
  if (*from++ == 0) {
    append_null();
    return from;
  }
  if (rows_ % 8 == 0) validity_.push_back(0);
  validity_[rows_ / 8] |= static_cast<uint8_t>(1 << (rows_ % 8));
  switch (node_.kind) {
    case Kind::boolean:
      if (rows_ % 8 == 0) data_.push_back(0);
      data_[rows_ / 8] |= static_cast<uint8_t>(*from++ << (rows_ % 8));
      break;
    case Kind::text32:
    case Kind::text64: {
      const auto size = load<uint32_t>(from);
      from += sizeof size;
      put_bytes(data_, from, size);
      from += size;
      append_offset(data_.size());
      break;
    }
    case Kind::list:
      from = children_[0].append_list(from);
      append_offset(children_[0].size());
      break;
    case Kind::structure:
      for (Elements& field : children_) from = field.append(from);
      break;
    default:
      put_bytes(data_, from, node_.width);
      from += node_.width;
  }
  ++rows_;
  return from;
}

// The fields of a null struct are null, and a null list has no elements.
void Elements::append_null() {
  if (rows_ % 8 == 0) validity_.push_back(0);
  if (node_.kind == Kind::boolean) {
    if (rows_ % 8 == 0) data_.push_back(0);
  } else if (has_offsets(node_)) {
    append_offset(node_.kind == Kind::list ? children_[0].size() : data_.size());
  } else if (node_.kind == Kind::structure) {
    for (Elements& field : children_) field.append_null();
  } else {
    data_.resize(data_.size() + node_.width);
  }
  ++nulls_;
  ++rows_;
}

void Elements::hand_over(ArrowArray& out) {
  auto owned = std::make_unique<Owned>();
  owned->buffers.push_back(nulls_ > 0 ? copied(validity_) : nullptr);
  if (has_offsets(node_)) owned->buffers.push_back(copied(offsets_));
  if (node_.kind != Kind::structure && node_.kind != Kind::list)
    owned->buffers.push_back(copied(data_));
  for (Elements& field : children_) {
    auto child = std::make_unique<ArrowArray>();
    field.hand_over(*child);
    owned->children.push_back(std::move(child));
  }
  gapless::hand_over(std::move(owned), rows_, nulls_, out);
}

}  // namespace gapless
