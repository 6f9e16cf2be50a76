// Frames of every operation, and ways to spoil them.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "base/crc32c.hpp"
#include "files/messages.hpp"
#include "rpc/frame.hpp"
#include "store/boxes_message.hpp"
#include "store/messages.hpp"

namespace holdfast::test {

struct Sample {
    Op op;
    std::string meta;
    std::string body;
};

// `owner` is who must own what is put and dropped.
inline std::vector<Sample> samples(std::uint64_t owner = 1) {
    PutMessage put{"key", Tier::Disk, {owner, ~owner, 7}, {"tcp:127.0.0.1:1", "unix:/nowhere"}};
    PutMessage alone{"key", Tier::Memory, {owner}, {}, {}, ObjectHeader::of("header"), 3};
    FileOrder order{"/nowhere", "/nowhere/file", Tier::Memory, 2, true, 1 << 20, 0};
    ListReply list;
    list.objects = {{"a", 1, 2, Tier::Memory, false, 1}, {"b", 3, 4, Tier::Disk, true, 2}};
    BoxesMessage boxes{1, 8, {{"@space/00000000/s:v/3+1/0.0/0:4,4:9", 2, {}}}};
    boxes.entries[0].region = {{2, {{{1, 2}, {0, 2}}}}, {1, 3}};
    BoxesReply pieces{
        {{}, {BoxesReply::Kind::Bytes}, {BoxesReply::Kind::Pieces, {{{1, {{{2, 3}}}}, 4}}}}};
    return {
        {Op::Boxes, "", boxes.encode()},
        {Op::Boxes, boxes.encode(), ""},
        {Op::Boxes, pieces.encode(), ""},
        {Op::Put, put.encode(), "some bytes"},
        {Op::Put, PutMessage{"key", Tier::Memory, {owner}}.encode(), "some bytes"},
        {Op::Put, alone.encode(), "some bytes"},
        {Op::Get, GetMessage{"key", 5, 10}.encode(), ""},
        {Op::Stat, KeyMessage{"key"}.encode(), ""},
        {Op::List, ListMessage{"prefix", "after"}.encode(), ""},
        {Op::Drop, DropMessage{"victim", {owner}}.encode(), ""},
        {Op::Verify, KeyMessage{"key"}.encode(), ""},
        {Op::Call, CallMessage{"service", "method"}.encode(), "message"},
        {Op::Wait, WaitMessage{"service", "method", "message", std::chrono::seconds(1)}.encode(),
         ""},
        {Op::Cancel, "", ""},
        {Op::Probe, ProbeMessage{1, 2, 3, "", "news"}.encode(), ""},
        {Op::Probe, ProbeMessage{1, 0, 3, "tcp:127.0.0.1:1", "news"}.encode(), ""},
        {Op::Probe, ProbeReply{1, 2, "news"}.encode(), ""},
        {Op::Get, ObjectInfo{"key", 1, 2, Tier::Disk, true, 3, 1, alone.header}.encode(), ""},
        {Op::List, list.encode(), ""},
        {Op::Read, order.encode(), ""},
        {Op::Open, order.encode(), ""},
        {Op::Attributes, order.encode(), ""},
        {Op::Tree, TreeOrder{TreeOrder::Kind::Part, "/nowhere", "/nowhere/file", 3}.encode(), ""},
        {Op::Tree, TreeReply{{.mode = 1, .inode = 2}, 3, false}.encode(), ""},
        {Op::Attributes, Attributes{.mode = 1, .inode = 2, .ctime_ns = 3}.encode(), ""},
    };
}

// Flips, overwrites, inserts, removes, repeats; some edits write a tempting number.
inline void mutate(std::string& bytes, std::mt19937_64& random) {
    static constexpr std::uint64_t kTempting[] = {
        0, 1, 0x7f, 0xff, 0xffff, 0x10000, 0x10001, 0x7fffffff, 0xffffffff, ~std::uint64_t{0}};
    for (auto edits = 1 + random() % 4; edits > 0; --edits) {
        std::size_t at = bytes.empty() ? 0 : random() % bytes.size();
        switch (random() % 6) {
            case 0:
                if (!bytes.empty()) bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8));
                break;
            case 1:
                if (!bytes.empty()) bytes[at] = static_cast<char>(random());
                break;
            case 2:
                bytes.insert(at, random() % 20, static_cast<char>(random()));
                break;
            case 3:
                bytes.erase(at, random() % 20);
                break;
            case 4:
                bytes.append(bytes.substr(at, random() % 50));
                break;
            default: {
                std::uint64_t number = kTempting[random() % std::size(kTempting)];
                for (std::size_t i = 0; i < (1u << random() % 4) && at + i < bytes.size(); ++i)
                    bytes[at + i] = static_cast<char>(number >> (8 * i));
            }
        }
    }
}

// Puts the right checksum into a header that may be spoilt, so that the parsers behind it are
// reached. The field is where rpc/frame.hpp says it is.
inline void mend_checksum(std::string& head, std::string_view meta) {
    std::uint32_t crc = crc32c(crc32c(0, head.data(), 40), meta.data(), meta.size());
    for (std::size_t i = 0; i < 4; ++i) head[40 + i] = static_cast<char>(crc >> (8 * i));
}

}  // namespace holdfast::test
