// Fields of a frame's meta, one after the other: numbers little-endian, strings with their length.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

namespace holdfast {

class MetaWriter {
  public:
    template <std::unsigned_integral T>
    MetaWriter& number(T value) {
        char bytes[sizeof(T)];
        for (std::size_t i = 0; i < sizeof(T); ++i)
            bytes[i] = static_cast<char>(std::uint64_t{value} >> (8 * i));
        out_.append(bytes, sizeof bytes);
        return *this;
    }
    MetaWriter& text(std::string_view value) {
        number(static_cast<std::uint32_t>(value.size()));
        out_.append(value);
        return *this;
    }
    std::size_t size() const { return out_.size(); }
    std::string take() { return std::move(out_); }

  private:
    std::string out_;
};

// Reads never go beyond the meta: past its end they give zeros and empty strings, and whole() is
// false from then on. Read all fields, then ask whole() once.
class MetaReader {
  public:
    explicit MetaReader(std::string_view meta) : rest_(meta) {}

    template <std::unsigned_integral T>
    T number() {
        if (rest_.size() < sizeof(T)) {
            failed_ = true;
            return 0;
        }
        std::uint64_t value = 0;
        for (std::size_t i = 0; i < sizeof(T); ++i)
            value |= std::uint64_t{static_cast<unsigned char>(rest_[i])} << (8 * i);
        rest_.remove_prefix(sizeof(T));
        return static_cast<T>(value);
    }
    std::string_view text() {
        auto size = number<std::uint32_t>();
        if (rest_.size() < size) {
            failed_ = true;
            return {};
        }
        auto value = rest_.substr(0, size);
        rest_.remove_prefix(size);
        return value;
    }
    bool empty() const { return rest_.empty(); }
    bool whole() const { return !failed_ && rest_.empty(); }
    bool failed() const { return failed_; }

  private:
    std::string_view rest_;
    bool failed_ = false;
};

}  // namespace holdfast
