#include "running_sums_python.hpp"

#include "python_bridge.hpp"
#include "running_sums.hpp"

namespace gapless {
namespace {

class PyRunningSums {
 public:
  explicit PyRunningSums(size_t columns) : sums_(columns) {}

  bool add(nb::handle ids, nb::handle places, nb::handle values) {
    const View<const int64_t> id(ids, false), place(places, false);
    const View<const int64_t, 2> value(values, false);
    same_length(id.size(), place.size());
    fits(value, id.size());
    return locked(mutex_, id.size(),
                  [&] { return sums_.add(id.data(), place.data(), value.data(), id.size()); });
  }

  bool sums(nb::handle ids, nb::handle low, nb::handle high, nb::handle found) {
    const View<const int64_t> id(ids, false), from(low, false), to(high, false);
    const View<int64_t, 2> out(found, true);
    same_length(id.size(), from.size());
    same_length(id.size(), to.size());
    fits(out, id.size());
    return locked(mutex_, id.size(), [&] {
      return sums_.sums(id.data(), from.data(), to.data(), id.size(), out.data());
    });
  }

  void drop(nb::handle ids, nb::handle places) {
    const View<const int64_t> id(ids, false), place(places, false);
    same_length(id.size(), place.size());
    locked(mutex_, id.size(), [&] { sums_.drop(id.data(), place.data(), id.size()); });
  }

  void drop_before(int64_t place) {
    locked(mutex_, GIL_FREE_ROWS_MIN, [&] { sums_.drop_before(place); });
  }

  void cells(nb::handle ids, nb::handle places, nb::handle values) {
    const View<int64_t> id(ids, true), place(places, true);
    const View<int64_t, 2> value(values, true);
    same_length(id.size(), place.size());
    fits(value, id.size());
    locked(mutex_, id.size(), [&] {
      if (id.size() != sums_.size()) throw std::invalid_argument("cells: needs room for all");
      sums_.cells(id.data(), place.data(), value.data());
    });
  }

  void has(nb::handle ids, nb::handle mask) {
    const View<const int64_t> id(ids, false);
    const View<bool> out(mask, true);
    same_length(id.size(), out.size());
    locked(mutex_, id.size(), [&] {
      for (size_t i = 0; i < id.size(); ++i) out.data()[i] = sums_.has(id.data()[i]);
    });
  }

  size_t size() { return locked(mutex_, 0, [&] { return sums_.size(); }); }
  size_t nbytes() { return locked(mutex_, 0, [&] { return sums_.nbytes(); }); }
  void validate() { locked(mutex_, GIL_FREE_ROWS_MIN, [&] { sums_.validate(); }); }

 private:
  template <class V>
  void fits(const V& values, size_t count) const {
    if (values.length(0) != sums_.columns())
      throw nb::value_error("values: needs a row for each column");
    same_length(values.length(1), count);
  }

  std::mutex mutex_;
  RunningSums sums_;
};

}  // namespace

void define_running_sums(nb::module_& m) {
  nb::class_<PyRunningSums>(m, "RunningSums")
      .def(nb::init<size_t>(), nb::arg("columns"))
      .def("add", &PyRunningSums::add, nb::arg("ids"), nb::arg("places"), nb::arg("values"),
           "Adds cells; False, with nothing changed, where one leaves int64.")
      .def("sums", &PyRunningSums::sums, nb::arg("ids"), nb::arg("low"), nb::arg("high"),
           nb::arg("found"), "Fills `found`; False where a sum leaves int64.")
      .def("drop", &PyRunningSums::drop, nb::arg("ids"), nb::arg("places"),
           "Forgets the cells of ids before their places.")
      .def("drop_before", &PyRunningSums::drop_before, nb::arg("place"),
           "Forgets all cells before a place.")
      .def("cells", &PyRunningSums::cells, nb::arg("ids"), nb::arg("places"), nb::arg("values"),
           "Fills them with all cells.")
      .def("has", &PyRunningSums::has, nb::arg("ids"), nb::arg("mask"),
           "Fills `mask`: which ids have a cell.")
      .def("validate", &PyRunningSums::validate,
           "Raises RuntimeError where an invariant is broken.")
      .def("__len__", &PyRunningSums::size)
      .def_prop_ro("nbytes", &PyRunningSums::nbytes, "Bytes held.");
}

}  // namespace gapless
