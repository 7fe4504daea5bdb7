//! The time of many similar steps: operators that were predicted once are looked up.
//!
//! A search meets the same GEMM in thousands of shapes. A [`Memo`] costs a lowering and a look-up per
//! operator, and gives the very numbers of [`crate::predict::step::estimate_step`]. It belongs to one thread.

use crate::arch::{Architecture, Workload, lower};
use crate::error::Result;
use crate::framework::Kernels;
use crate::ops::Op;
use crate::predict::Predictor;
use crate::predict::estimate::Estimate;
use crate::predict::step::{Context, Whole, retain_counted};
use crate::units::Seconds;
use rustc_hash::FxHashMap;

/// A predictor that remembers.
pub struct Memo<'a> {
    predictor: &'a Predictor,
    /// Of the kernels of one framework.
    known: FxHashMap<Op, Estimate>,
    kernels: Kernels,
    missing: Vec<Op>,
}

/// What a step costs, without its operators.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Wall time of the step, pipeline bubble included.
    pub time: Seconds,
    /// Tokens that one replica processes in it.
    pub tokens: f64,
    /// Half width of the 90 % interval of `ln(time)`, without what all steps on this GPU and stack share.
    pub own_half_width: f64,
    /// The same with what they share, by the operators alone.
    pub half_width: f64,
}

impl<'a> Memo<'a> {
    /// Remembers nothing yet.
    pub fn new(predictor: &'a Predictor) -> Self {
        Self {
            predictor,
            known: FxHashMap::default(),
            kernels: Kernels::default(),
            missing: Vec::new(),
        }
    }

    /// What predicts.
    pub const fn predictor(&self) -> &'a Predictor {
        self.predictor
    }

    /// Predicts one step; fails where it cannot be lowered.
    pub fn cost(&mut self, architecture: &Architecture, workload: &Workload) -> Result<Cost> {
        let context = Context::of(self.predictor, architecture, workload)?;
        let mut step = lower(architecture, workload)?;
        retain_counted(&mut step, context.framework);
        let kernels = context.framework.kernels;
        if self.kernels != kernels {
            self.kernels = kernels;
            self.known.clear();
        }
        for item in &step.items {
            let asked = context.asked(&item.op);
            self.missing.extend(asked.filter(|op| !self.known.contains_key(op)));
        }
        if !self.missing.is_empty() {
            let estimates = self.predictor.predict_by(kernels, &self.missing);
            self.known.extend(self.missing.drain(..).zip(estimates));
        }
        let estimates = step.items.iter().map(|item| {
            let asked = context.asked(&item.op).map(|op| self.known[&op]);
            context.estimate(&item.op, asked)
        });
        let estimates: Vec<Estimate> = estimates.collect();
        let whole = Whole::of(&context, &step, &estimates);
        Ok(Cost {
            time: whole.lanes.total,
            tokens: step.tokens,
            own_half_width: whole.sum.own_half_width(),
            half_width: whole.sum.half_width(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::Preset;
    use crate::gpu::Gpu;
    use crate::predict::step::estimate_step;

    #[test]
    fn a_memo_gives_the_numbers_of_a_whole_estimate_to_the_last_bit() {
        let predictor = Predictor::new(Gpu::find("h200").unwrap(), None).unwrap();
        let mut memo = Memo::new(&predictor);
        for _ in 0..2 {
            for name in ["gpt3-2.7b", "llama-2-7b", "llama-3-8b", "qwen3-14b"] {
                let arch = &Preset::find(name).unwrap().architecture;
                for work in [
                    Workload::train(4, 2048),
                    Workload::prefill(1, 1000),
                    Workload::decode(8, 2047),
                ] {
                    let cost = memo.cost(arch, &work).unwrap();
                    let step = estimate_step(&predictor, arch, &work).unwrap();
                    assert_eq!(cost.time, step.time, "{name}");
                    assert_eq!(cost.tokens, step.tokens);
                    let whole = (step.high / step.time).ln();
                    assert!(cost.own_half_width > 0.0 && cost.own_half_width <= whole);
                }
            }
        }
    }
}
