#include "mount/settings.hpp"

#include <sys/stat.h>

#include <charconv>
#include <cstdlib>
#include <map>
#include <memory>

#include "base/hash.hpp"

namespace holdfast::mount {
namespace {

std::string resolved(const std::string& path) {
    std::unique_ptr<char, decltype(&std::free)> real(::realpath(path.c_str(), nullptr), &std::free);
    return real ? real.get() : path;
}

Duration milliseconds(const std::string& text) {
    return std::chrono::milliseconds(std::strtoull(text.c_str(), nullptr, 10));
}

// The template of an order, in hexadecimal.
Status take_order(Settings& settings, const std::string& hex) {
    Status wrong(Code::BadInput, "the order " + hex + " is none");
    if (hex.size() % 2 != 0) return wrong;
    std::string bytes(hex.size() / 2, '\0');
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        const char* digits = hex.data() + 2 * i;
        unsigned char byte = 0;
        if (std::from_chars(digits, digits + 2, byte, 16).ptr != digits + 2) return wrong;
        bytes[i] = static_cast<char>(byte);
    }
    auto order = FileOrder::decode_template(bytes);
    if (!order.ok()) return wrong;
    settings.order = std::move(*order);
    return {};
}

Status set(Settings& settings, const std::string& name, const std::string& value) {
    auto number = std::strtoull(value.c_str(), nullptr, 10);
    if (name == "point")
        settings.point = value;
    else if (name == "control")
        settings.control = value;
    else if (name == "agent")
        settings.agent = value;
    else if (name == "broadcast" || name == "spread")
        settings.roots.push_back({value, resolved(value), name == "spread"});
    else if (name == "deadline_ms")
        settings.deadline = milliseconds(value);
    else if (name == "order")
        return take_order(settings, value);
    else if (name == "parts_above")
        settings.parts_above = number;
    else if (name == "ttl_ms")
        settings.ttl = milliseconds(value);
    else
        return Status(Code::BadInput, "there is no setting " + name);
    return {};
}

// Neither the whole machine nor what the kernel makes up.
bool is_forbidden(const std::string& path) {
    for (const char* top : {"/proc", "/sys", "/dev"})
        if (is_at_or_below(path, top)) return true;
    return path == "/" || !path.starts_with('/');
}

// Roots on one file system share their numbers.
void number(std::vector<Root>& roots) {
    std::map<dev_t, std::uint64_t> known;
    for (Root& root : roots) {
        root.space = &root == &roots.front() ? 0 : space_beginning_at(root.path);
        struct stat info{};
        if (::stat(root.alias.c_str(), &info) == 0)
            root.space = known.emplace(info.st_dev, root.space).first->second;
    }
}

}  // namespace

std::uint64_t space_beginning_at(const std::string& path) {
    constexpr std::uint64_t kBit = std::uint64_t{1} << 62;
    return (xxh3_64(path) & (kBit - 1)) | kBit;  // below those of made-up directories
}

bool is_at_or_below(const std::string& path, const std::string& top) {
    return path.starts_with(top) && (path.size() == top.size() || path[top.size()] == '/');
}

const Root* Settings::root_of(const std::string& path) const {
    const Root* found = nullptr;
    for (const Root& root : roots)
        if (is_at_or_below(path, root.path) && (!found || root.path.size() > found->path.size()))
            found = &root;
    return found;
}

std::string Settings::shown(const std::string& target) const {
    for (const Root& root : roots) {
        if (is_at_or_below(target, root.path)) return point + target;
        if (is_at_or_below(target, root.alias))
            return point + root.path + target.substr(root.alias.size());
    }
    return target;
}

Result<Settings> parse_settings(int count, char** words) {
    Settings settings;
    for (int i = 1; i < count; ++i) {
        std::string word = words[i];
        auto equals = word.find('=');
        if (equals == std::string::npos) return Status(Code::BadInput, word + " sets nothing");
        if (Status status = set(settings, word.substr(0, equals), word.substr(equals + 1));
            !status.ok())
            return status;
    }
    if (settings.roots.empty()) return Status(Code::BadInput, "no root was given");
    settings.point = resolved(settings.point);
    if (is_forbidden(settings.point))
        return Status(Code::BadInput, "cannot mount at " + settings.point);
    for (const Root& root : settings.roots) {
        if (is_forbidden(root.path) || is_forbidden(root.alias))
            return Status(Code::BadInput, root.path + " cannot be a root");
        // Each would wait for the other as soon as somebody looked there.
        if (is_at_or_below(settings.point, root.alias) ||
            is_at_or_below(root.alias, settings.point))
            return Status(Code::BadInput, "the mount point " + settings.point + " and the root " +
                                              root.path + " contain one another");
    }
    number(settings.roots);
    return settings;
}

}  // namespace holdfast::mount
