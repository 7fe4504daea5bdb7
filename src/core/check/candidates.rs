//! Near shapes that may meet a rule, for every [`Adjust`] that a rule asks for.
//!
//! The vocabulary grows, heads are cut anew from the same width, other dimensions go to near multiples of the alignment
//! and of tiles. Where the parameters would leave their budget the MLP width is fitted to it again.

use crate::arch::{Architecture, Workload, parameters};
use crate::check::workloads;
use crate::gpu::Gpu;
use crate::rules::{Adjust, Rule};

/// A fix changes the number of parameters by no more than this share.
pub const MOST_PARAMETER_CHANGE: f64 = 0.01;

/// Head sizes that are tried; wider heads than usual only where the shape has them already, for accuracy.
const HEAD_SIZES: [u64; 12] = [32, 40, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256];
const USUAL_HEAD_SIZE: u64 = 128;

/// Tensor-parallel ranks that a cut of heads leaves possible.
const RANKS: u64 = 2;

/// Steps that a dimension is moved up and down.
const STEPS: u64 = 3;

/// A shape that may be near enough.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub arch: Architecture,
    pub work: Workload,
}

/// Shapes near `arch` under `work` that may meet `rule`.
pub(super) fn candidates(rule: &Rule, arch: &Architecture, work: &Workload, gpu: &Gpu) -> Vec<Candidate> {
    let near = Near { arch, work, gpu };
    rule.fix.iter().flat_map(|fix| near.adjusted(*fix)).collect()
}

struct Near<'a> {
    arch: &'a Architecture,
    work: &'a Workload,
    gpu: &'a Gpu,
}

impl Near<'_> {
    fn adjusted(&self, adjust: Adjust) -> Vec<Candidate> {
        let (arch, work) = (self.arch, self.work);
        let shapes = match adjust {
            Adjust::Vocab => self.vocabularies(),
            Adjust::Heads => self.heads(),
            Adjust::HeadsOrHidden => self.heads_or_hiddens(),
            Adjust::KvHeads => self.key_heads(),
            Adjust::Hidden => self.hiddens(),
            Adjust::DFf => self.widths(),
            Adjust::Layers => self.layers(),
            Adjust::EveryDivided => self.divisible(),
            Adjust::Shallower => self.shallower(),
            Adjust::NearBatch => return under(arch, workloads::batches(work)),
            Adjust::LargerBatch => return under(arch, workloads::larger_batches(work)),
            Adjust::Seq => return under(arch, workloads::sequences(arch, work)),
            Adjust::FewerRanks => return self.fewer_ranks(),
            Adjust::FewerStages => return under(arch, workloads::fewer_stages(arch, work)),
        };
        let shapes = shapes.into_iter();
        shapes.map(|arch| Candidate { arch, work: *work }).collect()
    }

    /// The shape with some dimensions changed.
    fn with(&self, change: impl FnOnce(&mut Architecture)) -> Architecture {
        let mut arch = self.arch.clone();
        change(&mut arch);
        arch
    }

    /// Multiples that a width may go to: of the alignment, of half a tile, of a tile, each on every rank.
    fn units(&self) -> [u64; 3] {
        let alignment = self.gpu.alignment(self.work.dtype);
        [alignment, 128, 256].map(|unit| unit * self.work.tp)
    }

    /// Whether a hidden width is worth a look: large units make far multiples.
    fn is_near(&self, hidden: u64) -> bool {
        (1..=2 * self.arch.hidden).contains(&hidden)
    }

    /// Fewer ranks, also with a vocabulary that they divide, and whole experts.
    fn fewer_ranks(&self) -> Vec<Candidate> {
        let works = workloads::fewer_ranks(self.work).into_iter();
        let works = works.chain(workloads::whole_experts(self.arch, self.work));
        works
            .flat_map(|work| {
                let unit = self.gpu.alignment(work.dtype) * work.tp;
                let padded = self.with(|arch| arch.vocab = arch.vocab.next_multiple_of(unit));
                [self.arch.clone(), padded].map(|arch| Candidate { arch, work })
            })
            .collect()
    }

    fn vocabularies(&self) -> Vec<Architecture> {
        let [alignment, half, whole] = self.units();
        // Serving and older GPUs need less than the whole alignment.
        [8 * self.work.tp, alignment, half, whole]
            .into_iter()
            .map(|unit| self.with(|arch| arch.vocab = arch.vocab.next_multiple_of(unit)))
            .collect()
    }

    /// The same width of queries in other head sizes, key/value heads in proportion; where it is not the hidden width, also
    /// the same heads in the sizes on either side.
    fn heads(&self) -> Vec<Architecture> {
        if self.arch.mla.is_some() {
            return Vec::new();
        }
        let is_free = self.arch.heads * self.arch.head_dim != self.arch.hidden;
        let below = HEAD_SIZES.into_iter().rev().find(|size| *size < self.arch.head_dim);
        let above = HEAD_SIZES.into_iter().find(|size| *size > self.arch.head_dim);
        let resized = [below, above].into_iter().flatten().filter(|_| is_free);
        let resized = resized.map(|size| self.with(|arch| arch.head_dim = size));
        // Ranks divide by two, as a rule, whether or not any are asked about.
        let divides = |now: u64, then: u64| !now.is_multiple_of(RANKS) || then.is_multiple_of(RANKS);
        let width = self.arch.heads * self.arch.head_dim;
        let widest = self.arch.head_dim.max(USUAL_HEAD_SIZE);
        HEAD_SIZES
            .into_iter()
            .filter(|size| *size <= widest && width.is_multiple_of(*size))
            .flat_map(|size| {
                let heads = width / size;
                let kept = (self.arch.kv_heads * self.arch.head_dim).div_ceil(size);
                // The nearest numbers of key/value heads that divide the heads.
                let below = (1..=kept).rev().find(|kv| heads.is_multiple_of(*kv));
                let above = (kept..=heads).find(|kv| heads.is_multiple_of(*kv));
                let mut kv_heads: Vec<_> = below.into_iter().chain(above).collect();
                kv_heads.dedup();
                kv_heads.into_iter().map(move |kv| (size, heads, kv))
            })
            .filter(|(_, heads, kv)| divides(self.arch.heads, *heads) && divides(self.arch.kv_heads, *kv))
            .map(|(size, heads, kv)| {
                self.with(|arch| {
                    arch.head_dim = size;
                    arch.heads = heads;
                    arch.kv_heads = kv;
                })
            })
            .chain(resized)
            .flat_map(|arch| self.fitted(arch))
            .collect()
    }

    /// Heads cut anew; where the width has no good cut, also other widths.
    fn heads_or_hiddens(&self) -> Vec<Architecture> {
        let mut shapes = self.heads();
        let good = |arch: &Architecture| arch.head_dim != self.arch.head_dim && arch.head_dim.is_multiple_of(64);
        if !shapes.iter().any(good) {
            shapes.extend(self.hiddens());
        }
        shapes
    }

    /// Other numbers of key/value heads.
    fn key_heads(&self) -> Vec<Architecture> {
        if self.arch.mla.is_some() {
            return Vec::new();
        }
        (1..=self.arch.heads)
            .filter(|kv| self.arch.heads.is_multiple_of(*kv))
            .map(|kv| self.with(|arch| arch.kv_heads = kv))
            .flat_map(|arch| self.fitted(arch))
            .collect()
    }

    /// The MLP width at near multiples, all MLPs of the architecture together.
    fn widths(&self) -> Vec<Architecture> {
        let mut shapes = Vec::new();
        for unit in self.units() {
            for step in 0..=2 * STEPS {
                let moved = |width: u64| match width {
                    0 => 0,
                    _ => (width / unit + step).saturating_sub(STEPS).max(1) * unit,
                };
                shapes.push(self.with(|arch| {
                    arch.mlp.d_ff = moved(arch.mlp.d_ff);
                    if let Some(moe) = &mut arch.moe {
                        moe.d_ff = moved(moe.d_ff);
                        moe.shared_d_ff = moved(moe.shared_d_ff);
                    }
                }));
            }
        }
        shapes
    }

    /// Near hidden widths, with heads of the same or another size, MLP width and layers fitted to the parameters.
    fn hiddens(&self) -> Vec<Architecture> {
        let arch = self.arch;
        if arch.mla.is_some() {
            return Vec::new();
        }
        let square = arch.heads * arch.head_dim == arch.hidden;
        let mut shapes = Vec::new();
        for unit in self.units() {
            for step in 0..=2 * STEPS {
                let hidden = (arch.hidden / unit + step).saturating_sub(STEPS) * unit;
                if !self.is_near(hidden) {
                    continue;
                }
                let sizes = [arch.head_dim, 64, 96, 128];
                let heads = sizes
                    .into_iter()
                    .filter(|size| square && hidden.is_multiple_of(*size))
                    .map(|size| (size, hidden / size));
                let kept = (!square).then_some((arch.head_dim, arch.heads));
                for (size, heads) in heads.chain(kept) {
                    let Some(kv_heads) = grouped(arch, heads) else {
                        continue;
                    };
                    shapes.extend(self.recut(hidden, size, (heads, kv_heads), arch.vocab, 1));
                }
            }
        }
        shapes
    }

    /// Another width cut into these heads, with up to `slack` layers more or less, the MLP width fitted.
    fn recut(
        &self,
        hidden: u64,
        head_dim: u64,
        (heads, kv_heads): (u64, u64),
        vocab: u64,
        slack: u64,
    ) -> Vec<Architecture> {
        let layers = self.arch.layers;
        let near = layers.saturating_sub(slack).max(1)..=layers + slack;
        let cut = |layers| {
            self.with(|arch| {
                arch.hidden = hidden;
                arch.head_dim = head_dim;
                arch.heads = heads;
                arch.kv_heads = kv_heads;
                arch.vocab = vocab;
                arch.rescale_layers(layers);
            })
        };
        near.flat_map(|layers| self.fitted(cut(layers))).collect()
    }

    /// Layers at near multiples of the stages, the MLP width fitted.
    fn layers(&self) -> Vec<Architecture> {
        let (layers, stages) = (self.arch.layers, self.work.pp);
        let below = layers / stages * stages;
        [below, below + stages]
            .into_iter()
            .filter(|layers| *layers > 0)
            .map(|layers| self.with(|arch| arch.rescale_layers(layers)))
            .flat_map(|arch| self.fitted(arch))
            .collect()
    }

    /// Everything that the ranks must divide at near multiples of them.
    fn divisible(&self) -> Vec<Architecture> {
        let (arch, tp) = (self.arch, self.work.tp);
        let unit = self.gpu.alignment(self.work.dtype) * tp;
        let vocab = arch.vocab.next_multiple_of(unit);
        let mut shapes = vec![self.with(|arch| arch.vocab = vocab)];
        if arch.mla.is_some() {
            return shapes;
        }
        let around = |value: u64, unit: u64| [value / unit * unit, value.next_multiple_of(unit)];
        let square = arch.heads * arch.head_dim == arch.hidden;
        for size in [arch.head_dim, 64, 96, 128] {
            let cuts: Vec<(u64, u64)> = if square {
                let hiddens = around(arch.hidden, size * tp);
                hiddens.map(|hidden| (hidden, hidden / size)).into()
            } else {
                let hiddens = around(arch.hidden, unit);
                let heads = around(arch.heads, tp);
                hiddens
                    .into_iter()
                    .flat_map(|hidden| heads.map(|heads| (hidden, heads)))
                    .collect()
            };
            for (hidden, heads) in cuts {
                if !self.is_near(hidden) {
                    continue;
                }
                let Some(kv_heads) = grouped(arch, heads) else {
                    continue;
                };
                let kv_heads = near_divisor(heads, kv_heads, tp).unwrap_or(kv_heads);
                shapes.extend(self.recut(hidden, size, (heads, kv_heads), vocab, 3));
            }
        }
        shapes
    }

    /// Fewer layers of greater width, the MLP in proportion and then fitted.
    fn shallower(&self) -> Vec<Architecture> {
        let arch = self.arch;
        if arch.mla.is_some() || arch.moe.is_some() {
            return Vec::new();
        }
        let [unit, ..] = self.units();
        let unit = unit.max(64);
        let mut shapes = Vec::new();
        for layers in arch.layers.div_ceil(2)..arch.layers {
            if !layers.is_multiple_of(self.work.pp) {
                continue;
            }
            // Parameters of a layer grow with the square of its width.
            let wider = (arch.layers as f64 / layers as f64).sqrt() * arch.hidden as f64;
            let below = wider as u64 / unit * unit;
            for hidden in [below, below + unit] {
                if !self.is_near(hidden) {
                    continue;
                }
                for size in [arch.head_dim, 64, 128] {
                    let heads = hidden / size;
                    let Some(kv_heads) = grouped(arch, heads) else {
                        continue;
                    };
                    let shape = self.with(|arch| {
                        arch.mlp.d_ff = arch.mlp.d_ff * hidden / arch.hidden;
                        arch.hidden = hidden;
                        arch.head_dim = size;
                        arch.heads = heads;
                        arch.kv_heads = kv_heads;
                        arch.rescale_layers(layers);
                    });
                    if heads * size == hidden {
                        shapes.extend(self.fitted(shape));
                    }
                }
            }
        }
        shapes
    }

    /// The shape itself where it keeps the parameters or nothing can be done, else with MLP widths that keep them.
    fn fitted(&self, shape: Architecture) -> Vec<Architecture> {
        if shape.validate().is_err() {
            return Vec::new();
        }
        let budget = parameters(self.arch).total as f64;
        let count = |arch: &Architecture| parameters(arch).total as f64;
        if (count(&shape) / budget - 1.0).abs() <= MOST_PARAMETER_CHANGE && shape.mlp == self.arch.mlp {
            return vec![shape];
        }
        // A mixture has its parameters in the experts.
        let keeps_dense = shape.moe_layers() < shape.layers;
        let at = |width: u64| {
            let mut arch = shape.clone();
            match &mut arch.moe {
                Some(moe) if keeps_dense => moe.d_ff = width,
                Some(moe) => {
                    moe.d_ff = width;
                    arch.mlp.d_ff = width;
                }
                None => arch.mlp.d_ff = width,
            }
            arch
        };
        // Parameters are a straight line in the width.
        let (least, slope) = (count(&at(0)), count(&at(1)) - count(&at(0)));
        if slope <= 0.0 {
            return vec![shape];
        }
        let exact = (budget - least) / slope;
        let usual = shape.moe.map_or(shape.mlp.d_ff, |moe| moe.d_ff) as f64;
        let fitted: Vec<_> = self
            .units()
            .into_iter()
            .map(|unit| (exact / unit as f64).round() as u64 * unit)
            .filter(|width| (0.7..1.4).contains(&(*width as f64 / usual)))
            .map(at)
            .collect();
        if fitted.is_empty() {
            return vec![shape];
        }
        fitted
    }
}

/// The same shape under other workloads.
fn under(arch: &Architecture, works: Vec<Workload>) -> Vec<Candidate> {
    let works = works.into_iter();
    works
        .map(|work| Candidate {
            arch: arch.clone(),
            work,
        })
        .collect()
}

/// Key/value heads for another number of heads: all of them, or as many as there are, or as many as nearly fit.
fn grouped(arch: &Architecture, heads: u64) -> Option<u64> {
    if arch.kv_heads == arch.heads {
        return (heads > 0).then_some(heads);
    }
    near_divisor(heads, arch.kv_heads, 1)
}

/// The divisor of `heads` and multiple of `tp` nearest to `kv_heads`.
fn near_divisor(heads: u64, kv_heads: u64, tp: u64) -> Option<u64> {
    (1..=heads)
        .filter(|kv| heads.is_multiple_of(*kv) && kv.is_multiple_of(tp))
        .min_by_key(|kv| kv.abs_diff(kv_heads))
}
