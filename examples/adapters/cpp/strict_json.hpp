// One strict JSON document (RFC 8259, UTF-8), read with nlohmann::json.
//
// By default, nlohmann::json keeps the last of two equal members, skips a byte order mark, ends the
// text at a NUL, nests without a limit, and cannot hold a number beyond double. Here all but the last
// are rejected. A number that is not a 64-bit integer is read as a float, whatever its spelling, and
// no field of a cache document is a float.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using Json = nlohmann::json;

// A rejection: a code of the specification, the invalid member ("" for the document), a message.
struct Rejected : std::runtime_error {
    Rejected(std::string code_, std::string member_, const std::string& message)
        : std::runtime_error(message), code(std::move(code_)), member(std::move(member_)) {}
    std::string code, member;
};

namespace strict {

constexpr std::size_t depth_limit = 128;    // levels of nesting
constexpr std::size_t number_limit = 1000;  // characters of one number

inline Rejected no_json(const std::string& why) {
    return Rejected("syntax", "", "this is no JSON document: " + why);
}

// RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF.
inline bool is_utf8(std::string_view text) {
    for (std::size_t at = 0; at < text.size();) {
        const auto lead = static_cast<unsigned char>(text[at]);
        const std::size_t more = lead < 0x80   ? 0
                                 : lead < 0xC2 ? 9
                                 : lead < 0xE0 ? 1
                                 : lead < 0xF0 ? 2
                                 : lead < 0xF5 ? 3
                                               : 9;
        if (more == 9 || at + more >= text.size()) return false;
        for (std::size_t i = 1; i <= more; ++i) {
            const auto next = static_cast<unsigned char>(text[at + i]);
            unsigned char low = 0x80, high = 0xBF;
            if (i == 1 && lead == 0xE0) low = 0xA0;
            if (i == 1 && lead == 0xED) high = 0x9F;
            if (i == 1 && lead == 0xF0) low = 0x90;
            if (i == 1 && lead == 0xF4) high = 0x8F;
            if (next < low || next > high) return false;
        }
        at += more + 1;
    }
    return true;
}

inline bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Whether `text`, from end to end, is one JSON number.
inline bool is_number(std::string_view text) {
    std::size_t at = 0;
    const auto digits = [&] {
        const std::size_t first = at;
        while (at < text.size() && is_digit(text[at])) ++at;
        return at > first;
    };
    if (at < text.size() && text[at] == '-') ++at;
    const std::size_t first = at;
    if (!digits() || (text[first] == '0' && at > first + 1)) return false;
    if (at < text.size() && text[at] == '.' && (++at, !digits())) return false;
    if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
        ++at;
        if (at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
        if (!digits()) return false;
    }
    return at == text.size();
}

// Replace every valid number that is not a 64-bit integer by 0.5, so that none is too large.
inline void tame_numbers(std::string& text) {
    for (std::size_t at = 0; at < text.size(); ++at) {
        if (text[at] == '"') {  // skip the string, which contains no number
            for (++at; at < text.size() && text[at] != '"'; ++at) at += text[at] == '\\';
            continue;
        }
        if (text[at] != '-' && !is_digit(text[at])) continue;
        std::size_t end = at;
        while (end < text.size() &&
               (is_digit(text[end]) ||
                std::string_view("+-.eE").find(text[end]) != std::string_view::npos))
            ++end;
        const auto number = std::string_view(text).substr(at, end - at);
        if (number.size() > number_limit)
            throw no_json("a number of " + std::to_string(number.size()) + " characters");
        const bool plain = number.find_first_of(".eE") == std::string_view::npos;
        if (is_number(number) && (!plain || number.size() > 18))
            text.replace(at, end - at, "0.5" + std::string(end - at - 3, ' '));
        at = end - 1;
    }
}

// Builds the value from nlohmann's events, and records the first repeated member.
class Builder {
public:
    Json value;
    std::string problem;   // why parsing stopped
    std::string repeated;  // the path of the first repeated member
    bool has_repeated = false;

    bool null() { return put(nullptr); }
    bool boolean(bool v) { return put(v); }
    bool number_integer(Json::number_integer_t v) { return put(v); }
    bool number_unsigned(Json::number_unsigned_t v) { return put(v); }
    bool number_float(Json::number_float_t v, const std::string&) { return put(v); }
    bool string(std::string& v) { return put(std::move(v)); }
    bool binary(Json::binary_t&) { return false; }
    bool start_object(std::size_t) { return open(Json::object()); }
    bool start_array(std::size_t) { return open(Json::array()); }
    bool end_object() { return close(); }
    bool end_array() { return close(); }
    bool key(std::string& name) {
        auto& members = open_.back()->get_ref<Json::object_t&>();
        auto [place, is_new] = members.emplace(name, nullptr);
        if (!is_new && !has_repeated) {
            has_repeated = true;
            const std::string owner = path();
            repeated = owner.empty() ? name : owner + "." + name;
        }
        member_ = &place->second;
        names_.back() = name;
        return true;
    }
    bool parse_error(std::size_t, const std::string&, const Json::exception& error) {
        problem = error.what();
        return false;
    }

private:
    std::vector<Json*> open_;         // the containers around the current place
    std::vector<std::string> names_;  // the current member's name in each; "" in an array
    Json* member_ = nullptr;          // the place of the next member's value

    Json* place(Json&& v) {
        if (open_.empty()) return &(value = std::move(v));
        if (open_.back()->is_object()) return &(*member_ = std::move(v));
        open_.back()->push_back(std::move(v));
        return &open_.back()->back();
    }
    bool put(Json&& v) { return place(std::move(v)) != nullptr; }
    bool open(Json&& v) {
        if (open_.size() == depth_limit) {
            problem = "it nests deeper than " + std::to_string(depth_limit) + " levels";
            return false;
        }
        Json* made = place(std::move(v));
        open_.push_back(made);
        names_.emplace_back();
        return true;
    }
    bool close() {
        open_.pop_back();
        names_.pop_back();
        return true;
    }
    std::string path() const {  // the path of the innermost container
        std::string where;
        for (std::size_t i = 0; i + 1 < open_.size(); ++i) {
            if (open_[i]->is_array())
                where += "[" + std::to_string(open_[i]->size() - 1) + "]";
            else
                where += (where.empty() ? "" : ".") + names_[i];
        }
        return where;
    }
};

// The document that these bytes are; rejects encoding, syntax and duplicate-member.
inline Json parse(std::string text) {
    if (!is_utf8(text)) throw Rejected("encoding", "", "the file is not UTF-8");
    if (text.rfind("\xEF\xBB\xBF", 0) == 0)
        throw Rejected("encoding", "", "the file starts with a byte order mark; write it without");
    if (text.find('\0') != text.npos) throw no_json("it holds NUL bytes");
    tame_numbers(text);
    Builder builder;
    if (!Json::sax_parse(text, &builder)) throw no_json(builder.problem);
    if (builder.has_repeated)
        throw Rejected("duplicate-member", builder.repeated, "a member is there twice; keep one");
    return std::move(builder.value);
}

}  // namespace strict
