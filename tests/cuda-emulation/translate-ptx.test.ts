import assert from "node:assert/strict";
import { test } from "node:test";
import { translatePtx } from "./translate-ptx.ts";

const CASES: readonly (readonly [text: string, call: string])[] = [
  ['asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));', "ptx::ex2_approx_ftz_f32(y, x);"],
  ['asm volatile("cp.async.commit_group;" ::: "memory")', "ptx::cp_async_commit_group()"],
  ['asm("cvt.rn.f16x2.f32 %0, %2, %1;" : "=r"(to) : "f"(a), "f"(f(b, 1)))', "ptx::cvt_rn_f16x2_f32(to, f(b, 1), a)"],
  [
    'asm("mma.sync {%0,%1}, {%2}, {%0,%1};" : "+f"(c[0]), "+f"(c[1]) : "r"(a[0]))',
    "ptx::mma_sync(c[0], c[1], a[0], c[0], c[1])",
  ],
  [
    'asm volatile("cp.async [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(n) : "memory");',
    "ptx::cp_async(to, from, 16, n);",
  ],
  [
    'asm volatile("ld.global.L1::no_allocate.u32 %0, [%1];" : "=r"(v) : "l"(p));',
    "ptx::ld_global_L1_no_allocate_u32(v, p);",
  ],
  ['asm volatile("mov.u64 %0, %%clock64;" : "=l"(now));', "ptx::mov_u64(now, ptx::clock64());"],
  ['asm(\n"a.b "\n"%0;" : "=r"(x)); y', "ptx::a_b(x)\n\n; y"],
  ["plasma(1)", "plasma(1)"],
];

test("translatePtx() makes each instruction a call with the operands in the order of its text", () => {
  for (const [text, call] of CASES) assert.equal(translatePtx(text), call);
});

test("translatePtx() refuses what it cannot read", () => {
  assert.throws(() => translatePtx('asm("a.b %1;" : "=r"(x))'), /a\.b %1; has no operand %1: there are 1/);
  assert.throws(() => translatePtx('asm("a.b; c.d;")'), /must be one instruction/);
  assert.throws(() => translatePtx('asm("a.b;"'), /without an end/);
});
