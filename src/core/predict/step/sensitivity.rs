//! How the time of a step moves with the constants of its framework that are not known exactly.
//!
//! Two steps under one framework share its constants, but not how much of their time hangs on each: a deep and thin shape has
//! more memory-bound kernels and launches than a wide one. So which of two is faster may turn where both times are sure.

use super::{Lanes, Ledger};
use crate::framework::{Constant, Framework};
use crate::stats::NORMAL_90;

/// Changes of `ln(time)` of one step, each with one standard deviation of one constant.
#[derive(Clone, Debug, PartialEq)]
pub struct Sensitivity(Vec<f64>);

impl Sensitivity {
    /// That of a step to each constant of its framework.
    pub fn of(ledger: &Ledger, framework: &Framework) -> Self {
        let mut moved = framework.clone();
        let unsure = Constant::ALL
            .into_iter()
            .filter(|&constant| framework.figure(constant).sd > 0.0);
        let changes = unsure.map(|constant| {
            let figure = framework.figure(constant);
            let middle = constant.to_line(figure.value);
            let mut time = |at: f64| {
                moved.set_value(constant, constant.from_line(at));
                Lanes::of(ledger, &moved).total
            };
            let change = (time(middle + figure.sd) / time(middle - figure.sd)).ln() / 2.0;
            moved.set_value(constant, figure.value);
            change
        });
        Self(changes.collect())
    }

    /// Half width of the 90 % interval of `ln` of the ratio of this step's time to another's under the same framework, as far
    /// as its constants make it; their errors are taken as independent.
    pub fn half_width_to(&self, other: &Self) -> f64 {
        let differences = self.0.iter().zip(&other.0).map(|(one, other)| one - other);
        NORMAL_90 * differences.map(|apart| apart * apart).sum::<f64>().sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::{Mode, Preset, Workload};
    use crate::gpu::{Generation, Gpu};
    use crate::predict::Predictor;
    use crate::predict::step::ledger;

    fn sensitivity(name: &str, framework: &str) -> Sensitivity {
        let predictor = Predictor::new(Gpu::find("h100").unwrap(), None).unwrap();
        let arch = &Preset::find(name).unwrap().architecture;
        let ledger = ledger(&predictor, arch, &Workload::train(4, 1024)).unwrap();
        let framework = Framework::find(framework, Mode::Train, Generation::Hopper).unwrap();
        Sensitivity::of(&ledger, framework)
    }

    #[test]
    fn constants_move_a_step_by_its_share_and_cancel_between_equal_steps() {
        let one = sensitivity("llama-2-7b", "megatron");
        assert_eq!(one.half_width_to(&one), 0.0);
        // The GEMMs are most of the step, known to 2.4 %; nothing moves it by more than its own deviation.
        let most = one.0.iter().fold(0.0_f64, |most, change| most.max(*change));
        assert!((0.01..0.06).contains(&most), "{one:?}");
        assert!(one.0.iter().all(|change| *change >= 0.0), "{one:?}");
    }

    #[test]
    fn what_a_framework_changes_differs_by_shape_and_is_less_sure_where_it_is_unknown() {
        let between = |framework| {
            let [wide, small] = ["llama-2-7b", "gpt2"].map(|name| sensitivity(name, framework));
            wide.half_width_to(&small)
        };
        let (known, unknown) = (between("megatron"), between("unknown"));
        assert!(known > 0.005 && unknown > 2.0 * known, "{known} {unknown}");
        assert_eq!(between("kernels"), 0.0);
    }
}
