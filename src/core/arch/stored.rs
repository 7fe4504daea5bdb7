//! How the weights of a checkpoint are stored, where not all as the activations are.

use super::Architecture;
use super::layer::Linear;
use super::step::Role;
use super::{KvCacheDtype, Recipe, Workload};
use crate::gpu::Gpu;
use crate::ops::Dtype;

/// The bits of a weight of one linear map and of what scales it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Deserialize)]
pub(super) struct Packing {
    pub bits: u64,
    /// Weights that share a scale; 0 means a row of inputs.
    pub group: u64,
    /// Bits of the scale of a group, and of its zero.
    pub group_bits: u64,
}

impl Packing {
    /// Bytes of one weight in rows of so many inputs.
    pub fn bytes(self, inputs: u64) -> f64 {
        let group = if self.group == 0 { inputs } else { self.group };
        (self.bits as f64 + self.group_bits as f64 / group as f64) / 8.0
    }
}

/// Of the linear maps of one role, those that are packed one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Part {
    pub role: Role,
    pub packing: Packing,
    /// How many are, of how many.
    pub count: u64,
    pub of: u64,
}

impl Part {
    fn share(&self) -> f64 {
        self.count as f64 / self.of as f64
    }
}

/// How the weights of a checkpoint are stored.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Stored {
    /// The format in which the linear maps that are packed are timed.
    pub(super) dtype: Dtype,
    /// Whether they are stored in just that.
    pub(super) is_exact: bool,
    pub(super) parts: Vec<Part>,
    /// Of the embedding, where it is packed, too.
    pub(super) embedding: Option<Packing>,
    /// Whether the checkpoint has scales for keys and values in fp8, which servers then cache in it.
    pub(super) fp8_cache: bool,
}

impl Stored {
    /// The number format and the recipe of a server of these weights, on this GPU where one is named: where it has no units
    /// for the format of a checkpoint, servers multiply 16-bit inputs with weights that stay packed.
    pub fn format(&self, gpu: Option<&Gpu>) -> (Dtype, Recipe) {
        let is_known = |dtype| gpu.is_none_or(|gpu| gpu.peak(dtype).is_some());
        let dtype = match is_known(self.dtype) {
            true => self.dtype,
            false => unpacked(self.dtype),
        };
        let unpacked_to = gpu.map_or(Dtype::Bf16, Gpu::usual_dtype);
        Recipe::of_format(dtype, unpacked_to)
    }

    /// How its linear maps are packed, if they are in integers beside 16-bit inputs.
    pub(super) fn integers(&self) -> Option<Packing> {
        let packed = self.parts.iter().find(|part| part.count > 0);
        let packed = packed.filter(|_| self.is_exact && matches!(self.dtype, Dtype::W4a16 | Dtype::W8a16));
        packed.map(|part| part.packing)
    }

    /// Whether a workload serves these weights as they are.
    pub(super) fn is_taken_by(&self, work: &Workload) -> bool {
        let dtype = work.linear_dtype();
        !work.trains() && (dtype == self.dtype || dtype == unpacked(self.dtype))
    }

    /// Whether linear maps of a role are packed, most of them.
    pub(super) fn packs(&self, role: Role) -> bool {
        let parts = self.parts.iter().filter(|part| part.role == role);
        parts.map(Part::share).sum::<f64>() >= 0.5
    }

    /// Bytes that packing saves of the weights of a linear map whose elements have so many.
    pub(super) fn saved(&self, linear: &Linear, wide: f64) -> f64 {
        let weights = (linear.members * linear.inputs * linear.outputs) as f64;
        let parts = self.parts.iter().filter(|part| part.role == linear.role);
        let saved = parts.map(|part| part.share() * (wide - part.packing.bytes(linear.inputs)));
        weights * saved.sum::<f64>()
    }

    /// Bytes that packing saves of an embedding with so many elements.
    pub(super) fn saved_of_embedding(&self, elements: u64, hidden: u64, wide: f64) -> f64 {
        let saved = self.embedding.map_or(0.0, |packing| wide - packing.bytes(hidden));
        elements as f64 * saved
    }

    /// Which linear maps stay in 16 bits, all of them or in some layers.
    pub(super) fn kept(&self) -> Vec<String> {
        let mut kept: Vec<(Role, f64)> = Vec::new();
        for part in &self.parts {
            match kept.iter_mut().find(|(role, _)| *role == part.role) {
                Some((_, share)) => *share += part.share(),
                None => kept.push((part.role, part.share())),
            }
        }
        let kept = kept.into_iter().filter(|(_, share)| *share < 1.0);
        kept.map(|(role, share)| match share > 0.0 {
            true => format!("{:.0} % of {role}", 100.0 * (1.0 - share)),
            false => role.to_string(),
        })
        .collect()
    }
}

/// The format in which weights as narrow are multiplied with 16-bit inputs.
const fn unpacked(dtype: Dtype) -> Dtype {
    match dtype {
        Dtype::Fp8 | Dtype::Fp8Block | Dtype::Int8 => Dtype::W8a16,
        Dtype::Nvfp4 => Dtype::W4a16,
        other => other,
    }
}

impl Architecture {
    /// How the checkpoint stores its weights, where this workload serves it so.
    pub(super) fn stored(&self, work: &Workload) -> Option<&Stored> {
        self.stated.stored().filter(|stored| stored.is_taken_by(work))
    }

    /// The workload in the format that this GPU takes for a checkpoint, where it serves one as it is stored.
    #[must_use]
    pub fn on(&self, gpu: &Gpu, work: &Workload) -> Workload {
        let Some(stored) = self.stored(work) else {
            return *work;
        };
        let (dtype, recipe) = stored.format(Some(gpu));
        let kv_cache_dtype = match work.kv_cache_dtype {
            KvCacheDtype::Auto if stored.fp8_cache => KvCacheDtype::Fp8,
            asked => asked,
        };
        Workload {
            dtype,
            recipe,
            kv_cache_dtype,
            ..*work
        }
    }
}
