#include "scatter_python.hpp"

#include <string>

#include "python_bridge.hpp"
#include "scatter.hpp"

namespace gapless {
namespace {

// Rows of integers, floats or doubles, whichever they are, held for the time of a call.
class Values {
 public:
  explicit Values(nb::handle object) {
    if (PyObject_GetBuffer(object.ptr(), &buffer_, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT) != 0)
      throw nb::python_error();
  }
  ~Values() { PyBuffer_Release(&buffer_); }
  Values(const Values&) = delete;
  Values& operator=(const Values&) = delete;

  size_t size() const {
    if (buffer_.ndim != 1) throw wrong();
    return static_cast<size_t>(buffer_.len / buffer_.itemsize);
  }

  bool is_double() const { return kind_of() == 'f' && buffer_.itemsize == 8; }

  // Calls `work` with a pointer to the rows, of their own type.
  template <class Work>
  auto integers(Work work) const {
    if (const char kind = kind_of(); kind == 'i') {
      switch (buffer_.itemsize) {
        case 1: return work(rows<int8_t>());
        case 2: return work(rows<int16_t>());
        case 4: return work(rows<int32_t>());
        case 8: return work(rows<int64_t>());
      }
    } else if (kind == 'u') {
      switch (buffer_.itemsize) {
        case 1: return work(rows<uint8_t>());
        case 2: return work(rows<uint16_t>());
        case 4: return work(rows<uint32_t>());
        case 8: return work(rows<uint64_t>());
      }
    }
    throw wrong();
  }

  template <class Work>
  auto floats(Work work) const {
    if (kind_of() == 'f') return buffer_.itemsize == 4 ? work(rows<float>()) : work(rows<double>());
    throw wrong();
  }

  template <class Work>
  auto numbers(Work work) const {
    return kind_of() == 'f' ? floats(work) : integers(work);
  }

 private:
  static nb::builtin_exception wrong() {
    return nb::type_error("values of a type that this function does not take");
  }

  char kind_of() const {
    const char* const format = buffer_.format;
    if (format == nullptr || format[0] == '\0' || format[1] != '\0') throw wrong();
    switch (format[0]) {
      case 'b': case 'h': case 'i': case 'l': case 'q': return 'i';
      case 'B': case 'H': case 'I': case 'L': case 'Q': return 'u';
      case 'f': case 'd': return 'f';
      default: throw wrong();
    }
  }

  template <class T>
  const T* rows() const {
    return static_cast<const T*>(buffer_.buf);
  }

  Py_buffer buffer_;
};

Targets targets(const View<const int64_t>& ids, size_t room) {
  return {ids.data(), ids.size(), room};
}

void py_count_at(nb::handle acc, nb::handle ids) {
  const View<int64_t> sums(acc, true);
  count_at(sums.data(), targets(View<const int64_t>(ids, false), sums.size()));
}

bool py_add_at(nb::handle acc, nb::handle ids, nb::handle values, bool subtract) {
  const View<const int64_t> id(ids, false);
  const Values terms(values);
  same_length(id.size(), terms.size());
  if (Values(acc).is_double()) {
    const View<double> sums(acc, true);
    const Targets to = targets(id, sums.size());
    terms.floats([&](const auto* v) { add_floats_at(sums.data(), to, v, subtract); });
    return true;
  }
  const View<int64_t> sums(acc, true);
  const Targets to = targets(id, sums.size());
  return terms.integers([&](const auto* v) { return add_at(sums.data(), to, v, subtract); });
}

bool py_square_at(nb::handle acc, nb::handle ids, nb::handle values) {
  const View<int64_t> sums(acc, true);
  const View<const int64_t> id(ids, false);
  const Values roots(values);
  same_length(id.size(), roots.size());
  const Targets to = targets(id, sums.size());
  return roots.integers([&](const auto* v) { return square_at(sums.data(), to, v); });
}

void check_wide(const char* call, const View<int64_t, 2>& wide) {
  if (wide.length(0) != WIDE_WORDS)
    throw nb::value_error((std::string(call) + ": a wide sum has 3 words").c_str());
}

void py_add_wide_at(nb::handle wide, nb::handle ids, nb::handle values, bool squared) {
  const View<int64_t, 2> sums(wide, true);
  const View<const int64_t> id(ids, false);
  const Values terms(values);
  check_wide("add_wide_at", sums);
  same_length(id.size(), terms.size());
  const Targets to = targets(id, sums.length(1));
  terms.integers([&](const auto* v) { add_wide_at(sums.data(), to, v, squared); });
}

void py_merge_wide_at(nb::handle wide, nb::handle ids, nb::handle other, bool subtract) {
  const View<int64_t, 2> sums(wide, true), terms(other, false);
  const View<const int64_t> id(ids, false);
  check_wide("merge_wide_at", sums);
  check_wide("merge_wide_at", terms);
  same_length(id.size(), terms.length(1));
  merge_wide_at(sums.data(), targets(id, sums.length(1)), terms.data(), subtract);
}

template <bool Smallest>
bool py_pick_at(nb::handle acc, nb::handle ids, nb::handle values) {
  const View<int64_t> kept(acc, true);
  const View<const int64_t> id(ids, false);
  const Values offered(values);
  same_length(id.size(), offered.size());
  const Targets to = targets(id, kept.size());
  return offered.numbers([&](const auto* v) {
    return Smallest ? min_at(kept.data(), to, v) : max_at(kept.data(), to, v);
  });
}

template <bool Earliest>
void py_pick_by_time_at(nb::handle times, nb::handle keys, nb::handle ids, nb::handle when,
                        nb::handle values) {
  const View<int64_t> time(times, true), key(keys, true);
  const View<const int64_t> id(ids, false), at(when, false);
  const Values offered(values);
  same_length(time.size(), key.size());
  same_length(id.size(), at.size());
  same_length(id.size(), offered.size());
  const Targets to = targets(id, time.size());
  offered.numbers([&](const auto* v) {
    if (Earliest)
      first_at(time.data(), key.data(), to, at.data(), v);
    else
      last_at(time.data(), key.data(), to, at.data(), v);
  });
}

}  // namespace

void define_scatters(nb::module_& m) {
  m.def("count_at", &py_count_at, nb::arg("acc"), nb::arg("ids"),
        "One more for each mention of an id.");
  m.def("add_at", &py_add_at, nb::arg("acc"), nb::arg("ids"), nb::arg("values"),
        nb::arg("subtract") = false,
        "Adds; false, with nothing changed, where an int64 does not hold a sum, also in between.");
  m.def("square_at", &py_square_at, nb::arg("acc"), nb::arg("ids"), nb::arg("values"),
        "Adds squares, as add_at does.");
  m.def("add_wide_at", &py_add_wide_at, nb::arg("wide"), nb::arg("ids"), nb::arg("values"),
        nb::arg("squared") = false, "Adds integers, or their squares, to sums of three words.");
  m.def("merge_wide_at", &py_merge_wide_at, nb::arg("wide"), nb::arg("ids"), nb::arg("other"),
        nb::arg("subtract") = false, "Adds sums of three words to others.");
  m.def("min_at", &py_pick_at<true>, nb::arg("acc"), nb::arg("ids"), nb::arg("values"),
        "Keeps the smallest key; whether a value has the key that stands for none.");
  m.def("max_at", &py_pick_at<false>, nb::arg("acc"), nb::arg("ids"), nb::arg("values"),
        "Keeps the largest key; whether a value has the key that stands for none.");
  m.def("first_at", &py_pick_by_time_at<true>, nb::arg("times"), nb::arg("keys"), nb::arg("ids"),
        nb::arg("when"), nb::arg("values"), "Keeps the earliest time and its smallest key.");
  m.def("last_at", &py_pick_by_time_at<false>, nb::arg("times"), nb::arg("keys"), nb::arg("ids"),
        nb::arg("when"), nb::arg("values"), "Keeps the latest time and its largest key.");
}

}  // namespace gapless
