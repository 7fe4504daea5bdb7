//! Which numbers describe a model that can be built.

use super::{Architecture, Dimension, NormPlacement, Positions, Workload};
use crate::error::{Error, Result};
use crate::ops::Recurrence;
use std::fmt::Display;

/// Bounds that keep every count below 2^64.
pub(super) const MAX_LAYERS: u64 = 1000;
pub(super) const MAX_HIDDEN: u64 = 1 << 17;
pub(super) const MAX_WIDTH: u64 = 1 << 19;
pub(super) const MAX_HEADS: u64 = 4096;
pub(super) const MAX_VOCAB: u64 = 1 << 24;
pub(super) const MAX_EXPERTS: u64 = 1024;
/// Most shapes of layers beside the shared one; each is lowered by itself.
pub(super) const MAX_KINDS: u64 = 64;

impl Architecture {
    /// Checks that the numbers describe a model that can be built.
    pub fn validate(&self) -> Result<()> {
        if self.name.contains(char::is_control) {
            return self.refuse("name", "with control characters", "text without them");
        }
        if !self.kinds.is_empty() {
            return self.validate_kinds();
        }
        self.validate_dimensions()?;
        if !self.heads.is_multiple_of(self.kv_heads) {
            let allowed = format!("a divisor of heads = {}", self.heads);
            return self.refuse("kv_heads", self.kv_heads, &allowed);
        }
        if let Positions::Learned { max, spare } = self.positions {
            self.within("positions.learned.max", max, 1, MAX_VOCAB)?;
            self.within("positions.learned.spare", spare, 0, MAX_VOCAB)?;
        }
        if self.norm.placement == NormPlacement::Shared && !self.parallel_layers {
            let allowed = "`shared` only with parallel_layers = true";
            return self.refuse("norm.placement", self.norm.placement, allowed);
        }
        if let Some(window) = self.window {
            self.within("window.size", window.size, 1, MAX_VOCAB)?;
            self.within("window.layers", window.layers, 1, self.layers)?;
        }
        if let Some(alone) = self.mlp_layers {
            // Experts are in the layers that hold an MLP.
            let least = u64::from(self.moe.is_some());
            self.within("mlp_layers", alone, least, self.layers)?;
        }
        if let Some(width) = self.value_head_dim {
            self.within("value_head_dim", width, 1, MAX_HEADS)?;
        }
        self.validate_linear()?;
        self.validate_moe()?;
        self.validate_mla()?;
        self.validate_compressed()?;
        self.validate_index()?;
        self.validate_further()
    }

    fn validate_linear(&self) -> Result<()> {
        let Some(linear) = &self.linear else {
            return Ok(());
        };
        let most = self.layers - self.mlp_layers.unwrap_or(0);
        for (field, value, most) in [
            ("linear.layers", linear.layers, most),
            ("linear.heads", linear.heads, MAX_HEADS),
            ("linear.head_dim", linear.head_dim, MAX_HEADS),
            ("linear.value_dim", linear.value_dim, MAX_HEADS),
        ] {
            self.within(field, value, 1, most)?;
        }
        // Without a convolution it is lightning attention.
        let least = u64::from(linear.kind != Some(Recurrence::Mamba2));
        self.within("linear.taps", linear.taps, least, 16)?;
        self.within("linear.step_rank", linear.step_rank, 0, MAX_HIDDEN)?;
        if linear.key_heads == 0 || !linear.heads.is_multiple_of(linear.key_heads) {
            let allowed = format!("a divisor of linear.heads = {}", linear.heads);
            return self.refuse("linear.key_heads", linear.key_heads, &allowed);
        }
        if linear.beside && linear.layers != self.layers {
            let allowed = format!("layers = {}, as it is beside attention in all", self.layers);
            return self.refuse("linear.layers", linear.layers, &allowed);
        }
        match self.window {
            Some(window) => self.within("window.layers", window.layers, 1, self.attention_layers()),
            None => Ok(()),
        }
    }

    /// Every dimension of a part that is there lies in its range.
    fn validate_dimensions(&self) -> Result<()> {
        let unused = Workload::train(1, 1);
        for dimension in Dimension::of_architecture() {
            let value = dimension.get(self, &unused);
            let [least, most] = dimension.limits();
            // A part that is not there has 0 everywhere.
            if (value < least || value > most) && dimension.exists_in(self) {
                return self.within(dimension.field(), value, least, most);
            }
        }
        Ok(())
    }

    fn validate_moe(&self) -> Result<()> {
        let Some(moe) = self.moe else { return Ok(()) };
        self.within("moe.top_k", moe.top_k, 1, moe.experts)?;
        self.within("moe.norms", moe.norms, 0, 16)?;
        if let Some(latent) = moe.latent {
            self.within("moe.latent", latent, 1, MAX_HIDDEN)?;
        }
        let layers = self.layers_with_mlp();
        self.within("moe.dense_layers", moe.dense_layers, 0, layers - 1)?;
        let others = layers - moe.dense_layers;
        self.within("moe.interval", moe.interval, 1, others)?;
        if self.moe_layers() == layers && self.mlp.d_ff != moe.d_ff {
            let allowed = format!("moe.d_ff = {}, as no layer is dense", moe.d_ff);
            return self.refuse("mlp.d_ff", self.mlp.d_ff, &allowed);
        }
        Ok(())
    }

    fn validate_mla(&self) -> Result<()> {
        let Some(mla) = self.mla else { return Ok(()) };
        if let Some(rank) = mla.q_lora_rank {
            self.within("mla.q_lora_rank", rank, 1, MAX_HIDDEN)?;
        }
        self.within("mla.kv_lora_rank", mla.kv_lora_rank, 1, MAX_HIDDEN)?;
        self.within("mla.qk_nope", mla.qk_nope, 1, MAX_HEADS)?;
        self.within("mla.qk_rope", mla.qk_rope, 1, MAX_HEADS)?;
        self.within("mla.v_head_dim", mla.v_head_dim, 1, MAX_HEADS)?;
        let width = mla.qk_nope + mla.qk_rope;
        if self.head_dim != width {
            let allowed = format!("mla.qk_nope + mla.qk_rope = {width}");
            return self.refuse("head_dim", self.head_dim, &allowed);
        }
        if self.kv_heads != self.heads {
            let allowed = format!("heads = {}, as every head has its own keys", self.heads);
            return self.refuse("kv_heads", self.kv_heads, &allowed);
        }
        Ok(())
    }

    fn validate_compressed(&self) -> Result<()> {
        let Some(compressed) = self.compressed else {
            return Ok(());
        };
        if self.mla.is_some() {
            return self.refuse("compressed.query_rank", compressed.query_rank, "none beside `mla`");
        }
        self.within("kv_heads", self.kv_heads, 1, 1)?;
        self.within("compressed.query_rank", compressed.query_rank, 1, MAX_HIDDEN)?;
        self.within("compressed.output_rank", compressed.output_rank, 1, MAX_HIDDEN)?;
        self.within("compressed.output_groups", compressed.output_groups, 1, self.heads)?;
        self.within("compressed.stride", compressed.stride, 0, MAX_VOCAB)?;
        if !self.heads.is_multiple_of(compressed.output_groups) {
            let allowed = format!("a divisor of heads = {}", self.heads);
            return self.refuse("compressed.output_groups", compressed.output_groups, &allowed);
        }
        match self.window {
            Some(window) => self.within("window.layers", window.layers, self.layers, self.layers),
            None => self.refuse("compressed.stride", compressed.stride, "none without `window`"),
        }
    }

    fn validate_index(&self) -> Result<()> {
        let Some(index) = self.index else { return Ok(()) };
        if self.mla.is_some_and(|mla| mla.q_lora_rank.is_none()) {
            let allowed = "none unless queries of latent attention come from a latent";
            return self.refuse("index.heads", index.heads, allowed);
        }
        if let (Some(window), 0) = (self.window, self.stride()) {
            return self.refuse("window.layers", window.layers, "none beside `index`");
        }
        self.within("index.heads", index.heads, 1, MAX_HEADS)?;
        self.within("index.head_dim", index.head_dim, 1, MAX_HEADS)?;
        self.within("index.top_k", index.top_k, 1, MAX_VOCAB)?;
        self.within("index.block", index.block, 1, MAX_VOCAB)?;
        self.within("index.layers", index.layers, 1, self.attention_layers())
    }

    pub(super) fn within(&self, field: &str, value: u64, least: u64, most: u64) -> Result<()> {
        if (least..=most).contains(&value) {
            return Ok(());
        }
        self.refuse(field, value, &format!("{least} to {most}"))
    }

    pub(super) fn refuse(&self, field: &str, value: impl Display, allowed: &str) -> Result<()> {
        Err(Error::field(self.place(), field, value, allowed))
    }

    /// What messages about its sizes begin with.
    pub(super) fn place(&self) -> String {
        format!("architecture `{}`", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Preset;
    use super::*;

    #[test]
    fn impossible_shapes_are_refused_by_field() {
        type Break = fn(&mut Architecture);
        let cases: &[(&str, Break, &str)] = &[
            ("llama-2-7b", |a| a.layers = 0, "`layers` is 0"),
            ("llama-2-7b", |a| a.kv_heads = 5, "divisor of heads = 32"),
            ("llama-2-7b", |a| a.vocab = 1 << 40, "`vocab`"),
            ("gpt-j-6b", |a| a.parallel_layers = false, "`norm.placement` is shared"),
            (
                "mistral-7b-v0.1",
                |a| a.layers = 31,
                "`window.layers` is 32; allowed: 1 to 31",
            ),
            ("mixtral-8x7b", |a| a.mlp.d_ff = 64, "no layer is dense"),
            ("deepseek-v3", |a| a.head_dim = 128, "qk_rope = 192"),
            (
                "mixtral-8x7b",
                |a| a.mlp_layers = Some(0),
                "`mlp_layers` is 0; allowed: 1 to 32",
            ),
            (
                "mixtral-8x7b",
                |a| a.moe.as_mut().unwrap().norms = u64::MAX,
                "`moe.norms` is 18446744073709551615; allowed: 0 to 16",
            ),
            (
                "mixtral-8x7b",
                |a| a.moe.as_mut().unwrap().latent = Some(0),
                "`moe.latent` is 0; allowed: 1 to 131072",
            ),
            (
                "llama-2-7b",
                |a| a.value_head_dim = Some(1_000_000_000_000_000_000),
                "`value_head_dim` is 1000000000000000000; allowed: 1 to 4096",
            ),
            ("llama-2-7b", |a| a.value_head_dim = Some(0), "`value_head_dim` is 0"),
        ];
        for (name, damage, part) in cases {
            let mut arch = Preset::find(name).unwrap().architecture.clone();
            damage(&mut arch);
            let message = arch.validate().unwrap_err().to_string();
            assert!(message.contains(part), "{message}");
        }
    }
}
