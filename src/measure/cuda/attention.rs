//! Attention through cuDNN: a plan for the shape, its scratch memory, and its bindings to the
//! operands.

use super::algorithm::Algorithm;
use super::cudnn::{Handle, Plan};
use super::driver::Driver;
use super::placement::{Arena, Placement};
use crate::dataset::Kernel;
use crate::error::Result;
use std::rc::Rc;

/// An attention that is set up.
pub struct FlashAttention {
    // Refers to the handle's library state: destroyed first.
    plan: Rc<Plan>,
    handle: Rc<Handle>,
    workspace: u64,
    scratch: Vec<u64>,
}

impl FlashAttention {
    /// Allocates the scratch memory of a plan.
    pub fn new(handle: &Rc<Handle>, plan: Rc<Plan>, arena: &mut Arena) -> Result<Self> {
        let workspace = arena.take(plan.planned.workspace_bytes)?;
        let scratch = plan.scratch_bytes();
        let scratch = scratch
            .into_iter()
            .map(|bytes| arena.take(bytes))
            .collect::<Result<_>>()?;
        Ok(Self {
            plan,
            handle: Rc::clone(handle),
            workspace,
            scratch,
        })
    }
}

impl Algorithm for FlashAttention {
    fn enqueue(&self, driver: &Driver, operands: &Placement, set: u64) -> Result<()> {
        driver.bind()?;
        let bound = self.plan.bind(|name| operands.address(set, name), &self.scratch);
        // SAFETY: operands have the sizes of the operator of the plan; scratch tensors and
        // workspace were allocated with the sizes that the plan reports.
        unsafe { self.plan.run(&self.handle, &bound, self.workspace) }
    }

    fn kernel(&self) -> Option<Kernel> {
        Some(Kernel {
            name: Some(self.plan.planned.kernel.clone()),
            workspace_bytes: Some(self.plan.planned.workspace_bytes),
            ..Kernel::default()
        })
    }
}
