//! Collectives as nets see them, and the links they run over.

use super::row::FeatureRow;
use super::sampling::{Proposal, alignment, size, sizes};
use super::{Caveats, Coverage, GpuRates, Kernels, Neighbour, Question, Variant};
use crate::gpu::Gpu;
use crate::ops::{Collective, CollectiveKind, Op};
use crate::units::BytesPerSecond;

/// PCIe 4.0 x16 in one direction, assumed for GPUs whose datasheet names no faster link: 16 GT/s on 16 lanes
/// (PCI Express Base Specification 4.0).
const PCIE: BytesPerSecond = BytesPerSecond::from_bytes_per_sec(32e9);

/// Bytes per second to another GPU of the node, in one direction.
pub fn link(gpu: &Gpu) -> BytesPerSecond {
    gpu.link_bandwidth().unwrap_or(PCIE)
}

/// Collectives.
pub(super) struct Collectives;

fn extents(op: &Collective) -> [(&'static str, u64); 2] {
    [("bytes", op.bytes), ("ranks", op.ranks)]
}

/// Whether all ranks reach each other over the link of one node.
fn inside(op: &Collective, gpu: &GpuRates) -> bool {
    gpu.gpus_per_node
        .is_none_or(|gpus| op.ranks * op.stride <= gpus)
}

impl Kernels for Collectives {
    type Shape = Collective;

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
        let rate = if inside(op, gpu) {
            gpu.link
        } else {
            gpu.network
        };
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
        row.number("launch_share", gpu.launch / reference);
        row.log("ln_bytes_per_l2", bytes / gpu.l2);
        row.power_of_two("ranks", op.ranks);
        row.flag("one_node", inside(op, gpu));
        row.log("ln_link_per_memory", gpu.link / gpu.bandwidth);
        row.log("ln_network_per_link", gpu.network / gpu.link);

        row.bins("kibibytes", (bytes / 1024.0).max(1.0));
        row.bins("mebibytes", (bytes / (1024.0 * 1024.0)).max(1.0));
        row.bins("ranks", ranks);
        reference
    }

    /// All collectives of this size.
    fn split_key(op: &Collective) -> [u64; 4] {
        [5, op.bytes, 0, 0]
    }

    fn cover(op: &Collective, coverage: &mut Coverage) {
        coverage.widen(extents(op));
    }

    /// One rank alone exchanges nothing.
    fn nearest_covered(op: &Collective, asked: &Question<'_>) -> Option<Neighbour> {
        let mut caveats = Caveats::default();
        asked.coverage.check(extents(op), &mut caveats);
        (op.ranks > 1).then(|| Neighbour::same(Op::Collective(*op), caveats))
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
        let sizes = [
            (1, 2),
            (1 << 10, 8),
            (12_345_678, 6),
            (1 << 30, 64),
            (1 << 36, 512),
        ];
        let collectives = CollectiveKind::ALL.into_iter().zip(sizes);
        let patterns =
            collectives.map(|(kind, (bytes, ranks))| Collective::new(kind, bytes, ranks));
        let again =
            sizes.map(|(bytes, ranks)| Collective::new(CollectiveKind::AllReduce, bytes, ranks));
        patterns.chain(again).map(Op::Collective).collect()
    }
}
