// A mount that looks at itself, or at another one that looks back, waits for ever: nothing below
// a mount of ours is touched. Value type; its making reads /proc and does not touch the mounts.
#pragma once

#include <sys/types.h>

#include <set>
#include <string>

namespace holdfast::mount {

class Guard {
  public:
    // A snapshot of the mounts of ours that there are.
    Guard();

    bool is_ours(dev_t device) const { return devices_.contains(device); }

    // Which file of this process, its program or a library, lies on one; empty if none does.
    std::string endangered() const;

  private:
    std::set<dev_t> devices_;
};

}  // namespace holdfast::mount
