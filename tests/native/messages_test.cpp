// The metas of all operations: written and read back; cut short, prolonged or absurd: refused.
#include "store/messages.hpp"

#include "base/order_template.h"
#include "files/messages.hpp"
#include "rpc/wire.hpp"
#include "support.hpp"

using namespace holdfast;

namespace {

// Every proper prefix, and one byte too many, must be refused.
template <typename Message>
void check_exact(const Message& message) {
    std::string meta = message.encode();
    REQUIRE(Message::decode(meta).ok());
    CHECK(Message::decode(meta).ok());
    CHECK(Message::decode(meta)->encode() == meta);
    for (std::size_t size = 0; size < meta.size(); ++size)
        CHECK_FALSE(Message::decode(meta.substr(0, size)).ok());
    CHECK_FALSE(Message::decode(meta + '\0').ok());
}

}  // namespace

TEST_CASE("every message is read back, whole or not at all") {
    check_exact(GetMessage{"key", 7, 9, 11});
    check_exact(DropMessage{"key", {1, 2, ~std::uint64_t{0}}, 3, {3}});
    check_exact(KeyMessage{std::string("k\0\xff", 3), 5});
    check_exact(ListMessage{"prefix", "after"});
    check_exact(CallMessage{"service", "method"});
    check_exact(ProbeMessage{1, 2, 3, "tcp:1.2.3.4:5", std::string("n\0", 2)});
    check_exact(ProbeReply{1, 2, "news"});
    check_exact(ObjectInfo{"key", 1, 2, Tier::Disk, true, 3, 1, ObjectHeader::of("header")});
    check_exact(FileOrder{"/root", "/root/a", Tier::Disk, 2, true, 5, 6, OnFailure::Abort});
    check_exact(PartReply{{.size = 9}, {4, 5}});
    check_exact(InvalidateMessage{"/root/a", ""});
    check_exact(InvalidateMessage{"", file_key("/root/a", {})});
    check_exact(Attributes{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
}

TEST_CASE("a template has all of an order but its root and path") {
    FileOrder order{"/root", "/root/a", Tier::Disk, 2, true, 5, 6, OnFailure::Redirect};
    std::string meta = order.encode_template();
    auto decoded = FileOrder::decode_template(meta);
    REQUIRE(decoded.ok());
    CHECK(decoded->path.empty());
    decoded->root = order.root;
    decoded->path = order.path;
    CHECK(decoded->encode() == order.encode());
    CHECK(order.encode().ends_with(meta));
    // As the shim finds it.
    CHECK(meta.size() == HF_ORDER_BYTES);
    CHECK(meta[HF_ORDER_COPIES_AT] == 2);
    CHECK(meta[HF_ORDER_VALIDATE_AT] == 1);
    CHECK(meta.substr(HF_ORDER_LARGEST_AT, 8) == std::string("\5\0\0\0\0\0\0\0", 8));
    std::string odd = meta;
    odd[odd.size() - 2] = 3;  // on failure
    for (const std::string& bad : {std::string(), odd, meta + "x", meta.substr(1)})
        CHECK(FileOrder::decode_template(bad).status().code() == Code::Damaged);
}

TEST_CASE("an order names a part of a large file, and what is passed lies within the file") {
    FileOrder order{"/root", "/root/a"};
    CHECK_FALSE(FileOrder::decode(order.encode())->part);
    CHECK(*order.range(kWholeBytes + 1) == Range{0, kWholeBytes + 1});
    order.part = 8;
    auto decoded = FileOrder::decode(order.encode());
    REQUIRE(decoded.ok());
    CHECK(decoded->part == 8u);
    CHECK(*decoded->range(kWholeBytes + 1) == Range{kWholeBytes, 1});
    CHECK(*decoded->range(2 * kWholeBytes) == Range{kWholeBytes, kPartBytes});
    CHECK(*decoded->range(kWholeBytes) == Range{0, kWholeBytes});  // not large
    order.part = 9;
    CHECK(order.range(kWholeBytes + 1).status().code() == Code::NotCached);

    for (Range beyond : {Range{0, 10}, Range{9, 1}, Range{~std::uint64_t{0}, 1}})
        CHECK_FALSE(PartReply::decode(PartReply{{.size = 9}, beyond}.encode()).ok());
}

TEST_CASE("a put lists its owners, up to the limit, and never more addresses than those") {
    PutMessage message{"key", Tier::Disk, {5, 6, 7}, {"unix:/a", "unix:/b"}};
    auto decoded = PutMessage::decode(message.encode());
    REQUIRE(decoded.ok());
    CHECK(decoded->key == "key");
    CHECK(decoded->tier == Tier::Disk);
    CHECK(decoded->copies() == 3);
    CHECK(decoded->owners == message.owners);
    CHECK(decoded->onward == message.onward);
    auto refused = [&] { return PutMessage::decode(message.encode()).status().code(); };
    message.onward.resize(3);
    CHECK(refused() == Code::BadInput);
    message.onward.clear();
    message.owners.clear();
    for (std::uint64_t i = 0; i < kMaxCopies; ++i) message.owners.push_back(i);
    CHECK(PutMessage::decode(message.encode()).ok());
    message.owners.push_back(kMaxCopies);
    CHECK(refused() == Code::BadInput);
    message.owners = {};
    CHECK(refused() == Code::BadInput);
    message.owners = {1, 2, 1};
    CHECK(refused() == Code::BadInput);
    message = {"key", Tier::Disk, {5, 6, 7}, {"unix:/a", "unix:/b"}, {9, 8}};
    decoded = PutMessage::decode(message.encode());
    REQUIRE(decoded.ok());
    CHECK(decoded->without == message.without);
    CHECK(decoded->onward == message.onward);
    message.without = {9, 9};
    CHECK(refused() == Code::BadInput);
    message.without.assign(kMaxCopies + 1, 0);
    CHECK(refused() == Code::BadInput);
    std::string cut = PutMessage{"key", Tier::Disk, {5, 6, 7}}.encode();
    cut.resize(cut.size() - 16);  // without, copies, header, and of the last owner half
    CHECK(PutMessage::decode(cut).status().code() == Code::Damaged);
}

TEST_CASE("files to be handed, and the checksums of what was written, are read back") {
    HandMessage hand{Tier::Disk, {{"one", 65'536}, {"two", 1 << 20, ObjectHeader::of("head")}}};
    auto handed = HandMessage::decode(hand.encode());
    REQUIRE(handed.ok());
    CHECK(handed->tier == Tier::Disk);
    REQUIRE(handed->files.size() == 2);
    CHECK(handed->files[1].key == "two");
    CHECK(handed->files[1].size == 1 << 20);
    CHECK(handed->files[1].header.bytes == "head");
    hand.files[1].header.crc ^= 1;
    CHECK(HandMessage::decode(hand.encode()).status().code() == Code::Damaged);
    hand.files[1].header = {};
    hand.files[1].size = HandMessage::kLargest + 1;
    CHECK(HandMessage::decode(hand.encode()).status().code() == Code::BadInput);
    CHECK(*decode_checksums(encode_checksums({1, 0xffffffff})) ==
          std::vector<std::uint32_t>{1, 0xffffffff});
    CHECK(decode_checksums("12345").status().code() == Code::Damaged);
}

TEST_CASE("a put may want more copies than it has owners, up to the limit") {
    PutMessage message{.key = "key", .owners = {5, 6}, .up_to = 3};
    CHECK(PutMessage::decode(message.encode())->copies() == 3);
    CHECK(PutMessage::decode(message.encode())->least() == 1);
    CHECK(PutMessage{.key = "key", .owners = {5, 6}}.least() == 2);
    DropMessage drop{"key", {5, 6}};
    for (auto copies : std::initializer_list<std::uint16_t>{0, 2, 16}) {
        message.up_to = drop.copies = copies;
        CHECK(PutMessage::decode(message.encode()).ok());
        CHECK(DropMessage::decode(drop.encode())->copies == copies);
    }
    for (auto copies : std::initializer_list<std::uint16_t>{1, 17, 0xffff}) {
        message.up_to = drop.copies = copies;
        CHECK(PutMessage::decode(message.encode()).status().code() == Code::BadInput);
        CHECK(DropMessage::decode(drop.encode()).status().code() == Code::BadInput);
    }
}

TEST_CASE("a header travels whole, up to its limit, and is refused if it has changed") {
    std::string longest(kMaxHeader, '\0');
    for (const std::string& bytes : {std::string(), std::string("h\0\xff", 3), longest}) {
        PutMessage put{.key = "key", .owners = {5, 6}, .onward = {"unix:/b"}};
        put.header = ObjectHeader::of(bytes);
        auto decoded = PutMessage::decode(put.encode());
        REQUIRE(decoded.ok());
        CHECK(decoded->header.bytes == bytes);
        CHECK(decoded->onward == put.onward);
        ObjectInfo info{.key = "key", .header = put.header};
        CHECK(ObjectInfo::decode(info.encode())->header.bytes == bytes);
        CHECK(ListReply::decode(ListReply{{info, info}}.encode())->objects[1].header.bytes ==
              bytes);
    }
    auto codes = [](const ObjectHeader& header) {
        ObjectInfo info{.key = "key", .header = header};
        return std::array{
            PutMessage::decode(PutMessage{.key = "key", .owners = {5}, .header = header}.encode())
                .status()
                .code(),
            ObjectInfo::decode(info.encode()).status().code(),
            ListReply::decode(ListReply{{info}}.encode()).status().code()};
    };
    for (Code code : codes(ObjectHeader::of(longest + "x"))) CHECK(code == Code::BadInput);
    for (ObjectHeader changed : {ObjectHeader{"header", 7}, ObjectHeader{"", 7}})
        for (Code code : codes(changed)) CHECK(code == Code::Damaged);
    ObjectHeader flipped = ObjectHeader::of("header");
    flipped.bytes[3] ^= 1;
    for (Code code : codes(flipped)) CHECK(code == Code::Damaged);
}

TEST_CASE("a list of objects is read back") {
    ListReply reply;
    reply.more = true;
    reply.objects = {{"a", 1, 2, Tier::Memory, false, 1}, {"b", 3, 4, Tier::Disk, true, 2}};
    auto decoded = ListReply::decode(reply.encode());
    REQUIRE(decoded.ok());
    CHECK(decoded->more);
    CHECK(decoded->objects.size() == 2);
    CHECK(decoded->encode() == reply.encode());
    std::string bytes = reply.encode();
    bytes.pop_back();
    CHECK_FALSE(ListReply::decode(bytes).ok());
}

TEST_CASE("keys, tiers and choices outside their limits are refused") {
    CHECK(KeyMessage::decode(KeyMessage{""}.encode()).status().code() == Code::BadInput);
    CHECK(KeyMessage::decode(KeyMessage{std::string(kMaxKey, 'k')}.encode()).ok());
    CHECK(KeyMessage::decode(KeyMessage{std::string(kMaxKey + 1, 'k')}.encode()).status().code() ==
          Code::BadInput);
    std::string tier_7 = PutMessage{"k", Tier::Memory, {1}}.encode();
    tier_7[5] = 7;  // behind the key and its length
    CHECK(PutMessage::decode(tier_7).status().code() == Code::Damaged);
    auto endless = MetaWriter().number(~std::uint32_t{0}).take() + "text";
    CHECK(KeyMessage::decode(endless).status().code() == Code::Damaged);
}

TEST_CASE("an order names absolute paths and a number of copies, or it is refused") {
    FileOrder order{"/root", "/root/a"};
    auto code = [&] {
        auto decoded = FileOrder::decode(order.encode());
        return decoded.ok() ? Code::Ok : decoded.status().code();
    };
    CHECK(code() == Code::Ok);
    for (std::size_t copies : {std::size_t{0}, kMaxCopies + 1}) {
        order.copies = static_cast<std::uint16_t>(copies);
        CHECK(code() == Code::BadInput);
    }
    order.copies = kMaxCopies;
    CHECK(code() == Code::Ok);
    for (std::string path : {std::string(), std::string("a"), std::string("/root/a\0b", 9)}) {
        CHECK(FileOrder::decode(FileOrder{"/root", path}.encode()).status().code() ==
              Code::BadInput);
        CHECK(FileOrder::decode(FileOrder{path, "/root/a"}.encode()).status().code() ==
              Code::BadInput);
    }
}

TEST_CASE("only plain paths below the root are cached") {
    auto below = [](const std::string& root, const std::string& path) {
        auto found = FileOrder{root, path}.below_root();
        if (!found.ok()) CHECK(found.status().code() == Code::NotCached);
        return found.ok() ? *found : "<" + std::to_string(found.ok()) + ">";
    };
    CHECK(below("/root", "/root/a/b") == "a/b");
    CHECK(below("/", "/a") == "a");
    CHECK(below("/root", "/root/..a/...") == "..a/...");
    for (const char* path : {"/root", "/root/", "/rooted/a", "/root/a/", "/root//a", "/root/./a",
                             "/root/a/..", "/root/../root/a", "/other/a"})
        CHECK(below("/root", path) == "<0>");
    // The key must hold the path, what comes before it and the identity.
    CHECK(below("/", "/" + std::string(kMaxKey - 39, 'a')).size() == kMaxKey - 39);
    CHECK(below("/", "/" + std::string(kMaxKey - 38, 'a')) == "<0>");
}

TEST_CASE("another inode, size, mtime or ctime is another version of a file") {
    Attributes one{.inode = 1, .size = 2, .atime_ns = 3, .mtime_ns = 4, .ctime_ns = 5};
    for (auto field :
         {&Attributes::inode, &Attributes::size, &Attributes::mtime_ns, &Attributes::ctime_ns}) {
        Attributes other = one;
        ++(other.*field);
        CHECK(other.identity() != one.identity());
    }
    Attributes read = one;
    ++read.atime_ns;
    CHECK(read.identity() == one.identity());
}

TEST_CASE("a file has one key for each of its versions") {
    std::string key = file_key("/a", {1, 2, 3, 4});
    CHECK(key.size() == 5 + 2 + 1 + 32);
    CHECK(key.starts_with(file_prefix("/a")));
    CHECK(file_prefix("/a") == std::string("@file/a\0", 8));
    for (Identity other :
         {Identity{9, 2, 3, 4}, Identity{1, 9, 3, 4}, Identity{1, 2, 9, 4}, Identity{1, 2, 3, 9}})
        CHECK(file_key("/a", other) != key);
}
