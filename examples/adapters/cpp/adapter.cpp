// A complete adapter in C++: a strict reader of both documents and a publisher, over JSON lines.
//
//     make && nvfp4-conformance run exec:./adapter -n 2
//
// Replace documents.hpp and files.hpp by your own cache, and keep this file.
#include <functional>
#include <iostream>
#include <map>
#include <string>

#include "documents.hpp"
#include "files.hpp"

namespace {

const Json import_metadata = {{"flashinfer_version", "0.6.13"},     {"cuda_version", "13.0"},
                              {"cublas_version", "13.1.0"},         {"cudnn_version", "91900"},
                              {"cudnn_frontend_version", "1.26.0"}, {"gpu", "no GPU"}};

// The environment in which this process tunes. An engine reads it from its device and libraries.
Json native_metadata() {
    return {{"architecture", 0},
            {"build_id", "example-1"},
            {"cuda_driver", "not-applicable"},
            {"cuda_runtime", "not-applicable"},
            {"cutlass_version", "not-applicable"},
            {"delay_microseconds", 5000},
            {"device_ordinal", 0},
            {"format", cache::format},
            {"fp4_layout", "e2m1_packed_k2"},
            {"gpu", "no GPU"},
            {"hybrid_bucket_version", 1},
            {"output_dtype", "bf16"},
            {"output_dtype_id", 0},
            {"repeats", 10},
            {"scale_layout", "cutlass_8x4"},
            {"tactic_descriptor_digest", cache::digest(cache::tactics())},
            {"tactic_set_version", 2},
            {"warmups", 3}};
}

Json rows(const cache::Plans& plans) {
    Json found = Json::array();
    for (const auto& [key, tactic] : plans)
        found.push_back({{"m", std::get<0>(key)},
                         {"n", std::get<1>(key)},
                         {"k", std::get<2>(key)},
                         {"tactic", tactic}});
    return found;
}

Json describe(const Json&) {
    return {
        {"protocol", 1},
        {"name", "cpp-example"},
        {"version", "1"},
        {"language", "C++"},
        {"homepage", ""},
        {"capabilities",
         {"buckets", "tactics", "native-document", "flashinfer-import", "merge", "publication"}},
        {"native_metadata", native_metadata()},
        {"import_metadata", import_metadata},
        {"tactics", cache::tactics()},
        {"tactic_digest", cache::digest(cache::tactics())}};
}

Json read_native(const Json& given) {
    const auto file = files::read(given.at("path"));
    return {{"plans", rows(cache::native(strict::parse(file.data), &given.at("expected")).plans)},
            {"ignored", 0}};
}

Json read_flashinfer(const Json& given) {
    const auto file = files::read(given.at("path"));
    const auto found = cache::flashinfer(strict::parse(file.data), given.at("expected"));
    return {{"plans", rows(found.plans)}, {"ignored", found.ignored}};
}

Json merge(const Json& given) {
    return cache::merged(cache::native(given.at("prior")), cache::native(given.at("current")))
        .as_json();
}

Json write_native(const Json& given) {
    return {{"plans",
             files::update(given.at("path"), cache::native(given.at("document"))).plans.size()}};
}

const std::map<std::string, std::function<Json(const Json&)>> operations = {
    {"describe", describe},
    {"bucket", [](const Json& given) { return cache::bucket(given.at("m")); }},
    {"profiles", [](const Json& given) { return cache::profiles(given.at("maximum")); }},
    {"tactic_digest", [](const Json& given) { return cache::digest(given.at("tactics")); }},
    {"read_native", read_native},
    {"read_flashinfer", read_flashinfer},
    {"serialize", [](const Json& given) { return cache::native(given.at("document")).text(); }},
    {"merge", merge},
    {"write_native", write_native},
};

Json reply(const std::string& line) {
    Json answer = {{"seq", nullptr}};
    try {
        const Json request = Json::parse(line);
        answer["seq"] = request.at("seq");
        const auto found = operations.find(request.at("op"));
        if (found == operations.end())
            answer["error"] = "unsupported operation";
        else
            answer["ok"] = found->second(request);
    } catch (const Rejected& no) {
        answer["rejected"] = {{"code", no.code}, {"member", no.member}, {"message", no.what()}};
    } catch (const std::exception& error) {
        answer["error"] = error.what();
    }
    return answer;
}

}  // namespace

int main() {
    std::ios::sync_with_stdio(false);
    // A message may quote any bytes of a path or a file; bytes that are not UTF-8 are shown as U+FFFD.
    for (std::string line; std::getline(std::cin, line);)
        std::cout << reply(line).dump(-1, ' ', false, Json::error_handler_t::replace) << std::endl;
}
