//! Layers that differ from the others of their model.
//!
//! A model whose layers are of several shapes is a sum of parts, each an [`Architecture`] of layers that are alike. Parameters,
//! memory and lowering read the parts; embedding, head and whatever counts layers alone read the whole.

use super::validate::{MAX_KINDS, MAX_LAYERS};
use super::{Architecture, AttentionKernel, Compressed, Index, KeyValues, Recompute, Window, Workload};
use crate::error::Result;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::HashMap;
use utoipa::ToSchema;

/// The shape of some layers, where it is not that of the others; what it leaves out, they share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LayerKind {
    /// Layers of this shape.
    pub layers: u64,
    /// Query heads; 0 without attention.
    pub heads: u64,
    /// Key/value heads.
    pub kv_heads: u64,
    /// Width of a query and key head, in elements.
    pub head_dim: u64,
    /// Keys that a query sees; absent, all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<u64>,
    /// What gives keys and values.
    #[schema(value_type = String)]
    pub key_values: KeyValues,
    /// Whether every query head has an attention sink.
    pub sinks: bool,
    /// Tokens of which it keeps one key behind its window; 0 for none.
    pub stride: u64,
    /// Whether the index of the model chooses its keys.
    pub indexed: bool,
    /// Inner width of the dense MLP, in elements; 0 without one.
    pub d_ff: u64,
    /// Whether the experts of the model are in place of the dense MLP.
    pub experts: bool,
}

impl LayerKind {
    /// Whether such a layer has attention, an MLP or experts.
    pub fn is_something(&self) -> bool {
        self.heads > 0 || self.has_mlp()
    }

    /// Whether it has an MLP or experts.
    pub const fn has_mlp(&self) -> bool {
        self.d_ff > 0 || self.experts
    }

    /// The same layer with so many key/value heads, which the query heads share; 0 leaves no attention.
    #[must_use]
    pub fn with_kv_heads(self, kv_heads: u64) -> Self {
        match kv_heads {
            0 => Self {
                layers: self.layers,
                d_ff: self.d_ff,
                experts: self.experts,
                ..Self::default()
            },
            _ => Self { kv_heads, ..self },
        }
    }

    /// The same layer with a dense MLP of this width; 0 leaves neither an MLP nor experts.
    #[must_use]
    pub fn with_d_ff(self, d_ff: u64) -> Self {
        Self {
            d_ff,
            experts: false,
            ..self
        }
    }
}

impl Architecture {
    /// The shape of its layers that have attention and no window, as a kind of one layer.
    pub(super) fn kind(&self) -> LayerKind {
        LayerKind {
            layers: 1,
            heads: self.heads,
            kv_heads: self.kv_heads,
            head_dim: self.head_dim,
            window: None,
            key_values: self.key_values,
            sinks: self.biases.sinks,
            stride: self.stride(),
            indexed: self.index.is_some(),
            d_ff: if self.moe.is_some() { 0 } else { self.mlp.d_ff },
            experts: self.moe.is_some(),
        }
    }

    /// The shape of each of its layers, in their order; `None` where they differ in more than leading dense ones, or where attention
    /// and MLP share their input.
    pub fn each_layer(&self) -> Option<Vec<LayerKind>> {
        let window = self.window.map(|window| (window.size, window.layers));
        let differ = !self.kinds.is_empty()
            || self.linear.is_some()
            || self.index.is_some()
            || self.compressed.is_some()
            || self.mlp_layers.is_some()
            || self.parallel_layers
            || window.is_some_and(|(_, layers)| layers < self.layers);
        let shared = LayerKind {
            window: window.map(|(size, _)| size),
            ..self.kind()
        };
        let of = |layer| match self.moe {
            Some(moe) if !moe.is_in(layer) => shared.with_d_ff(self.mlp.d_ff),
            _ => shared,
        };
        (!differ).then(|| (0..self.layers).map(of).collect())
    }

    /// The same model of these layers, of which those of nothing are none.
    #[must_use]
    pub fn with_layers(&self, layers: &[LayerKind]) -> Self {
        let mut changed = self.clone();
        changed.set_kinds(layers.iter().copied());
        changed
    }

    /// Its layers of one kind alone.
    fn of(&self, kind: &LayerKind) -> Self {
        let attention = match kind.heads {
            0 => self.kind(),
            _ => *kind,
        };
        let mut part = Self {
            layers: kind.layers,
            heads: attention.heads,
            kv_heads: attention.kv_heads,
            head_dim: attention.head_dim,
            key_values: attention.key_values,
            window: kind.window.map(|size| Window {
                size,
                layers: kind.layers,
            }),
            linear: None,
            index: self.index.filter(|_| kind.indexed).map(|index| Index {
                layers: kind.layers,
                ..index
            }),
            compressed: self.compressed.map(|compressed| Compressed {
                stride: attention.stride,
                ..compressed
            }),
            mlp_layers: match (kind.heads, kind.d_ff) {
                (0, _) => Some(kind.layers),
                (_, 0) if !kind.experts => Some(0),
                _ => None,
            },
            kinds: Vec::new(),
            ..self.clone()
        };
        part.biases.sinks = attention.sinks;
        part.moe = part.moe.filter(|_| kind.experts);
        match &mut part.moe {
            Some(moe) => (moe.dense_layers, moe.interval, part.mlp.d_ff) = (0, 1, moe.d_ff),
            // Without an MLP the width of the others is kept, which tensor-parallel ranks divide.
            None if kind.d_ff > 0 => part.mlp.d_ff = kind.d_ff,
            None => {}
        }
        part
    }

    /// Models of layers that are alike, or differ in window, linear attention or experts alone, which together are this one:
    /// itself without other kinds of layers.
    pub fn parts(&self) -> impl Iterator<Item = Cow<'_, Self>> {
        let shared = match self.kinds.is_empty() {
            true => Cow::Borrowed(self),
            false => Cow::Owned(Self {
                layers: self.layers - self.layers_of_kinds(),
                kinds: Vec::new(),
                ..self.clone()
            }),
        };
        let kinds = self.kinds.iter().map(|kind| Cow::Owned(self.of(kind)));
        std::iter::once(shared).chain(kinds)
    }

    /// Sentences about an answer, for its reader.
    pub fn notes(&self, work: &Workload) -> Vec<String> {
        let mut notes = self.stated.notes(work);
        if self.index.is_some() && (self.mla.is_none() || work.trains()) {
            notes.push(
                "the keys that an index chooses are timed as a window of as many, and its scores as attention without values".to_owned(),
            );
        }
        if !self.kinds.is_empty() && work.pp > 1 {
            notes.push("each stage of the pipeline is taken to have its share of the layers of every shape".to_owned());
        }
        if work.recompute == Recompute::Selective && work.attention == AttentionKernel::Flash {
            notes.push(
                "selective recomputation runs attention again, of which flash attention keeps nothing; torchtitan means recomputation of operators by it".to_owned(),
            );
        }
        notes
    }

    /// A count of its layers, over all parts.
    pub(super) fn sum(&self, count: impl Fn(&Self) -> u64) -> u64 {
        // Searches count the parameters of millions of shapes.
        match self.kinds.is_empty() {
            true => count(self),
            false => self.parts().map(|part| count(&part)).sum(),
        }
    }

    /// Layers of other kinds; no more than there are.
    fn layers_of_kinds(&self) -> u64 {
        let layers = self.kinds.iter().map(|kind| kind.layers);
        layers.fold(0, u64::saturating_add).min(self.layers)
    }

    /// Checks each part by itself.
    pub(super) fn validate_kinds(&self) -> Result<()> {
        let count = self.kinds.len() as u64;
        if count > MAX_KINDS {
            let allowed = format!("at most {MAX_KINDS} shapes of layers beside the shared one");
            return self.refuse("kinds", count, &allowed);
        }
        self.within("layers", self.layers, 2, MAX_LAYERS)?;
        for kind in &self.kinds {
            if kind.experts && self.moe.is_none() {
                return self.refuse("kinds.experts", true, "false without moe");
            }
            if kind.indexed && self.index.is_none() {
                return self.refuse("kinds.indexed", true, "false without index");
            }
            if kind.stride > 0 && self.compressed.is_none() {
                return self.refuse("kinds.stride", kind.stride, "0 without compressed");
            }
            if kind.experts && kind.d_ff > 0 {
                return self.refuse(
                    "kinds.d_ff",
                    kind.d_ff,
                    "0 with experts, which are in place of the dense MLP",
                );
            }
            if !kind.is_something() {
                return self.refuse("kinds.heads", 0, "at least 1 without an MLP or experts");
            }
        }
        self.within("kinds.layers", self.layers_of_kinds(), 1, self.layers - 1)?;
        self.parts().try_for_each(|part| part.validate())
    }

    /// Sets the shapes of its layers, one by one: that of most, with experts if any has, becomes the shared one. Layers of nothing are
    /// none.
    pub(super) fn set_kinds(&mut self, each: impl IntoIterator<Item = LayerKind>) {
        let mut kinds: Vec<LayerKind> = Vec::new();
        let mut places = HashMap::new();
        for one in each.into_iter().filter(LayerKind::is_something) {
            let place = *places.entry(one).or_insert(kinds.len());
            match kinds.get_mut(place) {
                Some(kind) => kind.layers += 1,
                None => kinds.push(one),
            }
        }
        // What experts and an index are is said of the shared shape alone.
        kinds.sort_by_key(|kind| (!kind.experts, !kind.indexed, std::cmp::Reverse(kind.layers)));
        let layers = kinds.iter().map(|kind| kind.layers).sum();
        if let [most, others @ ..] = &*kinds {
            *self = Self {
                layers,
                kinds: others.to_vec(),
                ..self.of(most)
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::layer::StageLayers;
    use super::super::{Dimension, LayerKind, Phase, Practice, Preset, Role, Workload, lower, memory_use};

    #[test]
    fn layers_without_attention_have_neither_its_operators_nor_its_cache() {
        let arch = &Preset::find("nemotron-super-49b").unwrap().architecture;
        let work = Workload {
            tp: 2,
            ..Workload::decode(8, 4095)
        };
        let step = lower(arch, &work).unwrap();
        for (role, count, shapes) in [
            (Role::Attention, 49, 1),
            (Role::AttentionNorm, 49, 1),
            (Role::MlpNorm, 80, 1),
            (Role::MlpUp, 80, 6),
        ] {
            let items = step
                .items
                .iter()
                .filter(|item| (item.role, item.phase) == (role, Phase::Forward));
            let counts: Vec<u64> = items.map(|item| item.count).collect();
            assert_eq!((counts.iter().sum::<u64>(), counts.len()), (count, shapes), "{role}");
        }
        let cache = memory_use(arch, &work, &Practice::default()).unwrap().kv_cache.bytes();
        assert_eq!(cache, 8.0 * 4096.0 * 49.0 * 2.0 * 4.0 * 128.0 * 2.0);
    }

    #[test]
    fn a_stage_has_its_share_of_the_layers_of_each_kind_and_all_its_layers_are_of_one() {
        let arch = &Preset::find("nemotron-super-49b").unwrap().architecture;
        for pp in [1, 2, 4, 8] {
            let stage = StageLayers::new(arch, pp, 1);
            assert_eq!(stage.layers, 80 / pp);
            let mut all = 0;
            for (part, of_stage) in stage.parts(arch) {
                // Rounded up or down.
                let share = part.layers / pp..=part.layers.div_ceil(pp);
                assert!(share.contains(&of_stage.layers), "{} in {pp} stages", part.layers);
                all += of_stage.layers;
            }
            assert_eq!(all, stage.layers);
        }
    }

    #[test]
    fn impossible_kinds_and_changes_of_what_they_share_are_refused() {
        let arch = &Preset::find("nemotron-super-49b").unwrap().architecture;
        let mut none_left = arch.clone();
        none_left.kinds[0].layers = 70;
        let mut odd = arch.clone();
        odd.kinds[4].kv_heads = 7;
        let changed = |change: fn(&mut LayerKind)| {
            let mut arch = arch.clone();
            change(&mut arch.kinds[0]);
            arch
        };
        let mut many = arch.clone();
        many.kinds = vec![many.kinds[0]; 65];
        let mut experts_and_mlp = Preset::find("mixtral-8x7b").unwrap().architecture.clone();
        experts_and_mlp.kinds = vec![LayerKind {
            d_ff: 64,
            ..experts_and_mlp.kind()
        }];
        for (broken, part) in [
            (none_left, "`kinds.layers` is 80; allowed: 1 to 79"),
            (odd, "`kv_heads` is 7"),
            (many, "`kinds` is 65; allowed: at most 64 shapes"),
            (
                changed(|kind| kind.experts = true),
                "`kinds.experts` is true; allowed: false without moe",
            ),
            (experts_and_mlp, "`kinds.d_ff` is 64; allowed: 0 with experts"),
            (
                changed(|kind| (kind.heads, kind.d_ff) = (0, 0)),
                "`kinds.heads` is 0; allowed: at least 1",
            ),
        ] {
            let message = broken.validate().unwrap_err().to_string();
            assert!(message.contains(part), "{message}");
        }
        let mut wider = arch.clone();
        let refused = Dimension::Hidden.set(&mut wider, &mut Workload::train(1, 64), 4096);
        let message = refused.unwrap_err().to_string();
        assert!(
            message.contains("`hidden` is 4096; allowed: 8192, as layers"),
            "{message}"
        );
    }
}
