//! Operator families: everything that one family of kernels knows and the rest of the program does not.
//!
//! A family is a set of operators that share nets: the same kernels in the same regime. Each has one file with its
//! features, reference time, split key, coverage, nearest covered shape, unlabelled shapes and sizes that intervals are
//! calibrated by, as `Kernels`.
//! Every feature is dimensionless: times are divided by the *reference time* of the operator, launch term plus
//! roofline, so that nets learn `ln(time / reference)`, a small number on any GPU. One function computes the
//! features for training and prediction.

/// The one list of families: name, and what implements [`Kernels`]. It is handed to the macro `$with` behind `$given`.
///
/// An operator is of the last family whose [`Kernels::shape`] takes it: latent attention is attention, too.
macro_rules! families {
    ($with:ident $given:tt) => {
        $with! { $given
            /// Dense matrix multiplication, batched or not.
            Gemm = "gemm", crate::families::gemm::Gemms;
            /// Attention with more than one query a sequence.
            Prefill = "prefill", crate::families::prefill::Prefill;
            /// Attention over whole sequences without a mask.
            Bidirectional = "bidirectional", crate::families::prefill::Bidirectional;
            /// The backward pass of attention over whole sequences.
            PrefillBackward = "prefill_backward", crate::families::prefill::PrefillBackward;
            /// Attention of one new token against a cache.
            Decode = "decode", crate::families::decode::Decode;
            /// Memory-bound kernels.
            Memory = "memory", crate::families::memory::MemoryBound;
            /// Collectives over several GPUs.
            Collective = "collective", crate::families::collective::Collectives;
            /// Fused mixture-of-experts layers.
            Experts = "experts", crate::families::experts::FusedExperts;
            /// Latent attention with more than one query a sequence, keys and values expanded.
            LatentPrefill = "latent_prefill", crate::families::latent::LatentPrefill;
            /// Latent attention with more than one query a sequence, all heads over the one latent.
            AbsorbedPrefill = "absorbed_prefill", crate::families::latent::AbsorbedPrefill;
            /// Latent attention of one new token against a cache of latents.
            LatentDecode = "latent_decode", crate::families::latent::LatentDecode;
            /// Linear attention over whole sequences.
            LinearPrefill = "linear_prefill", crate::families::linear_attention::LinearPrefill;
            /// Linear attention of one new token a sequence.
            LinearDecode = "linear_decode", crate::families::linear_attention::LinearDecode;
            /// Attention of prompts to the keys that an index chooses, projections included.
            IndexedPrefill = "indexed_prefill", crate::families::indexed::IndexedPrefill;
            /// The same of one new token a sequence.
            IndexedDecode = "indexed_decode", crate::families::indexed::IndexedDecode;
        }
    };
}

macro_rules! declare {
    ([] $($(#[$doc:meta])* $family:ident = $name:tt, $kernels:ty;)+) => {
        named_enum! {
            /// Operators that share a net: the same kernels in the same regime.
            #[non_exhaustive]
            Family {
                $($(#[$doc])* $family = $name),+
            }
        }

        impl Family {
            /// The family of an operator.
            #[inline]
            pub fn of(op: &Op) -> Self {
                let mut found = None;
                $(
                    if <$kernels as Kernels>::shape(op).is_some() {
                        found = Some(Self::$family);
                    }
                )+
                found.expect("every kind of operator has a family")
            }
        }
    };
}

macro_rules! match_family {
    (
        [$family:expr, $of:ident => $body:expr]
        $($(#[$doc:meta])* $variant:ident = $name:tt, $kernels:ty;)+
    ) => {
        match $family {
            $($crate::families::Family::$variant => {
                type $of = $kernels;
                $body
            })+
        }
    };
}

/// Runs an expression with `$kernels` as the [`Kernels`] of a family.
macro_rules! dispatch_family {
    ($family:expr, $kernels:ident => $body:expr) => {
        families!(match_family [$family, $kernels => $body])
    };
}

/// Runs an expression with `$kernels` as the [`Kernels`] of an operator and `$shape` as its struct.
macro_rules! dispatch {
    ($op:expr, $kernels:ident, $shape:ident => $body:expr) => {
        dispatch_family!($crate::families::Family::of($op), $kernels => {
            let $shape = &$kernels::shape($op).expect("the operator is of its family");
            $body
        })
    };
}

mod attention;
mod caveat;
pub mod collective;
mod coverage;
mod decode;
mod experts;
mod gemm;
mod indexed;
mod latent;
mod learning;
mod linear_attention;
mod memory;
mod prefill;
mod rates;
mod row;
mod sampling;
mod variant;

pub use caveat::{Caveat, Caveats};
pub use collective::KEY as COLLECTIVE_KEY;
pub use coverage::{Coverage, Extent};
pub use learning::Learning;
pub use memory::KEY as MEMORY_KEY;
pub use rates::GpuRates;
pub use row::{Feature, Role};
pub use sampling::{alignment, sample_unlabelled};
pub use variant::Variant;

use crate::ops::{Op, Stage};
use crate::random::fnv1a;
use crate::units::Seconds;
use row::{BINS, Description, FeatureRow, Numbers, Places, TILE_EDGE};
use std::sync::OnceLock;

families!(declare []);

/// A size that divides the operators of a family into groups.
struct Grouping<Shape> {
    /// What the card calls it.
    by: &'static str,
    /// The size.
    of: fn(&Shape) -> u64,
    /// The least size of each group but the first.
    bounds: &'static [u64],
}

/// Most sizes that a family is grouped by.
const MOST_GROUPINGS: usize = 2;

/// What one family knows of its kernels.
trait Kernels {
    /// The struct that describes its operators.
    type Shape: Copy + 'static;

    /// The operator as that struct; `None` if these kernels do not run it.
    fn shape(op: &Op) -> Option<Self::Shape>;

    /// What selects kernels besides the family.
    fn variant(op: &Self::Shape) -> Variant;

    /// Seconds that no kernel is faster than.
    fn roofline(op: &Self::Shape, gpu: &GpuRates) -> f64;

    /// Sizes that intervals are calibrated by, besides reference time; at most [`MOST_GROUPINGS`].
    const GROUPINGS: &'static [Grouping<Self::Shape>] = &[];

    /// Writes the features; returns the reference time in seconds.
    fn features(op: &Self::Shape, gpu: &GpuRates, row: &mut impl FeatureRow) -> f64;

    /// What is held out together: a number of the family, then up to three sizes.
    fn split_key(op: &Self::Shape) -> [u64; 4];

    /// Widens the measured region to hold a measured operator.
    fn cover(op: &Self::Shape, coverage: &mut Coverage);

    /// The nearest shape of the kind that was measured; `None` if nothing runs.
    fn nearest_covered(op: &Self::Shape, asked: &Question<'_>) -> Option<Neighbour>;

    /// How much training spends on its nets.
    const LEARNING: Learning = Learning::USUAL;

    /// What runs one after another where no net was trained; `None` if it is one kernel.
    fn module(_: &Self::Shape) -> Option<Module> {
        None
    }

    /// Draws shapes between measured ones.
    fn proposal(measured: &[Self::Shape]) -> sampling::Proposal;

    /// An operator that shares many features with others.
    fn usual() -> Op {
        Self::examples().swap_remove(0)
    }

    /// Operators that reach every branch of the features, for the digest of their definition.
    fn examples() -> Vec<Op>;
}

/// What a sub-model is asked in, and what it knows.
pub struct Question<'a> {
    /// The variant that it is asked in.
    pub variant: Variant,
    /// The region that it was trained on.
    pub coverage: &'a Coverage,
    /// What is known of odd sizes and batches, of this GPU or another of its maker.
    pub odd_sizes: OddSizes,
    /// GPUs per link domain; `None` if the link reaches all of them.
    pub gpus_per_node: Option<u64>,
}

/// What is known of sizes that no table of a GPU is aligned as badly as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OddSizes {
    /// Nothing.
    Unknown,
    /// They cost as much as their aligned neighbours.
    Free,
    /// A sub-model knows what they cost.
    Measured,
}

/// The nearest shape of the kind that was measured, and how its answer becomes that of the operator.
pub struct Neighbour {
    /// The shape whose features are evaluated.
    pub covered: Op,
    /// The shape whose reference time the answer multiplies.
    pub timed: Op,
    /// Multiplies the time beyond the launch term.
    pub factor: f64,
    /// Multiplies the whole time.
    pub scale: f64,
    /// Two shapes that the sub-model of odd sizes is asked for: its ratio corrects the answer.
    pub correction: Option<[Op; 2]>,
    /// What is unlike the operator.
    pub caveats: Caveats,
}

impl Neighbour {
    /// The operator itself.
    fn same(op: Op, caveats: Caveats) -> Self {
        Self {
            covered: op,
            timed: op,
            factor: 1.0,
            scale: 1.0,
            correction: None,
            caveats,
        }
    }
}

/// Several kernels that servers run as one operator.
pub(crate) struct Module {
    /// Kernels that are launched one after another.
    pub launches: f64,
    /// What needs what the one before gives.
    pub stages: Vec<Stage>,
}

impl Family {
    /// How much training spends on its nets.
    pub fn learning(self) -> Learning {
        let own = dispatch_family!(self, F => F::LEARNING);
        match self.like() {
            // It starts from nets of the other family.
            Some(_) if !self.is_carried() => Learning { epochs: 100, ..own },
            _ => own,
        }
    }

    /// The family whose features, in their order, are those of this one too.
    pub const fn like(self) -> Option<Self> {
        match self {
            Self::Bidirectional | Self::PrefillBackward | Self::LatentPrefill | Self::AbsorbedPrefill => {
                Some(Self::Prefill)
            }
            Self::LatentDecode => Some(Self::Decode),
            _ => None,
        }
    }

    /// Whether measured ratios carry [`Family::like`] over to this family, better than another GPU's own kernels.
    pub const fn is_carried(self) -> bool {
        matches!(self, Self::Bidirectional | Self::PrefillBackward)
    }

    /// An operator that shares many features with others of this family.
    pub fn usual(self) -> Op {
        dispatch_family!(self, F => F::usual())
    }

    /// The sizes that its intervals are calibrated by, besides reference time: the name of each, and the least size of each group
    /// but the first.
    pub fn groupings(self) -> Vec<(&'static str, &'static [u64])> {
        dispatch_family!(self, F => {
            F::GROUPINGS.iter().map(|grouping| (grouping.by, grouping.bounds)).collect()
        })
    }

    /// How many features an operator of this family has.
    pub fn width(self) -> usize {
        self.schema().features.len()
    }

    /// The features of this family and the digest of their definition.
    pub fn schema(self) -> &'static Schema {
        static SCHEMAS: [OnceLock<Schema>; Family::ALL.len()] = [const { OnceLock::new() }; Family::ALL.len()];
        SCHEMAS[self as usize].get_or_init(|| {
            dispatch_family!(self, F => {
                let features = |op: &Op, gpu: &GpuRates, row: &mut Description| {
                    let shape = F::shape(op).expect("an example of the family");
                    F::features(&shape, gpu, row)
                };
                Schema::of(&F::examples(), &features)
            })
        })
    }
}

impl GpuRates {
    /// Writes the features of `op` into `out`, which holds [`Family::width`] numbers; returns the reference time.
    ///
    /// # Panics
    /// When `out` has another length.
    #[inline(always)] // into a function that is compiled for vectors
    pub fn features(&self, op: &Op, out: &mut [f32]) -> Seconds {
        let mut places = Places::new();
        let reference = dispatch!(op, F, op => {
            let mut row = Numbers::new(&mut places);
            let reference = F::features(op, self, &mut row);
            row.finish(out);
            reference
        });
        Seconds::from_secs(reference)
    }
}

/// The sizes of [`Family::groupings`] of an operator, in their order.
pub fn grouped_sizes(op: &Op) -> impl Iterator<Item = u64> {
    let mut sizes = [None; MOST_GROUPINGS];
    dispatch!(op, F, op => {
        const { assert!(F::GROUPINGS.len() <= MOST_GROUPINGS) };
        for (size, grouping) in sizes.iter_mut().zip(F::GROUPINGS) {
            *size = Some((grouping.of)(op));
        }
    });
    sizes.into_iter().flatten()
}

/// What runs one after another where no net was trained; `None` if it is one kernel.
pub(crate) fn module(op: &Op) -> Option<Module> {
    dispatch!(op, F, op => F::module(op))
}

/// What is held out together with this operator: a number of the family, then up to three sizes.
pub fn split_key(op: &Op) -> [u64; 4] {
    dispatch!(op, F, op => F::split_key(op))
}

/// The nearest shape of the kind that was measured; `None` if nothing runs.
pub fn nearest_covered(op: &Op, asked: &Question<'_>) -> Option<Neighbour> {
    dispatch!(op, F, op => F::nearest_covered(op, asked))
}

/// The region that measured operators span; `auxiliary` ones were measured elsewhere and seen by the trees alone.
pub fn coverage<'a>(
    measured: impl IntoIterator<Item = &'a Op>,
    auxiliary: impl IntoIterator<Item = &'a Op>,
) -> Coverage {
    let mut coverage = Coverage::default();
    for op in measured {
        dispatch!(op, F, op => F::cover(op, &mut coverage));
    }
    coverage.alignment = coverage.alignment.max(1);
    coverage.head_dims.sort_unstable();
    for op in auxiliary {
        if let Op::Attention(op) = op
            && !coverage.head_dims.contains(&op.head_dim)
        {
            coverage::note(&mut coverage.auxiliary_head_dims, op.head_dim);
        }
    }
    coverage.auxiliary_head_dims.sort_unstable();
    coverage
}

/// The definition of a family's features.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    /// Name and role of each, in order.
    pub features: Vec<Feature>,
    /// A digest of names, order and formulas: a net trained under another one does not load.
    pub digest: String,
}

impl Schema {
    /// Describes features by what they are for some operators on two sets of rates.
    fn of(examples: &[Op], features: &dyn Fn(&Op, &GpuRates, &mut Description) -> f64) -> Self {
        let mut description = Description::default();
        // Encodings of a number in the row: its logarithm, its bins, its power of two; digests hold 32 numbers.
        let mut out = [0.0; 32];
        let mut places = Places::new();
        let mut row = Numbers::new(&mut places);
        row.number("", 0.7);
        row.log("", 3.0);
        row.bins("", 12.0);
        row.power_of_two("", 96, TILE_EDGE);
        row.finish(&mut out[..3 + BINS]);
        for value in out {
            description.value(f64::from(value));
        }
        for gpu in &GpuRates::FIXED {
            for op in examples {
                description.begin();
                let reference = features(op, gpu, &mut description);
                description.value(reference);
            }
        }
        Self {
            digest: format!("{:016x}", fnv1a(&description.bytes)),
            features: description.features,
        }
    }

    /// The places of the features of this role.
    pub fn places(&self, role: Role) -> impl Iterator<Item = usize> {
        let features = self.features.iter().enumerate();
        features
            .filter(move |(_, feature)| feature.role == role)
            .map(|(place, _)| place)
    }
}

#[cfg(test)]
mod tests;
