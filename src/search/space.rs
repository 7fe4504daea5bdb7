//! The lattice of shapes with a given number of parameters.
//!
//! A [`ShapeFamily`] fixes everything but the width of the MLP, or of an expert. The number of parameters is linear in
//! that width, so the widths that meet the budget are an interval, found exactly.

use crate::arch::Practice;
use crate::arch::{Architecture, Dimension, LinearLayers, Mla, Window, Workload};
use crate::error::Error;
use crate::error::Result;
use crate::ops::Recurrence;
use crate::search::bounds::Bounds;
use crate::search::bounds::Quantity;
use crate::search::free::Free;
use crate::search::shape::Count;
use crate::search::shape::Fixed;
use crate::search::shape::Shape;
use crate::search::shape::ShapeFamily;
use crate::units::Bytes;
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::ops::{Range, RangeInclusive};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Shape families that are held at most, some hundred megabytes.
const MOST_FAMILIES: usize = 1_000_000;

/// How the lattice is nested, the dimension that varies slowest first; layers, hidden width, experts and the latent are
/// outside, micro-batch and windows, which the budget does not depend on, are inside.
const NESTED: [Dimension; 5] = [
    Dimension::Heads,
    Dimension::KvHeads,
    Dimension::Tp,
    Dimension::Pp,
    Dimension::Vocab,
];

/// Routed experts that a token may visit, where that is not fixed.
const TOP_K: [u64; 6] = [1, 2, 4, 6, 8, 10];

/// Numbers of experts a factor of the root of two apart, from 8 to 512.
const EXPERTS: [u64; 13] = [8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512];

/// Shares of the layers that see a window: none, every other one (Gemma 2, gpt-oss), three of four (Command R7B), five of
/// six (Gemma 3).
const WINDOWED: [[u64; 2]; 4] = [[0, 1], [1, 2], [3, 4], [5, 6]];

/// Key/value heads that are shared, beside powers of two: those of SmolLM2-135M and 360M, of Phi-3-medium and Phi-4 (their
/// published configs).
const USUAL_KV_HEADS: [u64; 3] = [3, 5, 10];

/// Heads of latent attention beside one another are so many apart, to keep the lattice small.
const LATENT_HEADS: u64 = 16;

/// All shapes of a budget within bounds.
#[derive(Clone, Debug)]
pub struct Space {
    /// What is not varied: norms, positions, biases, kind of MLP.
    pub base: Architecture,
    /// What is run, and the layouts that it may have, at least one; their free dimensions come from the shape.
    pub layouts: Vec<Workload>,
    /// Layouts that differ in nothing but their virtual stages, by their places; empty if there is one layout.
    pub interleaved: Vec<Range<usize>>,
    /// Memory of a GPU that a shape may take.
    pub room: Bytes,
    /// What the framework keeps in memory.
    pub practice: Practice,
    /// Keys that a windowed layer sees.
    pub window_size: u64,
    /// The proportions of latent attention.
    pub latent: Mla,
    /// Bounds in force.
    pub bounds: Bounds,
    /// Least and greatest count of parameters.
    pub budget: (u64, u64),
    /// What the budget counts.
    pub count: Count,
    /// Least and greatest number of parameters that a token meets, where they are asked for too.
    pub active: Option<(u64, u64)>,
    /// Vocabulary asked for.
    pub vocab: u64,
    /// What the user fixes.
    pub fixed: Fixed,
    /// What else may vary.
    pub free: Vec<Free>,
    /// Shares of the layers with linear attention, rising; that of the base where there are none.
    pub linear_shares: Vec<f64>,
}

impl Space {
    /// Writes a shape into a clone of [`Space::base`] and the workload that it runs.
    pub fn fill(&self, shape: &Shape, arch: &mut Architecture, work: &mut Workload) {
        *work = self.layouts[shape.layout()];
        let is_latent = shape[Dimension::KvLoraRank] > 0;
        arch.mla = is_latent.then(|| self.latent_of(shape));
        let layers = shape[Dimension::WindowLayers];
        arch.window = (layers > 0).then_some(Window {
            size: self.window_size,
            layers,
        });
        let linear = self.base.linear.filter(|_| shape[Dimension::LinearLayers] > 0);
        arch.linear = linear.map(|linear| self.linear_of(linear, shape));
        shape.put(arch, work);
        arch.mlp_layers = self.base.mlp_layers.map(|_| self.mlp_layers(arch.layers));
        self.put_width(arch, shape[self.width()]);
    }

    /// How many of so many layers are an MLP alone: as large a share as in the base.
    fn mlp_layers(&self, layers: u64) -> u64 {
        self.base.mlp_layers.unwrap_or(0) * layers / self.base.layers
    }

    /// Linear attention with heads of the same size as in the base, in proportion to the width.
    fn linear_of(&self, linear: LinearLayers, shape: &Shape) -> LinearLayers {
        let wider = |heads: u64| (heads * shape[Dimension::Hidden] / self.base.hidden).max(1);
        let key_heads = match linear.kind {
            // Groups, whatever the width.
            Some(Recurrence::Mamba2) => linear.key_heads,
            _ => wider(linear.key_heads),
        };
        LinearLayers {
            heads: (wider(linear.heads) / key_heads).max(1) * key_heads,
            key_heads,
            ..linear
        }
    }

    /// Latent attention in the usual proportions: the query latent to that of keys and values, the parts of a head.
    fn latent_of(&self, shape: &Shape) -> Mla {
        let usual = self.latent;
        let rank = shape[Dimension::KvLoraRank];
        let head = usual.qk_nope + usual.qk_rope;
        let of_head = |part: u64| part * shape[Dimension::HeadDim] / head;
        let qk_rope = of_head(usual.qk_rope);
        let queries = usual.q_lora_rank;
        Mla {
            q_lora_rank: queries.map(|width| width * rank / usual.kv_lora_rank),
            kv_lora_rank: rank,
            qk_nope: shape[Dimension::HeadDim] - qk_rope,
            qk_rope,
            v_head_dim: of_head(usual.v_head_dim),
        }
    }

    /// The dimension that a family leaves open: the width of the MLP, or of an expert in a mixture of them.
    pub fn width(&self) -> Dimension {
        Dimension::DFf.meant_in(&self.base)
    }

    /// Writes that width. Shared experts stay as many as in [`Space::base`], and a layer without experts is as wide as
    /// what a token meets in one with them.
    fn put_width(&self, arch: &mut Architecture, width: u64) {
        let (Some(base), Some(moe)) = (self.base.moe, &mut arch.moe) else {
            arch.mlp.d_ff = width;
            return;
        };
        moe.d_ff = width;
        moe.shared_d_ff = width * base.shared_d_ff / base.d_ff;
        arch.mlp.d_ff = moe.dense_width();
    }

    /// The architecture and the workload of a shape.
    pub fn build(&self, shape: &Shape) -> (Architecture, Workload) {
        let (mut arch, mut work) = (self.base.clone(), self.layouts[0]);
        self.fill(shape, &mut arch, &mut work);
        (arch, work)
    }

    /// The values of a dimension beside the others of `shape`, each written into it; heads come with their size.
    pub fn choices(&self, dimension: Dimension, shape: &Shape) -> Vec<Shape> {
        let values = match dimension {
            Dimension::Layers => self.layer_counts(shape[Dimension::Hidden]).collect(),
            Dimension::Hidden => self.hidden_sizes(),
            Dimension::Heads => {
                let pairs = self.heads(shape).into_iter();
                let cut = |(heads, size)| shape.with(Dimension::Heads, heads).with(Dimension::HeadDim, size);
                return pairs.map(cut).collect();
            }
            Dimension::KvHeads => self.kv_heads(shape),
            Dimension::WindowLayers => self.windowed_layers(shape[Dimension::Layers]),
            Dimension::LinearLayers => self.linear_layers(shape[Dimension::Layers]),
            Dimension::KvLoraRank => self.latent_ranks(),
            Dimension::Vocab => self.vocabularies(shape[Dimension::Tp]),
            Dimension::Experts => self.experts(),
            Dimension::TopK => self.top_k(shape[Dimension::Experts]),
            other => {
                let free = self.free.iter().find(|free| free.dimension() == other);
                let powers = free.and_then(|free| free.powers());
                powers.unwrap_or_else(|| vec![shape[other]])
            }
        };
        values.into_iter().map(|value| shape.with(dimension, value)).collect()
    }

    /// Every family of the lattice that can meet budget and bounds, by rising hidden width, under one layout after the other as
    /// far as memory should hold them; `None` if `go_on` says no.
    ///
    /// Fails where there are more under one layout.
    pub fn families(&self, go_on: &(dyn Fn() -> bool + Sync)) -> Result<Option<Vec<ShapeFamily>>> {
        if self.layouts.len() == 1 {
            let families = self.families_under(0, go_on)?;
            return Ok(families.map(|mut families| {
                families.retain(|family| self.divides(&family.shape));
                families
            }));
        }
        let mut all = Vec::new();
        // What sizes are possible is the same for many layouts; by layers, since stages divide them.
        type ByLayers = BTreeMap<u64, Vec<ShapeFamily>>;
        let mut known: Vec<([u64; 3], ByLayers)> = Vec::new();
        for (at, layout) in self.layouts.iter().enumerate() {
            let ranks = [layout.tp, layout.ep, layout.expert_ranks()];
            if !known.iter().any(|(other, _)| *other == ranks) {
                let Some(families) = self.families_under(at, go_on)? else {
                    return Ok(None);
                };
                let mut by_layers = ByLayers::new();
                for family in families {
                    let layers = family.shape[Dimension::Layers];
                    by_layers.entry(layers).or_default().push(family);
                }
                known.push((ranks, by_layers));
            }
            let alike = known.iter().find(|(other, _)| *other == ranks);
            let (_, by_layers) = alike.expect("it was added");
            let stages = layout.pp * layout.vp;
            let whole = by_layers.iter().filter(|(layers, _)| layers.is_multiple_of(stages));
            all.extend(whole.flat_map(|(_, families)| families).map(|family| ShapeFamily {
                shape: family.shape.under(at, layout, &self.base),
                ..*family
            }));
            if all.len() > MOST_FAMILIES {
                break;
            }
        }
        Ok(Some(all))
    }

    /// The layouts that differ from that of a shape in nothing but their virtual stages.
    pub fn interleaved_like(&self, shape: &Shape) -> Range<usize> {
        let at = shape.layout();
        let mut ranges = self.interleaved.iter();
        let found = ranges.find(|range| range.contains(&at));
        found.cloned().unwrap_or(at..at + 1)
    }

    /// This shape under one of these layouts.
    pub fn under(&self, shape: &Shape, at: usize) -> Shape {
        shape.under(at, &self.layouts[at], &self.base)
    }

    /// Whether the stages of a shape's layout divide its layers.
    pub fn divides(&self, shape: &Shape) -> bool {
        let stages = shape[Dimension::Pp] * self.layouts[shape.layout()].vp;
        shape[Dimension::Layers].is_multiple_of(stages)
    }

    /// The families with the sizes that are possible under one layout, whatever its stages.
    fn families_under(&self, layout: usize, go_on: &(dyn Fn() -> bool + Sync)) -> Result<Option<Vec<ShapeFamily>>> {
        let (found, stopped) = (AtomicUsize::new(0), AtomicBool::new(false));
        let workload = &self.layouts[layout];
        let start = Shape::of(&self.base, workload)
            .under(layout, workload, &self.base)
            // Chosen after the layers; the base's may be more than those of a shape.
            .with(Dimension::WindowLayers, 0)
            .with(Dimension::LinearLayers, 0)
            .with(Dimension::DFf, 0)
            .with(self.width(), 0);
        let of_width = |wide: Shape| {
            let mut families = Vec::new();
            let mut scratch = self.base.clone();
            let outer = [Dimension::Experts, Dimension::TopK, Dimension::KvLoraRank];
            let shapes = outer.into_iter().fold(vec![wide], |shapes, dimension| {
                let shapes = shapes.iter();
                let chosen = shapes.flat_map(|shape| self.choices(dimension, shape));
                chosen.collect()
            });
            let kinds = 0..self.linear_shares.len().max(1);
            let shapes = shapes
                .iter()
                .flat_map(|shape| kinds.clone().map(move |kind| (shape, kind)));
            for (shape, kind) in shapes {
                // More layers of one share have more parameters, so those within reach are neighbours.
                let by_layers = self.choices(Dimension::Layers, shape).into_iter();
                let of_kind = |shape| self.choices(Dimension::LinearLayers, &shape).get(kind).copied();
                let by_layers: Vec<Shape> = by_layers.filter_map(of_kind).collect();
                let mut ends = |shape: &Shape| self.reach_of_heads(self.count, shape, &mut scratch);
                let first = by_layers.partition_point(|shape| ends(shape)[1] < self.budget.0);
                let end = by_layers.partition_point(|shape| ends(shape)[0] <= self.budget.1);
                for shape in by_layers.get(first..end).into_iter().flatten() {
                    if stopped.load(Ordering::Relaxed) {
                        break;
                    }
                    let before = families.len();
                    if self.in_reach(shape, &mut scratch) {
                        self.families_of(shape, &NESTED, &mut scratch, &mut families);
                    }
                    let new = families.len() - before;
                    if found.fetch_add(new, Ordering::Relaxed) + new > MOST_FAMILIES || !go_on() {
                        stopped.store(true, Ordering::Relaxed);
                    }
                }
            }
            families
        };
        let widths = self.choices(Dimension::Hidden, &start).into_par_iter();
        let families: Vec<_> = widths.flat_map_iter(of_width).collect();
        if families.len() > MOST_FAMILIES {
            return Err(Error::infeasible(format!(
                "search: the lattice has more than {MOST_FAMILIES} shapes before their widths; relax fewer bounds or lower `--tolerance`"
            )));
        }
        Ok((!stopped.into_inner()).then_some(families))
    }

    /// Adds the families of a shape in which the dimensions of `nested` are still open.
    fn families_of(
        &self,
        shape: &Shape,
        nested: &[Dimension],
        scratch: &mut Architecture,
        families: &mut Vec<ShapeFamily>,
    ) {
        if let Some((dimension, inner)) = nested.split_first() {
            let choices = self.choices(*dimension, shape);
            let near = match dimension {
                Dimension::Heads => self.near_budget(choices, scratch),
                _ => choices,
            };
            for shape in near {
                self.families_of(&shape, inner, scratch, families);
            }
        } else if let Some(family) = self.sized(*shape, scratch) {
            let batches = self.choices(Dimension::Batch, &family.shape).into_iter();
            let shapes = batches.flat_map(|shape| self.choices(Dimension::WindowLayers, &shape));
            families.extend(shapes.map(|shape| ShapeFamily { shape, ..family }));
        }
    }

    /// The family of these dimensions, if it can meet budget and bounds.
    pub fn family(&self, shape: Shape, scratch: &mut Architecture) -> Option<ShapeFamily> {
        self.divides(&shape).then(|| self.sized(shape, scratch))?
    }

    /// The same whatever the stages of its layout.
    fn sized(&self, shape: Shape, scratch: &mut Architecture) -> Option<ShapeFamily> {
        let [heads, kv_heads, tp] = [Dimension::Heads, Dimension::KvHeads, Dimension::Tp].map(|one| shape[one]);
        let divided = kv_heads.is_multiple_of(tp) || tp.is_multiple_of(kv_heads);
        let windows = shape[Dimension::WindowLayers] <= shape[Dimension::Layers];
        if !heads.is_multiple_of(kv_heads) || !heads.is_multiple_of(tp) || !divided || !windows {
            return None;
        }
        let mut work = self.layouts[0];
        self.fill(&shape, scratch, &mut work);
        let ranks = match scratch.moe {
            Some(moe) if !moe.experts.is_multiple_of(work.ep) || moe.dense_layers > scratch.layers => {
                return None;
            }
            Some(_) => work.expert_ranks(),
            None => tp,
        };
        let [mut low, mut high] = self.width_limits(&shape);
        let budgets = [(self.count, Some(self.budget)), (Count::Active, self.active)];
        for (count, budget) in budgets {
            let Some((fewest, most)) = budget else {
                continue;
            };
            let mut count_at = |width| {
                self.put_width(scratch, width);
                count.of(scratch)
            };
            let unit = 64;
            let base = count_at(unit);
            let slope = (count_at(2 * unit) - base) as f64 / unit as f64;
            let rest = base as f64 - slope * unit as f64;
            let width = |count: u64| (count as f64 - rest) / slope;
            (low, high) = (low.max(width(fewest)), high.min(width(most)));
        }
        let dimension = self.width();
        let from_to = |first, last, step| ShapeFamily {
            shape: shape.with(dimension, first),
            dimension,
            widths: (first, last),
            step,
        };
        if let Some(width) = self.fixed[dimension] {
            let inside = (low - 1e-6..=high + 1e-6).contains(&(width as f64));
            return (inside && width.is_multiple_of(ranks)).then(|| from_to(width, width, 1));
        }
        if !(high >= 1.0 && low <= high) {
            return None;
        }
        let step = self.bounds.d_ff_step(high, ranks);
        let first = ((low - 1e-6).max(1.0) as u64).next_multiple_of(step);
        // Rounding down may lose the exact start of the interval.
        let first = if (first as f64) < low - 1e-6 {
            first + step
        } else {
            first
        };
        let last = (high + 1e-6) as u64 / step * step;
        (first <= last).then(|| from_to(first, last, step))
    }

    /// Hidden sizes to choose from.
    pub fn hidden_sizes(&self) -> Vec<u64> {
        match self.fixed[Dimension::Hidden] {
            Some(hidden) => vec![hidden],
            None => self.bounds.hidden_sizes(),
        }
    }

    /// Padded vocabularies to choose from: every rank's share is a multiple of a power of two from 64 on.
    pub fn vocabularies(&self, tp: u64) -> Vec<u64> {
        let [_, most] = self.bounds.limits(Quantity::VocabPadding);
        let mut sizes: Vec<u64> = [64, 128, 256, 512, 1024]
            .map(|unit| self.vocab.next_multiple_of(unit * tp))
            .into_iter()
            .filter(|&size| size as f64 <= self.vocab as f64 * most)
            .collect();
        if sizes.is_empty() {
            sizes.push(self.vocab.next_multiple_of(tp));
        }
        sizes.dedup();
        sizes
    }

    /// Numbers of query heads beside the other sizes of `shape`, each with the width of a query and key head.
    pub fn heads(&self, shape: &Shape) -> Vec<(u64, u64)> {
        let hidden = shape[Dimension::Hidden];
        let is_latent = shape[Dimension::KvLoraRank] > 0;
        let (width, apart) = match is_latent {
            true => (Quantity::LatentHeadWidth, LATENT_HEADS),
            // Only multiples of four away from the exact fit, to keep the lattice small.
            false => (Quantity::HeadWidth, 4),
        };
        let [least, most] = self.bounds.limits(width);
        // What heads add up to is the width of their values.
        let sizes = match is_latent {
            true => self.latent_heads(),
            false => self.plain_heads(),
        };
        let mut pairs = Vec::new();
        for (size, value) in sizes {
            let heads = |share: f64| share * hidden as f64 / value as f64;
            let range = (heads(least) - 1e-9).ceil() as u64..=(heads(most) + 1e-9) as u64;
            let wanted = |&heads: &u64| heads > 0 && (heads * value == hidden || heads.is_multiple_of(apart));
            pairs.extend(range.filter(wanted).map(|heads| (heads, size)));
        }
        if let Some(heads) = self.fixed[Dimension::Heads] {
            pairs.retain(|(number, _)| *number == heads);
            if pairs.is_empty()
                && self.fixed[Dimension::HeadDim].is_none()
                && !is_latent
                && hidden.is_multiple_of(heads)
                && self.offers_head((hidden / heads) as f64)
            {
                pairs.push((heads, hidden / heads));
            }
        }
        // Bounds would refuse the others one by one.
        let [least, _] = self.bounds.limits(Quantity::Heads);
        pairs.retain(|(heads, _)| heads.is_multiple_of(least as u64));
        pairs
    }

    /// Widths of heads without latent attention, of queries and keys and of values.
    fn plain_heads(&self) -> Vec<(u64, u64)> {
        let sizes: Vec<u64> = match self.fixed[Dimension::HeadDim] {
            Some(size) => vec![size],
            // Multiples of 8, of 16 from 64 on.
            None => (1..=64u64)
                .map(|eighths| eighths * 8)
                .filter(|size| *size < 64 || size.is_multiple_of(16))
                .filter(|size| self.offers_head(*size as f64))
                .collect(),
        };
        sizes.into_iter().map(|size| (size, size)).collect()
    }

    /// Whether heads of this width may be chosen.
    fn offers_head(&self, size: f64) -> bool {
        let [least, most] = self.bounds.limits(Quantity::HeadDim);
        (least..=most).contains(&size) && self.bounds.offers(Quantity::HeadDim, size)
    }

    /// The same with it: the usual widths and half of them.
    fn latent_heads(&self) -> Vec<(u64, u64)> {
        let Mla {
            qk_nope,
            qk_rope,
            v_head_dim,
            ..
        } = self.latent;
        let usual = (qk_nope + qk_rope, v_head_dim);
        let is_whole = |size: u64| {
            [qk_nope, qk_rope, v_head_dim]
                .iter()
                .all(|part| (part * size).is_multiple_of(usual.0))
        };
        let sizes = match self.fixed[Dimension::HeadDim] {
            Some(size) => vec![size],
            None => vec![usual.0 / 2, usual.0],
        };
        let [least, most] = self.bounds.limits(Quantity::HeadDim);
        let sizes = sizes.into_iter().filter(|size| is_whole(*size));
        let sizes = sizes.map(|size| (size, v_head_dim * size / usual.0));
        sizes
            .filter(|(_, value)| (least..=most).contains(&(*value as f64)))
            .collect()
    }

    /// Numbers of key/value heads for the query heads of `shape`, usual ones unless they are given; with latent attention every head has its own.
    fn kv_heads(&self, shape: &Shape) -> Vec<u64> {
        let heads = shape[Dimension::Heads];
        let [least, most] = match shape[Dimension::KvLoraRank] {
            0 => self.bounds.limits(Quantity::KvGroup),
            _ => [1.0, 1.0],
        };
        let is_given = self.fixed[Dimension::KvHeads].is_some() || self.fixed.kv_group.is_some();
        let is_usual = |kv: u64| kv == heads || kv.is_power_of_two() || USUAL_KV_HEADS.contains(&kv);
        (1..=heads)
            .filter(|kv| is_given || is_usual(*kv))
            .filter(|kv| heads.is_multiple_of(*kv))
            .filter(|kv| (least..=most).contains(&((heads / kv) as f64)))
            .filter(|kv| self.fixed[Dimension::KvHeads].is_none_or(|fixed| fixed == *kv))
            .filter(|kv| self.fixed.kv_group.is_none_or(|fixed| fixed == heads / kv))
            .collect()
    }

    /// How many of so many layers see a window; 0 where none does.
    fn windowed_layers(&self, layers: u64) -> Vec<u64> {
        if let Some(fixed) = self.fixed[Dimension::WindowLayers] {
            return Some(fixed).filter(|fixed| *fixed <= layers).into_iter().collect();
        }
        if !self.free.contains(&Free::Window) {
            let own = self.base.window;
            let scaled = own.map(|window| window.scaled(self.base.layers, layers).layers);
            return vec![scaled.unwrap_or(0)];
        }
        let mut counts: Vec<u64> = WINDOWED.map(|[part, of]| layers * part / of).to_vec();
        counts.dedup();
        counts
    }

    /// How many of so many layers have linear attention; 0 where none does.
    fn linear_layers(&self, layers: u64) -> Vec<u64> {
        let Some(linear) = self.base.linear else {
            return vec![0];
        };
        if self.linear_shares.is_empty() {
            return vec![linear.layers * layers / self.base.layers];
        }
        let shares = self.linear_shares.iter();
        let mixing = (layers - self.mlp_layers(layers)) as f64;
        let mut counts: Vec<u64> = shares.map(|share| (share * mixing).round() as u64).collect();
        counts.dedup();
        counts
    }

    /// What kind of attention a shape has of those that vary: the places of its choices.
    pub fn kind_of_attention(&self, shape: &Shape) -> Vec<Option<usize>> {
        let of_attention = self.free.iter().filter(|free| free.powers().is_none());
        let place = |free: &Free| {
            let choices = self.choices(free.dimension(), shape);
            choices.iter().position(|choice| choice == shape)
        };
        of_attention.map(place).collect()
    }

    /// Widths of the key/value latent; 0 without latent attention.
    fn latent_ranks(&self) -> Vec<u64> {
        let own = self.base.mla.map_or(0, |mla| mla.kv_lora_rank);
        if let Some(fixed) = self.fixed[Dimension::KvLoraRank] {
            return vec![fixed];
        }
        if !self.free.contains(&Free::Latent) {
            return vec![own];
        }
        let [least, most] = self.bounds.limits(Quantity::LatentRank);
        let ranks = (6..=10).map(|power| 1 << power);
        let inside = ranks.filter(|rank| (least..=most).contains(&(*rank as f64)));
        std::iter::once(0).chain(inside).collect()
    }

    /// Numbers of routed experts; none in a dense model.
    fn experts(&self) -> Vec<u64> {
        if self.base.moe.is_none() {
            return vec![0];
        }
        if let Some(fixed) = self.fixed[Dimension::Experts] {
            return vec![fixed];
        }
        let [least, most] = self.bounds.limits(Quantity::Experts);
        let inside = |experts: &u64| (least..=most).contains(&(*experts as f64));
        EXPERTS.into_iter().filter(inside).collect()
    }

    /// Routed experts of so many that a token may visit.
    fn top_k(&self, experts: u64) -> Vec<u64> {
        if self.base.moe.is_none() {
            return vec![0];
        }
        let [least, most] = self.bounds.limits(Quantity::ExpertShare);
        let inside = |top_k: &u64| {
            let share = *top_k as f64 / experts as f64;
            *top_k <= experts && (least - 1e-9..=most + 1e-9).contains(&share)
        };
        match self.fixed[Dimension::TopK] {
            Some(fixed) => Some(fixed).filter(inside).into_iter().collect(),
            None => TOP_K.into_iter().filter(inside).collect(),
        }
    }

    fn layer_counts(&self, hidden: u64) -> RangeInclusive<u64> {
        if let Some(layers) = self.fixed[Dimension::Layers] {
            return layers..=layers;
        }
        let [thin, wide] = self.bounds.limits(Quantity::AspectRatio);
        let [least, most] = self.bounds.limits(Quantity::Layers);
        // The bounds count layers that mix tokens.
        let each = self.base.layers as f64 / self.base.mixing_layers() as f64;
        let low = each * (hidden as f64 / wide).max(least);
        let high = each * (hidden as f64 / thin).min(most);
        low.ceil() as u64..=high.floor() as u64
    }

    /// Limits of the width that a family leaves open.
    fn width_limits(&self, shape: &Shape) -> [f64; 2] {
        let hidden = shape[Dimension::Hidden] as f64;
        let ratio = match self.base.mlp.kind.up_factor() {
            1 => Quantity::FfnRatioPlain,
            _ => Quantity::FfnRatioGated,
        };
        let met = self.bounds.limits(ratio).map(|limit| limit * hidden);
        let Some(base) = self.base.moe else {
            return met;
        };
        let shared = base.shared_d_ff as f64 / base.d_ff as f64;
        let visited = shape[Dimension::TopK] as f64 + shared;
        let [least, most] = self.bounds.limits(Quantity::ExpertWidth).map(|limit| limit * hidden);
        [least.max(met[0] / visited), most.min(met[1] / visited)]
    }

    /// Whether any heads and width can meet the budgets: a quick look before all are tried.
    fn in_reach(&self, shape: &Shape, scratch: &mut Architecture) -> bool {
        let mut reaches = |what: Count, (fewest, greatest): (u64, u64)| {
            let [smallest, largest] = self.reach_of_heads(what, shape, scratch);
            smallest <= greatest && largest >= fewest
        };
        reaches(self.count, self.budget) && self.active.is_none_or(|active| reaches(Count::Active, active))
    }

    /// The least and the greatest count of parameters with any heads; as in [`Space::reach`].
    fn reach_of_heads(&self, what: Count, shape: &Shape, scratch: &mut Architecture) -> [u64; 2] {
        let pairs = self.heads(shape);
        let width = |(heads, size): &&(u64, u64)| heads * size;
        let ends = (pairs.iter().min_by_key(width), pairs.iter().max_by_key(width));
        match ends {
            (Some(narrow), Some(wide)) => self.reach(what, shape, [*narrow, *wide], scratch),
            _ => [u64::MAX, 0],
        }
    }

    /// Those of these shapes, heads of one size by rising number, from which some width can meet the budget.
    fn near_budget(&self, shapes: Vec<Shape>, scratch: &mut Architecture) -> Vec<Shape> {
        let mut near = Vec::new();
        for same in shapes.chunk_by(|a, b| a[Dimension::HeadDim] == b[Dimension::HeadDim]) {
            let mut reach = |shape: &Shape| {
                let heads = (shape[Dimension::Heads], shape[Dimension::HeadDim]);
                self.reach(self.count, shape, [heads; 2], scratch)
            };
            let first = same.partition_point(|shape| reach(shape)[1] < self.budget.0);
            let end = same.partition_point(|shape| reach(shape)[0] <= self.budget.1);
            near.extend(same.get(first..end).into_iter().flatten());
        }
        near
    }

    /// The least and the greatest count of parameters between these heads, each a number and a size; the least is above the
    /// greatest where no width is allowed.
    fn reach(
        &self,
        what: Count,
        shape: &Shape,
        [narrow, wide]: [(u64, u64); 2],
        scratch: &mut Architecture,
    ) -> [u64; 2] {
        let [least, most] = match self.fixed[self.width()] {
            Some(fixed) => [fixed as f64; 2],
            None => self.width_limits(shape),
        };
        if least > most {
            return [u64::MAX, 0];
        }
        let mut work = self.layouts[0];
        let mut count = |(heads, size): (u64, u64), kv: u64, inner: f64, vocab: u64| {
            let shape = shape
                .with(Dimension::Heads, heads)
                .with(Dimension::KvHeads, kv)
                .with(Dimension::HeadDim, size)
                .with(Dimension::Vocab, vocab);
            self.fill(&shape, scratch, &mut work);
            self.put_width(scratch, inner as u64);
            what.of(scratch)
        };
        // No padding adds more than a unit of 1024 rows on each rank.
        let ranks = self.choices(Dimension::Tp, shape);
        let ranks = ranks.iter().map(|shape| shape[Dimension::Tp]).max();
        let padded = self.vocab + 1024 * ranks.unwrap_or(1);
        let smallest = count(narrow, 1, least.max(1.0), self.vocab);
        let largest = count(wide, wide.0, most.min(1e6), padded);
        [smallest, largest]
    }
}
