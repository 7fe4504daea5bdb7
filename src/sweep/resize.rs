//! One size of an architecture changed, and what must follow it.

use crate::arch::Architecture;
use crate::error::Error;
use crate::error::Result;

/// A size of an architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// Transformer layers. Layers with a window and leading dense layers keep their share, rounded down.
    Layers,
    /// Width of the residual stream. The number of heads stays; heads that divided the width, and the
    /// inner width of the MLP, keep their ratio to it.
    Hidden,
    /// Query heads. The width of attention stays, so heads get wider or narrower; queries per key head stay.
    Heads,
    /// Key/value heads.
    KvHeads,
    /// Inner width of the MLP, or of one expert.
    DFf,
    /// Rows of the token embedding.
    Vocab,
}

/// The architecture with this size; fails where what follows would not be whole.
pub fn resize(architecture: &Architecture, size: Size, value: u64) -> Result<Architecture> {
    let mut arch = architecture.clone();
    match size {
        Size::Layers => layers(&mut arch, value),
        Size::Hidden => hidden(&mut arch, value)?,
        Size::Heads => heads(&mut arch, value)?,
        Size::KvHeads => arch.kv_heads = value,
        Size::DFf => d_ff(&mut arch, value),
        Size::Vocab => arch.vocab = value,
    }
    arch.validate()?;
    Ok(arch)
}

fn layers(arch: &mut Architecture, layers: u64) {
    arch.window = arch.window.map(|window| window.scaled(arch.layers, layers));
    if let Some(moe) = &mut arch.moe {
        moe.dense_layers = moe.dense_layers * layers / arch.layers;
    }
    arch.layers = layers;
}

fn hidden(arch: &mut Architecture, hidden: u64) -> Result<()> {
    let before = arch.hidden;
    let scaled = |name: &str, width: u64| -> Result<u64> {
        let exact = u128::from(width) * u128::from(hidden);
        match u64::try_from(exact / u128::from(before)) {
            Ok(scaled) if exact.is_multiple_of(u128::from(before)) => Ok(scaled),
            _ => Err(Error::infeasible(format!(
                "hidden {hidden} does not keep the ratio of {name}, {width} to {before}"
            ))),
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
    arch.hidden = hidden;
    Ok(())
}

fn heads(arch: &mut Architecture, heads: u64) -> Result<()> {
    let group = arch.heads / arch.kv_heads;
    if arch.mla.is_none() {
        let width = arch.heads * arch.head_dim;
        if heads == 0 || !width.is_multiple_of(heads) {
            return Err(Error::infeasible(format!(
                "{heads} heads do not divide the width of attention, {width}"
            )));
        }
        arch.head_dim = width / heads;
    }
    // One key head for all queries stays one.
    if arch.kv_heads > 1 || group == 1 {
        if !heads.is_multiple_of(group) {
            return Err(Error::infeasible(format!(
                "{heads} heads are no multiple of the {group} queries per key head"
            )));
        }
        arch.kv_heads = heads / group;
    }
    arch.heads = heads;
    Ok(())
}

fn d_ff(arch: &mut Architecture, d_ff: u64) {
    match &mut arch.moe {
        None => arch.mlp.d_ff = d_ff,
        Some(moe) => {
            moe.d_ff = d_ff;
            if moe.dense_layers == 0 {
                arch.mlp.d_ff = d_ff;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::Preset;
    use crate::arch::parameters;

    fn resized(name: &str, size: Size, value: u64) -> Result<Architecture> {
        resize(&Preset::find(name).unwrap().architecture, size, value)
    }

    #[test]
    fn heads_keep_the_width_and_the_group() {
        let arch = resized("gpt3-2.7b", Size::Heads, 20).unwrap();
        assert_eq!((arch.heads, arch.kv_heads, arch.head_dim), (20, 20, 128));
        let base = &Preset::find("gpt3-2.7b").unwrap().architecture;
        assert_eq!(parameters(&arch).total, parameters(base).total);
        let llama = resized("llama-3-8b", Size::Heads, 64).unwrap();
        assert_eq!((llama.heads, llama.kv_heads, llama.head_dim), (64, 16, 64));
        for (name, heads, part) in [
            ("gpt3-2.7b", 17, "17 heads do not divide"),
            ("llama-3-8b", 2, "no multiple of the 4"),
            ("gpt3-2.7b", 0, "do not divide"),
        ] {
            let message = resized(name, Size::Heads, heads).unwrap_err().to_string();
            assert!(message.contains(part), "{message}");
        }
    }

    #[test]
    fn hidden_keeps_heads_and_the_ratio_of_the_mlp() {
        let arch = resized("gpt3-2.7b", Size::Hidden, 2592).unwrap();
        assert_eq!((arch.heads, arch.head_dim, arch.mlp.d_ff), (32, 81, 10368));
        let llama = resized("llama-2-7b", Size::Hidden, 4224).unwrap();
        assert_eq!((llama.head_dim, llama.mlp.d_ff), (132, 11352));
        assert!(resized("gpt3-2.7b", Size::Hidden, 2561).is_err());
    }

    #[test]
    fn every_size_of_every_preset_can_be_what_it_is() {
        for preset in Preset::all() {
            let arch = &preset.architecture;
            let d_ff = arch.moe.map_or(arch.mlp.d_ff, |moe| moe.d_ff);
            for (size, value) in [
                (Size::Layers, arch.layers),
                (Size::Hidden, arch.hidden),
                (Size::Heads, arch.heads),
                (Size::KvHeads, arch.kv_heads),
                (Size::DFf, d_ff),
                (Size::Vocab, arch.vocab),
            ] {
                assert_eq!(&resize(arch, size, value).unwrap(), arch, "{size:?}");
            }
        }
        let sparse = resized("mixtral-8x7b", Size::DFf, 7168).unwrap();
        assert_eq!((sparse.mlp.d_ff, sparse.moe.unwrap().d_ff), (7168, 7168));
        let windowed = resized("mistral-7b-v0.1", Size::Layers, 16).unwrap();
        assert_eq!(windowed.window.unwrap().layers, 16);
    }
}
