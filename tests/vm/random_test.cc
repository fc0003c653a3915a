// Random structured programs (nested branches, loops, guards, many live registers) against a direct evaluation of each
// thread: slot sharing, folding, divergence and merging must never change a result.
#include "tests/vm/vm_fixture.h"

#include <random>

namespace stepbench::vm_test {
namespace {

constexpr int kRegisters = 12;

// A program as a tree; one form for the PTX writer and for the evaluator.
struct Node {
  enum class Kind { kOp, kIf, kLoop } kind = Kind::kOp;
  int op = 0, d = 0, a = 0, b = 0;  // kOp: d = a op b; op 6: guarded by (b & 1)
  uint32_t literal = 0;             // op with a literal
  int condition = 0;                // kIf: register & 1; kLoop: trips = register % 5, counter of its own
  std::vector<Node> then, otherwise;
};

using Random = std::mt19937;
int pick(Random& random, int n) { return static_cast<int>(random() % static_cast<unsigned long>(n)); }

std::vector<Node> make_program(Random& random, int depth, int length) {
  std::vector<Node> program;
  for (int i = 0; i < length; ++i) {
    Node node;
    const int what = pick(random, 10);
    if (what < 7 || depth == 0) {
      node.op = pick(random, 8);
      node.d = pick(random, kRegisters);
      node.a = pick(random, kRegisters);
      node.b = pick(random, kRegisters);
      node.literal = static_cast<uint32_t>(random());
    } else {
      node.kind = what == 9 ? Node::Kind::kLoop : Node::Kind::kIf;
      node.condition = pick(random, kRegisters);
      node.then = make_program(random, depth - 1, 1 + pick(random, 6));
      if (node.kind == Node::Kind::kIf && pick(random, 2) == 0)
        node.otherwise = make_program(random, depth - 1, 1 + pick(random, 6));
    }
    program.push_back(std::move(node));
  }
  return program;
}

struct Writer {
  std::string text;
  int labels = 0, counters = 0;
  static std::string reg(int k) { return "%x" + std::to_string(k); }

  void write(const std::vector<Node>& program) {
    for (const Node& n : program) {
      const std::string d = reg(n.d), a = reg(n.a), b = reg(n.b);
      if (n.kind == Node::Kind::kOp) {
        if (n.op == 0) text += "add.u32 " + d + ", " + a + ", " + b + ";\n";
        if (n.op == 1) text += "sub.u32 " + d + ", " + a + ", " + b + ";\n";
        if (n.op == 2) text += "xor.b32 " + d + ", " + a + ", " + b + ";\n";
        if (n.op == 3) text += "mul.lo.u32 " + d + ", " + a + ", " + std::to_string(n.literal) + ";\n";
        if (n.op == 4) text += "mov.u32 " + d + ", " + std::to_string(n.literal) + ";\n";
        if (n.op == 5) text += "mov.u32 " + d + ", " + a + ";\n";
        if (n.op == 6)
          text += "and.b32 %t0, " + b + ", 1;\nsetp.eq.u32 %q0, %t0, 1;\n@%q0 add.u32 " + d + ", " + a + ", 77;\n";
        if (n.op == 7)
          text += "mad.wide.u32 %w0, " + a + ", " + b + ", 5;\nshr.u64 %w0, %w0, 7;\ncvt.u32.u64 " + d + ", %w0;\n";
        continue;
      }
      const std::string label = std::to_string(labels++), condition = reg(n.condition);
      if (n.kind == Node::Kind::kIf) {
        text += "and.b32 %t1, " + condition + ", 1;\nsetp.eq.u32 %q1, %t1, 0;\n@%q1 bra ELSE" + label + ";\n";
        write(n.then);
        text += "bra END" + label + ";\nELSE" + label + ":\n";
        write(n.otherwise);
        text += "END" + label + ":\n";
      } else {
        const std::string counter = "%c" + std::to_string(counters++);
        text += "rem.u32 " + counter + ", " + condition + ", 5;\nHEAD" + label + ":\nsetp.eq.u32 %q2, " + counter +
                ", 0;\n@%q2 bra END" + label + ";\nsub.u32 " + counter + ", " + counter + ", 1;\n";
        write(n.then);
        text += "bra HEAD" + label + ";\nEND" + label + ":\n";
      }
    }
  }
};

void evaluate(const std::vector<Node>& program, uint32_t (&x)[kRegisters]) {
  for (const Node& n : program) {
    if (n.kind == Node::Kind::kIf) {
      evaluate((x[n.condition] & 1) != 0 ? n.then : n.otherwise, x);
    } else if (n.kind == Node::Kind::kLoop) {
      for (uint32_t trips = x[n.condition] % 5; trips > 0; --trips) evaluate(n.then, x);
    } else {
      const uint32_t a = x[n.a], b = x[n.b];
      if (n.op == 0) x[n.d] = a + b;
      if (n.op == 1) x[n.d] = a - b;
      if (n.op == 2) x[n.d] = a ^ b;
      if (n.op == 3) x[n.d] = a * n.literal;
      if (n.op == 4) x[n.d] = n.literal;
      if (n.op == 5) x[n.d] = a;
      if (n.op == 6 && (b & 1) != 0) x[n.d] = a + 77;
      if (n.op == 7) x[n.d] = static_cast<uint32_t>((uint64_t{a} * b + 5) >> 7);
    }
  }
}

TEST_CASE("random programs give every thread its own result") {
  for (uint32_t seed = 1; seed <= 150; ++seed) {
    Random random(seed);
    const std::vector<Node> program = make_program(random, 4, 14);
    Writer writer;
    writer.write(program);
    std::string text =
        ".reg .b32 %x<12>; .reg .b32 %t<2>; .reg .pred %q<3>; .reg .b64 %w<1>; .reg .b32 %c<" +
        std::to_string(writer.counters + 1) +
        ">;\nld.param.u64 %d1, [out]; ld.param.u32 %r1, [salt]; mov.u32 %r2, %tid.x; mov.u32 %r3, %ctaid.x;\n";
    // Registers of all kinds: per thread, per block, per launch, constant.
    for (int k = 0; k < kRegisters; ++k) {
      const std::string d = Writer::reg(k), n = std::to_string(k * 40503 + 1);
      if (k % 4 == 0) text += "mad.lo.u32 " + d + ", %r2, " + n + ", %r1;\n";
      if (k % 4 == 1) text += "mad.lo.u32 " + d + ", %r3, " + n + ", 3;\n";
      if (k % 4 == 2) text += "mul.lo.u32 " + d + ", %r1, " + n + ";\n";
      if (k % 4 == 3) text += "mov.u32 " + d + ", " + n + ";\n";
    }
    text +=
        writer.text +
        "mov.u32 %r4, %ntid.x;\nmad.lo.u32 %r5, %r3, %r4, %r2;\nmul.wide.u32 %d2, %r5, 48;\nadd.u64 %d1, %d1, %d2;\n";
    for (int k = 0; k < kRegisters; ++k)
      text += "st.global.u32 [%d1+" + std::to_string(4 * k) + "], " + Writer::reg(k) + ";\n";
    Vm vm;
    vm.load(kernel_ptx(".param .u64 out, .param .u32 salt", text));
    const uint32_t threads = seed % 3 == 0 ? 45 : 64, salt = static_cast<uint32_t>(random());
    const size_t total = size_t{2} * threads;
    const BufferId out = vm.raw(total * 48);
    vm.run("k", {2, 1, 1}, {threads, 1, 1}, Parameters().add(vm.address(out)).add(salt));
    const auto found = vm.contents<uint32_t>(out, total * kRegisters);
    size_t wrong = 0;
    for (uint32_t i = 0; i < total; ++i) {
      uint32_t x[kRegisters];
      for (uint32_t k = 0; k < kRegisters; ++k) {
        const uint32_t n = k * 40503 + 1;
        const uint32_t kinds[4] = {i % threads * n + salt, i / threads * n + 3, salt * n, n};
        x[k] = kinds[k % 4];
      }
      evaluate(program, x);
      if (std::memcmp(x, found.data() + size_t{i} * kRegisters, sizeof x) != 0) ++wrong;
    }
    INFO("seed " << seed);
    CHECK(wrong == 0);
  }
}

}  // namespace
}  // namespace stepbench::vm_test
