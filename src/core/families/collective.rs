//! Collectives as nets see them, and the links they run over.

use super::row::{FeatureRow, TILE_EDGE};
use super::sampling::{Proposal, alignment, size, sizes};
use super::{Caveats, Coverage, Extent, GpuRates, Kernels, Learning, Neighbour, Question, Variant};
use crate::gpu::Gpu;
use crate::ops::{Collective, CollectiveKind, Op};
use crate::units::{BytesPerSecond, Seconds};

/// PCIe 4.0 x16 in one direction, assumed for GPUs whose datasheet names no faster link: 16 GT/s on 16 lanes
/// (PCI Express Base Specification 4.0).
const PCIE: BytesPerSecond = BytesPerSecond::from_bytes_per_sec(32e9);

/// Bytes per second to another GPU of the node, in one direction.
pub fn link(gpu: &Gpu) -> BytesPerSecond {
    gpu.link_bandwidth().unwrap_or(PCIE)
}

/// The number of the family in keys.
pub const KEY: u64 = 5;

/// What starts a collective: two GPUs that exchange a kibibyte take 5 us (H100) to 11 us (GB200) in NCCL's tables.
///
/// One figure for all GPUs, so that one net knows them all: how they differ is among its features.
pub const START: Seconds = Seconds::from_micros(5.0);

/// Collectives.
pub(super) struct Collectives;

fn extents(op: &Collective) -> [(Extent, u64); 2] {
    [(Extent::Bytes, op.bytes), (Extent::Ranks, op.ranks)]
}

/// Whether all ranks reach each other over the link of one node.
fn inside(op: &Collective, gpu: &GpuRates) -> bool {
    gpu.gpus_per_node.is_none_or(|node| op.is_inside(node))
}

/// Seconds that no collective is faster than: what a rank sends or receives at the least, over its link. Switches may add
/// up what they pass on, so an all-reduce sends the tensor once. Of several nodes nothing is known.
pub(super) fn least(op: &Collective, gpu: &GpuRates) -> f64 {
    let bytes = match op.kind {
        CollectiveKind::AllReduce => op.bytes as f64,
        _ => op.wire_bytes().bytes(),
    };
    if op.ranks > 1 && inside(op, gpu) {
        bytes / gpu.link
    } else {
        0.0
    }
}

impl Kernels for Collectives {
    type Shape = Collective;

    const LEARNING: Learning = Learning {
        // Depth follows the changes of protocol where width does not (docs/method/notebook.md).
        hidden: &[48; 3],
        // A thousand rows of all GPUs.
        epochs: 1500,
        batch: 128,
        // Twenty sizes of a GPU and number of ranks are few.
        weight_decay: 0.1,
        ..Learning::USUAL
    };

    fn shape(op: &Op) -> Option<Collective> {
        match op {
            Op::Collective(op) => Some(*op),
            _ => None,
        }
    }

    fn variant(op: &Collective) -> Variant {
        Variant::Pattern(op.kind)
    }

    fn roofline(op: &Collective, gpu: &GpuRates) -> f64 {
        let rate = if inside(op, gpu) { gpu.link } else { gpu.network };
        op.wire_bytes().bytes() / rate
    }

    fn features(op: &Collective, gpu: &GpuRates, row: &mut impl FeatureRow) -> f64 {
        let [bytes, ranks] = [op.bytes, op.ranks].map(|dim| dim as f64);
        let wire = Self::roofline(op, gpu);
        let reference = gpu.launch + wire;

        row.log("ln_bytes", bytes);
        row.log("ln_ranks", ranks);
        row.log("ln_bytes_a_rank", bytes / ranks);
        row.number("wire_share", wire / reference);
        row.log("ln_bytes_per_l2", bytes / gpu.l2);
        row.power_of_two("ranks", op.ranks, TILE_EDGE);
        row.log("ln_link_per_memory", gpu.link / gpu.bandwidth);
        row.log("ln_link_per_pcie", gpu.link / PCIE.bytes_per_sec());
        row.log("ln_sms", gpu.sms);
        let node = gpu.gpus_per_node.unwrap_or(op.ranks);
        row.log("ln_gpus_per_node", node as f64);

        // From 1 KiB to 64 MiB, and on to 4 TiB.
        row.bins("kibibytes", bytes / 1024.0);
        row.bins("64_mebibytes", bytes / f64::from(1 << 26));
        row.bins("ranks", ranks);
        reference
    }

    /// All collectives of this size.
    fn split_key(op: &Collective) -> [u64; 4] {
        [KEY, op.bytes, 0, 0]
    }

    fn cover(op: &Collective, coverage: &mut Coverage) {
        coverage.widen(extents(op));
    }

    /// One rank alone exchanges nothing, and nets know no network.
    fn nearest_covered(op: &Collective, asked: &Question<'_>) -> Option<Neighbour> {
        if op.ranks < 2 || asked.gpus_per_node.is_some_and(|node| !op.is_inside(node)) {
            return None;
        }
        let mut caveats = Caveats::default();
        asked.coverage.check(extents(op), &mut caveats);
        // Beyond its table the net is asked at the nearest size, and the answer scaled as the reference time is.
        let covered = Collective {
            bytes: asked.coverage.clamp(Extent::Bytes, op.bytes),
            ranks: asked.coverage.clamp(Extent::Ranks, op.ranks),
            ..*op
        };
        Some(Neighbour {
            timed: Op::Collective(*op),
            ..Neighbour::same(Op::Collective(covered), caveats)
        })
    }

    fn proposal(measured: &[Collective]) -> Proposal {
        let known = measured.to_vec();
        let bytes = sizes(&known, |op| op.bytes);
        let ranks = sizes(&known, |op| op.ranks);
        let step = alignment(bytes.iter());
        Box::new(move |random| {
            let mut op = known[random.below(known.len())];
            op.bytes = size(random, &bytes, step);
            op.ranks = random.pick(&ranks);
            Some(Op::Collective(op))
        })
    }

    fn examples() -> Vec<Op> {
        let sizes = [(1, 2), (1 << 10, 8), (12_345_678, 6), (1 << 30, 64), (1 << 36, 512)];
        let collectives = CollectiveKind::ALL.into_iter().zip(sizes);
        let patterns = collectives.map(|(kind, (bytes, ranks))| Collective::new(kind, bytes, ranks));
        let again = sizes.map(|(bytes, ranks)| Collective::new(CollectiveKind::AllReduce, bytes, ranks));
        patterns.chain(again).map(Op::Collective).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::families::{Caveat, OddSizes};

    #[test]
    fn no_net_is_asked_about_a_network_nor_outside_its_sizes() {
        let mut coverage = Coverage::default();
        for (bytes, ranks) in [(1 << 10, 2), (1 << 20, 8)] {
            let op = Collective::new(CollectiveKind::AllReduce, bytes, ranks);
            Collectives::cover(&op, &mut coverage);
        }
        let asked = |bytes, ranks, stride| {
            let op = Collective {
                stride,
                ..Collective::new(CollectiveKind::AllReduce, bytes, ranks)
            };
            let question = Question {
                variant: Variant::Pattern(CollectiveKind::AllReduce),
                coverage: &coverage,
                odd_sizes: OddSizes::Unknown,
                gpus_per_node: Some(8),
            };
            Collectives::nearest_covered(&op, &question)
        };
        for (ranks, stride) in [(1, 1), (2, 8), (4, 4), (16, 1)] {
            assert!(asked(1 << 15, ranks, stride).is_none(), "{ranks} x {stride}");
        }
        let inside = asked(1 << 15, 4, 2).unwrap();
        assert!(inside.covered == inside.timed && inside.caveats == Caveats::default());
        let large = asked(1 << 30, 8, 1).unwrap();
        let covered = Collective::new(CollectiveKind::AllReduce, 1 << 20, 8);
        assert_eq!(large.covered, Op::Collective(covered));
        assert_eq!(large.timed.bytes().bytes(), f64::from(1 << 30));
        assert!(large.caveats.contains(Caveat::OutOfDomain));
    }

    #[test]
    fn a_switch_that_adds_up_halves_what_an_all_reduce_sends() {
        let gpu = GpuRates::new(Gpu::find("h100").unwrap(), START);
        let of = |kind| least(&Collective::new(kind, 450_000_000, 8), &gpu);
        assert!((of(CollectiveKind::AllReduce) - 1e-3).abs() < 1e-9);
        assert!((of(CollectiveKind::AllGather) - 0.875e-3).abs() < 1e-9);
        let wide = Collective::new(CollectiveKind::AllGather, 450_000_000, 16);
        assert_eq!(least(&wide, &gpu), 0.0);
    }
}
