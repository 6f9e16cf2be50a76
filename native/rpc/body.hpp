// The body of a request, read by a pool thread that has the connection to itself meanwhile.
#pragma once

#include <string>

#include "rpc/channel.hpp"
#include "rpc/frame.hpp"

namespace holdfast {

class Body {
  public:
    // `ahead` has been read from the connection already.
    Body(Channel channel, const Header& request, std::string ahead, TimePoint arrived);

    std::uint64_t size() const { return request_.body_bytes; }
    std::uint64_t left() const { return left_; }
    Duration deadline() const { return deadline_.stall; }
    // When the request came, which may have waited for a thread since.
    TimePoint arrived() const { return arrived_; }

    // Tells a sender who asked first that the body may come.
    Status go_on();

    // Some bytes, at most `most` and at most what is left.
    Result<std::size_t> read_some(char* out, std::size_t most);
    // All of a body that is held in memory, verified.
    Result<std::string> read_message();
    // After the last byte: the checksum that the sender computed.
    Result<std::uint32_t> expected_crc();

    // Whether the connection stands at the start of the next request.
    bool at_end() const { return at_end_; }
    const std::string& ahead() const { return ahead_; }
    Fd take_connection() { return std::move(channel_).take(); }

  private:
    Result<std::size_t> receive(char* out, std::size_t most);

    Channel channel_;
    Header request_;
    std::string ahead_;
    TimePoint arrived_;
    std::uint64_t left_;
    Deadline deadline_;
    bool at_end_;
};

}  // namespace holdfast
