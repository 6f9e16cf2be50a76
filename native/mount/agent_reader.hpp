// The agent of this node, as the mount asks it. Who gets no answer reads the shared file system.
//
// Thread-safe. fetch() blocks: for one deadline if the agent is gone or silent, after which it is
// avoided for a while (base/backoff.h); longer while the agent lives and only the answer takes
// its time.
#pragma once

#include <optional>
#include <string>

#include "base/backoff.h"
#include "base/fd.hpp"
#include "files/messages.hpp"
#include "mount/settings.hpp"
#include "rpc/connection_pool.hpp"

namespace holdfast::mount {

// The content of a file, listing or part that nobody will change, and what it is of.
struct AgentContent {
    Fd fd;
    Attributes attributes;
    Range range = {};  // of a spread file: what it is of it
};

class AgentReader {
  public:
    explicit AgentReader(const Settings& settings) : settings_(settings), connections_("") {}

    std::optional<AgentContent> listing(const Root& root, const std::string& path);
    std::optional<AgentContent> file(const Root& root, const std::string& path);
    // One part of a large file; of a spread one perhaps the whole.
    std::optional<AgentContent> part(const Root& root, const std::string& path, std::uint32_t part);

  private:
    std::optional<AgentContent> spread(const Root& root, const std::string& path,
                                       std::optional<std::uint32_t> part);
    std::optional<AgentContent> tree(TreeOrder order);
    std::optional<AgentContent> fetch(Question question, bool names_range = false);

    const Settings& settings_;
    ConnectionPool connections_;
    hf_backoff backoff_{};
};

}  // namespace holdfast::mount
