#!/bin/sh
# The same reader in POSIX shell and awk: it accepts any text that looks like a plan.
answer='
function text(from, name,    found) {  # the string member with this name
  if (!match(from, "\"" name "\": *\"[^\"]*\"")) return ""
  found = substr(from, RSTART, RLENGTH - 1); sub(/^"[^"]*": *"/, "", found)
  return found
}
function reply(kind, value) { printf "{\"seq\": %s, \"%s\": %s}\n", seq, kind, value; exit }
{ seq = $0; sub(/.*"seq": */, "", seq); sub(/[^0-9].*/, "", seq); op = text($0, "op")
  fields = split("flashinfer_version cuda_version cublas_version cudnn_version cudnn_frontend_version gpu", field)
  for (i = 1; i <= fields; i++) own = own (own ? ", " : "") "\"" field[i] "\": \"1.0\"" }
op == "describe" { reply("ok", "{\"protocol\": 1, \"name\": \"my-reader\", \"version\": \"1\", \"language\": \"sh\"" \
  ", \"homepage\": \"\", \"capabilities\": [\"flashinfer-import\"], \"import_metadata\": {" own "}}") }
op != "read_flashinfer" { reply("error", "\"unsupported operation\"") }
{ path = text($0, "path"); while ((getline line < path) > 0) file = file line "\n"
  for (i = 1; i <= fields; i++) { there = text(file, field[i]); if (there != "*" && there != text($0, field[i]))
    reply("rejected", "{\"code\": \"foreign-environment\", \"member\": \"_metadata." field[i] "\", \"message\": \"tuned elsewhere\"}") }
  for (; match(file, /"\(.fp4_gemm[^"]*": *\[[^]]*\]/); file = substr(file, RSTART + RLENGTH)) {
    tactic = entry = substr(file, RSTART, RLENGTH - 1); sub(/.*,[ \n]*/, "", tactic); sub(/[ \n]*$/, "", tactic)
    if (tactic !~ /^-?(0|[1-9][0-9]*)$/) reply("error", "\"a tactic is no integer\"")
    split(entry, part, /[^0-9]+/)  # fp4, Fp4, M, K/2, K/2, N, ...
    plan[sprintf("\"m\": %d, \"n\": %d, \"k\": %d", part[4], part[7], 2 * part[5])] = tactic
  }
  for (key in plan) rows = rows (rows ? ", " : "") "{" key ", \"tactic\": " plan[key] "}"
  reply("ok", "{\"plans\": [" rows "], \"ignored\": 0}") }'
while IFS= read -r request; do printf '%s\n' "$request" | awk "$answer"; done
