//! The time of a collective on its links: inside a node, and between nodes where its ranks are placed in several.
//!
//! No net is asked here. A ring moves [`Collective::wire_bytes`] over the link of a node. Of a gather, scatter or
//! reduction over several nodes as much crosses to the next one, and the GPUs of a node share it, as NCCL's rings do; an
//! all-to-all sends what is for other nodes over each GPU's own adapter.

use crate::families::collective::link;
use crate::gpu::Gpu;
use crate::ops::{Collective, CollectiveKind};
use crate::units::{BytesPerSecond, Seconds};

/// Share of a link's bandwidth that collectives reach on large messages: bus bandwidths of 230 of 300 GB/s on A100
/// (superbenchmark), 340 of 450 on H100, 630 of 900 on B200, 690 of 900 on GB200 (XLA's tables of collectives).
const LINK_SHARE: f64 = 0.76;

/// What each rank beyond two adds where GPUs reach each other over PCIe alone: an all-reduce of 8 KiB by the kernels of vLLM
/// takes 6, 18 and 27 us over 2, 4 and 8 L40S, 13, 15 and 28 us over RTX PRO 6000 (aiconfigurator's tables of collectives).
const PCIE_RANK: Seconds = Seconds::from_micros(3.0);

/// What a gather or a reduction over several nodes takes before its transfer, fitted to all-reduces over 2 and 4 nodes
/// (docs/method/kernels.md).
const RING_START: Seconds = Seconds::from_micros(80.0);

/// What a send to another node takes before its transfer, fitted as well.
const SEND_START: Seconds = Seconds::from_micros(30.0);

/// Half width of the 90 % interval of the logarithm of [`Traffic::alone`] over a network whose bandwidth is known: systems that were
/// left out of the fit, each counted alike.
pub const NETWORK_HALF_WIDTH: f64 = 0.63;

/// What a collective needs of its links.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Traffic {
    /// Transfer inside a node.
    pub node: Seconds,
    /// Transfer between nodes.
    pub network: Seconds,
    /// Doublings of the ranks beyond two.
    pub rank_doublings: f64,
    /// Doublings of the nodes.
    pub node_doublings: f64,
}

impl Traffic {
    /// The traffic of one collective; `None` if one rank exchanges nothing.
    pub fn of(gpu: &Gpu, op: &Collective) -> Option<Self> {
        if op.ranks < 2 {
            return None;
        }
        let ranks = op.ranks as f64;
        let inside = match gpu.gpus_per_node() {
            Some(node) => op.ranks_per_node(node) as f64,
            None => ranks,
        };
        let nodes = ranks / inside;
        let bytes = op.bytes as f64;
        let link = link(gpu).bytes_per_sec() * LINK_SHARE;
        let network = network(gpu).bytes_per_sec();
        let wire = op.wire_bytes().bytes();
        let (in_node, between) = match op.kind {
            CollectiveKind::SendReceive if nodes > 1.0 => (0.0, bytes),
            CollectiveKind::SendReceive => (bytes, 0.0),
            CollectiveKind::AllToAll => (bytes * (inside - 1.0) / ranks, bytes * (1.0 - 1.0 / nodes)),
            // A ring crosses from node to node once a channel, and each GPU's adapter carries the share of one channel.
            CollectiveKind::AllReduce | CollectiveKind::AllGather | CollectiveKind::ReduceScatter => {
                (wire, wire / inside)
            }
        };
        // Where every rank is in a node of its own the link is not used, where all are in one the network is not.
        let in_node = if inside > 1.0 { in_node } else { 0.0 };
        let hops = match gpu.is_linked() {
            true => Seconds::ZERO,
            false => PCIE_RANK * (inside - 2.0).max(0.0),
        };
        let between = if nodes > 1.0 { between } else { 0.0 };
        Some(Self {
            node: Seconds::from_secs(in_node / link) + hops,
            network: Seconds::from_secs(between / network),
            rank_doublings: (ranks.log2() - 1.0).max(0.0),
            node_doublings: nodes.log2(),
        })
    }

    /// The part of a collective inside a node, which the nets know; `None` if every rank is in a node of its own.
    pub fn in_node(gpu: &Gpu, op: &Collective) -> Option<Collective> {
        let inside = match gpu.gpus_per_node() {
            Some(node) => op.ranks_per_node(node),
            None => op.ranks,
        };
        let bytes = match op.kind {
            CollectiveKind::AllToAll => op.bytes * inside / op.ranks.max(1),
            _ => op.bytes,
        };
        (inside > 1 && bytes > 0).then_some(Collective {
            bytes,
            ranks: inside,
            ..*op
        })
    }

    /// The same with the learned time of its part inside a node, its start included.
    pub fn with_learned(self, gpu: &Gpu, part: &Collective, learned: Seconds) -> Self {
        let more = match Self::of(gpu, part) {
            Some(part) => self.node / part.node,
            None => 1.0,
        };
        Self {
            node: learned * more,
            rank_doublings: 0.0,
            ..self
        }
    }

    /// The transfer: both at once, but for an all-to-all, whose GPUs forward what came from other nodes.
    pub fn transfer(&self) -> Seconds {
        self.node.max(self.network)
    }

    /// The time of one collective over several nodes that nothing runs beside; none inside a node.
    ///
    /// A ring passes its tensor on in pieces: of a start `a` for each and a transfer `w` of all, the best number of pieces makes
    /// `(√a + √w)²`.
    pub fn alone(gpu: &Gpu, op: &Collective) -> Option<Seconds> {
        let traffic = Self::of(gpu, op).filter(|traffic| traffic.network > Seconds::ZERO)?;
        let transfer = traffic.transfer();
        Some(match op.kind {
            CollectiveKind::SendReceive => SEND_START + transfer,
            _ => {
                let roots = RING_START.secs().sqrt() + transfer.secs().sqrt();
                Seconds::from_secs(roots.powi(2))
            }
        })
    }
}

/// Bandwidth between nodes of one GPU, in one direction; no more than that of its link.
fn network(gpu: &Gpu) -> BytesPerSecond {
    link(gpu).min(gpu.network_bandwidth())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn traffic(kind: CollectiveKind, ranks: u64, stride: u64) -> Traffic {
        let op = Collective {
            stride,
            ..Collective::new(kind, 1 << 30, ranks)
        };
        Traffic::of(Gpu::find("h100").unwrap(), &op).unwrap()
    }

    /// nccl-tests on two AWS p5.48xlarge (aws-samples/awsome-distributed-training), a send of Vidur's DGX H100.
    #[test]
    fn collectives_over_two_nodes_take_about_what_was_published() {
        let gpu = Gpu::find("h100").unwrap();
        let all_reduce = |bytes| Collective::new(CollectiveKind::AllReduce, bytes, 16);
        let send = Collective {
            stride: 8,
            ..Collective::new(CollectiveKind::SendReceive, 1 << 26, 2)
        };
        for (op, published_us) in [
            (all_reduce(8), 69.0),
            (all_reduce(1 << 20), 123.0),
            (all_reduce(1 << 23), 205.0),
            (all_reduce(1 << 28), 1468.0),
            (all_reduce(1 << 34), 66_132.0),
            (send, 1871.0),
        ] {
            let apart = (Traffic::alone(gpu, &op).unwrap().micros() / published_us).ln();
            assert!(apart.abs() < NETWORK_HALF_WIDTH, "{op:?}: {apart}");
        }
        let inside = Collective::new(CollectiveKind::AllReduce, 1 << 20, 8);
        assert_eq!(Traffic::alone(gpu, &inside), None);
    }

    #[test]
    fn ranks_of_a_node_share_the_crossing() {
        let gather = |ranks, stride| traffic(CollectiveKind::AllGather, ranks, stride);
        assert_eq!(gather(8, 1).network, Seconds::ZERO);
        // Eight GPUs of a node carry an eighth each; one in each node carries it all.
        let ratio = gather(16, 8).network / gather(16, 1).network;
        assert!((ratio - 8.0).abs() < 1e-9, "{ratio}");
        assert_eq!(gather(16, 8).node, Seconds::ZERO);
    }

    #[test]
    fn growing_by_one_node_is_no_cliff() {
        let of = |ranks| traffic(CollectiveKind::ReduceScatter, ranks, 1).transfer();
        assert!(of(16) / of(8) < 1.5 && of(512) / of(16) < 2.2);
    }

    #[test]
    fn what_is_learned_inside_a_node_starts_a_collective_over_several() {
        let gpu = Gpu::find("h100").unwrap();
        let of = |kind, ranks| {
            let op = Collective::new(kind, 1 << 30, ranks);
            (Traffic::of(gpu, &op).unwrap(), Traffic::in_node(gpu, &op))
        };
        let learned = Seconds::from_micros(3000.0);
        for kind in [CollectiveKind::AllGather, CollectiveKind::AllToAll] {
            let (inside, part) = of(kind, 8);
            let inside = inside.with_learned(gpu, &part.unwrap(), learned);
            assert_eq!((inside.node, inside.rank_doublings), (learned, 0.0));
            let (beyond, part) = of(kind, 16);
            let part = part.unwrap();
            assert_eq!(part.ranks, 8);
            let beyond = beyond.with_learned(gpu, &part, learned);
            let grown = beyond.node / learned;
            assert!((1.0..1.1).contains(&grown), "{kind}: {grown}");
        }
        let apart = Collective {
            stride: 8,
            ..Collective::new(CollectiveKind::AllGather, 1 << 30, 16)
        };
        assert_eq!(Traffic::in_node(gpu, &apart), None);
    }

    #[test]
    fn neighbours_of_a_stage_are_in_other_nodes() {
        let send = |stride| traffic(CollectiveKind::SendReceive, 2, stride);
        assert_eq!(send(1).network, Seconds::ZERO);
        assert_eq!(send(8).node, Seconds::ZERO);
        assert!(send(8).transfer() > send(1).transfer());
    }
}
