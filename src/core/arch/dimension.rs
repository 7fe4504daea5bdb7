//! The dimensions of an architecture and its workload: name, meaning, range, getter, setter.
//!
//! Searches, sweeps, fixes of sizing rules and their documents all iterate over this one table, so a dimension that is
//! added here is known to all of them.

use super::validate::{MAX_EXPERTS, MAX_HEADS, MAX_HIDDEN, MAX_LAYERS, MAX_VOCAB, MAX_WIDTH};
use super::workload::{MAX_BATCH, MAX_RANKS, MAX_SEQUENCE};
use super::{Architecture, Workload};
use crate::error::{Error, Result};
use std::ops::RangeInclusive;

named_enum! {
    /// One whole number that shapes an architecture or its workload, under its JSON key.
    Dimension {
        /// Transformer layers. Setting it keeps the share of windowed and of leading dense layers, rounded down, and
        /// the interval of layers with experts.
        Layers = "layers",
        /// Width of the residual stream. Setting it keeps the number of heads; heads that divided the width, and
        /// the inner width of the MLP, keep their ratio to it.
        Hidden = "hidden",
        /// Query heads. Setting it keeps the width of attention, so heads get wider or narrower, and the queries
        /// per key head.
        Heads = "heads",
        /// Key/value heads.
        KvHeads = "kv_heads",
        /// Width of a query and key head.
        HeadDim = "head_dim",
        /// Inner width of the dense MLP; where no layer is dense, that of an expert too.
        DFf = "d_ff",
        /// Inner width of one routed expert.
        MoeDFf = "moe_d_ff",
        /// Inner width of all shared experts together.
        MoeSharedDFf = "moe_shared_d_ff",
        /// Routed experts per layer.
        Experts = "experts",
        /// Routed experts that each token visits.
        TopK = "top_k",
        /// Rows of the token embedding.
        Vocab = "vocab",
        /// Layers whose attention sees a sliding window.
        WindowLayers = "window_layers",
        /// Layers with linear attention.
        LinearLayers = "linear_layers",
        /// Width of the key/value latent of latent attention.
        KvLoraRank = "kv_lora_rank",
        /// Sequences per micro-batch and replica.
        Batch = "batch",
        /// New tokens per sequence.
        Seq = "seq",
        /// Tokens per sequence that are already cached.
        Context = "context",
        /// Tensor-parallel ranks.
        Tp = "tp",
        /// Context-parallel ranks.
        Cp = "cp",
        /// Expert-parallel ranks.
        Ep = "ep",
        /// Tensor-parallel ranks of one routed expert; 0 means those of all else.
        ExpertTp = "expert_tp",
        /// Pipeline stages.
        Pp = "pp",
        /// Virtual pipeline stages a GPU.
        Vp = "vp",
        /// Data-parallel replicas.
        Dp = "dp",
        /// ZeRO stage.
        Zero = "zero",
        /// Layers of a stage that recompute; 0 means all.
        RecomputeLayers = "recompute_layers",
        /// Micro-batches per step.
        Microbatches = "microbatches",
    }
}

/// What is known of a dimension.
#[derive(Clone, Copy)]
struct Entry {
    /// Its place in the architecture or workload, as messages name it.
    field: &'static str,
    least: u64,
    most: u64,
    access: Access,
}

/// Plain access, nothing follows along. A dimension of a part that is absent is 0 and cannot be written.
#[derive(Clone, Copy)]
enum Access {
    Architecture(fn(&Architecture) -> u64, fn(&mut Architecture, u64)),
    Workload(fn(&Workload) -> u64, fn(&mut Workload, u64)),
}

/// The entry of a field of the architecture or the workload.
macro_rules! plain {
    ($part:ident, $least:expr, $most:expr, $($field:ident).+) => {
        Entry {
            field: stringify!($($field).+),
            least: $least,
            most: $most,
            access: Access::$part(|part| part.$($field).+, |part, to| part.$($field).+ = to),
        }
    };
}

/// The entry of a field of a part that an architecture may lack.
macro_rules! of_part {
    ($least:expr, $most:expr, $part:ident . $field:ident) => {
        Entry {
            field: concat!(stringify!($part), ".", stringify!($field)),
            least: $least,
            most: $most,
            access: Access::Architecture(
                |arch| arch.$part.map_or(0, |part| part.$field),
                |arch, to| arch.$part.iter_mut().for_each(|part| part.$field = to),
            ),
        }
    };
}

static ENTRIES: [Entry; Dimension::ALL.len()] = {
    let mut entries = [Dimension::ALL[0].described(); Dimension::ALL.len()];
    let mut index = 1;
    while index < entries.len() {
        entries[index] = Dimension::ALL[index].described();
        index += 1;
    }
    entries
};

impl Dimension {
    /// Whether it is one of the layout over GPUs.
    pub fn is_of_layout(self) -> bool {
        self >= Self::Tp
    }

    /// Every dimension of an architecture, those of its experts too.
    pub fn of_architecture() -> &'static [Self] {
        &Self::ALL[..Self::Batch as usize]
    }

    /// Every dimension of a workload.
    pub fn of_workload() -> &'static [Self] {
        &Self::ALL[Self::Batch as usize..]
    }

    #[inline]
    fn entry(self) -> &'static Entry {
        &ENTRIES[self as usize]
    }

    const fn described(self) -> Entry {
        match self {
            Self::Layers => plain!(Architecture, 1, MAX_LAYERS, layers),
            Self::Hidden => plain!(Architecture, 1, MAX_HIDDEN, hidden),
            Self::Heads => plain!(Architecture, 1, MAX_HEADS, heads),
            Self::KvHeads => plain!(Architecture, 1, MAX_HEADS, kv_heads),
            Self::HeadDim => plain!(Architecture, 1, MAX_HEADS, head_dim),
            Self::DFf => plain!(Architecture, 1, MAX_WIDTH, mlp.d_ff),
            Self::MoeDFf => of_part!(1, MAX_WIDTH, moe.d_ff),
            Self::MoeSharedDFf => of_part!(0, MAX_WIDTH, moe.shared_d_ff),
            Self::Experts => of_part!(2, MAX_EXPERTS, moe.experts),
            Self::TopK => of_part!(1, MAX_EXPERTS, moe.top_k),
            Self::Vocab => plain!(Architecture, 1, MAX_VOCAB, vocab),
            Self::WindowLayers => of_part!(1, MAX_LAYERS, window.layers),
            Self::LinearLayers => of_part!(1, MAX_LAYERS, linear.layers),
            Self::KvLoraRank => of_part!(1, MAX_HIDDEN, mla.kv_lora_rank),
            Self::Batch => plain!(Workload, 1, MAX_BATCH, batch),
            Self::Seq => plain!(Workload, 1, MAX_SEQUENCE, seq),
            Self::Context => plain!(Workload, 0, MAX_SEQUENCE, context),
            Self::Tp => plain!(Workload, 1, MAX_RANKS, tp),
            Self::Cp => plain!(Workload, 1, MAX_RANKS, cp),
            Self::Ep => plain!(Workload, 1, MAX_EXPERTS, ep),
            Self::ExpertTp => plain!(Workload, 0, MAX_RANKS, expert_tp),
            Self::Pp => plain!(Workload, 1, MAX_LAYERS, pp),
            Self::Vp => plain!(Workload, 1, MAX_LAYERS, vp),
            Self::Dp => plain!(Workload, 1, MAX_RANKS, dp),
            Self::Zero => Entry {
                field: "zero",
                least: 0,
                most: 3,
                access: Access::Workload(
                    |work| u64::from(work.zero),
                    |work, to| work.zero = u8::try_from(to).unwrap_or(u8::MAX),
                ),
            },
            Self::RecomputeLayers => plain!(Workload, 0, MAX_LAYERS, recompute_layers),
            Self::Microbatches => plain!(Workload, 1, MAX_BATCH, microbatches),
        }
    }

    /// Whether this architecture has the part that the dimension measures.
    pub fn exists_in(self, arch: &Architecture) -> bool {
        match self {
            Self::MoeDFf | Self::MoeSharedDFf | Self::Experts | Self::TopK => arch.moe.is_some(),
            Self::WindowLayers => arch.window.is_some(),
            Self::LinearLayers => arch.linear.is_some(),
            Self::KvLoraRank => arch.mla.is_some(),
            _ => true,
        }
    }

    /// The part that it measures, where an architecture may lack it.
    fn part(self) -> &'static str {
        match self {
            Self::WindowLayers => "sliding window",
            Self::LinearLayers => "linear attention",
            Self::KvLoraRank => "latent attention",
            _ => "experts",
        }
    }

    /// Where architecture or workload holds it, as messages name it: `mlp.d_ff`.
    pub fn field(self) -> &'static str {
        self.entry().field
    }

    /// What it may be in any architecture or workload; others may narrow it further.
    pub fn range(self) -> RangeInclusive<u64> {
        let [least, most] = self.limits();
        least..=most
    }

    /// The ends of its range, for loops over millions of shapes.
    #[inline]
    pub fn limits(self) -> [u64; 2] {
        let entry = self.entry();
        [entry.least, entry.most]
    }

    /// The dimension that this name means in a question: `d_ff` of a mixture of experts is the width of one expert.
    #[must_use]
    pub fn meant_in(self, arch: &Architecture) -> Self {
        match self {
            Self::DFf if arch.moe.is_some() => Self::MoeDFf,
            other => other,
        }
    }

    /// Its value; 0 where the architecture has no such part.
    #[inline]
    pub fn get(self, arch: &Architecture, work: &Workload) -> u64 {
        match self.entry().access {
            Access::Architecture(get, _) => get(arch),
            Access::Workload(get, _) => get(work),
        }
    }

    /// Writes the value and nothing else: the architecture may then contradict itself.
    pub fn put(self, arch: &mut Architecture, work: &mut Workload, value: u64) {
        match self.entry().access {
            Access::Architecture(_, put) => put(arch, value),
            Access::Workload(_, put) => put(work, value),
        }
    }

    /// Sets the value and what follows from it, as the variants describe; fails where that would not be whole or the
    /// architecture impossible. Whether a workload runs is for [`Workload::validate`].
    pub fn set(self, arch: &mut Architecture, work: &mut Workload, value: u64) -> Result<()> {
        match self.entry().access {
            Access::Workload(_, put) => {
                put(work, value);
                Ok(())
            }
            Access::Architecture(_, put) => {
                self.follow(arch, value)?;
                put(arch, value);
                arch.validate()
            }
        }
    }

    /// What follows along when the dimension becomes `value`, which is not written yet.
    fn follow(self, arch: &mut Architecture, value: u64) -> Result<()> {
        let now = self.get(arch, &Workload::train(1, 1));
        let is_fixed = !arch.kinds.is_empty() || !arch.further.is_empty();
        if is_fixed && self.exists_in(arch) && self != Self::Vocab && value != now {
            let allowed = format!("{now}, as layers of other shapes or maps beside layers would not follow");
            return Err(Error::field(arch.place(), self.field(), value, &allowed));
        }
        match self {
            Self::Layers => {
                let before = arch.layers;
                arch.rescale_layers(value);
                if let Some(moe) = &mut arch.moe {
                    moe.dense_layers = moe.dense_layers * value / before;
                }
            }
            Self::Hidden => scale_with_hidden(arch, value)?,
            Self::Heads => cut_heads(arch, value)?,
            Self::DFf | Self::MoeDFf => {
                let all_sparse = arch.moe_layers() == arch.layers_with_mlp();
                if let Some(moe) = &mut arch.moe
                    && all_sparse
                {
                    (moe.d_ff, arch.mlp.d_ff) = (value, value);
                }
            }
            _ => {}
        }
        if !self.exists_in(arch) {
            let allowed = format!("nothing, as it has no {}", self.part());
            return Err(Error::field(arch.place(), self.field(), value, &allowed));
        }
        Ok(())
    }
}

fn scale_with_hidden(arch: &mut Architecture, hidden: u64) -> Result<()> {
    let (before, place) = (arch.hidden, arch.place());
    let scaled = |name: &str, width: u64| -> Result<u64> {
        let exact = u128::from(width) * u128::from(hidden);
        match u64::try_from(exact / u128::from(before)) {
            Ok(scaled) if exact.is_multiple_of(u128::from(before)) => Ok(scaled),
            _ => {
                let allowed = format!("a size that keeps the ratio of {name}, {width} to {before}");
                Err(Error::field(&place, "hidden", hidden, &allowed))
            }
        }
    };
    if arch.mla.is_none() && arch.heads * arch.head_dim == before {
        arch.head_dim = scaled("head_dim", arch.head_dim)?;
    }
    arch.mlp.d_ff = scaled("d_ff", arch.mlp.d_ff)?;
    if let Some(moe) = &mut arch.moe {
        moe.d_ff = scaled("d_ff", moe.d_ff)?;
        moe.shared_d_ff = scaled("the shared d_ff", moe.shared_d_ff)?;
    }
    Ok(())
}

fn cut_heads(arch: &mut Architecture, heads: u64) -> Result<()> {
    let group = arch.heads / arch.kv_heads;
    if arch.mla.is_none() {
        let width = arch.heads * arch.head_dim;
        if heads == 0 || !width.is_multiple_of(heads) {
            let allowed = format!("a divisor of the width of attention, {width}");
            return Err(Error::field(arch.place(), "heads", heads, &allowed));
        }
        arch.head_dim = width / heads;
    }
    // One key head for all queries stays one.
    if arch.kv_heads > 1 || group == 1 {
        if !heads.is_multiple_of(group) {
            let allowed = format!("a multiple of the {group} queries per key head");
            return Err(Error::field(arch.place(), "heads", heads, &allowed));
        }
        arch.kv_heads = heads / group;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::Preset;
    use crate::arch::parameters;

    fn resized(name: &str, dimension: Dimension, value: u64) -> Result<Architecture> {
        let mut arch = Preset::find(name).unwrap().architecture.clone();
        dimension.set(&mut arch, &mut Workload::train(4, 2048), value)?;
        Ok(arch)
    }

    #[test]
    fn heads_keep_the_width_and_the_group() {
        let arch = resized("gpt3-2.7b", Dimension::Heads, 20).unwrap();
        assert_eq!((arch.heads, arch.kv_heads, arch.head_dim), (20, 20, 128));
        let base = &Preset::find("gpt3-2.7b").unwrap().architecture;
        assert_eq!(parameters(&arch).total, parameters(base).total);
        let llama = resized("llama-3-8b", Dimension::Heads, 64).unwrap();
        assert_eq!((llama.heads, llama.kv_heads, llama.head_dim), (64, 16, 64));
        for (name, heads, part) in [
            (
                "gpt3-2.7b",
                17,
                "`heads` is 17; allowed: a divisor of the width of attention, 2560",
            ),
            ("llama-3-8b", 2, "a multiple of the 4"),
            ("gpt3-2.7b", 0, "a divisor"),
        ] {
            let message = resized(name, Dimension::Heads, heads).unwrap_err().to_string();
            assert!(message.contains(part), "{message}");
        }
    }

    #[test]
    fn hidden_keeps_heads_and_the_ratio_of_the_mlp() {
        let arch = resized("gpt3-2.7b", Dimension::Hidden, 2592).unwrap();
        assert_eq!((arch.heads, arch.head_dim, arch.mlp.d_ff), (32, 81, 10368));
        let llama = resized("llama-2-7b", Dimension::Hidden, 4224).unwrap();
        assert_eq!((llama.head_dim, llama.mlp.d_ff), (132, 11352));
        assert!(resized("gpt3-2.7b", Dimension::Hidden, 2561).is_err());
    }

    #[test]
    fn every_dimension_of_every_preset_can_be_what_it_is() {
        for preset in Preset::all() {
            let base = &preset.architecture;
            let work = Workload::train(4, 512);
            for dimension in Dimension::ALL {
                let value = dimension.get(base, &work);
                let (mut arch, mut same) = (base.clone(), work);
                if !dimension.exists_in(base) {
                    assert_eq!(value, 0, "{dimension}");
                    let refused = dimension.set(&mut arch, &mut same, 8).unwrap_err();
                    let part = format!("it has no {}", dimension.part());
                    assert!(refused.to_string().contains(&part), "{refused}");
                    continue;
                }
                assert!(dimension.range().contains(&value), "{dimension}");
                dimension.set(&mut arch, &mut same, value).unwrap();
                assert_eq!((&arch, same), (base, work), "{dimension}");
            }
        }
    }

    #[test]
    fn a_value_that_is_put_is_the_value_that_is_got() {
        let mut arch = Preset::find("deepseek-v3").unwrap().architecture.clone();
        arch.window = Some(crate::arch::Window { size: 1024, layers: 1 });
        arch.linear = Preset::find("qwen3.5-9b").unwrap().architecture.linear;
        let mut work = Workload::train(1, 64);
        for (index, dimension) in Dimension::ALL.into_iter().enumerate() {
            assert_eq!(
                Dimension::of_architecture().contains(&dimension),
                matches!(dimension.entry().access, Access::Architecture(..))
            );
            let value = 2 + index as u64;
            dimension.put(&mut arch, &mut work, value);
            assert_eq!(dimension.get(&arch, &work), value, "{dimension}");
            assert_eq!(
                dimension.field(),
                match dimension {
                    Dimension::DFf => "mlp.d_ff",
                    Dimension::MoeDFf => "moe.d_ff",
                    Dimension::MoeSharedDFf => "moe.shared_d_ff",
                    Dimension::Experts => "moe.experts",
                    Dimension::TopK => "moe.top_k",
                    Dimension::WindowLayers => "window.layers",
                    Dimension::LinearLayers => "linear.layers",
                    Dimension::KvLoraRank => "mla.kv_lora_rank",
                    other => other.name(),
                }
            );
        }
    }

    #[test]
    fn d_ff_of_a_mixture_is_that_of_its_experts() {
        let mixtral = &Preset::find("mixtral-8x7b").unwrap().architecture;
        assert_eq!(Dimension::DFf.meant_in(mixtral), Dimension::MoeDFf);
        let sparse = resized("mixtral-8x7b", Dimension::MoeDFf, 7168).unwrap();
        assert_eq!((sparse.mlp.d_ff, sparse.moe.unwrap().d_ff), (7168, 7168));
        let leading = resized("deepseek-v3", Dimension::MoeDFf, 4096).unwrap();
        assert_eq!((leading.mlp.d_ff, leading.moe.unwrap().d_ff), (18432, 4096));
        let windowed = resized("mistral-7b-v0.1", Dimension::Layers, 16).unwrap();
        assert_eq!(windowed.window.unwrap().layers, 16);
    }
}
