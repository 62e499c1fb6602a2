// What an Arrow array that we hand out owns: buffers, and children that it releases itself unless a
// consumer has moved them out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "arrow_abi.hpp"

namespace gapless {

using Buffer = std::unique_ptr<uint8_t[]>;

struct Owned {
  std::vector<Buffer> buffers;
  std::vector<const void*> pointers;
  std::vector<std::unique_ptr<ArrowArray>> children;
  std::vector<ArrowArray*> child_pointers;

  ~Owned() {
    for (auto& child : children)
      if (child->release != nullptr) child->release(child.get());
  }
};

inline void release_owned(ArrowArray* array) {
  delete static_cast<Owned*>(array->private_data);
  array->release = nullptr;
}

inline void hand_over(std::unique_ptr<Owned> owned, size_t rows, size_t nulls, ArrowArray& out) {
  for (const Buffer& b : owned->buffers) owned->pointers.push_back(b.get());
  for (const auto& child : owned->children) owned->child_pointers.push_back(child.get());
  out = ArrowArray{};
  out.length = static_cast<int64_t>(rows);
  out.null_count = static_cast<int64_t>(nulls);
  out.n_buffers = static_cast<int64_t>(owned->pointers.size());
  out.n_children = static_cast<int64_t>(owned->children.size());
  out.buffers = owned->pointers.data();
  out.children = owned->child_pointers.data();
  out.release = release_owned;
  out.private_data = owned.release();
}

}  // namespace gapless
