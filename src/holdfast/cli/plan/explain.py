"""What `--explain` says: the formula, its assumptions, and where it comes from."""

CHECKPOINT = """\
The model is a Markov chain over the segments of one period, from one shared checkpoint to the next.
A segment computes for t seconds and writes a checkpoint. Failures are independent (Poisson) with
rate L_i for those whose lowest sufficient level is i; L is their sum. An attempt of length T
  succeeds with   p0(T) = exp(-L T),
  is ended by i   p_i(T) = L_i / L (1 - exp(-L T)),
  takes on average e(T) = (1 - exp(-L T)) / L.
A failure goes back to the newest checkpoint of level i or above. A recovery of length r_k is
repeated after a lower failure; one of level k or above during it needs the next level.
Two levels, the program waiting for the shared one (N segments, T1 = t + c1, T2 = t + c2):
  E = [e(T1) + p0(T1) (G + S^(N-2) E2) + (1 - P) R2] / P
with blocks that a local recovery repeats: S = p0(T) / (1 - p_1(T) p0(r1)), G their mean time,
P = p0(T1) S^(N-2) S2, R2 = (exp(L r2) - 1) / L. Drained in the background, the first
s = ceil(D / ((1 + a) t + c1)) segments are slowed by the factor 1 + a, the program waits for c1
only, and a failure of the shared level during them returns to the shared checkpoint before this
one, so that the whole period before is computed again. Efficiency is N t / E; the best t and N are
searched on a grid, with the points at which s changes.
More than two levels: the absorbing chain (I - Q) x = b, solved as a sparse linear system.
Not in it: correlated failures, varying costs, the first read and the last drain of a job.
Sources: Sato et al., Design and Modeling of an Asynchronous Checkpointing System; Moody et al.,
SC'10; Young 1974: sqrt(2 c M); Daly 2006. Checked in docs/models/checkpoint.md."""

RING = """\
Every node stands at V random places of a circle of 2^64 positions; a file belongs to the first
node clockwise. When a node fails, the files of each of its V arcs go to the next node. A trial
fails one random node of a ring with files at random places and counts the nodes that receive at
least one file; with m = files / (nodes x V) files per arc the mean is about
  (n - 1) (1 - (1 - 1/(n - 1))^A),  A = V m / (1 + m).
The advice is the fewest virtual nodes whose busiest node is within the slack of the best setting.
Memory is 12 bytes per place; a lookup is measured on a real ring of that size, on this machine.
Source: Lee et al., Fault-Tolerant Deep Learning Cache with Hash Ring (FT-Cache), figure 6(b),
which reports 3 receivers at 10 virtual nodes and near 300 at 1,000. Ours are 9.8 and 288;
docs/models/ring.md says what explains the difference."""

COPIES = """\
Rank i and those p/r, 2p/r ... further on hold the same blocks: g = p/r groups. Data is lost when a
whole group has failed. Of all sets of f failures, those that spare every group are
  coefficient of x^f in ((1 + x)^r - x^r)^g,
all terms positive (the paper's alternating sum over groups is the same number, but cancels to
nonsense in floating point). Loss at failure f exactly:
  g r / f x P(g - 1 groups survive f - r failures) x f(f-1)...(f-r+1) / (p(p-1)...(p-r+1)).
Mean failures until loss: (p + 1) Gamma(1 + 1/r) Gamma(g + 1) / Gamma(g + 1 + 1/r), exact.
Approximation for few failures: g (f/p)^r. Ranks that fail together count as one if their number
divides p/r. The formula needs r to divide p: else it is for the next lower multiple, while the
real sets i, i + p/r ... overlap and are r times as many; the risk is then bounded by p times the
chance of one set, and the simulation runs the real placement. Nothing is restored in between:
failures are those within one window of restoration.
Source: Huebner et al., ReStore, section IV-D and figure 3. Checked in docs/models/copies.md."""

TRAINING = """\
Data-parallel training waits in every batch for its slowest node. A batch of B files is shared out
over n nodes; a node's time is its computation plus its reads. A cached file takes
size / min(local, network); one that is missing waits for the shared file system (lognormal with
the given mean and spread, the longest of those a node has under way, or their number by its
readers) plus its transfer, the rate being shared by all that read at the same time.
  none       the first epoch reads everything from the shared file system, later ones from the cache
  redirect   files of lost nodes are missing in every later epoch
  recache    ... in the next epoch only: they are cached again on the way
  two copies ... never; filling the cache writes everything twice
  abort      the job starts again from the first epoch, with a new node
A failure repeats its epoch from the start, after the times to detect and to resume.
Source: Lee et al., FT-Cache, sections IV and V, figures 5 and 6(a). The defaults are fitted to its
percentages (docs/models/training.md): trust the shape, and put in your own numbers."""

IMPORT = """\
Every process makes F x o calls (files x calls per file). From the shared file system, with n nodes
of P:
  start + max(F o latency, n P F o / calls per second) + n bytes / storage rate.
With broadcast one node reads and a tree of degree d passes each file on:
  start + F o latency + F depth hop + d bytes / network (+ n large / storage rate),
depth = hops from the head to the furthest node. A second import finds everything on its node.
--measured NODES:TIME sets the shared file system's calls per second from what you saw without
broadcast.
Source: Lewis et al., Copper, figures 1, 4 and 5. Checked in docs/models/import.md."""

FAILURES = """\
Jobs by the state that Slurm recorded: FAILED and OUT_OF_MEMORY are job fails, TIMEOUT and DEADLINE
timeouts, NODE_FAIL and BOOT_FAIL node fails; cancelled, preempted and running jobs are left out of
the ratios. The rate of node failures is their number by the node seconds of all jobs (those that
ended otherwise are censored: their time counts, they add no failure); the interval is the exact
one for a Poisson count: chi2(0.025, 2k) / 2T to chi2(0.975, 2k + 2) / 2T.
A job of n nodes is hit n times as often as one node. The paper counts timeouts as node failures
too; we do not: most are jobs that asked for too little time.
Source: Lee et al., FT-Cache, section III, table I, figures 1 and 2. See docs/models/failures.md."""
