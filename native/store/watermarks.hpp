// Versions that were dropped all at once (rule 9). A watermark is a prefix and a version: of the
// keys that begin with the prefix, those are dropped for ever whose version is below it. A key's
// version is the decimal number behind the prefix, up to a slash or the key's end:
// `run/T/` and 12 say it of `run/T/11` and `run/T/0003/block`, not of `run/T/12` or `run/T/x`.
//
// Of one prefix the greatest counts, whatever the order in which a member hears of them.
// Not thread-safe. No I/O.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"

namespace holdfast {

struct Watermark {
    std::string prefix;
    std::uint64_t version = 0;

    // BadInput if it says nothing that can be understood: no prefix, or one that ends in a digit,
    // behind which no number begins.
    Status check() const;
    // Whether it drops a key.
    bool covers(std::string_view key) const;

    // As the text of a notice; nothing if it is none.
    std::string encode() const;
    static std::optional<Watermark> decode(const std::string& text);
};

class Watermarks {
  public:
    // Null if none drops that key. Good until the next raise().
    const Watermark* over(std::string_view key) const;
    // Whether one says as much as this.
    bool cover(const Watermark& mark) const;
    // From now on this one counts, which was not covered. Gives those that it covers.
    std::vector<Watermark> raise(const Watermark& mark);

  private:
    std::map<std::string, Watermark, std::less<>> marks_;  // by prefix
};

}  // namespace holdfast
