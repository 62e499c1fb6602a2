#include "layout.hpp"

#include <algorithm>
#include <charconv>
#include <stdexcept>
#include <string_view>

namespace gapless {
namespace {

struct Parsed {
  Kind kind;
  uint32_t width;
};

[[noreturn]] void refuse(const std::string& path, std::string_view format) {
  throw std::invalid_argument("column '" + path + "': Arrow format '" + std::string(format) +
                              "' is not supported in a key");
}

uint32_t number(const std::string& path, std::string_view format, std::string_view digits) {
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc{} || end != digits.data() + digits.size()) refuse(path, format);
  return value;
}

Parsed parse_format(const std::string& path, std::string_view format) {
  const auto is = [&](std::string_view text) { return format == text; };
  const auto starts = [&](std::string_view text) { return format.substr(0, text.size()) == text; };
  if (is("b")) return {Kind::boolean, 0};
  if (is("c") || is("C")) return {Kind::fixed, 1};
  if (is("s") || is("S")) return {Kind::fixed, 2};
  if (is("i") || is("I") || is("tdD") || is("tts") || is("ttm") || is("tiM"))
    return {Kind::fixed, 4};
  if (is("l") || is("L") || is("tdm") || is("ttu") || is("ttn") || is("tiD") || starts("ts") ||
      starts("tD"))
    return {Kind::fixed, 8};
  if (is("tin")) return {Kind::fixed, 16};
  if (is("e")) return {Kind::float16, 2};
  if (is("f")) return {Kind::float32, 4};
  if (is("g")) return {Kind::float64, 8};
  if (starts("d:")) {  // d:precision,scale[,bits]
    const size_t comma = format.find(',', format.find(',') + 1);
    const uint32_t bits =
        comma == format.npos ? 128 : number(path, format, format.substr(comma + 1));
    if (bits != 32 && bits != 64 && bits != 128 && bits != 256) refuse(path, format);
    return {Kind::fixed, bits / 8};
  }
  if (starts("w:")) {
    const uint32_t width = number(path, format, format.substr(2));
    return {width > WIDE_BYTES_MIN ? Kind::wide : Kind::fixed, width};
  }
  if (is("u") || is("z")) return {Kind::text32, 0};
  if (is("U") || is("Z")) return {Kind::text64, 0};
  if (is("vu") || is("vz")) return {Kind::view, 0};
  if (is("+s")) return {Kind::structure, 0};
  if (is("+l")) return {Kind::list, 0};
  refuse(path, format);
}

// What is in a list: nodes below nodes, since each of its rows may have any number of them.
Node item_of(const ArrowSchema& schema, const std::string& path) {
  const Parsed parsed = parse_format(path, schema.format);
  if (schema.dictionary != nullptr || parsed.kind == Kind::view) refuse(path, schema.format);
  Node node{};
  node.kind = parsed.kind;
  node.parent = NO_NODE;
  node.width = parsed.width;
  node.path = path;
  for (int64_t i = 0; i < schema.n_children; ++i)
    node.items.push_back(item_of(*schema.children[i], path + "." + schema.children[i]->name));
  return node;
}

void add_node(std::vector<Node>& nodes, const ArrowSchema& schema, int parent,
              const std::string& path) {
  Node node{};
  node.parent = parent;
  node.path = path;
  std::string_view format = schema.format;
  if (schema.dictionary != nullptr) {
    const size_t at = std::string_view("cCsSiIlL").find(format);
    if (format.size() != 1 || at == std::string_view::npos) refuse(path, format);
    node.dictionary_bits = 8 << (at / 2);
    node.dictionary_signed = at % 2 == 0;
    format = schema.dictionary->format;
    if (schema.dictionary->dictionary != nullptr || format.front() == '+') refuse(path, format);
  }
  const Parsed parsed = parse_format(path, format);
  node.kind = parsed.kind;
  node.width = parsed.width;
  if (parsed.kind == Kind::list)
    node.items.push_back(item_of(*schema.children[0], path + "." + schema.children[0]->name));
  const int self = static_cast<int>(nodes.size());
  nodes.push_back(std::move(node));
  if (parsed.kind != Kind::structure) return;
  for (int64_t i = 0; i < schema.n_children; ++i)
    add_node(nodes, *schema.children[i], self, path + "." + schema.children[i]->name);
}

uint32_t row_bytes(const Node& node) {
  if (node.is_variable()) return 4;
  return node.kind == Kind::boolean ? 1 : node.width;
}

}  // namespace

Layout::Layout(const ArrowSchema& schema) {
  if (std::string_view(schema.format) != "+s")
    throw std::invalid_argument("a key table's schema is that of a record batch");
  for (int64_t i = 0; i < schema.n_children; ++i)
    add_node(nodes, *schema.children[i], NO_NODE, schema.children[i]->name);
  // Widest first: every value of 8, 4 or 2 bytes is then aligned and padding is only at the end.
  std::vector<Node*> order;
  for (Node& node : nodes) {
    order.push_back(&node);
    if (!node.is_variable()) continue;
    node.variable = static_cast<uint32_t>(length_offsets.size());
    length_offsets.push_back(0);
  }
  const auto rank = [](const Node* node) {
    const uint32_t n = row_bytes(*node);
    return n % 8 == 0 ? 3 : n % 4 == 0 ? 2 : n % 2 == 0 ? 1 : 0;
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](const Node* x, const Node* y) { return rank(x) > rank(y); });
  uint32_t end = 0;
  for (Node* node : order) {
    node->offset = end;
    end += row_bytes(*node);
    if (node->is_variable()) length_offsets[node->variable] = node->offset;
  }
  data_words = std::max<size_t>(1, (size_t{end} + 7) / 8);
  null_words = std::max<size_t>(1, (nodes.size() + 63) / 64);
  padded = end != data_words * 8;
}

size_t Node::nbytes() const {
  size_t n = sizeof(Node) + path.capacity();
  for (const Node& item : items) n += item.nbytes();
  return n;
}

size_t Layout::nbytes() const {
  size_t n = length_offsets.capacity() * sizeof(uint32_t);
  for (const Node& node : nodes) n += node.nbytes();
  return n;
}

}  // namespace gapless
