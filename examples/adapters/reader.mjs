#!/usr/bin/env node
// The same adapter as an executable: one JSON object per line, in and out.
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";

const KEY = /^\('fp4_gemm', '\w+', \(\((\d+), (\d+)\), \(\d+, (\d+)\), .*\), \(\)\)$/;
const FIELDS = "flashinfer_version cuda_version cublas_version cudnn_version cudnn_frontend_version gpu".split(" ");
const ABOUT = { protocol: 1, name: "my-reader", version: "1", language: "JavaScript", homepage: "" };

const operations = {
  describe: () => ({ ok: { ...ABOUT, capabilities: ["flashinfer-import"],
    import_metadata: Object.fromEntries(FIELDS.map((field) => [field, "1.0"])) } }),
  read_flashinfer: ({ path, expected }) => {
    const { _metadata, ...entries } = JSON.parse(readFileSync(path, "utf8"));
    const other = FIELDS.find((field) => _metadata[field] !== expected[field]);
    if (other) return { rejected: { code: "foreign-environment", member: `_metadata.${other}`, message: "tuned elsewhere" } };
    const plans = Object.entries(entries).map(([key, [, tactic]]) => {
      const [, m, half, n] = KEY.exec(key).map(Number);
      return { m, k: 2 * half, n, tactic };
    });
    return { ok: { plans, ignored: 0 } };
  },
};
createInterface({ input: process.stdin }).on("line", (line) => {
  const { seq, op, ...given } = JSON.parse(line);
  let reply = { error: `unsupported ${op}` };
  try { if (op in operations) reply = operations[op](given); } catch (e) { reply = { error: e.message }; }
  console.log(JSON.stringify({ seq, ...reply }));
});
