// The two kinds of cache documents, as specified: read as a whole or rejected as a whole.
#pragma once

#include <array>
#include <charconv>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "strict_json.hpp"

namespace cache {

using Key = std::tuple<int, int, int>;  // M (a bucket), N and the unpacked K
using Plans = std::map<Key, int>;       // to the tactic's id

constexpr auto format = "vllm.cpp_nvfp4_autotune_v1";
constexpr auto runner = "CutlassFp4GemmRunner";
constexpr int tactic_count = 32;

// --- M buckets

inline std::int64_t power_of_two(std::int64_t m) {
    std::int64_t power = 1;
    while (power < m) power *= 2;
    return power;
}

// Small steps where the best kernel changes often, powers of two elsewhere.
inline std::int64_t bucket(std::int64_t m) {
    if (m > 256 && m <= 2048) return (m + 255) / 256 * 256;
    if (m > 2048 && m <= 4096) return (m + 511) / 512 * 512;
    return power_of_two(m);
}

// The values of M that a warm-up up to `maximum` tunes: every bucket below it, and itself.
inline std::vector<std::int64_t> profiles(std::int64_t maximum) {
    std::vector<std::int64_t> found;
    for (std::int64_t m = 1; m < maximum; m = bucket(m + 1)) found.push_back(m);
    found.push_back(maximum);
    return found;
}

// --- Tactics

inline Json tactics() {
    constexpr int tiles[8][3] = {{128, 32, 128},  {128, 32, 256},  {128, 64, 128},
                                 {128, 64, 256},  {128, 128, 128}, {128, 128, 256},
                                 {256, 128, 128}, {128, 256, 128}};
    Json found = Json::array();
    for (int id = 0; id < tactic_count; ++id)
        found.push_back({{"id", id},
                         {"tile", tiles[id / 4]},
                         {"swap_ab", id % 2 == 0},
                         {"scheduler", id % 4 < 2 ? "data-parallel" : "stream-k"},
                         {"cluster", {1, 1, 1}}});
    return found;
}

// 16 hex digits of a list of descriptors: FNV-1a over its canonical text, members sorted.
inline std::string digest(const Json& descriptors) {
    std::uint64_t hash = 14695981039346656037U;
    for (const char c : descriptors.dump())
        hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
    std::string hex;
    for (int shift = 60; shift >= 0; shift -= 4) hex += "0123456789abcdef"[hash >> shift & 15];
    return hex;
}

// --- Fields

struct Field {
    const char* name;
    bool is_text;
    std::int64_t low = std::numeric_limits<std::int32_t>::min();
    std::int64_t high = std::numeric_limits<std::int32_t>::max();
};

constexpr std::array<Field, 18> metadata_fields = {{
    {"architecture", false},
    {"build_id", true},
    {"cuda_driver", true},
    {"cuda_runtime", true},
    {"cutlass_version", true},
    {"delay_microseconds", false},
    {"device_ordinal", false},
    {"format", true},
    {"fp4_layout", true},
    {"gpu", true},
    {"hybrid_bucket_version", false},
    {"output_dtype", true},
    {"output_dtype_id", false, 0, 255},
    {"repeats", false},
    {"scale_layout", true},
    {"tactic_descriptor_digest", true},
    {"tactic_set_version", false},
    {"warmups", false},
}};

constexpr std::array<Field, 11> plan_fields = {{
    {"architecture", false},
    {"device_ordinal", false},
    {"fp4_layout", true},
    {"k", false},
    {"m_bucket", false},
    {"n", false},
    {"output_dtype", false, 0, 255},
    {"runner", true},
    {"scale_layout", true},
    {"tactic_id", false},
    {"tactic_set_version", false},
}};

// A plan field, and the metadata field that it must agree with.
constexpr const char* shared_fields[6][2] = {
    {"architecture", "architecture"}, {"device_ordinal", "device_ordinal"},
    {"fp4_layout", "fp4_layout"},     {"output_dtype", "output_dtype_id"},
    {"scale_layout", "scale_layout"}, {"tactic_set_version", "tactic_set_version"},
};

constexpr const char* import_fields[6] = {"flashinfer_version",     "cuda_version",
                                          "cublas_version",         "cudnn_version",
                                          "cudnn_frontend_version", "gpu"};

inline const Json& member(const Json& owner, const std::string& name, const std::string& path) {
    const auto found = owner.find(name);
    if (found == owner.end()) throw Rejected("missing-field", path, path + " is missing");
    return *found;
}

// A field of the correct type and range. `get<int>()` alone would turn 4294967300 into 4.
inline const Json& typed(const Json& owner, const Field& field, const std::string& path) {
    const Json& value = member(owner, field.name, path);
    bool good = false;
    if (field.is_text) {
        good = value.is_string();
    } else if (value.is_number_unsigned()) {
        good = value.get<std::uint64_t>() <= static_cast<std::uint64_t>(field.high);
    } else if (value.is_number_integer()) {  // not unsigned, so negative
        good = value.get<std::int64_t>() >= field.low;
    }
    if (!good) throw Rejected("wrong-type", path, path + " has the wrong type or range");
    return value;
}

inline const Json& root_object(const Json& root) {
    if (!root.is_object()) throw Rejected("shape", "", "the document is no JSON object");
    return root;
}

inline const Json& metadata_of(const Json& root) {
    const Json& metadata = member(root, "_metadata", "_metadata");
    if (!metadata.is_object()) throw Rejected("wrong-type", "_metadata", "_metadata is no object");
    return metadata;
}

inline Rejected foreign(const std::string& path) {
    return Rejected("foreign-environment", path, path + " is of another environment");
}

// --- The native document

struct Document {
    Json metadata;  // the 18 fields and nothing else
    Plans plans;

    // The document as data. The members of an object are sorted, and the map is sorted by key.
    Json as_json() const {
        Json rows = Json::array();
        for (const auto& [key, tactic] : plans) {
            Json row = {{"m_bucket", std::get<0>(key)},
                        {"n", std::get<1>(key)},
                        {"k", std::get<2>(key)},
                        {"runner", runner},
                        {"tactic_id", tactic}};
            for (const auto& [name, source] : shared_fields) row[name] = metadata.at(source);
            rows.push_back(std::move(row));
        }
        return {{"_metadata", metadata}, {"plans", std::move(rows)}};
    }
    std::string text() const { return as_json().dump(2) + "\n"; }
};

inline bool indeterminate(const Json& value) {
    return value == "" || value == "unknown" || value == "None";
}

inline Json checked_metadata(const Json& root, const Json* expected) {
    const Json& metadata = metadata_of(root);
    Json own = Json::object();
    for (const Field& field : metadata_fields) {
        const std::string path = std::string("_metadata.") + field.name;
        const Json& value = typed(metadata, field, path);
        const Json& ours = expected ? member(*expected, field.name, path) : value;
        if (indeterminate(value) || indeterminate(ours))
            throw Rejected("indeterminate-environment", path,
                           path + " does not say what tuned this");
        if (field.name == std::string_view("format") && value != format)
            throw Rejected("unknown-format", path, "this is a document of another format");
        if (value != ours) throw foreign(path);
        own[field.name] = value;
    }
    return own;
}

inline std::pair<Key, int> checked_plan(const Json& plan, const std::string& path,
                                        const Json& metadata) {
    if (!plan.is_object()) throw Rejected("wrong-type", path, path + " is no object");
    for (const Field& field : plan_fields) typed(plan, field, path + "." + field.name);
    const auto require = [&](bool good, const char* code, const char* name, const char* rule) {
        if (!good) throw Rejected(code, path + "." + name, path + "." + name + " must be " + rule);
    };
    const int m = plan["m_bucket"], n = plan["n"], k = plan["k"], tactic = plan["tactic_id"];
    require(plan["runner"] == runner, "unknown-runner", "runner", runner);
    require(tactic >= 0 && tactic < tactic_count, "unknown-tactic", "tactic_id", "0 to 31");
    require(m > 0 && bucket(m) == m, "bad-plan", "m_bucket", "a hybrid bucket");
    require(n > 0, "bad-plan", "n", "positive");
    require(k > 0 && k % 16 == 0, "bad-plan", "k", "a positive multiple of 16");
    for (const auto& [name, source] : shared_fields)
        require(plan[name] == metadata.at(source), "bad-plan", name, "as the metadata say");
    return {{m, n, k}, tactic};
}

// A native document; without `expected`, of the environment in its own metadata.
inline Document native(const Json& root, const Json* expected = nullptr) {
    Document document{checked_metadata(root_object(root), expected), {}};
    const Json& rows = member(root, "plans", "plans");
    if (!rows.is_array()) throw Rejected("wrong-type", "plans", "plans is no array");
    for (std::size_t i = 0; i < rows.size(); ++i) {
        const std::string path = "plans[" + std::to_string(i) + "]";
        const auto [key, tactic] = checked_plan(rows[i], path, document.metadata);
        if (!document.plans.emplace(key, tactic).second)
            throw Rejected("duplicate-plan", path, path + " has the shape of an earlier plan");
    }
    return document;
}

// The plans of both; where both have one, that of `current`. Two environments do not merge.
inline Document merged(const Document& prior, Document current) {
    for (const auto& [name, value] : prior.metadata.items())
        if (value != current.metadata.at(name)) throw foreign("_metadata." + name);
    current.plans.insert(prior.plans.begin(), prior.plans.end());  // keeps existing plans
    return current;
}

// --- The FlashInfer document

struct Import {
    Plans plans;
    int ignored = 0;
};

// The only valid spelling of the key of a plan.
inline std::string spelled(int m, int half, int n) {
    const std::string h = std::to_string(half), b = std::to_string(half / 8), w = std::to_string(n);
    return "('fp4_gemm', '" + std::string(runner) + "', ((" + std::to_string(m) + ", " + h +
           "), (" + h + ", " + w + "), (-1, " + b + "), (" + b + ", " + w + "), (), (0,), (-1, " +
           w + "), (0,), (0,), (-1,)), ())";
}

// The quoted operation at the start of a key, without white space; empty where there is none.
inline std::optional<std::string_view> operation(std::string_view key) {
    const auto skip = [&] {
        key.remove_prefix(std::min(key.find_first_not_of(" \t\n\r\f\v"), key.size()));
    };
    skip();
    if (key.empty() || key[0] != '(') return {};
    key.remove_prefix(1);
    skip();
    if (key.empty() || (key[0] != '\'' && key[0] != '"')) return {};
    const auto end = key.find(key[0], 1);
    if (end == key.npos) return {};
    return key.substr(1, end - 1);
}

// The plan that a key names. The key is never evaluated: three numbers are read, and the key must
// then equal the spelling of these numbers.
inline Key read_key(const std::string& text) {
    const auto bad = [&](const char* why) {
        return Rejected("bad-plan", text, std::string("the key ") + why);
    };
    std::string_view rest = text;
    const auto number = [&](const std::string& before) {
        int value = 0;
        if (rest.substr(0, before.size()) != before) throw bad("is not as FlashInfer writes one");
        rest.remove_prefix(before.size());
        const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
        if (error != std::errc() || value <= 0)
            throw bad("holds what is no positive 32-bit integer");
        rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
        return value;
    };
    const int m = number("('fp4_gemm', '" + std::string(runner) + "', ((");
    const int half = number(", ");
    const int n = number("), (" + std::to_string(half) + ", ");
    if (text != spelled(m, half, n)) throw bad("is not as FlashInfer writes one");
    if (half % 8 != 0) throw bad("pairs K/2 with another K/16");
    if (half > std::numeric_limits<int>::max() / 2) throw bad("has a K beyond 32 bits");
    if (bucket(m) != m) throw bad("has an M that is no hybrid bucket");
    return {m, n, 2 * half};
}

inline int read_tactic(const Json& value, const std::string& key) {
    if (!value.is_array() || value.size() != 2 || !value[0].is_string() ||
        !value[1].is_number_integer())
        throw Rejected("wrong-type", key, "a plan's value is [runner, tactic]");
    if (value[0] != runner)
        throw Rejected("unknown-runner", key, "only CutlassFp4GemmRunner is known");
    if (value[1] < 0 || value[1] >= tactic_count)
        throw Rejected("unknown-tactic", key, "tactics are 0 to 31");
    return value[1].get<int>();
}

inline Import flashinfer(const Json& root, const Json& expected) {
    const Json& metadata = metadata_of(root_object(root));
    for (const char* name : import_fields) {
        const std::string path = std::string("_metadata.") + name;
        const Json& value = typed(metadata, {name, true}, path);
        if (value != "*" && value != member(expected, name, path)) throw foreign(path);
    }
    Import found;
    for (const auto& [key, value] : root.items()) {
        if (key.rfind('_', 0) == 0) continue;  // FlashInfer's own records
        const auto named = operation(key);
        if (named ? *named != "fp4_gemm" : key.find("fp4_gemm") == key.npos) {
            ++found.ignored;  // a plan of another operation
            continue;
        }
        const Key plan = read_key(key);
        found.plans.emplace(plan, read_tactic(value, key));
    }
    return found;
}

}  // namespace cache
