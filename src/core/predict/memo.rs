//! Many similar steps: operators that were predicted once are looked up.

use crate::arch::{Architecture, Workload};
use crate::error::Result;
use crate::predict::Predictor;
use crate::predict::step::{Context, Known, StepEstimate, Whole, estimate};
use crate::units::Seconds;

/// A predictor that remembers operators, for models and layouts that are asked for step after step.
///
/// A search meets the same GEMM in thousands of shapes, and of a decode step whose cache grows attention alone changes. What is
/// known costs a look-up, and answers are those of [`estimate_step`](crate::predict::step::estimate_step) to the last bit. A
/// memo grows with each new operator, and belongs to one thread.
///
/// ```
/// # use shapewise_core as shapewise;
/// use shapewise::arch::{Architecture, Workload};
/// use shapewise::gpu::Gpu;
/// use shapewise::predict::{Predictor, memo::Memo};
///
/// let predictor = Predictor::new(Gpu::find("h200")?, None)?;
/// let model = Architecture::find("llama-3-8b")?;
/// let mut memo = Memo::new(&predictor);
/// for cached in 2048..2058 {
///     let step = memo.step(&model, &Workload::decode(8, cached))?;
///     println!("{cached} tokens: {} to {}", step.low, step.high);
/// }
/// # Ok::<(), shapewise::error::Error>(())
/// ```
pub struct Memo<'a> {
    predictor: &'a Predictor,
    known: Known,
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
    /// What no step of these operators is faster than.
    pub least: Seconds,
}

impl<'a> Memo<'a> {
    /// Remembers nothing yet.
    pub fn new(predictor: &'a Predictor) -> Self {
        Self {
            predictor,
            known: Known::default(),
        }
    }

    /// What predicts.
    pub const fn predictor(&self) -> &'a Predictor {
        self.predictor
    }

    /// Predicts one step; fails where it cannot be lowered.
    pub fn step(&mut self, architecture: &Architecture, workload: &Workload) -> Result<StepEstimate> {
        let context = Context::of(self.predictor, architecture, workload)?;
        estimate(&context, Some(&mut self.known))
    }

    /// The same without its operators and its memory.
    pub fn cost(&mut self, architecture: &Architecture, workload: &Workload) -> Result<Cost> {
        let context = Context::of(self.predictor, architecture, workload)?;
        let whole = Whole::of(&context, Some(&mut self.known))?;
        Ok(Cost {
            time: whole.lanes.total,
            tokens: whole.step.tokens,
            own_half_width: whole.sum.own_half_width(),
            half_width: whole.sum.half_width(),
            least: whole.least,
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
                    let known = memo.step(arch, &work).unwrap();
                    assert_eq!([known.low, known.high], [step.low, step.high], "{name}");
                    assert_eq!(cost.tokens, step.tokens);
                    assert!(cost.least > Seconds::ZERO && cost.least <= step.low, "{name}");
                    let whole = (step.high / step.time).ln();
                    assert!(cost.own_half_width > 0.0 && cost.own_half_width <= whole);
                }
            }
        }
    }
}
