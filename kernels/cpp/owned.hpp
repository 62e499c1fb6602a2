// What an exported array owns, and how it is handed over.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "arrow_abi.hpp"

namespace gapless {

using Buffer = std::unique_ptr<uint8_t[]>;

// Children are released here unless a consumer has moved them out.
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

void hand_over(std::unique_ptr<Owned> owned, size_t rows, size_t nulls, ArrowArray& out);

// A buffer of zeros; never null, since some readers take null for "no buffer".
inline Buffer zeros(size_t bytes) { return std::make_unique<uint8_t[]>(bytes + 1); }

}  // namespace gapless
