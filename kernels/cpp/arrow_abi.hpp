// The Arrow C data interface: two structs that the Arrow project promises never to change.
//
// Copied from the specification (https://arrow.apache.org/docs/format/CDataInterface.html), so
// that the kernel needs no Arrow library to build. The holder of a struct with a `release` that is
// not null owns it and must call that once; arrays below a parent are released by the parent.
#pragma once

#include <cstdint>

extern "C" {

struct ArrowSchema {
  const char* format;
  const char* name;
  const char* metadata;
  int64_t flags;
  int64_t n_children;
  ArrowSchema** children;
  ArrowSchema* dictionary;
  void (*release)(ArrowSchema*);
  void* private_data;
};

struct ArrowArray {
  int64_t length;
  int64_t null_count;
  int64_t offset;
  int64_t n_buffers;
  int64_t n_children;
  const void** buffers;
  ArrowArray** children;
  ArrowArray* dictionary;
  void (*release)(ArrowArray*);
  void* private_data;
};
}
