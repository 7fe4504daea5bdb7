//! How a run uses the checks of its device: a wrong or missing path is refused and named, many
//! wrong ones end the run.

use super::device::{Checks, Device};
use super::path::KernelPath;
use crate::error::{Error, Result};
use crate::ops::{Dtype, OpKind};
use std::collections::{BTreeMap, BTreeSet};

/// Largest share of wrong paths that a run goes on with; one is always allowed.
const MOST_WRONG: f64 = 0.05;

/// A path that is not timed, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// Kernel or library path.
    pub path: KernelPath,
    /// Why.
    pub reason: String,
}

/// Outcome of the checks by path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Paths of which at least one result was compared.
    pub paths: BTreeSet<KernelPath>,
    /// Results that were compared.
    pub compared: usize,
    /// Paths with a result that disagrees with the reference: the worst result of each.
    pub wrong: Vec<Lost>,
    /// Paths of which no operator ran: the reason of the first.
    pub missing: Vec<Lost>,
    /// Operators that did not run although others of their path did, each with its reason.
    pub not_run: Vec<(String, String)>,
}

impl Verdict {
    /// The verdict on these checks.
    pub fn of(checks: &Checks) -> Self {
        let mut worst: BTreeMap<KernelPath, (f64, String)> = BTreeMap::new();
        for check in checks.compared.iter().filter(|check| check.is_wrong()) {
            let excess = match (check.error / check.allowed).is_nan() {
                true => f64::INFINITY,
                false => check.error / check.allowed,
            };
            if worst.get(&check.path).is_none_or(|found| excess > found.0) {
                let reason = format!(
                    "the result of {} is off by {:.3e} of the reference's norm; allowed: {:.3e}",
                    check.name, check.error, check.allowed
                );
                worst.insert(check.path, (excess, reason));
            }
        }
        let paths: BTreeSet<_> = checks.compared.iter().map(|check| check.path).collect();
        let mut missing = BTreeMap::new();
        let mut not_run = Vec::new();
        for check in &checks.not_run {
            match paths.contains(&check.path) {
                true => not_run.push((check.name.clone(), check.reason.clone())),
                false => {
                    missing.entry(check.path).or_insert(check.reason.clone());
                }
            }
        }
        let lost = |(path, reason)| Lost { path, reason };
        Self {
            paths,
            compared: checks.compared.len(),
            wrong: worst
                .into_iter()
                .map(|(path, (_, reason))| lost((path, reason)))
                .collect(),
            missing: missing.into_iter().map(lost).collect(),
            not_run,
        }
    }

    /// Whether a path is wrong or missing.
    pub fn has_lost(&self, path: KernelPath) -> bool {
        let mut lost = self.wrong.iter().chain(&self.missing);
        lost.any(|lost| lost.path == path)
    }

    /// Refuses a device whose results cannot be trusted: with `strict` one wrong path is enough,
    /// else it takes over 5 % of the paths, and more than one, or all of a family.
    fn judge(&self, gpu: &str, strict: bool) -> Result<()> {
        let Some(first) = self.wrong.first() else {
            return Ok(());
        };
        let end = |why: &str, reason: &str| Err(Error::infeasible(format!("{gpu}: {why}{reason}; nothing was timed")));
        if strict {
            return end("", &first.reason);
        }
        let count = |kind: OpKind, paths: &mut dyn Iterator<Item = KernelPath>| {
            paths.filter(|path| path.kind() == kind).count()
        };
        for kind in OpKind::ALL {
            let wrong = count(kind, &mut self.wrong.iter().map(|lost| lost.path));
            if wrong > 0 && wrong == count(kind, &mut self.paths.iter().copied()) {
                let of_kind = self.wrong.iter().find(|lost| lost.path.kind() == kind);
                let reason = of_kind.map_or("", |lost| lost.reason.as_str());
                return end(&format!("all paths of {kind} are wrong: "), reason);
            }
        }
        let (wrong, paths) = (self.wrong.len(), self.paths.len());
        if wrong > 1 && wrong as f64 > MOST_WRONG * paths as f64 {
            let why = format!("{wrong} of {paths} paths are wrong, over 5 %: ");
            return end(&why, &first.reason);
        }
        Ok(())
    }

    /// Makes the device refuse wrong and missing paths.
    fn apply(&self, device: &mut dyn Device) {
        for Lost { path, reason } in &self.wrong {
            device.refuse(*path, format!("wrong: {reason}"));
        }
        for Lost { path, reason } in &self.missing {
            device.refuse(*path, reason.clone());
        }
    }
}

/// Checks the device in these formats and makes it refuse what is wrong or missing; returns the verdict.
///
/// # Errors
///
/// Fails where too many results are wrong, and where the device is lost.
pub fn verify(device: &mut dyn Device, formats: &[Dtype], strict: bool) -> Result<Verdict> {
    let verdict = Verdict::of(&device.check(formats)?);
    verdict.judge(&device.identity().gpu, strict)?;
    verdict.apply(device);
    Ok(verdict)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::device::{Checked, NotRun};
    use crate::measure::scripted::{Script, Scripted};
    use crate::ops::{Attention, Gemm, Layout, Memory, MemoryKind, Op};

    fn check(op: Op, name: &str, error: f64) -> Checked {
        Checked {
            path: KernelPath::of(&op),
            name: name.to_owned(),
            error,
            allowed: 1e-2,
        }
    }

    fn gemm(layout: Layout, batch: u64) -> Op {
        Op::Gemm(Gemm {
            batch,
            layout,
            ..Gemm::new(8, 8, 8)
        })
    }

    /// Checks of 8 paths of GEMMs and 20 results each, the first `wrong` paths with one wrong.
    fn gemms(wrong: usize) -> Checks {
        let mut checks = Checks::default();
        for (number, layout) in Layout::ALL.into_iter().enumerate() {
            for batch in [1, 2] {
                let is_wrong = 2 * number + batch as usize <= wrong;
                for result in 0..20 {
                    let error = if is_wrong && result == 3 { 0.5 } else { 1e-3 };
                    let name = format!("{layout} {batch} {result}");
                    checks.compared.push(check(gemm(layout, batch), &name, error));
                }
            }
        }
        checks
    }

    #[test]
    fn one_wrong_path_is_refused_and_the_run_goes_on() {
        let verdict = Verdict::of(&gemms(1));
        assert_eq!((verdict.wrong.len(), verdict.paths.len()), (1, 8));
        let reason = "the result of tn 1 3 is off by 5.000e-1 of the reference's norm; allowed: 1.000e-2";
        assert_eq!(verdict.wrong[0].reason, reason);
        verdict.judge("h200", false).unwrap();
        let strict = verdict.judge("h200", true).unwrap_err().to_string();
        assert_eq!(strict, format!("h200: {reason}; nothing was timed"));
    }

    #[test]
    fn many_wrong_paths_and_a_wholly_wrong_family_end_the_run() {
        let two = Verdict::of(&gemms(2)).judge("h200", false).unwrap_err();
        assert!(two.to_string().contains("2 of 8 paths are wrong"), "{two}");
        let mut checks = gemms(0);
        let attention = Op::Attention(Attention::new(1, 8, 128, 64));
        checks.compared.push(check(attention, "attention", f64::NAN));
        let all = Verdict::of(&checks).judge("h200", false).unwrap_err();
        let expected = "all paths of attention are wrong: the result of attention is off by NaN";
        assert!(all.to_string().contains(expected), "{all}");
    }

    #[test]
    fn a_path_is_missing_only_if_none_of_its_operators_ran() {
        let mut checks = gemms(0);
        let not_run = |op, name: &str| NotRun {
            path: KernelPath::of(&op),
            name: name.to_owned(),
            reason: "no algorithm".to_owned(),
        };
        let attention = Op::Attention(Attention::new(1, 8, 128, 64));
        checks.not_run.push(not_run(gemm(Layout::Tn, 1), "tn 1x1x1"));
        checks.not_run.push(not_run(attention, "attention"));
        let verdict = Verdict::of(&checks);
        assert_eq!(verdict.missing.len(), 1);
        assert_eq!(verdict.missing[0].path, KernelPath::of(&attention));
        let expected = ("tn 1x1x1".to_owned(), "no algorithm".to_owned());
        assert_eq!(verdict.not_run, [expected]);
    }

    #[test]
    fn a_wrong_path_is_refused_with_its_reason() {
        let mut device = Scripted::new(Script {
            wrong: 1,
            ..Script::default()
        });
        let verdict = verify(&mut device, &[Dtype::Bf16], false).unwrap();
        let softmax = Op::Memory(Memory::forward(MemoryKind::Softmax, 64, 64, Dtype::Bf16));
        assert_eq!(verdict.wrong.len(), 1);
        assert_eq!(verdict.wrong[0].path, KernelPath::of(&softmax));
        let refusal = device.refuses(&softmax).unwrap();
        assert!(refusal.contains("is off by"), "{refusal}");
    }
}
