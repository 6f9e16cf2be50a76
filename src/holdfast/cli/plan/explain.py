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
