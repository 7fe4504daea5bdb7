//! Collectives: data that GPUs exchange.

use super::Op;
use super::dimension::{Dimension, choice, count};
use crate::units::Bytes;
use std::fmt;

named_enum! {
    /// The pattern of a collective operation.
    CollectiveKind {
        /// Every rank gets the sum.
        AllReduce = "all_reduce",
        /// Every rank gets all parts.
        AllGather = "all_gather",
        /// Every rank gets its part of the sum.
        ReduceScatter = "reduce_scatter",
        /// Every rank sends a part to every other.
        AllToAll = "all_to_all",
        /// One rank sends to another.
        SendReceive = "send_receive",
    }
}

/// A collective over `ranks` GPUs; `bytes` is the size of the full tensor on one rank.
///
/// Neighbouring ranks are `stride` GPUs apart in the numbering of all GPUs, so the stride says how many of them share a
/// node: with 8 GPUs a node and a stride of 4 two do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Collective {
    /// Which collective.
    pub kind: CollectiveKind,
    /// Size of the full tensor on one rank, in bytes.
    pub bytes: u64,
    /// GPUs that take part.
    pub ranks: u64,
    /// GPUs between neighbouring ranks, in the numbering of all GPUs.
    pub stride: u64,
}

impl Collective {
    /// Every field, in order.
    pub const DIMENSIONS: &[Dimension] = &[
        choice!(Collective, kind, CollectiveKind),
        count!(Collective, bytes, 1, 1 << 53, "bytes"),
        count!(Collective, ranks, 1, "GPUs"),
        count!(Collective, stride, 1, "GPUs"),
    ];

    /// A collective among neighbouring GPUs.
    pub const fn new(kind: CollectiveKind, bytes: u64, ranks: u64) -> Self {
        Self {
            kind,
            bytes,
            ranks,
            stride: 1,
        }
    }

    /// How many of the ranks are in one node of `gpus_per_node` GPUs, where nodes are filled in order.
    pub const fn ranks_per_node(&self, gpus_per_node: u64) -> u64 {
        let inside = gpus_per_node / self.stride;
        if inside == 0 {
            1
        } else if inside < self.ranks {
            inside
        } else {
            self.ranks
        }
    }

    /// Whether all ranks are in one node of `gpus_per_node` GPUs.
    pub const fn is_inside(&self, gpus_per_node: u64) -> bool {
        self.ranks_per_node(gpus_per_node) == self.ranks
    }

    /// Bytes that each rank sends over its link with a ring: `2(r-1)/r` of the tensor for an all-reduce,
    /// `(r-1)/r` for gather, scatter and all-to-all, all of it for a point-to-point copy.
    pub fn wire_bytes(&self) -> Bytes {
        let ranks = self.ranks.max(1) as f64;
        let share = match self.kind {
            CollectiveKind::AllReduce => 2.0 * (ranks - 1.0) / ranks,
            CollectiveKind::AllGather | CollectiveKind::ReduceScatter | CollectiveKind::AllToAll => {
                (ranks - 1.0) / ranks
            }
            CollectiveKind::SendReceive => 1.0,
        };
        Bytes::from_bytes(self.bytes as f64 * share)
    }
}

impl fmt::Display for Collective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = Bytes::from_bytes(self.bytes as f64);
        write!(f, "{} {size} over {} ranks", self.kind, self.ranks)?;
        if self.stride > 1 {
            write!(f, " {} GPUs apart", self.stride)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_all_reduce_sends_almost_twice_the_tensor() {
        let op = Collective::new(CollectiveKind::AllReduce, 800, 8);
        assert_eq!(op.wire_bytes().bytes(), 1400.0);
        assert_eq!(Collective { ranks: 1, ..op }.wire_bytes().bytes(), 0.0);
    }

    #[test]
    fn a_stride_takes_ranks_out_of_the_node() {
        let op = |ranks, stride| Collective {
            stride,
            ..Collective::new(CollectiveKind::AllGather, 1 << 20, ranks)
        };
        let cases = [(8, 1, 8), (16, 1, 8), (4, 2, 4), (8, 4, 2), (2, 8, 1), (64, 64, 1)];
        for (ranks, stride, inside) in cases {
            assert_eq!(op(ranks, stride).ranks_per_node(8), inside, "{ranks} x {stride}");
            assert_eq!(op(ranks, stride).is_inside(8), inside == ranks);
        }
    }
}
