#include "placement/windows.hpp"

#include <algorithm>
#include <tuple>
#include <unordered_map>

#include "base/hash.hpp"

namespace holdfast {
namespace {

constexpr std::string_view kPrefix = "@space/", kNames = "@space/names/";
constexpr std::size_t kIdDigits = 8, kMostDigits = 9;

bool take(std::string_view& text, std::string_view what) {
    if (!text.starts_with(what)) return false;
    text.remove_prefix(what.size());
    return true;
}

bool take_number(std::string_view& text, std::uint64_t& number) {
    std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
    if (digits == 0 || digits > kMostDigits || (digits > 1 && text.front() == '0')) return false;
    number = 0;
    for (char digit : text.substr(0, digits)) number = 10 * number + (digit - '0');
    text.remove_prefix(digits);
    return true;
}

}  // namespace

WindowTable::WindowTable(std::vector<Roster> rosters, std::vector<WindowMember> members)
    : members_(std::move(members)) {
    std::ranges::sort(members_, {}, &WindowMember::node);
    for (auto& roster : rosters) {
        Standing standing{.roster = std::move(roster), .members = {}, .slots = {}};
        auto& nodes = standing.roster.nodes;
        standing.members.assign(nodes.size(), kNone);
        standing.slots.assign(members_.size(), kNone);
        std::unordered_map<std::string_view, std::uint32_t> slots;
        for (std::uint32_t slot = 0; slot < nodes.size(); ++slot) slots[nodes[slot]] = slot;
        for (std::uint32_t member = 0; member < members_.size(); ++member) {
            auto slot = slots.find(members_[member].node);
            if (slot == slots.end()) continue;
            standing.members[slot->second] = member;
            standing.slots[member] = slot->second;
        }
        std::string id = standing.roster.id;
        rosters_.insert_or_assign(std::move(id), std::move(standing));
    }
}

bool WindowTable::has(std::string_view key) {
    return key.starts_with(kPrefix) && !key.starts_with(kNames);
}

bool WindowTable::read(std::string_view key, Unit& unit) {
    key = key.substr(0, key.find('\0'));
    std::string_view rest = key;
    if (!take(rest, kPrefix) || rest.size() < kIdDigits) return false;
    unit.roster = rest.substr(0, kIdDigits);
    if (unit.roster.find_first_not_of("0123456789abcdef") != unit.roster.npos) return false;
    rest.remove_prefix(kIdDigits);
    if (!take(rest, "/")) return false;
    std::size_t variable = rest.find('/');
    if (variable == 0 || variable == rest.npos) return false;
    rest.remove_prefix(variable + 1);
    if (!take_number(rest, unit.units) || !take(rest, "+") || !take_number(rest, unit.survive) ||
        !take(rest, "/") || !take_number(rest, unit.start) || !take(rest, "."))
        return false;
    unit.stripe = key.substr(0, key.size() - rest.size());
    return take_number(rest, unit.unit) && take(rest, "/") && unit.unit < unit.units &&
           unit.survive < kMaxCopies;
}

bool WindowTable::Taken::has(std::uint32_t member) const {
    return std::find(members.begin(), members.begin() + count, member) != members.begin() + count;
}

std::size_t WindowTable::owners(std::string_view key, std::span<const std::uint64_t> without,
                                std::span<std::uint64_t> out) const {
    Unit unit;
    if (!read(key, unit)) return 0;
    auto found = rosters_.find(unit.roster);
    if (found == rosters_.end()) return 0;
    const Standing& standing = found->second;
    std::uint64_t size = standing.members.size();
    if (unit.start >= size) return 0;
    std::size_t places = 1 + unit.survive;
    std::array<std::uint32_t, kMaxCopies> slots, owners;
    Taken taken;
    for (std::size_t i = 0; i < places; ++i) {
        std::uint64_t place = unit.start + (i == 0 ? unit.unit : unit.units + i - 1);
        slots[i] = static_cast<std::uint32_t>(place % size);
        std::uint32_t member = standing.members[slots[i]];
        bool stands = member != kNone && !taken.has(member) &&
                      std::ranges::find(without, members_[member].number) == without.end();
        owners[i] = stands ? member : kNone;
        if (stands) taken.members[taken.count++] = member;
    }
    std::size_t count = 0;
    for (std::size_t i = 0; i < places && count < out.size(); ++i) {
        if (owners[i] == kNone) {
            owners[i] = stand_in(standing, unit, slots[i], taken, without);
            if (owners[i] == kNone) continue;
            taken.members[taken.count++] = owners[i];
        }
        out[count++] = members_[owners[i]].number;
    }
    return count;
}

std::uint32_t WindowTable::stand_in(const Standing& standing, const Unit& unit, std::size_t slot,
                                    const Taken& taken,
                                    std::span<const std::uint64_t> without) const {
    std::uint64_t seed = xxh3_64(unit.stripe, slot), size = standing.members.size();
    std::span taken_here(taken.members.data(), taken.count);
    bool staging = standing.roster.role == "staging";
    std::uint32_t best = kNone;
    std::tuple<int, bool, bool, std::uint64_t> best_rank;
    for (std::uint32_t i = 0; i < members_.size(); ++i) {
        const WindowMember& member = members_[i];
        bool spare = member.role == "spare";
        if (!spare && staging && member.role != "staging") continue;
        if (taken.has(i) || std::ranges::find(without, member.number) != without.end()) continue;
        std::uint32_t own = standing.slots[i];
        bool inside = own != kNone && (own + size - unit.start) % size < unit.units + unit.survive;
        bool host_used = std::ranges::any_of(
            taken_here, [&](std::uint32_t other) { return host(other) == host(i); });
        bool rack_used = std::ranges::any_of(
            taken_here, [&](std::uint32_t other) { return members_[other].rack == member.rack; });
        // The greatest hash comes first; of two, the first by node.
        std::tuple rank(spare ? 0 : 1 + inside, host_used, rack_used, ~xxh3_64(member.node, seed));
        if (best == kNone || rank < best_rank) best = i, best_rank = rank;
    }
    return best;
}

const std::string& WindowTable::host(std::uint32_t member) const {
    const WindowMember& here = members_[member];
    return here.host.empty() ? here.node : here.host;
}

}  // namespace holdfast
