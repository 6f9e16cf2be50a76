#include "files/messages.hpp"

#include <algorithm>
#include <chrono>
#include <string_view>

#include "placement/ring.hpp"
#include "rpc/wire.hpp"
#include "store/notices.hpp"

namespace holdfast {
namespace {

constexpr std::size_t kIdentityBytes = 32;
constexpr std::size_t kTreeBytes = 8;  // that keys of listings and parts have besides, at most

Status incomplete(const char* what) {
    return Status(Code::Damaged, std::string("malformed frame: the ") + what + " is incomplete");
}

std::uint64_t nanoseconds(const timespec& time) {
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000u +
           static_cast<std::uint64_t>(time.tv_nsec);
}

Status check_path(const std::string& path) {
    if (!path.starts_with('/') || path.find('\0') != std::string::npos)
        return Status(Code::BadInput, "'" + path + "' is not an absolute path");
    return {};
}

// Without empty parts, "." and "..": one file must not have two keys, nor lie elsewhere.
bool is_plain(std::string_view relative) {
    for (std::size_t at = 0; at <= relative.size();) {
        auto end = std::min(relative.find('/', at), relative.size());
        auto part = relative.substr(at, end - at);
        if (part.empty() || part == "." || part == "..") return false;
        at = end + 1;
    }
    return true;
}

// To the end.
Result<FileOrder> read_template(MetaReader& reader) {
    FileOrder order;
    auto tier = reader.number<std::uint8_t>();
    order.tier = static_cast<Tier>(tier);
    order.copies = reader.number<std::uint16_t>();
    auto validate = reader.number<std::uint8_t>();
    order.validate = validate != 0;
    order.largest = reader.number<std::uint64_t>();
    order.settled_ns = reader.number<std::uint64_t>();
    auto on_failure = reader.number<std::uint8_t>();
    order.on_failure = static_cast<OnFailure>(on_failure);
    auto stands_in = reader.number<std::uint8_t>();
    order.stands_in = stands_in != 0;
    if (!reader.empty()) order.part = reader.number<std::uint32_t>();
    if (!reader.whole() || tier >= kTiers || validate > 1 || stands_in > 1 ||
        on_failure > static_cast<std::uint8_t>(OnFailure::Recache))
        return incomplete("order of a file");
    if (order.copies < 1 || order.copies > kMaxCopies)
        return Status(Code::BadInput, "a file can have 1 to " + std::to_string(kMaxCopies) +
                                          " copies, not " + std::to_string(order.copies));
    return order;
}

}  // namespace

// ---- attributes ------------------------------------------------------------------------------

Attributes Attributes::of(const struct stat& info) {
    return {.mode = info.st_mode,
            .uid = info.st_uid,
            .gid = info.st_gid,
            .nlink = info.st_nlink,
            .inode = info.st_ino,
            .device = info.st_dev,
            .size = static_cast<std::uint64_t>(info.st_size),
            .blocks = static_cast<std::uint64_t>(info.st_blocks),
            .atime_ns = nanoseconds(info.st_atim),
            .mtime_ns = nanoseconds(info.st_mtim),
            .ctime_ns = nanoseconds(info.st_ctim)};
}

std::string Attributes::encode() const {
    MetaWriter writer;
    writer.number(mode).number(uid).number(gid);
    for (auto number : {nlink, inode, device, size, blocks, atime_ns, mtime_ns, ctime_ns})
        writer.number(number);
    return writer.take();
}

Result<Attributes> Attributes::decode(const std::string& meta) {
    MetaReader reader(meta);
    Attributes all;
    for (auto* number : {&all.mode, &all.uid, &all.gid}) *number = reader.number<std::uint32_t>();
    for (auto* number : {&all.nlink, &all.inode, &all.device, &all.size, &all.blocks, &all.atime_ns,
                         &all.mtime_ns, &all.ctime_ns})
        *number = reader.number<std::uint64_t>();
    if (!reader.whole()) return incomplete("list of attributes");
    return all;
}

bool settled(const Attributes& attributes, std::uint64_t settled_ns) {
    if (settled_ns == 0) return true;
    auto now = std::chrono::duration_cast<std::chrono::nanoseconds>(
                   std::chrono::system_clock::now().time_since_epoch())
                   .count();
    auto changed = static_cast<std::int64_t>(attributes.mtime_ns);
    return changed <= now && static_cast<std::uint64_t>(now - changed) >= settled_ns;
}

// ---- orders ----------------------------------------------------------------------------------

Result<std::string> FileOrder::below_root() const {
    std::string top = root == "/" ? root : root + "/";
    if (!path.starts_with(top) || !is_plain(std::string_view(path).substr(top.size())))
        return Status(Code::NotCached, "'" + path + "' is not a plain path below " + root);
    if (file_prefix(path).size() + kIdentityBytes > kMaxKey)
        return Status(Code::NotCached,
                      "a path of " + std::to_string(path.size()) + " bytes is too long for a key");
    return path.substr(top.size());
}

Result<Range> FileOrder::range(std::uint64_t size) const {
    if (!part || size <= kWholeBytes) return Range{0, size};
    std::uint64_t begin = *part * kPartBytes;
    if (begin >= size)
        return Status(Code::NotCached, path + " has no part " + std::to_string(*part));
    return Range{begin, std::min(kPartBytes, size - begin)};
}

std::string FileOrder::encode() const {
    return MetaWriter().text(root).text(path).take() + encode_template();
}

std::string FileOrder::encode_template() const {
    MetaWriter writer;
    writer.number(static_cast<std::uint8_t>(tier))
        .number(copies)
        .number(static_cast<std::uint8_t>(validate))
        .number(largest)
        .number(settled_ns)
        .number(static_cast<std::uint8_t>(on_failure))
        .number(static_cast<std::uint8_t>(stands_in));
    if (part) writer.number(*part);
    return writer.take();
}

Result<FileOrder> FileOrder::decode(const std::string& meta) {
    MetaReader reader(meta);
    std::string root(reader.text()), path(reader.text());
    auto order = read_template(reader);
    if (!order.ok()) return order;
    order->root = std::move(root);
    order->path = std::move(path);
    for (auto* one : {&order->root, &order->path})
        if (Status status = check_path(*one); !status.ok()) return status;
    return order;
}

Result<FileOrder> FileOrder::decode_template(const std::string& meta) {
    MetaReader reader(meta);
    return read_template(reader);
}

std::string PartReply::encode() const {
    return MetaWriter().text(attributes.encode()).number(range.begin).number(range.size).take();
}

Result<PartReply> PartReply::decode(const std::string& meta) {
    MetaReader reader(meta);
    auto attributes = Attributes::decode(std::string(reader.text()));
    if (!attributes.ok()) return attributes.take_status();
    PartReply reply{*attributes, {reader.number<std::uint64_t>(), reader.number<std::uint64_t>()}};
    std::uint64_t size = reply.attributes.size;
    if (!reader.whole() || reply.range.size > size || reply.range.begin > size - reply.range.size)
        return incomplete("part of a file");
    return reply;
}

Status TreeOrder::check() const {
    if (kind == Kind::Listing && path == root) return {};
    auto below = FileOrder{.root = root, .path = path + std::string(kTreeBytes, 'x')}.below_root();
    return below.ok() ? Status() : below.take_status();
}

std::string TreeOrder::encode() const {
    MetaWriter writer;
    writer.number(static_cast<std::uint8_t>(kind))
        .text(root)
        .text(path)
        .number(part)
        .number(settled_ns)
        .number(hops)
        .number(static_cast<std::uint8_t>(stands_in))
        .number(static_cast<std::uint8_t>(refreshes.size()));
    for (auto refresh : refreshes) writer.number(refresh);
    return writer.take();
}

Result<TreeOrder> TreeOrder::decode(const std::string& meta) {
    MetaReader reader(meta);
    TreeOrder order;
    auto kind = reader.number<std::uint8_t>();
    order.kind = static_cast<Kind>(kind);
    order.root = reader.text();
    order.path = reader.text();
    order.part = reader.number<std::uint32_t>();
    order.settled_ns = reader.number<std::uint64_t>();
    order.hops = reader.number<std::uint8_t>();
    auto stands_in = reader.number<std::uint8_t>();
    order.stands_in = stands_in != 0;
    auto refreshes = reader.number<std::uint8_t>();
    for (std::uint8_t i = 0; i < refreshes && !reader.failed(); ++i)
        order.refreshes.push_back(reader.number<std::uint64_t>());
    if (!reader.whole() || refreshes > kMostRefreshes ||
        kind > static_cast<std::uint8_t>(Kind::Part) || stands_in > 1 || order.hops > kMostHops)
        return incomplete("order of a tree");
    for (auto* path : {&order.root, &order.path})
        if (Status status = check_path(*path); !status.ok()) return status;
    return order;
}

std::string TreeReply::encode() const {
    return MetaWriter()
        .text(attributes.encode())
        .number(age_ns)
        .number(static_cast<std::uint8_t>(keep))
        .take();
}

Result<TreeReply> TreeReply::decode(const std::string& meta) {
    MetaReader reader(meta);
    auto attributes = Attributes::decode(std::string(reader.text()));
    if (!attributes.ok()) return attributes.take_status();
    TreeReply reply{*attributes, reader.number<std::uint64_t>()};
    auto keep = reader.number<std::uint8_t>();
    reply.keep = keep != 0;
    if (!reader.whole() || keep > 1) return incomplete("answer of a tree");
    return reply;
}

std::string InvalidateMessage::encode() const {
    return MetaWriter().text(path).text(notice).take();
}

Result<InvalidateMessage> InvalidateMessage::decode(const std::string& meta) {
    MetaReader reader(meta);
    InvalidateMessage message{std::string(reader.text()), std::string(reader.text())};
    if (!reader.whole() || message.path.empty() == message.notice.empty())
        return incomplete("path to invalidate");
    if (message.notice.size() >= Notice::kMost)
        return Status(Code::BadInput, "malformed notice: unexpected length");
    if (message.path.empty()) return message;
    if (Status status = check_path(message.path); !status.ok()) return status;
    if (message.path.size() + 2 * kIdentityBytes > kMaxKey)
        return Status(Code::BadInput, "a path of that length is never cached");
    return message;
}

// ---- keys ------------------------------------------------------------------------------------

std::string file_prefix(const std::string& path) {
    return kFilePrefix + path + '\0';
}

std::string file_key(const std::string& path, const Identity& identity) {
    return file_prefix(path) + MetaWriter()
                                   .number(identity.inode)
                                   .number(identity.size)
                                   .number(identity.mtime_ns)
                                   .number(identity.ctime_ns)
                                   .take();
}

// Longer than keys of files, so that no two can be equal.
std::string tree_key(const TreeOrder& order, const Identity& identity, std::uint32_t listing_crc) {
    std::string key = file_key(order.path, identity);
    switch (order.kind) {
        case TreeOrder::Kind::File:
            return key;
        case TreeOrder::Kind::Listing:
            return key + "list" + MetaWriter().number(listing_crc).take();
        case TreeOrder::Kind::Part:
            return key + "part" + MetaWriter().number(order.part).take();
    }
    return key;
}

std::string directory_of(const std::string& path) {
    auto slash = path.rfind('/');
    return slash == std::string::npos || slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace holdfast
