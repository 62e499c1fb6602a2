// What stands between Python objects and the kernel: buffers, Arrow capsules, the GIL.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <cstdint>
#include <mutex>

#include "arrow_abi.hpp"

namespace gapless {

namespace nb = nanobind;

// Calls on at least so many rows let other Python threads run meanwhile. Giving the GIL up and
// taking it back costs about as much as a hundred rows, and under contention a scheduler's slice.
constexpr size_t GIL_FREE_ROWS_MIN = 4096;

// Runs `work` under the object's lock. Nobody ever waits for the lock while holding the GIL, or
// for the GIL while holding the lock, so the two cannot deadlock: the lock is either free at once
// or waited for without the GIL, and is given back before the GIL is taken again.
template <class Work>
auto locked(std::mutex& mutex, size_t rows, Work work) {
  if (rows < GIL_FREE_ROWS_MIN) {
    std::unique_lock at_once(mutex, std::try_to_lock);
    if (at_once) return work();
  }
  nb::gil_scoped_release without_gil;
  std::lock_guard lock(mutex);
  return work();
}

// Whether a buffer's format is that of int64 (which C has two names for), of double or of bool.
inline bool is_format(const char* format, const int64_t*) {
  if (format == nullptr || format[0] == '\0' || format[1] != '\0') return false;
  return format[0] == 'q' || (format[0] == 'l' && sizeof(long) == 8);
}
inline bool is_format(const char* format, const double*) {
  return format != nullptr && format[0] == 'd' && format[1] == '\0';
}
inline bool is_format(const char* format, const bool*) {
  return format != nullptr && format[0] == '?' && format[1] == '\0';
}

// A contiguous buffer (a numpy array) of `Dimensions` dimensions, held for the time of a call.
template <class T, int Dimensions = 1>
class View {
 public:
  View(nb::handle object, bool writable) {
    const int flags = PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | (writable ? PyBUF_WRITABLE : 0);
    if (PyObject_GetBuffer(object.ptr(), &buffer_, flags) != 0) throw nb::python_error();
    if (buffer_.ndim == Dimensions && buffer_.itemsize == sizeof(T) &&
        is_format(buffer_.format, static_cast<const T*>(nullptr)))
      return;
    PyBuffer_Release(&buffer_);
    throw nb::type_error("an array of the dimensions and element type of this argument is needed");
  }
  ~View() { PyBuffer_Release(&buffer_); }
  View(const View&) = delete;
  View& operator=(const View&) = delete;

  T* data() const { return static_cast<T*>(buffer_.buf); }
  size_t size() const { return static_cast<size_t>(buffer_.len) / sizeof(T); }
  size_t length(int dimension) const { return static_cast<size_t>(buffer_.shape[dimension]); }

 private:
  Py_buffer buffer_;
};

inline void same_length(size_t x, size_t y) {
  if (x != y) throw nb::value_error("the arrays of one call need the same length");
}

// Ids that a call gives back.
using Ids = nb::ndarray<nb::numpy, int64_t, nb::ndim<1>>;

// The array behind a record batch, held for the time of a call. By address and not by Arrow's
// PyCapsules, which would make a schema each time that nobody reads: half a microsecond a call.
class Exported {
 public:
  explicit Exported(nb::handle batch) {
    batch.attr("_export_to_c")(reinterpret_cast<uintptr_t>(&array_));
  }
  ~Exported() {
    if (array_.release != nullptr) array_.release(&array_);
  }
  Exported(const Exported&) = delete;
  Exported& operator=(const Exported&) = delete;

  const ArrowArray& operator*() const { return array_; }

 private:
  ArrowArray array_{};
};

inline const ArrowSchema& schema_of(nb::handle schema, nb::object& keep) {
  keep = schema.attr("__arrow_c_schema__")();
  void* found = PyCapsule_GetPointer(keep.ptr(), "arrow_schema");
  if (found == nullptr) throw nb::python_error();
  return *static_cast<ArrowSchema*>(found);
}

// An empty array in a capsule that releases it unless a consumer has taken it over.
inline nb::object new_array_capsule(ArrowArray*& array) {
  array = new ArrowArray{};
  PyObject* capsule = PyCapsule_New(array, "arrow_array", [](PyObject* self) {
    auto* held = static_cast<ArrowArray*>(PyCapsule_GetPointer(self, "arrow_array"));
    if (held->release != nullptr) held->release(held);
    delete held;
  });
  if (capsule == nullptr) {
    delete array;
    throw nb::python_error();
  }
  return nb::steal(capsule);
}

}  // namespace gapless
