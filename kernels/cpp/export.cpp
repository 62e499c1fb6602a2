#include "export.hpp"

#include <cstring>
#include <memory>
#include <stdexcept>

#include "hash.hpp"
#include "lists.hpp"
#include "owned.hpp"

namespace gapless {
namespace {

void release(ArrowArray* array) {
  delete static_cast<Owned*>(array->private_data);
  array->release = nullptr;
}

}  // namespace

void hand_over(std::unique_ptr<Owned> owned, size_t rows, size_t nulls, ArrowArray& out) {
  for (const Buffer& b : owned->buffers) owned->pointers.push_back(b.get());
  for (const auto& child : owned->children) owned->child_pointers.push_back(child.get());
  out = ArrowArray{};
  out.length = static_cast<int64_t>(rows);
  out.null_count = static_cast<int64_t>(nulls);
  out.n_buffers = static_cast<int64_t>(owned->pointers.size());
  out.n_children = static_cast<int64_t>(owned->children.size());
  out.buffers = owned->pointers.data();
  out.children = owned->child_pointers.data();
  out.release = release;
  out.private_data = owned.release();
}

namespace {

class Exporter {
 public:
  Exporter(const Layout& layout, const RowStore& store, const std::vector<uint32_t>& ids)
      : layout_(layout), store_(store), ids_(ids) {}

  void children_of(int parent, Owned& owned) const {
    for (size_t node = 0; node < layout_.nodes.size(); ++node) {
      if (layout_.nodes[node].parent != parent) continue;
      auto child = std::make_unique<ArrowArray>();
      column(node, *child);
      owned.children.push_back(std::move(child));
    }
  }

 private:
  const uint8_t* at(size_t i) const {
    return reinterpret_cast<const uint8_t*>(store_.row(ids_[i]));
  }

  void column(size_t index, ArrowArray& out) const {
    const Node& node = layout_.nodes[index];
    auto owned = std::make_unique<Owned>();
    const size_t nulls = validity(index, *owned);
    switch (node.kind) {
      case Kind::structure: children_of(static_cast<int>(index), *owned); break;
      case Kind::boolean: booleans(node, *owned); break;
      case Kind::text32: texts<int32_t>(node, *owned); break;
      case Kind::text64: texts<int64_t>(node, *owned); break;
      case Kind::view: views(node, *owned); break;
      case Kind::wide: wide(node, *owned); break;
      case Kind::list: lists(node, *owned); break;
      default: values(node, *owned);
    }
    hand_over(std::move(owned), ids_.size(), nulls, out);
  }

  size_t validity(size_t index, Owned& owned) const {
    owned.buffers.emplace_back();
    if (!store_.has_null_words()) return 0;
    const size_t word = layout_.data_words + index / 64;
    size_t nulls = 0;
    Buffer bits = zeros(ids_.size() / 8 + 1);
    for (size_t i = 0; i < ids_.size(); ++i) {
      const bool is_null = store_.row(ids_[i])[word] >> (index % 64) & 1;
      nulls += is_null;
      bits[i / 8] |= static_cast<uint8_t>(!is_null << (i % 8));
    }
    if (nulls > 0) owned.buffers.back() = std::move(bits);
    return nulls;
  }

  void values(const Node& node, Owned& owned) const {
    Buffer out = zeros(ids_.size() * node.width);
    const auto copy = [&](auto width) {
      for (size_t i = 0; i < ids_.size(); ++i)
        std::memcpy(&out[i * width], at(i) + node.offset, width);
    };
    if (node.width == 8)
      copy(std::integral_constant<size_t, 8>{});
    else
      copy(size_t{node.width});
    owned.buffers.push_back(std::move(out));
  }

  void booleans(const Node& node, Owned& owned) const {
    Buffer out = zeros(ids_.size() / 8 + 1);
    for (size_t i = 0; i < ids_.size(); ++i)
      out[i / 8] |= static_cast<uint8_t>(at(i)[node.offset] << (i % 8));
    owned.buffers.push_back(std::move(out));
  }

  Span span(const Node& node, size_t i) const {
    const uint8_t* row = at(i);
    const uint8_t* data = store_.bytes(ids_[i]);
    for (size_t v = 0; v < node.variable; ++v)
      data += load<uint32_t>(row + layout_.length_offsets[v]);
    return {data, load<uint32_t>(row + node.offset)};
  }

  size_t total(const Node& node) const {
    size_t n = 0;
    for (size_t i = 0; i < ids_.size(); ++i) n += load<uint32_t>(at(i) + node.offset);
    return n;
  }

  size_t total_int32(const Node& node) const {
    const size_t n = total(node);
    if (n > INT32_MAX)
      throw std::length_error("column '" + node.path +
                              "': more than 2 GB of values; ask for fewer rows at once");
    return n;
  }

  template <class Offset>
  void texts(const Node& node, Owned& owned) const {
    Buffer offsets = zeros((ids_.size() + 1) * sizeof(Offset));
    Buffer bytes = zeros(sizeof(Offset) == 4 ? total_int32(node) : total(node));
    size_t end = 0;
    for (size_t i = 0; i < ids_.size(); ++i) {
      append(span(node, i), bytes, end);
      const auto offset = static_cast<Offset>(end);
      std::memcpy(&offsets[(i + 1) * sizeof offset], &offset, sizeof offset);
    }
    owned.buffers.push_back(std::move(offsets));
    owned.buffers.push_back(std::move(bytes));
  }

  void wide(const Node& node, Owned& owned) const {
    Buffer out = zeros(ids_.size() * node.width);
    for (size_t i = 0; i < ids_.size(); ++i) {
      const Span value = span(node, i);  // empty under a null
      if (value.size > 0) std::memcpy(&out[i * node.width], value.data, value.size);
    }
    owned.buffers.push_back(std::move(out));
  }

  void views(const Node& node, Owned& owned) const {
    constexpr uint32_t INLINE_MAX = 12;
    Buffer views = zeros(ids_.size() * 16);
    Buffer bytes = zeros(total_int32(node));
    size_t end = 0;
    for (size_t i = 0; i < ids_.size(); ++i) {
      const Span value = span(node, i);
      uint8_t* view = &views[i * 16];
      std::memcpy(view, &value.size, 4);
      if (value.size <= INLINE_MAX) {
        if (value.size > 0) std::memcpy(view + 4, value.data, value.size);
        continue;
      }
      const auto offset = static_cast<int32_t>(end);
      std::memcpy(view + 4, value.data, 4);
      std::memcpy(view + 12, &offset, 4);
      append(value, bytes, end);
    }
    Buffer sizes = zeros(8);
    const auto held = static_cast<int64_t>(end);
    std::memcpy(sizes.get(), &held, 8);
    owned.buffers.push_back(std::move(views));
    owned.buffers.push_back(std::move(bytes));
    owned.buffers.push_back(std::move(sizes));
  }

  void lists(const Node& node, Owned& owned) const {
    Buffer offsets = zeros((ids_.size() + 1) * sizeof(int32_t));
    Elements elements(node.items[0]);
    for (size_t i = 0; i < ids_.size(); ++i) {
      const Span value = span(node, i);  // empty under a null
      if (value.size > 0) elements.append_list(value.data);
      if (elements.size() > INT32_MAX)
        throw std::length_error("column '" + node.path +
                                "': more than 2 billion elements; ask for fewer rows at once");
      const auto offset = static_cast<int32_t>(elements.size());
      std::memcpy(&offsets[(i + 1) * sizeof offset], &offset, sizeof offset);
    }
    owned.buffers.push_back(std::move(offsets));
    auto child = std::make_unique<ArrowArray>();
    elements.hand_over(*child);
    owned.children.push_back(std::move(child));
  }

  static void append(const Span& value, Buffer& bytes, size_t& end) {
    if (value.size > 0) std::memcpy(&bytes[end], value.data, value.size);
    end += value.size;
  }

  const Layout& layout_;
  const RowStore& store_;
  const std::vector<uint32_t>& ids_;
};

}  // namespace

void export_rows(const Layout& layout, const RowStore& store, const std::vector<uint32_t>& ids,
                 ArrowArray& out) {
  auto owned = std::make_unique<Owned>();
  owned->buffers.emplace_back();
  Exporter(layout, store, ids).children_of(NO_NODE, *owned);
  hand_over(std::move(owned), ids.size(), 0, out);
}

}  // namespace gapless
