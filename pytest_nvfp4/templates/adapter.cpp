// An adapter for pytest-nvfp4: your plan cache behind the operations of the suite.
//
//     g++ -std=c++17 -O2 -o nvfp4-adapter nvfp4_adapter.cpp   # needs nlohmann-json3-dev
//     nvfp4-conformance smoke exec:./nvfp4-adapter            # does the adapter work?
//     nvfp4-conformance run exec:./nvfp4-adapter -n 2         # does the cache conform?
//
// Nothing is claimed yet. Write the operations of one capability, take them into the table below,
// add the capability's name to `claims`, and run again. Arguments and answers are described in
// interface.schema.json of pytest-nvfp4. nlohmann::json keeps the last of two equal members, skips
// a byte order mark, and turns numbers into what you ask for: the suite will tell.
#include <nlohmann/json.hpp>

#include <functional>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>

using Json = nlohmann::json;

// How an operation rejects its input: a code of the specification, and the member at fault.
struct Rejected : std::runtime_error {
    Rejected(std::string code_, std::string member_, const std::string& message)
        : std::runtime_error(message), code(std::move(code_)), member(std::move(member_)) {}
    std::string code, member;
};

const Json claims = Json::array();  // {"flashinfer-import"}, say

Json describe(const Json&) {
    return {{"protocol", 1},     {"name", "my-cache"}, {"version", "0"},
            {"language", "C++"}, {"homepage", ""},     {"capabilities", claims}};
    // native-document needs {"native_metadata", {18 fields}}, flashinfer-import
    // {"import_metadata", {6 fields}}, tactics {"tactics", [...]} and {"tactic_digest", ...}.
}

// Each takes the request, such as given.at("path"), and returns the answer or throws Rejected.
const std::map<std::string, std::function<Json(const Json& given)>> operations = {
    {"describe", describe},
    // @operations@
};

Json reply(const std::string& line) {
    Json answer = {{"seq", nullptr}};
    try {
        const Json request = Json::parse(line);
        answer["seq"] = request.at("seq");
        const auto found = operations.find(request.at("op").get<std::string>());
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

int main() {
    // One reply line for each request line, and not a word more on standard output.
    for (std::string line; std::getline(std::cin, line);)
        std::cout << reply(line).dump(-1, ' ', false, Json::error_handler_t::replace) << std::endl;
}
